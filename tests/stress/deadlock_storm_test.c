/*
 * Threads nest locks in random order, so they wait for each other in cycles all the time. Each
 * cycle is broken, and no call is refused that is in none.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/storm.h"

#include <stdatomic.h>

#define N_LOCKS 5
#define N_THREADS 8
#define N_NESTED 3 /* each thread acquires so many, one inside the other */
#define DEFAULT_SECONDS 3
#define NONE (-1)

struct storm {
    struct relock_lock *locks[N_LOCKS];
    atomic_int holder[N_LOCKS];  /* the thread, or NONE */
    atomic_int wants[N_THREADS]; /* the lock, or NONE */
    atomic_uint n_refused;
    uint64_t until_ms;
};

struct worker {
    struct storm *storm;
    int me;
    unsigned seed;
    unsigned n_held;
    const char *wrong;
};

/* The threads of a cycle wait, and have written down for what: so it is still there. */
static bool is_in_a_cycle(const struct worker *worker, int wanted)
{
    const struct storm *storm = worker->storm;

    for (int n = 0; n < N_THREADS; n++) {
        int holder = atomic_load(&storm->holder[wanted]);

        if (holder == worker->me)
            return true;
        if (holder == NONE || (wanted = atomic_load(&storm->wants[holder])) == NONE)
            return false;
    }
    return false;
}

static bool has(const int *held, int n, int lock)
{
    while (n-- > 0) {
        if (held[n] == lock)
            return true;
    }
    return false;
}

/* Returns false if it was refused. */
static bool acquire(struct worker *worker, int lock)
{
    struct storm *storm = worker->storm;
    int r;

    atomic_store(&storm->wants[worker->me], lock);
    r = relock_lock(storm->locks[lock]);
    if (r == RELOCK_E_DEADLOCK && !is_in_a_cycle(worker, lock))
        worker->wrong = "refused, but in no cycle";
    else if (r != RELOCK_OK && r != RELOCK_E_DEADLOCK)
        worker->wrong = relock_strerror(r);
    if (r == RELOCK_OK)
        atomic_store(&storm->holder[lock], worker->me);
    atomic_store(&storm->wants[worker->me], NONE);
    return r == RELOCK_OK;
}

static void release(struct worker *worker, int lock)
{
    atomic_store(&worker->storm->holder[lock], NONE);
    if (relock_unlock(worker->storm->locks[lock]) != RELOCK_OK)
        worker->wrong = "not released";
}

static void nest(struct worker *worker)
{
    int held[N_NESTED];
    int n = 0;

    while (n < N_NESTED) {
        int lock = (int)storm_random(&worker->seed, N_LOCKS);

        if (has(held, n, lock))
            continue;
        if (!acquire(worker, lock)) {
            atomic_fetch_add(&worker->storm->n_refused, 1);
            break;
        }
        worker->n_held++;
        held[n++] = lock;
    }
    while (n-- > 0)
        release(worker, held[n]);
    storm_pause(&worker->seed, 500);
}

/* If the machine has stood still meanwhile, longer: until a wait was refused. */
static bool goes_on(struct storm *storm)
{
    uint64_t now = now_ms();

    return now < storm->until_ms ||
           (atomic_load(&storm->n_refused) == 0 && now < storm->until_ms + slow_ms(SOON_MS));
}

static int work(void *arg)
{
    struct worker *worker = arg;

    while (goes_on(worker->storm) && !worker->wrong)
        nest(worker);
    return 0;
}

static void make_locks(struct fixture *f, struct storm *storm)
{
    static fixture_constructor_fn *const constructors[N_LOCKS] = {
        relock_lock_new, relock_fairlock_new, relock_lock_new, relock_spinlock_new,
        relock_fencedlock_new};
    static const char *const names[N_LOCKS] = {"one", "fair", "two", "spin", "fenced"};
    struct relock_client *client = patient_client(f, NEVER_MS);

    for (int i = 0; i < N_LOCKS; i++) {
        storm->locks[i] = fixture_lock_of(f, client, names[i], constructors[i]);
        atomic_init(&storm->holder[i], NONE);
    }
    for (int i = 0; i < N_THREADS; i++)
        atomic_init(&storm->wants[i], NONE);
}

static void every_cycle_is_broken_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct storm storm = {0};
    struct worker workers[N_THREADS];
    struct actor *actors[N_THREADS];
    unsigned seed = storm_seed(), n_held = 0, n_refused;

    make_locks(f, &storm);
    storm.until_ms = now_ms() + storm_ms(DEFAULT_SECONDS);
    for (int i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.storm = &storm, .me = i, .seed = seed + (unsigned)i};
        actors[i] = actor_start();
        actor_begin(actors[i], work, &workers[i]);
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_result(
            actor_result_within(actors[i], storm_ms(DEFAULT_SECONDS) + 3 * (uint64_t)SOON_MS),
            RELOCK_OK);
        if (workers[i].wrong)
            fail_msg("seed %u, thread %d: %s", seed, i, workers[i].wrong);
        n_held += workers[i].n_held;
    }
    n_refused = atomic_load(&storm.n_refused);
    print_message("seed %u: %u holds, %u refused\n", seed, n_held, n_refused);
    assert_true(n_refused > 0);
    forget_counters(f->probe);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(every_cycle_is_broken_and_nothing_else),
    };

    return SERVER_TESTS_RUN(tests);
}
