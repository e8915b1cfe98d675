/*
 * Processes nest locks in random order, so they wait for each other in cycles all the time; some
 * waits have a limit. All of them write down what they hold and wait for, in memory that they
 * share. A wait that is refused must have been in a cycle at some moment, and no cycle may stand
 * for long.
 *
 * RELOCK_STRESS_HOLDS: goes on until they have acquired locks so often, 1000000 say.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/storm.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define N_WORKERS 6
#define N_LOCKS 7
#define N_NESTED 3
#define N_KEPT 512 /* intervals of each lock and each worker that are remembered */
#define DEADLOCK_MS 100
#define STANDS_MS ((uint64_t)SOON_MS) /* far beyond what a cycle may take */
#define DEFAULT_SECONDS 6
#define NONE (-1)
#define GOES_ON UINT64_MAX

/* Somebody holds a lock, or waits for one. It is a little longer than in Redis. */
struct interval {
    int worker, lock;
    uint64_t from_ms, to_ms;
};

struct history {
    struct interval kept[N_KEPT];
    unsigned n;
};

/* In memory that all processes share. */
struct storm {
    pthread_mutex_t mutex;
    struct history holds[N_LOCKS], waits[N_WORKERS]; /* guarded by mutex */
    atomic_bool is_over;
    atomic_uint n_held, n_refused, n_late, n_wrong;
};

struct worker {
    struct fixture *f;
    struct storm *storm;
    int me;
    unsigned seed;
    struct relock_client *client;
    struct relock_lock *locks[N_LOCKS];
};

static fixture_constructor_fn *const constructors[N_LOCKS] = {
    relock_lock_new,   relock_fairlock_new, relock_lock_new,     relock_spinlock_new,
    relock_wrlock_new, relock_lock_new,     relock_plainlock_new};
static const char *const names[N_LOCKS] = {"one", "fair", "two", "spin", "rw", "three", "plain"};

/* ---- history ------------------------------------------------------------------------------- */

static struct interval *add(struct history *history, int worker, int lock, uint64_t from_ms)
{
    struct interval *new = &history->kept[history->n++ % N_KEPT];

    *new = (struct interval){worker, lock, from_ms, GOES_ON};
    return new;
}

static const struct interval *find_at(const struct history *history, uint64_t ms, int worker)
{
    for (unsigned i = 0; i < N_KEPT && i < history->n; i++) {
        const struct interval *at = &history->kept[(history->n - 1 - i) % N_KEPT];

        if (at->from_ms <= ms && ms <= at->to_ms && (worker == NONE || at->worker == worker))
            return at;
    }
    return NULL;
}

/* Whether the lock was held at that moment by a worker that waited for a lock, and so on, up to
 * this worker. Two workers may seem to hold a lock for a moment: then either will do. */
static bool was_in_a_cycle_at(const struct storm *storm, int me, int lock, uint64_t ms)
{
    bool reached[N_LOCKS] = {false};
    int next[N_LOCKS], n = 0;

    next[n++] = lock;
    reached[lock] = true;
    while (n > 0) {
        int at = next[--n];

        for (int who = 0; who < N_WORKERS; who++) {
            const struct interval *wait;

            if (!find_at(&storm->holds[at], ms, who))
                continue;
            if (who == me)
                return true;
            wait = find_at(&storm->waits[who], ms, NONE);
            if (wait && !reached[wait->lock]) {
                reached[wait->lock] = true;
                next[n++] = wait->lock;
            }
        }
    }
    return false;
}

static bool was_in_a_cycle(struct storm *storm, int me, const struct interval *wait)
{
    bool was = false;

    pthread_mutex_lock(&storm->mutex);
    for (uint64_t ms = now_ms(); !was && ms >= wait->from_ms; ms--)
        was = was_in_a_cycle_at(storm, me, wait->lock, ms);
    pthread_mutex_unlock(&storm->mutex);
    return was;
}

/* ---- workers ------------------------------------------------------------------------------- */

static void complain(struct worker *worker, const char *what, int lock, int result)
{
    fprintf(stderr, "worker %d, lock %s: %s: %s\n", worker->me, names[lock], what,
            relock_strerror(result));
    atomic_fetch_add(&worker->storm->n_wrong, 1);
}

