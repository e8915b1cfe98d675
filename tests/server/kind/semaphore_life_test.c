/* Semaphores: asynchronous calls, shutdown, forked children, deferred releases, and many at once.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/reactor.h"

#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define OUT "{orders}:timeout"
#define LONG_MS 60000

static struct relock_lock *semaphore_of(struct fixture *f, struct relock_client *client, uint64_t n)
{
    struct relock_lock *lock = fixture_lock_of(f, client, "orders", relock_semaphore_new);

    assert_result(relock_semaphore_set(lock, n), RELOCK_OK);
    return lock;
}

static void forget(struct fixture *f, int64_t n)
{
    assert_int_equal(probe_int(f->probe, "GET orders"), n);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* ---- asynchronous calls -------------------------------------------------------------------- */

static void an_asynchronous_call_waits_for_its_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, 3);
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.permits = 2, .wait_ms = LONG_MS};
    struct relock_how none = {.wait_ms = LONG_MS};
    struct outcome first = OUTCOME, second = OUTCOME;

    assert_result(outcome_acquire(lock, &none, events, &first), RELOCK_E_INVALID);
    assert_result(outcome_acquire(lock, &how, events, &first), RELOCK_OK);
    assert_result(outcome_acquire(lock, &how, events, &second), RELOCK_OK);
    assert_result(reactor_await(events, &first), RELOCK_OK);
    assert_int_equal(first.grant.permits, 2);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    assert_int_equal(second.result, REACTOR_NOTHING);
    assert_result(reactor_release(lock, first.grant.owner, events), RELOCK_OK);
    assert_result(reactor_await(events, &second), RELOCK_OK);
    assert_result(reactor_release(lock, second.grant.owner, events), RELOCK_OK);
    relock_events_free(events);
    forget(f, 3);
}

/* All for one owner, at the same time: each has its own hold. */
static void calls_for_one_owner_each_have_their_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, 4);
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.wait_ms = LONG_MS, .owner = relock_owner_new(), .permits = 1};
    struct outcome outcomes[3] = {OUTCOME, OUTCOME, OUTCOME};
    struct relock_grant grant;

    for (int i = 0; i < 3; i++)
        assert_result(outcome_acquire(lock, &how, events, &outcomes[i]), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        assert_result(reactor_await(events, &outcomes[i]), RELOCK_OK);
        assert_true(outcomes[i].grant.valid_ms > 0);
    }
    assert_result(relock_check(lock, how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.permits, 3);
    assert_int_equal(probe_int(f->probe, "ZCARD " OUT), 3);
    for (int i = 0; i < 3; i++)
        assert_result(reactor_release(lock, how.owner, events), RELOCK_OK);
    assert_result(relock_check(lock, how.owner, &grant), RELOCK_NOT_OWNER);
    relock_events_free(events);
    forget(f, 4);
}

static bool are_out(struct fixture *f, long long n)
{
    return probe_int(f->probe, "ZCARD " OUT) == n;
}

static bool are_three_out(void *arg)
{
    return are_out(arg, 3);
}

static bool is_one_out(void *arg)
{
    return are_out(arg, 1);
}

/* The queue is freed before its events were received: the permits of its calls go back. */
static void permits_that_nobody_heard_of_go_back(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, 3);
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_self(), .permits = 2};
    struct outcome outcome = OUTCOME;

    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(outcome_acquire(lock, &how, events, &outcome), RELOCK_OK);
    assert_true(wait_until(are_three_out, f, SOON_MS));
    relock_events_free(events);
    assert_true(wait_until(is_one_out, f, SOON_MS)); /* that of this thread */
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 3);
}

/* ---- the end of a client ------------------------------------------------------------------- */

static int wait_for_permits(void *arg)
{
    return relock_lock(arg);
}

static void a_shutdown_ends_waits_and_leaves_permits(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, 1);
    struct actor *waiter = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin(waiter, wait_for_permits, lock);
    assert_true(probe_wait_in_line(f->probe, "orders", 1));
    relock_client_shutdown(client);
    assert_result(actor_result(waiter), RELOCK_E_CLOSED);
    assert_true(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 1);
}

