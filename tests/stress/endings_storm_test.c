/*
 * Threads wait for locks of every kind, also of names that share a channel, while everything ends
 * that can: waits by a cancel or by time, clients, handles of other threads, and the process in a
 * forked child. No thread may be left asleep, and no key in Redis.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/storm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define N_CLIENTS 3 /* as many as a red lock needs */
#define N_THREADS 16
#define MAX_TRIES 60
#define STORM_US 40000 /* at most, before the first client ends */
#define DEFAULT_SECONDS 10

struct waiter {
    struct storm *storm;
    struct actor *actor;
    struct relock_lock *lock; /* freed by its thread */
    bool is_of_several;       /* a group, which may be lost with another client */
    unsigned no, seed;
    int wrong; /* a wrong result */
};

struct storm {
    struct fixture *f;
    struct relock_options options;
    struct relock_client *clients[N_CLIENTS];
    struct waiter waiters[N_THREADS];
    struct storm_cancels cancels;
    atomic_uint n_held, n_closed, n_cancelled;
    unsigned n_forked, seed;
};

/* ---- waiters ------------------------------------------------------------------------------- */

static void note(struct waiter *waiter, int r)
{
    switch (r) {
    case RELOCK_OK:
        waiter->storm->n_held++;
        return;
    case RELOCK_CANCELLED:
        waiter->storm->n_cancelled++;
        return;
    case RELOCK_E_CLOSED:
        waiter->storm->n_closed++;
        return;
    case RELOCK_BUSY:
    case RELOCK_TIMEOUT:
        return;
    default:
        if (!waiter->is_of_several)
            waiter->wrong = r;
    }
}

/* Returns false when its client is gone. */
static bool try_once(struct waiter *waiter)
{
    static const int64_t waits_ms[] = {0, 1, 10, RELOCK_FOREVER, RELOCK_FOREVER};
    struct relock_how how = {.wait_ms = waits_ms[storm_random(&waiter->seed, 5)]};
    int r;

    how.cancel = storm_begin_wait(&waiter->storm->cancels, waiter->no);
    if (!how.cancel)
        return false;
    r = fixture_late_is_timeout(&how, relock_acquire(waiter->lock, &how, NULL));
    note(waiter, r);
    if (r == RELOCK_OK) {
        storm_pause(&waiter->seed, 200);
        r = relock_unlock(waiter->lock);
        if (r != RELOCK_OK)
            note(waiter, r);
    }
    storm_end_wait(&waiter->storm->cancels, waiter->no);
    return r != RELOCK_E_CLOSED;
}

static int wait_and_free(void *arg)
{
    struct waiter *waiter = arg;

    for (unsigned n = 1 + storm_random(&waiter->seed, MAX_TRIES); n > 0 && try_once(waiter); n--)
        continue;
    waiter->lock = relock_lock_free(waiter->lock);
    atomic_fetch_sub(&waiter->storm->cancels.n_waiting, 1);
    return 0;
}

/* ---- endings ------------------------------------------------------------------------------- */

