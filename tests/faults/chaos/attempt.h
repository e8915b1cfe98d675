/*
 * Attempt - the whole story of one attempt to take a lock, put together from the records
 *
 * What may be said of a hold:
 *
 * - It was there when the call that took it had returned, and was there at each later claim. It
 *   was there in between too, whether it was claimed then or not: nothing but the first acquire
 *   creates a hold in Redis, so what is renewed was never away.
 * - "Certain for v ms" said at t means that nobody else has the lock before t + v, unless it is
 *   given up first. The moment of the saying lies between the two times of the record; the library
 *   counts in whole milliseconds, rounded down. So the earlier time, rounded down, promises least.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_ATTEMPT_H
#define RELOCK_TEST_ATTEMPT_H

#include "history.h"

#include <stdbool.h>

struct attempt {
    const struct history_record *ask;
    const struct history_record *take;  /* NULL: it never returned */
    const struct history_record *first; /* positive claim, NULL if there is none */
    const struct history_record *last;  /* the claim that reaches furthest */
    const struct history_record *leave; /* NULL: not given up */
    const struct history_record *left;  /* NULL: that never returned */
    const struct history_record *lost;  /* the first RELOCK_LOST, before `last` had run out */
    const struct history_record *other; /* the first level that has another token than `take` */
    const struct history_record *killed;
};

struct attempts {
    struct attempt *at; /* by lock, and then by when it was taken; those that were not come last */
    size_t n;
};

void attempts_make(struct attempts *attempts, const struct history_records *records);
void attempts_free(struct attempts *attempts);

bool attempt_is_hold(const struct attempt *attempt);

/* A hold that was certain for a time after it had been taken. */
bool attempt_is_certain(const struct attempt *attempt);

/* Until when it waited: when the call returned or its process was killed, else for ever. */
uint64_t attempt_end_ns(const struct attempt *attempt);

/* Whether two of one lock cannot hold it together: readers can, and a writer that reads. */
bool attempt_excludes(const struct attempt *attempt, const struct attempt *other);

/* Until when a claim promises, and until when all claims of a hold do, or its being given up. */
uint64_t attempt_promise_ns(const struct history_record *claim);
uint64_t attempt_certain_until_ns(const struct attempt *attempt);

#endif
