/*
 * Waits that end in the very moment in which a release arrives: by time, by a cancel that another
 * thread fires, by the lock. Round for round a seed says when; after each storm each remaining
 * waiter must get in, though only a message or a hand-off can wake it, and released locks must stay
 * released.
 *
 * RELOCK_STRESS_SECONDS says how long it lasts, RELOCK_STRESS_SEED where it begins.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define N_NAMES 3
#define N_CLIENTS 2
#define N_WAITERS 12

/* Of each waiter in a storm: a short one ends before others mend what it did. */
#define MAX_TRIES 4

/* Not so short that a machine with much else to do lets one run out. */
#define LEASE_MS 4000
#define DEFAULT_SECONDS 3

struct waiter {
    struct storm *storm;
    struct actor *actor;
    struct relock_client *client;
    struct relock_lock *locks[N_NAMES];
    unsigned seed;
    bool is_patient;
    const char *wrong;
    int result; /* that was wrong */

    pthread_mutex_t mutex;
    struct relock_cancel *cancel; /* guarded by mutex; NULL while there is no wait to be ended */
};

struct storm {
    struct fixture *f;
    struct relock_options options;
    struct waiter waiters[N_WAITERS];
    atomic_int n_waiters; /* that are not done */
    atomic_uint n_ended[4];
    unsigned seed;
    bool breaks; /* connections */
};

enum { HAD_IT, BUSY, TOO_LATE, CANCELLED };

static unsigned dice(unsigned *seed, unsigned sides)
{
    return (unsigned)rand_r(seed) % sides;
}

/* Up to `us` microseconds: moments finer than the clock of the library. */
static void rest(unsigned *seed, unsigned us)
{
    struct timespec time = {.tv_nsec = (long)dice(seed, us) * 1000};

    nanosleep(&time, NULL);
}

static const char *name_of(unsigned which)
{
    static const char *const names[N_NAMES] = {"orders", "ledger", "stock"};

    return names[which];
}

/* ---- who waits ----------------------------------------------------------------------------- */

static void offer_cancel(struct waiter *waiter, struct relock_cancel *cancel)
{
    pthread_mutex_lock(&waiter->mutex);
    waiter->cancel = cancel;
    pthread_mutex_unlock(&waiter->mutex);
}

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
        waiter->storm->n_ended[HAD_IT]++;
        if (dice(&waiter->seed, 2) == 0)
            rest(&waiter->seed, 3000);
        r = relock_unlock(lock);
        if (r != RELOCK_OK)
            note(waiter, "unlock", r);
        break;
    case RELOCK_BUSY:
        waiter->storm->n_ended[BUSY]++;
        break;
    case RELOCK_TIMEOUT:
        waiter->storm->n_ended[TOO_LATE]++;
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
    struct relock_lock *lock = waiter->locks[dice(&waiter->seed, N_NAMES)];
    struct relock_how how = {0};
    unsigned kind = dice(&waiter->seed, 8);

    if (kind > 0)
        how.wait_ms = kind < 3 ? 1 + (int64_t)dice(&waiter->seed, 12) : RELOCK_FOREVER;
    if (relock_cancel_new(&how.cancel) != RELOCK_OK)
        return;
    offer_cancel(waiter, how.cancel);
    take_and_release(waiter, lock, &how);
    offer_cancel(waiter, NULL);
    relock_cancel_free(how.cancel);
}

/* Of a few the last wait ends by nothing but the lock. */
static int wait_and_give_up(void *arg)
{
    struct waiter *waiter = arg;

    for (unsigned n = 1 + dice(&waiter->seed, MAX_TRIES); n > 0; n--)
        try_once(waiter);
    if (waiter->is_patient)
        take_and_release(waiter, waiter->locks[dice(&waiter->seed, N_NAMES)],
                         &(struct relock_how){.wait_ms = RELOCK_FOREVER});
    atomic_fetch_sub(&waiter->storm->n_waiters, 1);
    return 0;
}

/* ---- who ends waits ------------------------------------------------------------------------ */

static int fire(void *arg)
{
    struct storm *storm = arg;
    unsigned seed = storm->seed;

    while (storm->n_waiters > 0) {
        struct waiter *waiter = &storm->waiters[dice(&seed, N_WAITERS)];

        rest(&seed, 1500);
        pthread_mutex_lock(&waiter->mutex);
        if (waiter->cancel)
            relock_cancel_fire(waiter->cancel);
        pthread_mutex_unlock(&waiter->mutex);
    }
    return 0;
}

