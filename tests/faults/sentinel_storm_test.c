/*
 * Threads lock while one master after the other is killed, stopped and replaced. Redis may lose the
 * last writes in a failover, so two threads can hold the lock at once, but only if not all replicas
 * had acknowledged the first of the two holds: one that had not was promoted.
 */
#include "support/sentinels.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4
#define ROUNDS 3
#define HOLD_MS 40
#define LONG_HOLD_MS 2500
#define LEASE_MS 10000

static struct relock_lock *locks[THREADS]; /* each of a client of its own */
static pthread_t threads[THREADS];
static int n_threads;
static atomic_bool ends;

static struct {
    pthread_mutex_t mutex;
    int holder; /* -1: none */
    unsigned acked;
    uint64_t granted_ms; /* the last time */
    uint64_t longest_ms; /* without a holder, from one grant to the next */
    unsigned n_granted, n_failed, n_lost;
    unsigned n_double;       /* holds that began during another one */
    unsigned n_double_acked; /* that all replicas had acknowledged */
} seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- the threads --------------------------------------------------------------------------- */

static void begin_hold(int i, const struct relock_grant *grant)
{
    uint64_t now = now_ms();

    pthread_mutex_lock(&seen.mutex);
    if (seen.holder >= 0) {
        seen.n_double++;
        seen.n_double_acked += seen.acked >= SENTINELS - 1;
    }
    if (seen.n_granted++ > 0 && now - seen.granted_ms > seen.longest_ms)
        seen.longest_ms = now - seen.granted_ms;
    seen.granted_ms = now;
    seen.holder = i;
    seen.acked = grant->acked_replicas;
    pthread_mutex_unlock(&seen.mutex);
}

static void end_hold(int i, bool is_lost)
{
    pthread_mutex_lock(&seen.mutex);
    if (seen.holder == i)
        seen.holder = -1;
    seen.n_lost += is_lost;
    pthread_mutex_unlock(&seen.mutex);
}

/* Until the time is over, or the hold lost. Returns whether it was. */
static bool keep(struct relock_lock *lock, uint64_t ms)
{
    uint64_t until_ms = now_ms() + ms;

    while (now_ms() < until_ms && relock_check(lock, 0, NULL) == RELOCK_OK)
        let_pass(5);
    return relock_check(lock, 0, NULL) != RELOCK_OK;
}

static void *run(void *arg)
{
    int i = (int)(intptr_t)arg;
    unsigned seed = (unsigned)i;

    while (!atomic_load(&ends)) {
        struct relock_grant grant;
        int r = relock_acquire(locks[i], &(struct relock_how){.wait_ms = 1000}, &grant);

        if (r != RELOCK_OK) {
            pthread_mutex_lock(&seen.mutex);
            seen.n_failed += r != RELOCK_TIMEOUT;
            pthread_mutex_unlock(&seen.mutex);
            continue;
        }
        begin_hold(i, &grant);
        end_hold(i, keep(locks[i], rand_r(&seed) % 8 ? HOLD_MS : LONG_HOLD_MS));
        (void)relock_unlock(locks[i]);
    }
    return NULL;
}

/* ---- the failovers ------------------------------------------------------------------------- */

static bool is_served(void *arg)
{
    unsigned before = *(unsigned *)arg;
    bool yes;

    pthread_mutex_lock(&seen.mutex);
    yes = seen.n_granted > before;
    pthread_mutex_unlock(&seen.mutex);
    return yes;
}

static unsigned count(void)
{
    unsigned n;

    pthread_mutex_lock(&seen.mutex);
    n = seen.n_granted;
    pthread_mutex_unlock(&seen.mutex);
    return n;
}

static bool is_whole(void *arg)
{
    return strstr(probe_text(arg, "INFO replication"), "connected_slaves:2") != NULL;
}

static void fail_over(struct sentinels *s, int round, int master)
{
    unsigned before;
    int next;

    if (round % 3 == 0)
        server_kill(s->server[master]);
    else if (round % 3 == 1)
        server_pause(s->server[master]);
    else
        sentinels_replace_master(s);
    next = sentinels_await_master(s, master);
    before = count();
    assert_true(wait_until(is_served, &before, FAILOVER_MS));
    if (round % 3 == 0)
        server_restart(s->server[master]);
    else if (round % 3 == 1)
        server_resume(s->server[master]);
    assert_true(wait_until(is_whole, s->probe[next], 2 * (uint64_t)FAILOVER_MS));
}

static void end_threads(void)
{
    atomic_store(&ends, true);
    while (n_threads > 0)
        pthread_join(threads[--n_threads], NULL);
}

/* Also after a failure: they use the locks. */
static int end(void **state)
{
    end_threads();
    return sentinels_end(state);
}

static void two_threads_hold_it_only_if_a_replica_had_not_acknowledged(void **state)
{
    struct sentinels *s = *state;

    seen.holder = -1;
    for (int i = 0; i < THREADS; i++)
        locks[i] = fixture_lock(
            s->f,
            sentinels_client(s, &(struct relock_options){.min_replicas = 1,
                                                         .watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                         .command_timeout_ms = slow_ms(5000)}),
            "orders");
    for (; n_threads < THREADS; n_threads++)
        assert_int_equal(
            pthread_create(&threads[n_threads], NULL, run, (void *)(intptr_t)n_threads), 0);
    for (int round = 0; round < ROUNDS; round++)
        fail_over(s, round, sentinels_await_master(s, -1));
    end_threads();
    printf("%u holds, %u failed calls, %u lost holds, longest gap %u ms; double holders: %u, of "
           "holds that all replicas had acknowledged: %u\n",
           seen.n_granted, seen.n_failed, seen.n_lost, (unsigned)seen.longest_ms, seen.n_double,
           seen.n_double_acked);
    assert_int_equal(seen.n_double_acked, 0);
    assert_true(seen.longest_ms < slow_ms(FAILOVER_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(two_threads_hold_it_only_if_a_replica_had_not_acknowledged,
                                        sentinels_begin, end),
    };

    return SENTINELS_TESTS_RUN(tests);
}
