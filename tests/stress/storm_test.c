/*
 * Threads wait for, nest in, extend and release the locks of a few names in random order, and their
 * waits time out or are cancelled. No two owners are ever inside one lock, and nothing is left
 * afterwards.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/storm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_NAMES 4
#define N_THREADS 12
#define N_PROCESSES 2
#define LEASE_MS 6000 /* longer than a busy machine delays a thread */
#define DEFAULT_SECONDS 3
#define KEEP_MS 200

static uint64_t keep_ms; /* of the clients; set before they are made */

/* In one process. */
struct storm {
    struct relock_client *client;
    struct relock_lock *locks[N_NAMES];
    _Atomic(uint64_t) inside[N_NAMES]; /* the owner inside, 0 if none */
    const char *socket;
    uint64_t until_ms;
};

struct worker {
    struct storm *storm;
    struct probe *probe;
    unsigned seed;
    uint64_t owner; /* 0: the thread */
    const char *wrong;
    uint64_t n_held;
};

/* While the lock is held: no other owner of this process is inside, nor of another one. */
static void check_alone(struct worker *worker, unsigned which, uint64_t me)
{
    struct storm *storm = worker->storm;
    uint64_t nobody = 0;
    char key[32];

    if (!atomic_compare_exchange_strong(&storm->inside[which], &nobody, me)) {
        worker->wrong = "two owners of this process are inside";
        return;
    }
    snprintf(key, sizeof(key), "inside:%u", which);
    if (probe_int(worker->probe, "INCR %s", key) != 1)
        worker->wrong = "two processes are inside";
    if (storm_random(&worker->seed, 50) == 0)
        let_pass(storm_random(&worker->seed, 20));
    if (probe_int(worker->probe, "DECR %s", key) != 0)
        worker->wrong = "another process came in";
    atomic_store(&storm->inside[which], 0);
}

static void expect_ok(struct worker *worker, int r, const char *what)
{
    if (r != RELOCK_OK && !worker->wrong)
        worker->wrong = what;
}

static void hold(struct worker *worker, unsigned which, uint64_t me)
{
    struct relock_lock *lock = worker->storm->locks[which];
    struct relock_how deeper = {.owner = worker->owner};
    bool nests = storm_random(&worker->seed, 4) == 0;

    worker->n_held++;
    if (nests)
        expect_ok(worker, relock_acquire(lock, &deeper, NULL), "nesting failed");
    check_alone(worker, which, me);
    if (storm_random(&worker->seed, 10) == 0)
        expect_ok(worker, relock_extend(lock, worker->owner, slow_ms(LEASE_MS)), "extend failed");
    if (nests)
        expect_ok(worker, relock_release(lock, worker->owner), "inner release failed");
    expect_ok(worker, relock_check(lock, worker->owner, NULL), "not held any more");
    expect_ok(worker, relock_release(lock, worker->owner), "release failed");
}

/* A wait that another thread cancels. */
static int cancel_soon(void *arg)
{
    let_pass(1);
    relock_cancel_fire(arg);
    return 0;
}

static void acquire_once(struct worker *worker)
{
    unsigned which = storm_random(&worker->seed, N_NAMES);
    struct relock_lock *lock = worker->storm->locks[which];
    struct relock_how how = {.owner = worker->owner};
    struct relock_grant grant;
    int r;

    switch (storm_random(&worker->seed, 5)) {
    case 0: /* one try */
        break;
    case 1:
        how.wait_ms = 1 + (int64_t)storm_random(&worker->seed, 5);
        break;
    case 2:
        how.wait_ms = (int64_t)storm_random(&worker->seed, 100);
        break;
    default:
        how.wait_ms = RELOCK_FOREVER;
        break;
    }
    if (storm_random(&worker->seed, 8) == 0)
        how.lease_ms = slow_ms(60000);

    r = fixture_late_is_timeout(&how, relock_acquire(lock, &how, &grant));
    if (r == RELOCK_OK)
        hold(worker, which, grant.owner);
    else if (r != RELOCK_BUSY && r != RELOCK_TIMEOUT)
        worker->wrong = relock_strerror(r);
}

static void acquire_until_cancelled(struct worker *worker, struct actor *canceller)
{
    unsigned which = storm_random(&worker->seed, N_NAMES);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = worker->owner};
    struct relock_grant grant;
    int r;

    if (relock_cancel_new(&how.cancel) != RELOCK_OK)
        return;
    actor_begin(canceller, cancel_soon, how.cancel);
    r = relock_acquire(worker->storm->locks[which], &how, &grant);
    if (r == RELOCK_OK)
        hold(worker, which, grant.owner);
    else if (r != RELOCK_CANCELLED)
        worker->wrong = relock_strerror(r);
    actor_result(canceller);
    relock_cancel_free(how.cancel);
}

struct thread {
    struct worker worker;
    struct actor *actor, *canceller;
};