/* Another process takes and releases, so that releases come as messages too. */
static int be_a_peer(void *arg)
{
    struct storm *storm = arg;
    struct probe *probe = probe_open(storm->f->server->socket);
    unsigned seed = storm->seed + 1;
    int r = 0;

    for (unsigned n = 1 + dice(&seed, 3 * N_NAMES); n > 0 && r == 0; n--) {
        const char *name = name_of(dice(&seed, N_NAMES));

        if (peer_lock(probe, name, PEER, NEVER_MS)) {
            rest(&seed, 4000);
            r = peer_unlock(probe, name, PEER) ? 0 : -1;
        }
        rest(&seed, 1000);
        if (storm->breaks && n == 1) {
            (void)probe_int(probe, "CLIENT KILL TYPE normal SKIPME yes");
            (void)probe_int(probe, "CLIENT KILL TYPE pubsub");
        }
    }
    probe_close(probe);
    return r;
}

/* ---- storms -------------------------------------------------------------------------------- */

/* Threads look at it even after a test has failed and its frame is gone. */
static struct storm *new_storm(struct fixture *f, bool breaks, uint64_t lease_ms)
{
    static struct storm storm;

    storm = (struct storm){.f = f,
                           .breaks = breaks,
                           .options = {.recheck_ms = NEVER_MS,
                                       .watchdog_timeout_ms = lease_ms,
                                       .command_timeout_ms = slow_ms(SOON_MS),
                                       .handoff_ms = 1}};
    return &storm;
}

static void set_sail(struct storm *storm)
{
    struct relock_client *clients[N_CLIENTS];

    for (int i = 0; i < N_CLIENTS; i++)
        clients[i] = fixture_client(storm->f, &storm->options);
    for (unsigned i = 0; i < N_WAITERS; i++) {
        struct waiter *waiter = &storm->waiters[i];

        waiter->storm = storm;
        waiter->client = clients[i % N_CLIENTS];
        waiter->is_patient = i % 3 == 0;
        pthread_mutex_init(&waiter->mutex, NULL);
        for (unsigned which = 0; which < N_NAMES; which++)
            waiter->locks[which] = fixture_lock(storm->f, waiter->client, name_of(which));
    }
}

/* Nobody is left asleep, and nothing is left in Redis. */
static void calm_down(struct storm *storm)
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

    storm->n_waiters = N_WAITERS;
    for (unsigned i = 0; i < N_WAITERS; i++) {
        storm->waiters[i].seed = storm->seed + 100 * i;
        storm->waiters[i].actor = actor_start();
        actor_begin(storm->waiters[i].actor, wait_and_give_up, &storm->waiters[i]);
    }
    actor_begin(firing, fire, storm);
    actor_begin(peer, be_a_peer, storm);
    calm_down(storm);
    assert_int_equal(actor_result(firing), 0);
    assert_int_equal(actor_result(peer), 0);
    actor_end_all();
}

static unsigned long from_environment(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);

    return value ? strtoul(value, NULL, 10) : otherwise;
}

static bool has_seen_ends(const struct storm *storm)
{
    return storm->n_ended[TOO_LATE] > 0 && storm->n_ended[CANCELLED] > 0;
}

/* Longer where so few fit into that time that not each end was seen. */
static void storm_for_a_while(struct storm *storm)
{
    uint64_t long_ms = 1000 * from_environment("RELOCK_STRESS_SECONDS", DEFAULT_SECONDS), began_ms;
    unsigned n = 0;

    storm->seed = (unsigned)from_environment("RELOCK_STRESS_SEED", now_ms() % 1000000);
    print_message("seed %u\n", storm->seed);
    set_sail(storm);
    began_ms = now_ms();
    for (; now_ms() < began_ms + long_ms ||
           (!has_seen_ends(storm) && now_ms() < began_ms + long_ms + slow_ms(SOON_MS));
         n++, storm->seed += 10007)
        storm_once(storm);
    print_message("%u storms: %u had it, %u busy, %u too late, %u cancelled\n", n,
                  storm->n_ended[HAD_IT], storm->n_ended[BUSY], storm->n_ended[TOO_LATE],
                  storm->n_ended[CANCELLED]);
    assert_true(has_seen_ends(storm));
    for (int i = 0; i < N_WAITERS; i++)
        pthread_mutex_destroy(&storm->waiters[i].mutex);
}

/* Leases and rechecks are longer than any test: whoever gets in was woken. */
static void no_waiter_sleeps_while_the_lock_is_free(void **state)
{
    struct storm *storm = new_storm(*state, false, NEVER_MS);

    storm_for_a_while(storm);
    for (int i = 0; i < N_CLIENTS; i++) {
        assert_int_equal(stats_of(storm->waiters[i].client).rechecks, 0);
        assert_int_equal(stats_of(storm->waiters[i].client).lost, 0);
    }
}

/* Connections break meanwhile, so that some tries end unknown. Nobody renews what came of them. */
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