static int64_t some_wait(struct worker *worker)
{
    return storm_random(&worker->seed, 4) > 0 ? RELOCK_FOREVER
                                              : 1 + (int64_t)storm_random(&worker->seed, 600);
}

/* Returns false if it did not get the lock. */
static bool acquire(struct worker *worker, int lock)
{
    struct storm *storm = worker->storm;
    struct relock_how how = {.wait_ms = some_wait(worker)};
    struct interval *wait;
    int r;

    pthread_mutex_lock(&storm->mutex);
    wait = add(&storm->waits[worker->me], worker->me, lock, now_ms());
    pthread_mutex_unlock(&storm->mutex);
    r = relock_acquire(worker->locks[lock], &how, NULL);
    if (r == RELOCK_E_DEADLOCK) {
        atomic_fetch_add(&storm->n_refused, 1);
        if (!was_in_a_cycle(storm, worker->me, wait))
            complain(worker, "refused, and was in no cycle", lock, r);
    } else if (r == RELOCK_TIMEOUT || (r == RELOCK_E_CONN && how.wait_ms != RELOCK_FOREVER)) {
        atomic_fetch_add(&storm->n_late, 1);
    } else if (r != RELOCK_OK) {
        complain(worker, "not acquired", lock, r);
    }
    pthread_mutex_lock(&storm->mutex);
    wait->to_ms = now_ms();
    if (r == RELOCK_OK)
        (void)add(&storm->holds[lock], worker->me, lock, wait->from_ms);
    pthread_mutex_unlock(&storm->mutex);
    return r == RELOCK_OK;
}

static void release(struct worker *worker, int lock)
{
    struct storm *storm = worker->storm;
    struct interval *hold;
    int r = relock_unlock(worker->locks[lock]);

    if (r != RELOCK_OK)
        complain(worker, "not released", lock, r);
    pthread_mutex_lock(&storm->mutex);
    hold = (struct interval *)find_at(&storm->holds[lock], now_ms(), worker->me);
    if (hold)
        hold->to_ms = now_ms();
    pthread_mutex_unlock(&storm->mutex);
}

static void nest(struct worker *worker)
{
    int held[N_NESTED];
    int n = 0;

    for (int tries = 0; tries < N_NESTED; tries++) {
        int lock = (int)storm_random(&worker->seed, N_LOCKS);
        bool has = false;

        for (int i = 0; i < n; i++)
            has |= held[i] == lock;
        if (has)
            continue;
        if (!acquire(worker, lock)) {
            if (storm_random(&worker->seed, 2))
                continue; /* it goes on with the locks that it has */
            break;
        }
        atomic_fetch_add(&worker->storm->n_held, 1);
        held[n++] = lock;
        storm_pause(&worker->seed, 2000);
    }
    while (n-- > 0)
        release(worker, held[n]);
    storm_pause(&worker->seed, 1000);
}

/* In a process or a thread of its own. */
static void work(struct worker *worker)
{
    for (int i = 0; i < N_LOCKS; i++)
        if (constructors[i](worker->client, names[i], &worker->locks[i]) != RELOCK_OK)
            complain(worker, "no handle", i, RELOCK_E_NOMEM);
    while (!atomic_load(&worker->storm->is_over))
        nest(worker);
    for (int i = 0; i < N_LOCKS; i++)
        relock_lock_free(worker->locks[i]);
}

static struct relock_options options_of(struct worker *worker)
{
    return fixture_options(worker->f, &(struct relock_options){
                                          .deadlock_ms = DEADLOCK_MS,
                                          .watchdog_timeout_ms = slow_ms(NEVER_MS),
                                      });
}

static int work_in_process(struct child *parent, void *arg)
{
    struct worker *worker = arg;
    struct relock_options options = options_of(worker);

    (void)parent;
    child_must(relock_client_new(&options, &worker->client) == RELOCK_OK);
    work(worker);
    relock_client_free(worker->client);
    return EXIT_SUCCESS;
}

