/*
 * Kinds - the same case for locks of each kind
 *
 * KINDS_TEST(case) stands in a list of tests as one entry for each kind, "spin: case" say. Such a
 * case makes its locks with kind_lock(), and may say kind_now() where a kind is different. The two
 * sides of a read/write lock are not among them, but a test may choose one with KINDS_TEST_OF() or
 * kind_choose(). SEMAPHORE_TEST() is the entry for a semaphore of one permit: for cases without
 * levels, and without a client of another library.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_KINDS_H
#define RELOCK_TEST_KINDS_H

#include "support/fixture.h"

struct kind {
    const char *name;
    fixture_constructor_fn *constructor;
    bool is_string;   /* in Redis a token, without levels; else a hash */
    uint64_t permits; /* of an acquire: see struct relock_how */
};

enum kind_no {
    KIND_REENTRANT,
    KIND_FENCED,
    KIND_SPIN,
    KIND_FAIR,
    KIND_PLAIN,
    KINDS_N, /* of KINDS_TEST() */
    KIND_READ = KINDS_N,
    KIND_WRITE,
    KINDS_AND_SIDES_N,
    KIND_SEMAPHORE = KINDS_AND_SIDES_N,
    KINDS_ALL_N,
};

extern const struct kind kinds[KINDS_ALL_N];

/* The kind that the case runs for: the reentrant one unless KINDS_TEST() chooses another. */
const struct kind *kind_now(void);
void kind_choose(enum kind_no kind);

/* A handle of that kind, freed at the end of the test. */
struct relock_lock *kind_lock(struct fixture *f, struct relock_client *client, const char *name);

/* The holder in Redis, "" if none; whether the only holder is ours and has so many levels, as far
 * as Redis knows them; whether it is the peer, with one level. */
const char *kind_holder(struct fixture *f, const char *name);
bool kind_has_levels(struct fixture *f, const char *name, long long levels);
bool kind_is_peers(struct fixture *f, const char *name);

/* A client of another library on the lock: support/peer.h and plain_peer.h, for PEER_LEASE_MS. */
bool kind_peer_lock(struct fixture *f, const char *name);
bool kind_peer_unlock(struct fixture *f, const char *name);
bool kind_peer_usurp(struct fixture *f, const char *name);

/* Another program replaces the key by data of another type, the `nth` of so many. The second
 * function asserts that the data is still there, and deletes all keys. */
#define KIND_N_OTHER_TYPES 3
void kind_replace(struct fixture *f, const char *name, size_t nth);
void kind_assert_replaced(struct fixture *f, const char *name, size_t nth);

/* Before each case. */
int kinds_begin_reentrant(void **state);
int kinds_begin_fenced(void **state);
int kinds_begin_spin(void **state);
int kinds_begin_fair(void **state);
int kinds_begin_plain(void **state);
int kinds_begin_read(void **state);
int kinds_begin_write(void **state);
int kinds_begin_semaphore(void **state);

/* After such a case: the number of permits stays by its nature. */
int kinds_end_semaphore(void **state);

#define KINDS_TEST_OF(function, kind)                                                \
    {                                                                                \
#kind ": " #function, function, kinds_begin_##kind, fixture_end_fenced, NULL \
    }
#define SEMAPHORE_TEST(function)                                                            \
    {                                                                                       \
        "semaphore: " #function, function, kinds_begin_semaphore, kinds_end_semaphore, NULL \
    }
#define KINDS_TEST(function)                                             \
    KINDS_TEST_OF(function, reentrant), KINDS_TEST_OF(function, fenced), \
        KINDS_TEST_OF(function, spin), KINDS_TEST_OF(function, fair),    \
        KINDS_TEST_OF(function, plain)

#endif
