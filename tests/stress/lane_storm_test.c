/*
 * More threads than there are connections lock and unlock, with deadlines of all lengths, while
 * connections break and the server stands still. Every call ends, no hold is lost, no two owners
 * are inside one lock, and no call gets the reply to the command of another.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/storm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#define N_THREADS 32
#define N_COMMON 4
#define COMMAND_TIMEOUT_MS 1000
#define DEFAULT_SECONDS 3
#define TOKENS 1000000000ULL /* so far apart are the fencing tokens of the threads' own locks */

struct storm {
    struct fixture *f;
    struct relock_lock *common[N_COMMON];
    atomic_int inside[N_COMMON];
    uint64_t until_ms;
};

struct worker {
    struct storm *storm;
    unsigned nth, seed;
    struct relock_lock *own;
    uint64_t token; /* of its last hold */
    uint64_t n_held;
    const char *wrong;
};

static void release(struct worker *worker, struct relock_lock *lock)
{
    int r = relock_unlock(lock);

    if (r != RELOCK_OK && r != RELOCK_E_CONN) /* then it goes on in the background */
        worker->wrong = relock_strerror(r);
}

static bool acquire(struct worker *worker, struct relock_lock *lock, struct relock_grant *grant)
{
    static const int64_t waits_ms[] = {0, 1, 10, 60, 300, 800, RELOCK_FOREVER, RELOCK_FOREVER};
    struct relock_how how = {.wait_ms = waits_ms[storm_random(&worker->seed, 8)]};
    int r = relock_acquire(lock, &how, grant);

    if (r != RELOCK_OK && r != RELOCK_BUSY && r != RELOCK_TIMEOUT && r != RELOCK_E_CONN)
        worker->wrong = relock_strerror(r);
    if (r == RELOCK_OK)
        worker->n_held++;
    return r == RELOCK_OK;
}

/* The reply to another thread's command would have another thread's token. */
static void use_own(struct worker *worker)
{
    uint64_t first = TOKENS * (worker->nth + 1);
    struct relock_grant grant;

    if (!acquire(worker, worker->own, &grant))
        return;
    if (grant.hold_count != 1)
        worker->wrong = "its own lock has another level";
    if (grant.fencing_token < first || grant.fencing_token >= first + TOKENS)
        worker->wrong = "the token is of another lock";
    if (grant.fencing_token <= worker->token)
        worker->wrong = "the token is old";
    worker->token = grant.fencing_token;
    release(worker, worker->own);
}

static void use_common(struct worker *worker)
{
    unsigned which = storm_random(&worker->seed, N_COMMON);
    struct storm *storm = worker->storm;
    struct relock_grant grant;

    if (!acquire(worker, storm->common[which], &grant))
        return;
    if (atomic_fetch_add(&storm->inside[which], 1) != 0)
        worker->wrong = "two owners are inside";
    storm_pause(&worker->seed, 100);
    atomic_fetch_sub(&storm->inside[which], 1);
    release(worker, storm->common[which]);
}

static int work(void *arg)
{
    struct worker *worker = arg;

    while (now_ms() < worker->storm->until_ms && !worker->wrong)
        if (storm_random(&worker->seed, 6) == 0)
            use_common(worker);
        else
            use_own(worker);
    return 0;
}

/* On the main thread, as the server needs. */
static void break_things(struct storm *storm, unsigned seed)
{
    struct fixture *f = storm->f;

    while (now_ms() < storm->until_ms) {
        let_pass(1 + storm_random(&seed, storm_random(&seed, 4) == 0 ? 600 : 60));
        switch (storm_random(&seed, 8)) {
        case 0:
            (void)probe_text(f->probe, "CLIENT PAUSE %d WRITE", 10 + (int)storm_random(&seed, 700));
            break;
        case 1:
            server_pause(f->server);
            let_pass(1 + storm_random(&seed, storm_random(&seed, 5) == 0 ? 2500 : 400));
            server_resume(f->server);
            break;
        case 2:
            (void)probe_text(f->probe, "SCRIPT FLUSH");
            break;
        default:
            (void)probe_int(f->probe, "CLIENT KILL TYPE normal");
            break;
        }
    }
}

static void make_locks(struct storm *storm, struct relock_client *client, struct worker *workers)
{
    char name[64], first[32];

    for (unsigned i = 0; i < N_COMMON; i++) {
        (void)snprintf(name, sizeof(name), "common%u", i);
        storm->common[i] = fixture_lock(storm->f, client, name);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        (void)snprintf(name, sizeof(name), "own%u", i);
        workers[i].own = fixture_lock_of(storm->f, client, name, relock_fencedlock_new);
        (void)snprintf(name, sizeof(name), "redisson_lock_token:{own%u}", i);
        (void)snprintf(first, sizeof(first), "%llu", TOKENS * (i + 1));
        (void)probe_text(storm->f->probe, "SET %s %s", name, first);
    }
}

static void expect_no_lock(struct storm *storm)
{
    char name[32];

    for (unsigned i = 0; i < N_COMMON + N_THREADS; i++) {
        (void)snprintf(name, sizeof(name), i < N_COMMON ? "common%u" : "own%u",
                       i < N_COMMON ? i : i - N_COMMON);
        assert_true(probe_wait_no_key(storm->f->probe, name, SOON_MS));
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        (void)probe_int(storm->f->probe, "DEL redisson_lock_token:{own%u}", i);
}

static void run(struct fixture *f, unsigned connections, unsigned flags)
{
    struct relock_options options = {.connections = connections,
                                     .flags = flags,
                                     .command_timeout_ms = slow_ms(COMMAND_TIMEOUT_MS)};
    struct relock_client *client = fixture_client(f, &options);
    struct storm storm = {.f = f};
    struct worker workers[N_THREADS];
    struct actor *actors[N_THREADS];
    unsigned seed = storm_seed();
    uint64_t n_held = 0;
    bool well = true;

    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.storm = &storm, .nth = i, .seed = seed + i};
    make_locks(&storm, client, workers);
    storm.until_ms = now_ms() + storm_ms(DEFAULT_SECONDS);
    for (unsigned i = 0; i < N_THREADS; i++) {
        actors[i] = actor_start();
        actor_begin(actors[i], work, &workers[i]);
    }
    break_things(&storm, seed + N_THREADS);
    for (unsigned i = 0; i < N_THREADS; i++) {
        if (actor_result_within(actors[i], 3 * (uint64_t)SOON_MS) == ACTOR_BUSY)
            workers[i].wrong = "the thread does not end";
        if (workers[i].wrong)
            print_error("seed %u, thread %u: %s\n", seed, i, workers[i].wrong);
        well = well && !workers[i].wrong;
        n_held += workers[i].n_held;
    }
    print_message("seed %u: held %llu times\n", seed, (unsigned long long)n_held);
    assert_true(well);
    expect_no_lock(&storm);
    assert_int_equal(stats_of(client).lost, 0);
}

static void threads_that_share_connections_meet_only_their_own_replies(void **state)
{
    run(*state, 8, 0);
}

static void so_do_those_that_share_one_and_defer_releases(void **state)
{
    run(*state, 1, RELOCK_DEFER_RELEASES);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(threads_that_share_connections_meet_only_their_own_replies),
        SERVER_TEST(so_do_those_that_share_one_and_defer_releases),
    };

    return SERVER_TESTS_RUN(tests);
}
