/*
 * Waits that end in the moment in which a release arrives: by time, by a cancel, by the lock. After
 * each storm, every remaining waiter must get in, though only a message or a hand-off can wake it,
 * and released locks must stay released.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"
#include "support/storm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define N_NAMES 3
#define N_CLIENTS 2
#define N_WAITERS 12

/* Of each waiter. A storm must end before later tries hide a lost wake-up. */
#define MAX_TRIES 4

/* Longer than a busy machine delays a renewal. */
#define LEASE_MS 4000
#define DEFAULT_SECONDS 3

struct waiter {
    struct storm *storm;
    struct actor *actor;
    struct relock_client *client;
    struct relock_lock *locks[N_NAMES];
    unsigned no, seed;
    bool is_patient; /* its last wait ends by nothing but the lock */
    const char *wrong;
    int result; /* the wrong one */
};

struct storm {
    struct fixture *f;
    struct relock_options options;
    struct waiter waiters[N_WAITERS];
    struct storm_cancels cancels;
    atomic_uint n_ended[4];
    unsigned seed;
    bool breaks; /* breaks connections */
};

enum { ACQUIRED, BUSY, TIMED_OUT, CANCELLED };

static const char *name_of(unsigned which)
{
    static const char *const names[N_NAMES] = {"orders", "ledger", "stock"};

    return names[which];
}

/* ---- waiters ------------------------------------------------------------------------------- */

static void note(struct waiter *waiter, const char *wrong, int result)
{
    if (waiter->wrong)
        return;
    waiter->wrong = wrong;
    waiter->result = result;
}

static void take_and_release(struct waiter *waiter, struct relock_lock *lock,
                             struct relock_how *how)
{
    int r = fixture_late_is_timeout(how, relock_acquire(lock, how, NULL));

    switch (r) {
    case RELOCK_OK:
        waiter->storm->n_ended[ACQUIRED]++;
        if (storm_random(&waiter->seed, 2) == 0)
            storm_pause(&waiter->seed, 3000);
        r = relock_unlock(lock);
        if (r != RELOCK_OK)
            note(waiter, "unlock", r);
        break;
    case RELOCK_BUSY:
        waiter->storm->n_ended[BUSY]++;
        break;
    case RELOCK_TIMEOUT:
        waiter->storm->n_ended[TIMED_OUT]++;
        break;
    case RELOCK_CANCELLED:
        waiter->storm->n_ended[CANCELLED]++;
        break;
    default:
        note(waiter, "acquire", r);
        break;
    }
}

static void try_once(struct waiter *waiter)
{
    struct relock_lock *lock = waiter->locks[storm_random(&waiter->seed, N_NAMES)];
    struct relock_how how = {0};
    unsigned kind = storm_random(&waiter->seed, 8);

    if (kind > 0)
        how.wait_ms = kind < 3 ? 1 + (int64_t)storm_random(&waiter->seed, 12) : RELOCK_FOREVER;
    how.cancel = storm_begin_wait(&waiter->storm->cancels, waiter->no);
    if (!how.cancel)
        return;
    take_and_release(waiter, lock, &how);
    storm_end_wait(&waiter->storm->cancels, waiter->no);
}

static int wait_and_release(void *arg)
{
    struct waiter *waiter = arg;

    for (unsigned n = 1 + storm_random(&waiter->seed, MAX_TRIES); n > 0; n--)
        try_once(waiter);
    if (waiter->is_patient)
        take_and_release(waiter, waiter->locks[storm_random(&waiter->seed, N_NAMES)],
                         &(struct relock_how){.wait_ms = RELOCK_FOREVER});
    atomic_fetch_sub(&waiter->storm->cancels.n_waiting, 1);
    return 0;
}

/* ---- another process ----------------------------------------------------------------------- */

/* Another process takes and releases, so that releases come as messages too. */
static int be_a_peer(void *arg)
{
    struct storm *storm = arg;
    struct probe *probe = probe_open(storm->f->server->socket);
    unsigned seed = storm->seed + 1;
    int r = 0;

    for (unsigned n = 1 + storm_random(&seed, 3 * N_NAMES); n > 0 && r == 0; n--) {
        const char *name = name_of(storm_random(&seed, N_NAMES));

        if (peer_lock(probe, name, PEER, NEVER_MS)) {
            storm_pause(&seed, 4000);
            r = peer_unlock(probe, name, PEER) ? 0 : -1;
        }
        storm_pause(&seed, 1000);
        if (storm->breaks && n == 1) {
            (void)probe_int(probe, "CLIENT KILL TYPE normal SKIPME yes");
            (void)probe_int(probe, "CLIENT KILL TYPE pubsub");
        }
    }
    probe_close(probe);
    return r;
}

/* ---- storms -------------------------------------------------------------------------------- */

/* Static: after a failed test, its threads still use it. */
static struct storm *new_storm(struct fixture *f, bool breaks, uint64_t lease_ms)
{
    static struct storm storm;

