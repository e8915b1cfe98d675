/*
 * Everything that can end under a thread that waits for a lock, all at once: its wait by a cancel
 * or by time, its client, the handles of others, and the process in a forked child. Of every kind,
 * and of names that share a channel. Nobody may be left asleep and nothing in Redis;
 * ThreadSanitizer says what else is wrong.
 *
 * RELOCK_STRESS_SECONDS says how long it lasts, RELOCK_STRESS_SEED where it begins.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"

#include <pthread.h>
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
    bool is_of_several;       /* and so may be lost with another client */
    unsigned seed;
    int wrong; /* a result that cannot be */

    pthread_mutex_t mutex;
    struct relock_cancel *cancel; /* guarded by mutex; NULL while there is no wait to be ended */
};

struct storm {
    struct fixture *f;
    struct relock_options options;
    struct relock_client *clients[N_CLIENTS];
    struct waiter waiters[N_THREADS];
    atomic_int n_waiters; /* that are not done */
    atomic_uint n_held, n_closed, n_cancelled;
    unsigned n_forked, seed;
};

static unsigned dice(unsigned *seed, unsigned sides)
{
    return (unsigned)rand_r(seed) % sides;
}

static void rest(unsigned *seed, unsigned us)
{
    struct timespec time = {.tv_nsec = (long)dice(seed, us) * 1000};

    nanosleep(&time, NULL);
}

/* ---- who waits ----------------------------------------------------------------------------- */

static void offer_cancel(struct waiter *waiter, struct relock_cancel *cancel)
{
    pthread_mutex_lock(&waiter->mutex);
    waiter->cancel = cancel;
    pthread_mutex_unlock(&waiter->mutex);
}

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
    struct relock_how how = {.wait_ms = waits_ms[dice(&waiter->seed, 5)]};
    int r;

    if (relock_cancel_new(&how.cancel) != RELOCK_OK)
        return false;
    offer_cancel(waiter, how.cancel);
    r = fixture_late_is_timeout(&how, relock_acquire(waiter->lock, &how, NULL));
    note(waiter, r);
    if (r == RELOCK_OK) {
        rest(&waiter->seed, 200);
        r = relock_unlock(waiter->lock);
        if (r != RELOCK_OK)
            note(waiter, r);
    }
    offer_cancel(waiter, NULL);
    relock_cancel_free(how.cancel);
    return r != RELOCK_E_CLOSED;
}

static int wait_and_free(void *arg)
{
    struct waiter *waiter = arg;

    for (unsigned n = 1 + dice(&waiter->seed, MAX_TRIES); n > 0 && try_once(waiter); n--)
        continue;
    waiter->lock = relock_lock_free(waiter->lock);
    atomic_fetch_sub(&waiter->storm->n_waiters, 1);
    return 0;
}

/* ---- what ends ----------------------------------------------------------------------------- */

static int fire(void *arg)
{
    struct storm *storm = arg;
    unsigned seed = storm->seed;

    while (storm->n_waiters > 0) {
        struct waiter *waiter = &storm->waiters[dice(&seed, N_THREADS)];

        rest(&seed, 300);
        pthread_mutex_lock(&waiter->mutex);
        if (waiter->cancel)
            relock_cancel_fire(waiter->cancel);
        pthread_mutex_unlock(&waiter->mutex);
    }
    return 0;
}

/* The child has none of the threads, and the mutexes as they stood. */
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
        rest(seed, 6000);
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

/* Of a red lock each member has a name of its own, for all are on one server. */
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
    struct relock_client *client = storm->clients[dice(seed, 2) * dice(seed, N_CLIENTS)];
    unsigned kind = dice(seed, 9);

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

static void set_sail(struct storm *storm)
{
    for (int i = 0; i < N_CLIENTS; i++)
        assert_result(relock_client_new(&storm->options, &storm->clients[i]), RELOCK_OK);
    storm->n_waiters = N_THREADS;
    for (unsigned i = 0; i < N_THREADS; i++) {
        struct waiter *waiter = &storm->waiters[i];

        waiter->storm = storm;
        waiter->seed = storm->seed + 100 * i;
        waiter->lock = new_lock(storm, &waiter->seed, &waiter->is_of_several);
    }
}

static void calm_down(struct storm *storm)
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

    set_sail(storm);
    spare = new_of(storm->clients[0], "spare", relock_lock_new);
    for (int i = 0; i < N_THREADS; i++) {
        storm->waiters[i].actor = actor_start();
        actor_begin(storm->waiters[i].actor, wait_and_free, &storm->waiters[i]);
    }
    actor_begin(firing, fire, storm);
    rest(&seed, STORM_US);
    if (child_can_leave_busy_threads())
        end_in_a_child(storm, spare);
    end_clients(storm, &seed);
    relock_lock_free(spare);
    calm_down(storm);
    assert_int_equal(actor_result(firing), 0);
    actor_end_all();
}

static void write_nowhere(int level, const char *text, void *arg)
{
    (void)level;
    (void)text;
    (void)arg;
}

static unsigned long from_environment(const char *name, unsigned long otherwise)
{
    const char *value = getenv(name);

    return value ? strtoul(value, NULL, 10) : otherwise;
}

static void everything_that_ends_leaves_nothing(void **state)
{
    static struct storm storm; /* threads look at it even after a test has failed */
    uint64_t until_ms =
        now_ms() + 1000 * from_environment("RELOCK_STRESS_SECONDS", DEFAULT_SECONDS);
    unsigned n = 0;

    storm = (struct storm){.f = *state};
    storm.options = fixture_options(storm.f, &(struct relock_options){.on_log = write_nowhere});
    storm.seed = (unsigned)from_environment("RELOCK_STRESS_SEED", now_ms() % 1000000);
    print_message("seed %u\n", storm.seed);
    for (int i = 0; i < N_THREADS; i++)
        pthread_mutex_init(&storm.waiters[i].mutex, NULL);
    for (; n == 0 || now_ms() < until_ms; n++, storm.seed += 10007)
        storm_once(&storm);
    print_message("%u storms: %u had it, %u cancelled, %u closed, %u forked\n", n, storm.n_held,
                  storm.n_cancelled, storm.n_closed, storm.n_forked);
    for (int i = 0; i < N_THREADS; i++)
        pthread_mutex_destroy(&storm.waiters[i].mutex);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(everything_that_ends_leaves_nothing),
    };

    return SERVER_TESTS_RUN(tests);
}