static void a_forked_child_releases_nothing_of_its_parent(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = semaphore_of(f, client, 2);
    int status = 0;
    pid_t pid;

    assert_result(relock_trylock(lock), RELOCK_OK);
    pid = fork();
    if (pid == 0) {
        bool right = relock_unlock(lock) == RELOCK_E_FORKED;

        relock_lock_free(lock);
        relock_client_free(client);
        _exit(right ? 0 : 1);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(relock_is_mine(lock));
    assert_int_equal(probe_int(f->probe, "GET orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(f, 2);
}

/* ---- deferred releases --------------------------------------------------------------------- */

static void a_deferred_release_is_awaited_by_the_next_try(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.flags = RELOCK_DEFER_RELEASES});
    struct relock_lock *lock = semaphore_of(f, client, 2);

    for (int i = 0; i < 50; i++) {
        assert_result(relock_acquire(lock, &(struct relock_how){.permits = 2}, NULL), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_true(stats_of(client).deferred > 0);
    assert_result(relock_acquire(lock, &(struct relock_how){.permits = 2}, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    fixture_free_client(f, client);
    forget(f, 2);
}

/* ---- many at once -------------------------------------------------------------------------- */

#define N_PERMITS 3
#define N_CLIENTS 4
#define N_THREADS 3 /* of each client */
#define N_ROUNDS 40

static atomic_int n_out, n_most;

struct worker {
    struct relock_lock *lock;
    uint64_t n; /* permits that it takes */
};

static int work(void *arg)
{
    const struct worker *worker = arg;
    struct relock_how how = {.permits = worker->n, .wait_ms = LONG_MS};

    for (int i = 0; i < N_ROUNDS; i++) {
        int r = relock_acquire(worker->lock, &how, NULL);
        int now;

        if (r < 0)
            return r;
        now = atomic_fetch_add(&n_out, (int)worker->n) + (int)worker->n;
        if (now > atomic_load(&n_most))
            atomic_store(&n_most, now);
        atomic_fetch_sub(&n_out, (int)worker->n);
        r = relock_unlock(worker->lock);
        if (r < 0)
            return r;
    }
    return RELOCK_OK;
}

static void nobody_starves_and_no_permit_is_out_twice(void **state)
{
    struct fixture *f = *state;
    struct worker workers[N_CLIENTS * N_THREADS];
    struct actor *actors[N_CLIENTS * N_THREADS];

    atomic_store(&n_most, 0);
    for (int i = 0; i < N_CLIENTS * N_THREADS; i++) {
        if (i % N_THREADS == 0)
            workers[i].lock = semaphore_of(f, patient_client(f, LONG_MS), N_PERMITS);
        else
            workers[i].lock = workers[i - 1].lock;
        workers[i].n = (uint64_t)(i % N_PERMITS + 1);
        actors[i] = actor_start();
    }
    for (int i = 0; i < N_CLIENTS * N_THREADS; i++)
        actor_begin(actors[i], work, &workers[i]);
    for (int i = 0; i < N_CLIENTS * N_THREADS; i++)
        assert_result(actor_result_within(actors[i], LONG_MS), RELOCK_OK);
    assert_int_equal(atomic_load(&n_most), N_PERMITS);
    actor_end_all();
    forget(f, N_PERMITS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(an_asynchronous_call_waits_for_its_permits),
        SERVER_TEST(calls_for_one_owner_each_have_their_permits),
        SERVER_TEST(permits_that_nobody_heard_of_go_back),
        SERVER_TEST(a_shutdown_ends_waits_and_leaves_permits),
        SERVER_TEST(a_forked_child_releases_nothing_of_its_parent),
        SERVER_TEST(a_deferred_release_is_awaited_by_the_next_try),
        SERVER_TEST(nobody_starves_and_no_permit_is_out_twice),
    };

    return SERVER_TESTS_RUN(tests);
}
