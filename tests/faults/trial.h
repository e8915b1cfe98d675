/*
 * Trial - a call that is short of memory, at every place where it asks for some
 *
 * A scene is played again and again: first with memory, then with the first request refused, the
 * second, and so on, until one play goes through without a refusal; then once more with all that
 * follow refused too. Each has a client of its own. After each
 *   - the result was that of the scene or RELOCK_E_NOMEM, and errno is as it was,
 *   - no key is left once the scene has released what it was told to hold,
 *   - the client takes and releases, and a message wakes who waits,
 *   - and when all is freed, no memory, descriptor or thread is left.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_TRIAL_H
#define RELOCK_TEST_TRIAL_H

#include "support/actor.h"
#include "support/alloc.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <stdatomic.h>

#define LONG_MS 3600000
#define LEASE_MS 2500  /* the watchdog tries again after a twentieth */
#define RECHECK_MS 500 /* a wait that is not subscribed goes on with that */
#define USER "worker"  /* has all rights, with */
#define PASSWORD "secret"

struct trial {
    struct fixture *f;
    struct relock_client *client; /* NULL: the scene makes it */
    struct relock_lock *lock;     /* "orders", likewise */
    struct actor *actor;          /* has memory, always */
    bool for_good;                /* from the refused one on all are */

    /* the scene's own */
    struct relock_cancel *cancel;
    struct relock_lock *other;
    uint64_t seen;
    atomic_bool done; /* `act` is */
};

struct scene {
    enum alloc_whose whose;        /* who is short of memory */
    struct relock_options options; /* of the client; those not set are for quick tests */
    int answer;                    /* what `act` returns with memory */
    bool makes_client;             /* `act` does, with the options in `options` */
    bool ends_client;              /* `act` does, or leaves it of no use */
    void (*before)(struct trial *trial);
    int (*act)(struct trial *trial);
    void (*after)(struct trial *trial, int result); /* with memory again */
};

/* Plays it all. Memory must be asked for, or the scene shows nothing. */
void trial_play(void **state, const struct scene *scene);

/* Plays what must not ask for any. */
void trial_play_without(void **state, const struct scene *scene);

/* For `act` and what the I/O thread does: waits until it is done, or, where memory is refused for
 * good, until it has been refused a few times. */
bool trial_wait(const struct trial *trial, wait_predicate_fn *is_done, void *arg);

/* All options that a client of the scene has. */
struct relock_options trial_options(struct trial *trial, const struct scene *scene);

int trial_group_start(void **state);
int trial_end(void **state);

#define TRIAL_TEST(function) cmocka_unit_test_setup_teardown(function, fixture_begin, trial_end)
#define TRIAL_TESTS_RUN(tests) cmocka_run_group_tests(tests, trial_group_start, fixture_stop)

#endif