    storm = (struct storm){.f = f,
                           .breaks = breaks,
                           .options = {.recheck_ms = NEVER_MS,
                                       .watchdog_timeout_ms = lease_ms,
                                       .command_timeout_ms = slow_ms(SOON_MS),
                                       .handoff_ms = 1}};
    storm_cancels_init(&storm.cancels, N_WAITERS, 1500);
    return &storm;
}

static void make_waiters(struct storm *storm)
{
    struct relock_client *clients[N_CLIENTS];

    for (int i = 0; i < N_CLIENTS; i++)
        clients[i] = fixture_client(storm->f, &storm->options);
    for (unsigned i = 0; i < N_WAITERS; i++) {
        struct waiter *waiter = &storm->waiters[i];

        waiter->storm = storm;
        waiter->no = i;
        waiter->client = clients[i % N_CLIENTS];
        waiter->is_patient = i % 3 == 0;
        for (unsigned which = 0; which < N_NAMES; which++)
            waiter->locks[which] = fixture_lock(storm->f, waiter->client, name_of(which));
    }
}

/* No waiter may be asleep, and no key in Redis. */
static void await_waiters(struct storm *storm)
{
    for (int i = 0; i < N_WAITERS; i++) {
        struct waiter *waiter = &storm->waiters[i];
        int r = actor_result_within(waiter->actor, 2 * (uint64_t)SOON_MS);

        if (r != 0 || waiter->wrong) {
            log_print(storm->f->log);
            fail_msg("seed %u, waiter %d: %s: %s", storm->seed, i,
                     r != 0 ? "asleep" : waiter->wrong,
                     r != 0 ? "though the lock is free" : relock_strerror(waiter->result));
        }
    }
    assert_true(wait_for_no_keys(storm->f->probe));
}

static void storm_once(struct storm *storm)
{
    struct actor *firing = actor_start(), *peer = actor_start();

    storm->cancels.n_waiting = N_WAITERS;
    storm->cancels.seed = storm->seed;
    for (unsigned i = 0; i < N_WAITERS; i++) {
        storm->waiters[i].seed = storm->seed + 100 * i;
        storm->waiters[i].actor = actor_start();
        actor_begin(storm->waiters[i].actor, wait_and_release, &storm->waiters[i]);
    }
    actor_begin(firing, storm_fire, &storm->cancels);
    actor_begin(peer, be_a_peer, storm);
    await_waiters(storm);
    assert_int_equal(actor_result(firing), 0);
    assert_int_equal(actor_result(peer), 0);
    actor_end_all();
}

static bool has_seen_ends(const struct storm *storm)
{
    return storm->n_ended[TIMED_OUT] > 0 && storm->n_ended[CANCELLED] > 0;
}

/* On a slow machine longer, until waits have ended in each way. */
static void storm_for_a_while(struct storm *storm)
{
    uint64_t long_ms = storm_ms(DEFAULT_SECONDS), began_ms;
    unsigned n = 0;

    storm->seed = storm_seed();
    print_message("seed %u\n", storm->seed);
    make_waiters(storm);
    began_ms = now_ms();
    for (; now_ms() < began_ms + long_ms ||
           (!has_seen_ends(storm) && now_ms() < began_ms + long_ms + slow_ms(SOON_MS));
         n++, storm->seed += 10007)
        storm_once(storm);
    print_message("%u storms: %u acquired, %u busy, %u timed out, %u cancelled\n", n,
                  storm->n_ended[ACQUIRED], storm->n_ended[BUSY], storm->n_ended[TIMED_OUT],
                  storm->n_ended[CANCELLED]);
    assert_true(has_seen_ends(storm));
    storm_cancels_deinit(&storm->cancels);
}

/* Leases and rechecks are longer than any test, so a waiter that gets in was woken. */
static void no_waiter_sleeps_while_the_lock_is_free(void **state)
{
    struct storm *storm = new_storm(*state, false, NEVER_MS);

    storm_for_a_while(storm);
    for (int i = 0; i < N_CLIENTS; i++) {
        assert_int_equal(stats_of(storm->waiters[i].client).rechecks, 0);
        assert_int_equal(stats_of(storm->waiters[i].client).lost, 0);
    }
}

/* Connections break, so some tries end with an unknown outcome. No hold of theirs is renewed. */
static void no_renewal_follows_a_release(void **state)
{
    struct storm *storm = new_storm(*state, true, slow_ms(LEASE_MS));
    struct relock_stats before[N_CLIENTS];

    storm_for_a_while(storm);
    for (int i = 0; i < N_CLIENTS; i++) {
        before[i] = stats_of(storm->waiters[i].client);
        assert_int_equal(before[i].holds, 0);
        assert_int_equal(before[i].waiters, 0);
    }
    for (uint64_t until_ms = now_ms() + slow_ms(LEASE_MS); now_ms() < until_ms; let_pass(10))
        assert_int_equal(probe_n_keys(storm->f->probe), 0);
    for (int i = 0; i < N_CLIENTS; i++)
        assert_int_equal(stats_of(storm->waiters[i].client).renewed, before[i].renewed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(no_waiter_sleeps_while_the_lock_is_free),
        SERVER_TEST(no_renewal_follows_a_release),
    };

    return SERVER_TESTS_RUN(tests);
}