/* The child inherits the mutexes in any state, without the threads that locked them. */
static void end_in_a_child(struct storm *storm, struct relock_lock *spare)
{
    int status = -1;
    pid_t pid = fork();

    if (pid == 0) {
        if (relock_trylock(spare) != RELOCK_E_FORKED)
            _exit(EXIT_FAILURE);
        relock_lock_free(spare);
        for (int i = 0; i < N_CLIENTS; i++)
            relock_client_free(storm->clients[i]);
        _exit(EXIT_SUCCESS);
    }
    assert_true(pid > 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    storm->n_forked++;
}

static void end_clients(struct storm *storm, unsigned *seed)
{
    for (int i = 0; i < N_CLIENTS; i++) {
        storm_pause(seed, 6000);
        storm->clients[i] = relock_client_free(storm->clients[i]);
    }
}

/* ---- storms -------------------------------------------------------------------------------- */

static struct relock_lock *new_of(struct relock_client *client, const char *name,
                                  fixture_constructor_fn *constructor)
{
    struct relock_lock *lock = NULL;

    assert_result(constructor(client, name, &lock), RELOCK_OK);
    return lock;
}

/* Each member has a name of its own, because all are on one server. */
static struct relock_lock *new_group(struct storm *storm, bool is_red)
{
    static const char *const names[N_CLIENTS] = {"red", "orange", "green"};
    struct relock_lock *members[N_CLIENTS], *lock = NULL;
    int r;

    for (int i = 0; i < N_CLIENTS; i++)
        members[i] = new_of(storm->clients[i], names[i], relock_wrlock_new);
    r = is_red ? relock_redlock_new(members, N_CLIENTS, &lock)
               : relock_multilock_new(members, N_CLIENTS, &lock);
    for (int i = 0; i < N_CLIENTS; i++)
        relock_lock_free(members[i]);
    assert_result(r, RELOCK_OK);
    return lock;
}

static struct relock_lock *new_lock(struct storm *storm, unsigned *seed, bool *is_of_several)
{
    struct relock_client *client =
        storm->clients[storm_random(seed, 2) * storm_random(seed, N_CLIENTS)];
    unsigned kind = storm_random(seed, 9);

    *is_of_several = kind < 2;
    switch (kind) {
    case 0:
    case 1:
        return new_group(storm, kind == 0);
    case 2:
        return new_of(client, "orders", relock_lock_new);
    case 3:
        return new_of(client, "{orders}", relock_lock_new);
    case 4:
        return new_of(client, "stock", relock_rdlock_new);
    case 5:
        return new_of(client, "stock", relock_wrlock_new);
    default:
        return new_of(client, "ledger", relock_fairlock_new);
    }
}

static void make_waiters(struct storm *storm)
{
    for (int i = 0; i < N_CLIENTS; i++)
        assert_result(relock_client_new(&storm->options, &storm->clients[i]), RELOCK_OK);
    storm->cancels.n_waiting = N_THREADS;
    storm->cancels.seed = storm->seed;
    for (unsigned i = 0; i < N_THREADS; i++) {
        struct waiter *waiter = &storm->waiters[i];

        waiter->storm = storm;
        waiter->no = i;
        waiter->seed = storm->seed + 100 * i;
        waiter->lock = new_lock(storm, &waiter->seed, &waiter->is_of_several);
    }
}

static void await_waiters(struct storm *storm)
{
    for (int i = 0; i < N_THREADS; i++) {
        int r = actor_result_within(storm->waiters[i].actor, 2 * (uint64_t)SOON_MS);

        if (r != 0 || storm->waiters[i].wrong != 0)
            fail_msg("seed %u, waiter %d: %s", storm->seed, i,
                     r != 0 ? "asleep" : relock_strerror(storm->waiters[i].wrong));
    }
    assert_true(wait_for_no_keys(storm->f->probe));
}

static void storm_once(struct storm *storm)
{
    struct actor *firing = actor_start();
    struct relock_lock *spare;
    unsigned seed = storm->seed;

    make_waiters(storm);
    spare = new_of(storm->clients[0], "spare", relock_lock_new);
    for (int i = 0; i < N_THREADS; i++) {
        storm->waiters[i].actor = actor_start();
        actor_begin(storm->waiters[i].actor, wait_and_free, &storm->waiters[i]);
    }
    actor_begin(firing, storm_fire, &storm->cancels);
    storm_pause(&seed, STORM_US);
    if (child_can_leave_busy_threads())
        end_in_a_child(storm, spare);
    end_clients(storm, &seed);
    relock_lock_free(spare);
    await_waiters(storm);
    assert_int_equal(actor_result(firing), 0);
    actor_end_all();
}

static void everything_that_ends_leaves_nothing(void **state)
{
    static struct storm storm; /* threads look at it even after a test has failed */
    uint64_t until_ms = now_ms() + storm_ms(DEFAULT_SECONDS);
    unsigned n = 0;

    storm = (struct storm){.f = *state};
    storm.options = fixture_options(storm.f, &(struct relock_options){.on_log = log_drop});
    storm.seed = storm_seed();
    print_message("seed %u\n", storm.seed);
    storm_cancels_init(&storm.cancels, N_THREADS, 300);
    for (; n == 0 || now_ms() < until_ms; n++, storm.seed += 10007)
        storm_once(&storm);
    print_message("%u storms: %u acquired, %u cancelled, %u closed, %u forked\n", n, storm.n_held,
                  storm.n_cancelled, storm.n_closed, storm.n_forked);
    storm_cancels_deinit(&storm.cancels);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(everything_that_ends_leaves_nothing),
    };

    return SERVER_TESTS_RUN(tests);
}
