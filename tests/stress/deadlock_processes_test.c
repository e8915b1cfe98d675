/*
 * Processes nest locks, each in two threads, mostly in one order and often in another one. So they
 * wait for each other in cycles all the time, some waits have a limit, and some are cancelled. All
 * of them record what they hold and wait for, in memory that they share (wait_record.h). So a wait
 * that is refused must have been in a cycle, one wait of each cycle is refused, and no cycle stands
 * for long.
 *
 * RELOCK_STRESS_HOLDS: goes on until they have acquired locks so often, 1000000 say.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"
#include "support/storm.h"
#include "wait_record.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#define N_CLIENTS 4
#define N_THREADS 4 /* of each client */
#define N_WORKERS (N_CLIENTS * N_THREADS)
#define N_LOCKS 63
#define N_KINDS 7
#define N_NESTED 3
#define N_TAKEN 4   /* of the locks, by those who do not keep the order: so they meet */
#define ORDERED 31  /* as many nests keep the order, before one does not */
#define CANCELS 128 /* before one of so many waits, a worker cancels that of another one */
#define DEADLOCK_MS 50
#define STANDS_MS ((uint64_t)SOON_MS)       /* far beyond what a cycle may take */
#define LUCKLESS_MS (3 * (uint64_t)SOON_MS) /* how much longer it goes on without a cycle */
#define DEFAULT_SECONDS 6

/* In memory that all processes share. */
struct storm {
    struct wait_record record;
    atomic_bool is_over;
    atomic_uint n_wrong;
};

struct worker {
    struct storm *storm;
    int me;
    unsigned seed;
    struct relock_lock **locks;   /* of its client */
    struct worker *next;          /* of its client */
    struct relock_cancel *cancel; /* of the wait in progress, or NULL; guarded by `cancels` */
};

/* A client, in a process or in a thread of its own. */
struct program {
    struct fixture *f;
    struct storm *storm;
    struct relock_client *client;
    struct relock_lock *locks[N_LOCKS];
    struct worker workers[N_THREADS];
};

static fixture_constructor_fn *const constructors[N_KINDS] = {
    relock_lock_new,   relock_fairlock_new, relock_lock_new,     relock_spinlock_new,
    relock_wrlock_new, relock_lock_new,     relock_plainlock_new};

/* ---- workers ------------------------------------------------------------------------------- */

static void complain(struct worker *worker, const char *what, int lock, int result)
{
    fprintf(stderr, "worker %d, lock %d: %s: %s\n", worker->me, lock, what,
            relock_strerror(result));
    atomic_fetch_add(&worker->storm->n_wrong, 1);
}

static int64_t some_wait(struct worker *worker)
{
    return storm_random(&worker->seed, 4) > 0 ? RELOCK_FOREVER
                                              : 1 + (int64_t)storm_random(&worker->seed, 600);
}

static pthread_mutex_t cancels = PTHREAD_MUTEX_INITIALIZER;

static struct relock_cancel *new_cancel(struct worker *worker)
{
    struct relock_cancel *new;

    if (relock_cancel_new(&new) != RELOCK_OK)
        abort();
    pthread_mutex_lock(&cancels);
    worker->cancel = new;
    pthread_mutex_unlock(&cancels);
    return new;
}

static void free_cancel(struct worker *worker)
{
    pthread_mutex_lock(&cancels);
    worker->cancel = relock_cancel_free(worker->cancel);
    pthread_mutex_unlock(&cancels);
}

static void cancel(struct worker *worker)
{
    pthread_mutex_lock(&cancels);
    if (worker->cancel)
        relock_cancel_fire(worker->cancel);
    pthread_mutex_unlock(&cancels);
}

