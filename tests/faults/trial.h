/*
 * Trial - a call that runs out of memory at each of its allocations
 *
 * A scene is played repeatedly: first with memory, then with the first request refused, the second,
 * and so on, until one play has no refusal. The last plays refuse all later requests as well. Each
 * play has its own client. After each play the trial checks that
 *   - the result was that of the scene or RELOCK_E_NOMEM, and errno is as it was,
 *   - no key is left,
 *   - the client still acquires and releases, and a message wakes its waiter,
 *   - when all is freed, no memory, descriptor or thread is left.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_TRIAL_H
#define RELOCK_TEST_TRIAL_H

#include "support/actor.h"
#include "support/alloc.h"
#include "support/kinds.h"
#include "support/peer.h"

#include <stdatomic.h>

#define LONG_MS 3600000
#define LEASE_MS 2500  /* the watchdog retries after a twentieth of it */
#define RECHECK_MS 500 /* an unsubscribed waiter retries as often */
#define USER "worker"  /* has all rights; its password: */
#define PASSWORD "secret"

struct trial {
    struct fixture *f;
    struct relock_client *client;  /* NULL if the scene makes it */
    struct relock_lock *lock;      /* "orders", of the kind of the case; likewise */
    struct relock_options options; /* all of the client */
    struct actor *actor;           /* always has memory */
    bool for_good;                 /* all later requests are refused, too */

    /* for the scene */
    struct relock_cancel *cancel;
    struct relock_lock *other;
    uint64_t seen;
    atomic_bool done; /* `act` has ended */
};

struct scene {
    enum alloc_whose whose;        /* whose memory is refused */
    struct relock_options options; /* of the client; unset ones suit quick tests */
    int answer;                    /* result of `act` with memory */
    size_t step;                   /* one of so many requests is refused; 0: each is */
    bool is_tracked;               /* Redis reports changes of held locks to the client */
    bool makes_client;             /* `act` makes the client, with `options` */
    bool ends_client;              /* `act` ends the client, or makes it useless */
    void (*before)(struct trial *trial);
    int (*act)(struct trial *trial);
    void (*after)(struct trial *trial, int result); /* has memory again */
    void (*finally)(void);                          /* the client is freed */
};

/* For a program whose plays take long: unless its argument is "all", it refuses one of `n` of the
 * requests that its scenes would refuse. */
void trial_refuse_some(int argc, char **argv, size_t n);

/* Plays the scene with every refusal, or with those that it chooses. It must request memory, or it
 * shows nothing. */
void trial_play(void **state, const struct scene *scene);

/* Plays a scene that must not request memory. */
void trial_play_without(void **state, const struct scene *scene);

/* For an `act` that the I/O thread completes: waits until it is done or, if memory stays
 * refused, until some requests have been refused. */
bool trial_wait(const struct trial *trial, wait_predicate_fn *is_done, void *arg);

/* An `act` that makes the client: fixture_end frees it. Returns as relock_client_new(). */
int trial_new_client(struct trial *trial);

/* A `before` and an `act`: lock, and wait until the I/O thread has logged in; the server closes all
 * connections, and the I/O thread logs in again. */
void trial_hold_connected(struct trial *trial);
int trial_connect_again(struct trial *trial);

/* A scene's `before` and `after`: lock, no renewal `seen`; the result was RELOCK_OK, and unlock;
 * unlock, whatever the result. */
void trial_hold(struct trial *trial);
void trial_unlock(struct trial *trial, int result);
void trial_unlock_in_any_case(struct trial *trial, int result);

/* An `act`: acquires the lock if it is free, or once it is free, or releases it. */
int trial_trylock(struct trial *trial);
int trial_wait_for_lock(struct trial *trial);
int trial_release(struct trial *trial);

/* An `act` that the I/O thread completes: Redis has no key then. */
int trial_wait_until_free(struct trial *trial);

/* Of a call that may have the lock, depending on `result`: not held afterwards. */
void trial_unlock_if_held(struct trial *trial, int result);

/* Another client has the lock, and releases it. */
void trial_peer_holds(struct trial *trial);
void trial_peer_goes(struct trial *trial, int result);

/* As trial_unlock(), but before it unlocks, the hold is renewed once more, and none has been lost.
 */
void trial_still_holds(struct trial *trial, int result);

/* A predicate for a trial: more renewals than `seen`. */
bool trial_has_been_renewed(void *arg);

/* From now on the actor always has memory. */
void trial_spare(struct actor *actor);

/* All options of the scene's client. */
struct relock_options trial_options(struct trial *trial, const struct scene *scene);

/* Another client, whose options are completed in the same way. */
struct relock_client *trial_other_client(struct trial *trial, const struct relock_options *options);

/* For the group setup; the first: with these options of the server. */
int trial_group_start_with(void **state, const struct server_options *options);
int trial_group_start(void **state);
int trial_end(void **state);

#define TRIAL_TEST(function) \
    cmocka_unit_test_setup_teardown(function, kinds_begin_reentrant, trial_end)

/* The same for locks of another kind of support/kinds.h, as "fair: case". */
#define TRIAL_TEST_OF(function, kind)                                       \
    {                                                                       \
#kind ": " #function, function, kinds_begin_##kind, trial_end, NULL \
    }
#define TRIAL_TESTS_RUN(tests) cmocka_run_group_tests(tests, trial_group_start, fixture_stop)

#endif
