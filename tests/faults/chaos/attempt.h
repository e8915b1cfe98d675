/*
 * Attempt - one attempt to acquire a lock, put together from its records
 *
 * A checker may conclude of a hold:
 *
 * - It was there when the call that took it had returned, and was there at each later claim. It
 *   was there in between too, whether it was claimed then or not: nothing but the first acquire
 *   creates a hold in Redis, so a renewed hold was there all the time.
 * - "Certain for v ms", reported at t, means that no other owner has the lock before t + v, unless
 *   it is released first. The moment of the report lies between the two times of the record. The
 *   library counts in whole milliseconds, rounded down, so the earlier time, rounded down, promises
 *   least.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_ATTEMPT_H
#define RELOCK_TEST_ATTEMPT_H

#include "history.h"

#include <stdbool.h>

struct attempt {
    const struct history_record *ask;
    const struct history_record *take;  /* NULL if the call never returned */
    const struct history_record *first; /* the first positive claim, NULL if there is none */
    const struct history_record *last;  /* the claim that lasts longest */
    const struct history_record *leave; /* NULL if not released */
    const struct history_record *left;  /* NULL if the release never returned */
    const struct history_record *lost;  /* the first RELOCK_LOST, before `last` had run out */
    const struct history_record *other; /* the first level with another token than `take` */
    const struct history_record *killed;
};

struct attempts {
    struct attempt
        *at; /* by lock, then by the time of the grant; attempts that were not granted come last */
    size_t n;
};

void attempts_make(struct attempts *attempts, const struct history_records *records);
void attempts_free(struct attempts *attempts);

bool attempt_is_hold(const struct attempt *attempt);

/* Whether it was a hold that was certain for a time after its grant. */
bool attempt_is_certain(const struct attempt *attempt);

/* When the wait ended: when the call returned or its process was killed; otherwise never. */
uint64_t attempt_end_ns(const struct attempt *attempt);

/* Whether two attempts for one lock exclude each other: readers do not, nor does a writer its
 * own reads, nor do acquires of a semaphore, which has several permits. */
bool attempt_excludes(const struct attempt *attempt, const struct attempt *other);

/* When the promise of one claim ends, and when the promises of all claims of a hold end, or its
 * release. */
uint64_t attempt_promise_ns(const struct history_record *claim);
uint64_t attempt_certain_until_ns(const struct attempt *attempt);

#endif