/* Returns false if it did not get the lock. */
static bool acquire(struct worker *worker, int lock)
{
    struct wait_record *record = &worker->storm->record;
    struct relock_how how = {.wait_ms = some_wait(worker), .cancel = new_cancel(worker)};
    enum wait_end end = WAIT_ACQUIRED;
    const char *wrong;
    int r;

    if (storm_random(&worker->seed, CANCELS) == 0)
        cancel(worker->next);
    wait_record_begin(record, worker->me, lock);
    r = relock_acquire(worker->locks[lock], &how, NULL);
    if (r == RELOCK_E_DEADLOCK)
        end = WAIT_REFUSED;
    else if (r != RELOCK_OK)
        end = WAIT_LATE;
    wrong = wait_record_end(record, worker->me, end);
    free_cancel(worker);
    if (end == WAIT_LATE && r != RELOCK_TIMEOUT && r != RELOCK_CANCELLED && r != RELOCK_E_CONN)
        wrong = "not acquired";
    if (end == WAIT_LATE && r != RELOCK_CANCELLED && how.wait_ms == RELOCK_FOREVER)
        wrong = "a wait without a limit has ended";
    if (wrong)
        complain(worker, wrong, lock, r);
    return r == RELOCK_OK;
}

static void release(struct worker *worker, int lock)
{
    int r;

    wait_record_release(&worker->storm->record, lock);
    r = relock_unlock(worker->locks[lock]);
    if (r != RELOCK_OK)
        complain(worker, "not released", lock, r);
}

/* The next lock, behind those that it holds if it keeps the order; N_LOCKS: there is none. */
static int next_lock(struct worker *worker, bool keeps_order, const int *held, int n)
{
    int first = keeps_order && n > 0 ? held[n - 1] + 1 : 0;
    int most = keeps_order ? N_LOCKS : N_TAKEN;
    int lock =
        first < most ? first + (int)storm_random(&worker->seed, (unsigned)(most - first)) : N_LOCKS;

    for (int i = 0; i < n; i++)
        if (held[i] == lock)
            return N_LOCKS;
    return lock;
}

static void nest(struct worker *worker)
{
    bool keeps_order = storm_random(&worker->seed, ORDERED + 1) > 0;
    int held[N_NESTED];
    int n = 0;

    for (int tries = 0; tries < N_NESTED; tries++) {
        int lock = next_lock(worker, keeps_order, held, n);

        if (lock == N_LOCKS)
            continue;
        if (!acquire(worker, lock)) {
            if (storm_random(&worker->seed, 2))
                continue; /* it goes on with the locks that it has */
            break;
        }
        held[n++] = lock;
        storm_pause(&worker->seed, 200);
    }
    while (n-- > 0)
        release(worker, held[n]);
}

static int work(void *arg)
{
    struct worker *worker = arg;

    while (!atomic_load(&worker->storm->is_over))
        nest(worker);
    return EXIT_SUCCESS;
}

static void *work_in_thread(void *arg)
{
    (void)work(arg);
    return NULL;
}

/* ---- programs ------------------------------------------------------------------------------ */

static bool open_locks(struct program *program)
{
    struct relock_options options =
        fixture_options(program->f, &(struct relock_options){
                                        .deadlock_ms = DEADLOCK_MS,
                                        .watchdog_timeout_ms = slow_ms(NEVER_MS),
                                    });
    char name[16];

    if (relock_client_new(&options, &program->client) != RELOCK_OK)
        return false;
    for (int i = 0; i < N_LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "lock%d", i);
        if (constructors[i % N_KINDS](program->client, name, &program->locks[i]) != RELOCK_OK)
            return false;
    }
    return true;
}

/* In a process or a thread of its own. */
static int run(void *arg)
{
    struct program *program = arg;
    pthread_t threads[N_THREADS];

    if (!open_locks(program))
        return EXIT_FAILURE;
    for (int i = 1; i < N_THREADS; i++)
        if (pthread_create(&threads[i], NULL, work_in_thread, &program->workers[i]) != 0)
            abort();
    (void)work(&program->workers[0]);
    for (int i = 1; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < N_LOCKS; i++)
        relock_lock_free(program->locks[i]);
    relock_client_free(program->client);
    return EXIT_SUCCESS;
}

static int run_in_process(struct child *parent, void *arg)
{
    (void)parent;
    return run(arg);
}

/* ---- the parent ---------------------------------------------------------------------------- */

/* There was a cycle of several clients, and a wait was refused. */
static bool has_seen_all(const struct wait_counts *counts)
{
    return counts->n_refused > 0 && counts->n_cycles > counts->n_local;
}