static int work_in_thread(void *arg)
{
    struct worker *worker = arg;
    struct relock_options options = options_of(worker);

    if (relock_client_new(&options, &worker->client) != RELOCK_OK)
        return EXIT_FAILURE;
    work(worker);
    relock_client_free(worker->client);
    return EXIT_SUCCESS;
}

/* ---- the parent ---------------------------------------------------------------------------- */

static bool a_cycle_stands(struct storm *storm)
{
    uint64_t ms = now_ms();
    bool stands = false;

    pthread_mutex_lock(&storm->mutex);
    for (int who = 0; who < N_WORKERS; who++) {
        const struct interval *wait = find_at(&storm->waits[who], ms, NONE);

        stands |= wait && wait->to_ms == GOES_ON && was_in_a_cycle_at(storm, who, wait->lock, ms);
    }
    pthread_mutex_unlock(&storm->mutex);
    return stands;
}

/* Until the time is over, or the holds. Returns the longest time without progress in a cycle. */
static uint64_t watch(struct storm *storm, uint64_t ms)
{
    const char *text = getenv("RELOCK_STRESS_HOLDS");
    unsigned long n_wanted = text ? strtoul(text, NULL, 10) : 0;
    uint64_t end_ms = now_ms() + ms, since_ms = 0, longest_ms = 0;
    unsigned n_refused = 0;

    while ((n_wanted ? atomic_load(&storm->n_held) < n_wanted : now_ms() < end_ms) &&
           atomic_load(&storm->n_wrong) == 0 && longest_ms < STANDS_MS) {
        unsigned n_now = atomic_load(&storm->n_refused) + atomic_load(&storm->n_late);

        if (!a_cycle_stands(storm) || n_now != n_refused)
            since_ms = 0;
        else if (since_ms == 0)
            since_ms = now_ms();
        else if (now_ms() - since_ms > longest_ms)
            longest_ms = now_ms() - since_ms;
        n_refused = n_now;
        let_pass(5);
    }
    atomic_store(&storm->is_over, true);
    return longest_ms;
}

static struct storm *share(void)
{
    struct storm *storm =
        mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pthread_mutexattr_t attr;

    assert_true(storm != MAP_FAILED);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&storm->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return storm;
}

static void every_cycle_of_processes_is_broken_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct storm *storm = share();
    struct worker workers[N_WORKERS];
    struct child *children[N_WORKERS] = {NULL};
    struct actor *actors[N_WORKERS];
    bool are_processes = child_can_have_threads();
    unsigned seed = storm_seed();
    uint64_t longest_ms;

    for (int i = 0; i < N_WORKERS; i++)
        workers[i] = (struct worker){.f = f, .storm = storm, .me = i, .seed = seed + (unsigned)i};
    for (int i = 0; i < N_WORKERS && are_processes; i++)
        children[i] = child_start(work_in_process, &workers[i]);
    for (int i = 0; i < N_WORKERS && !are_processes; i++) {
        actors[i] = actor_start();
        actor_begin(actors[i], work_in_thread, &workers[i]);
    }
    longest_ms = watch(storm, storm_ms(DEFAULT_SECONDS));
    for (int i = 0; i < N_WORKERS; i++) {
        int r = are_processes ? child_wait(children[i], 3 * (uint64_t)SOON_MS)
                              : actor_result_within(actors[i], 3 * (uint64_t)SOON_MS);

        assert_int_equal(r, EXIT_SUCCESS);
    }
    print_message("seed %u: %u holds, %u refused, %u late; a cycle stood for %llu ms\n", seed,
                  atomic_load(&storm->n_held), atomic_load(&storm->n_refused),
                  atomic_load(&storm->n_late), (unsigned long long)longest_ms);
    assert_int_equal(atomic_load(&storm->n_wrong), 0);
    assert_true(longest_ms < STANDS_MS);
    assert_true(atomic_load(&storm->n_refused) > 0);
    assert_true(wait_for_no_keys(f->probe));
    munmap(storm, sizeof(*storm));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(every_cycle_of_processes_is_broken_and_nothing_else),
    };

    return SERVER_TESTS_RUN(tests);
}