static int work(void *arg)
{
    struct thread *thread = arg;
    struct worker *worker = &thread->worker;

    worker->probe = probe_open(worker->storm->socket);
    while (now_ms() < worker->storm->until_ms && !worker->wrong) {
        if (thread->canceller && storm_random(&worker->seed, 3) == 0)
            acquire_until_cancelled(worker, thread->canceller);
        else
            acquire_once(worker);
    }
    probe_close(worker->probe);
    return 0;
}

/* Returns whether all went well. */
static bool run_threads(struct storm *storm, unsigned seed)
{
    struct thread threads[N_THREADS];
    bool well = true;
    uint64_t n_held = 0;

    storm->until_ms = now_ms() + storm_ms(DEFAULT_SECONDS);
    for (unsigned i = 0; i < N_THREADS; i++) {
        threads[i] = (struct thread){.worker = {.storm = storm, .seed = seed + i}};
        if (i % 3 == 0)
            threads[i].worker.owner = relock_owner_new();
        if (i % 4 == 0)
            threads[i].canceller = actor_start();
        threads[i].actor = actor_start();
        actor_begin(threads[i].actor, work, &threads[i]);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        if (actor_result_within(threads[i].actor,
                                storm_ms(DEFAULT_SECONDS) + 3 * (uint64_t)SOON_MS) == ACTOR_BUSY)
            threads[i].worker.wrong = "the thread does not end";
        if (threads[i].worker.wrong) {
            fprintf(stderr, "seed %u, thread %u: %s\n", seed, i, threads[i].worker.wrong);
            well = false;
        }
        n_held += threads[i].worker.n_held;
    }
    printf("seed %u: held %llu times, handed off %llu times, reused %llu times, %llu rechecks\n",
           seed, (unsigned long long)n_held, (unsigned long long)stats_of(storm->client).passed_on,
           (unsigned long long)stats_of(storm->client).reused,
           (unsigned long long)stats_of(storm->client).rechecks);
    return well;
}

static int storm_in_process(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_options options = {.url = f->server->unix_url,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS),
                                     .watchdog_timeout_ms = slow_ms(LEASE_MS),
                                     .keep_ms = keep_ms};
    struct storm storm = {.socket = f->server->socket};
    struct relock_stats stats;
    char name[32];
    int64_t seed;

    child_must(child_receive(parent, &seed));
    child_must(relock_client_new(&options, &storm.client) == RELOCK_OK);
    for (int i = 0; i < N_NAMES; i++) {
        snprintf(name, sizeof(name), "lock %d", i);
        child_must(relock_lock_new(storm.client, name, &storm.locks[i]) == RELOCK_OK);
    }

    child_must(run_threads(&storm, (unsigned)seed));

    stats = stats_of(storm.client);
    child_must(stats.holds == 0);
    child_must(stats.waiters == 0);
    child_must(stats.lost == 0);
    child_must(child_send(parent, 1));
    child_must(child_await(parent));
    if (keep_ms == 0)
        child_must(stats_of(storm.client).renewed == stats.renewed);
    relock_client_free(storm.client);
    for (int i = 0; i < N_NAMES; i++)
        relock_lock_free(storm.locks[i]);
    return EXIT_SUCCESS;
}

static void owners_exclude_each_other_and_leave_nothing(void **state)
{
    struct fixture *f = *state;
    struct child *children[N_PROCESSES];
    struct relock_lock *lock;
    char name[32];

    for (int i = 0; i < N_PROCESSES; i++)
        children[i] = child_start(storm_in_process, f);
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_send(children[i], (int64_t)(now_ms() % 1000000) + 1000 * i));
    for (int i = 0; i < N_PROCESSES; i++)
        assert_true(child_receive_within(children[i], &(int64_t){0},
                                         storm_ms(DEFAULT_SECONDS) + 6 * (uint64_t)SOON_MS));

    for (int i = 0; i < N_NAMES; i++) {
        snprintf(name, sizeof(name), "lock %d", i);
        assert_true(probe_wait_no_key(f->probe, name, SOON_MS)); /* at the end of keep_ms */
        probe_int(f->probe, "DEL inside:%d", i);
    }
    let_pass(slow_ms(LEASE_MS / 2)); /* nothing renews: that would come after 3 / 10 of it */
    assert_int_equal(probe_n_keys(f->probe), 0);

    lock = fixture_lock(f, fixture_client(f, NULL), "lock 0");
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < N_PROCESSES; i++) {
        assert_true(child_send(children[i], 1));
        assert_int_equal(child_wait(children[i], SOON_MS), EXIT_SUCCESS);
    }
}

/* With "keep", locks that nobody uses are kept for a while. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(owners_exclude_each_other_and_leave_nothing),
    };

    if (argc > 1 && strcmp(argv[1], "keep") == 0)
        keep_ms = KEEP_MS;
    return SERVER_TESTS_RUN(tests);
}