/* Until the time is over, or the holds. Cycles are left to chance, so it goes on until there was
 * one. */
static bool goes_on(struct storm *storm, uint64_t end_ms)
{
    const char *text = getenv("RELOCK_STRESS_HOLDS");
    unsigned long n_wanted = text ? strtoul(text, NULL, 10) : 0;
    struct wait_counts counts = wait_record_counts(&storm->record);

    if (n_wanted > 0)
        return counts.n_held < n_wanted;
    return now_ms() < end_ms ||
           (!has_seen_all(&counts) && now_ms() < end_ms + slow_ms(LUCKLESS_MS));
}

/* Returns how long the cycle stood that stood longest. */
static uint64_t watch(struct storm *storm, uint64_t ms)
{
    uint64_t end_ms = now_ms() + ms, longest_ms = 0;

    while (goes_on(storm, end_ms) && atomic_load(&storm->n_wrong) == 0 && longest_ms < STANDS_MS) {
        uint64_t stands_ms = wait_record_stands_ms(&storm->record);

        if (stands_ms > longest_ms)
            longest_ms = stands_ms;
        let_pass(20);
    }
    atomic_store(&storm->is_over, true);
    return longest_ms;
}

static struct storm *share(void)
{
    struct storm *storm =
        mmap(NULL, sizeof(*storm), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    assert_true(storm != MAP_FAILED);
    wait_record_init(&storm->record, DEADLOCK_MS, N_THREADS);
    return storm;
}

static void init(struct program *program, struct fixture *f, struct storm *storm, int first,
                 unsigned seed)
{
    *program = (struct program){.f = f, .storm = storm};
    for (int i = 0; i < N_THREADS; i++)
        program->workers[i] = (struct worker){
            .storm = storm,
            .me = first + i,
            .seed = seed + (unsigned)(first + i),
            .locks = program->locks,
            .next = &program->workers[(i + 1) % N_THREADS],
        };
}

static void check(const struct storm *storm, const struct wait_counts *counts)
{
    assert_int_equal(atomic_load(&storm->n_wrong), 0);
    assert_int_equal(counts->n_false, 0);
    assert_int_equal(counts->n_doubled, 0);
    assert_true(counts->longest_ms < STANDS_MS);
    assert_true(has_seen_all(counts));
}

static void every_cycle_of_processes_is_broken_and_nothing_else(void **state)
{
    struct fixture *f = *state;
    struct storm *storm = share();
    struct program programs[N_CLIENTS];
    struct child *children[N_CLIENTS] = {NULL};
    struct actor *actors[N_CLIENTS];
    bool are_processes = child_can_have_threads();
    unsigned seed = storm_seed();
    struct wait_counts counts;

    for (int i = 0; i < N_CLIENTS; i++)
        init(&programs[i], f, storm, i * N_THREADS, seed);
    for (int i = 0; i < N_CLIENTS && are_processes; i++)
        children[i] = child_start(run_in_process, &programs[i]);
    for (int i = 0; i < N_CLIENTS && !are_processes; i++) {
        actors[i] = actor_start();
        actor_begin(actors[i], run, &programs[i]);
    }
    (void)watch(storm, storm_ms(DEFAULT_SECONDS));
    for (int i = 0; i < N_CLIENTS; i++) {
        int r = are_processes ? child_wait(children[i], 3 * (uint64_t)SOON_MS)
                              : actor_result_within(actors[i], 3 * (uint64_t)SOON_MS);

        assert_int_equal(r, EXIT_SUCCESS);
    }
    counts = wait_record_counts(&storm->record);
    print_message("seed %u: %u holds; %u cycles, %u of one client, %u of more than two waits; %u "
                  "refused, %u late; %u refused without a cycle, %u as second victims; a cycle "
                  "stood for %llu ms\n",
                  seed, counts.n_held, counts.n_cycles, counts.n_local, counts.n_longer,
                  counts.n_refused, counts.n_late, counts.n_false, counts.n_doubled,
                  (unsigned long long)counts.longest_ms);
    check(storm, &counts);
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
