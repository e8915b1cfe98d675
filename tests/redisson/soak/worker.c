#include "worker.h"

#include "support/fixture.h"
#include "support/held.h"
#include "support/wait.h"

#include <inttypes.h>
#include <pthread.h>
#include <relock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_THREADS 4
#define WAIT_MS 2000

static const struct {
    const char *kind, *lock;
    int (*make)(struct relock_client *client, const char *name, struct relock_lock **lock);
} kinds[] = {
#define KIND(kind, make, lock) {#kind, lock, make},
    WORKER_KIND_MAP(KIND)
#undef KIND
};

struct toiler {
    const struct worker *worker;
    struct relock_lock **locks;
    FILE *out;
    int number;
    unsigned seed;
    bool failed;
};

/* With one attempt, with a time limit, or without. */
static int take(struct toiler *toiler, size_t kind, struct relock_grant *grant)
{
    static const int64_t waits_ms[] = {0, WAIT_MS, RELOCK_FOREVER, RELOCK_FOREVER};
    struct relock_how how = {.wait_ms = waits_ms[rand_r(&toiler->seed) % 4]};

    return fixture_late_is_timeout(&how, relock_acquire(toiler->locks[kind], &how, grant));
}

static void expect(struct toiler *toiler, int got, int wanted, const char *what, size_t kind)
{
    if (got == wanted)
        return;
    fprintf(stderr, "%s%d: %s of %s: %s\n", toiler->worker->who, toiler->number, what,
            kinds[kind].kind, relock_strerror(got));
    toiler->failed = true;
}

/* Works under the lock, sometimes at a deeper level, and records the hold. */
static void work(struct toiler *toiler, size_t kind, uint64_t from_ns, uint64_t token)
{
    struct relock_lock *lock = toiler->locks[kind];
    bool deeper = rand_r(&toiler->seed) % 4 == 0;
    uint64_t to_ns;

    if (deeper)
        expect(toiler, relock_lock(lock), RELOCK_OK, "a second level", kind);
    let_pass((uint64_t)(rand_r(&toiler->seed) % 4));
    if (deeper)
        expect(toiler, relock_unlock(lock), RELOCK_OK, "its end", kind);
    expect(toiler, relock_check(lock, 0, NULL), RELOCK_OK, "a hold", kind);
    to_ns = held_now_ns();
    expect(toiler, relock_unlock(lock), RELOCK_OK, "the release", kind);
    fprintf(toiler->out, "%s%d %s %s %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", toiler->worker->who,
            toiler->number, kinds[kind].kind, kinds[kind].lock, from_ns, to_ns, token);
}

static void *toil(void *arg)
{
    struct toiler *toiler = arg;

    while (!atomic_load(toiler->worker->is_over) && !toiler->failed) {
        size_t kind = (size_t)rand_r(&toiler->seed) % WORKER_N_KINDS;
        struct relock_grant grant;
        int r = take(toiler, kind, &grant);

        if (r == RELOCK_OK)
            work(toiler, kind, held_now_ns(), grant.fencing_token);
        else if (r != RELOCK_BUSY && r != RELOCK_TIMEOUT)
            expect(toiler, r, RELOCK_OK, "taking", kind);
    }
    return NULL;
}

static bool toil_all(const struct worker *worker, struct relock_lock **locks, FILE *out)
{
    struct toiler toilers[N_THREADS];
    pthread_t threads[N_THREADS];
    bool failed = false;

    for (int i = 0; i < N_THREADS; i++) {
        toilers[i] = (struct toiler){.worker = worker,
                                     .locks = locks,
                                     .out = out,
                                     .number = i,
                                     .seed = (unsigned)(held_now_ns() + (uint64_t)i)};
        if (pthread_create(&threads[i], NULL, toil, &toilers[i]) != 0)
            abort();
    }
    for (int i = 0; i < N_THREADS; i++) {
        pthread_join(threads[i], NULL);
        failed = failed || toilers[i].failed;
    }
    return !failed;
}

int worker_run(const struct worker *worker)
{
    struct relock_options options = {.url = worker->url,
                                     .connect_timeout_ms = SOON_MS,
                                     .command_timeout_ms = SOON_MS,
                                     .watchdog_timeout_ms = WORKER_WATCHDOG_MS};
    struct relock_lock *locks[WORKER_N_KINDS];
    struct relock_client *client;
    FILE *out = fopen(worker->path, "w");
    bool good;

    if (!out || relock_client_new(&options, &client) != RELOCK_OK)
        return EXIT_FAILURE;
    for (size_t i = 0; i < WORKER_N_KINDS; i++) {
        if (kinds[i].make(client, kinds[i].lock, &locks[i]) != RELOCK_OK)
            return EXIT_FAILURE;
    }
    good = toil_all(worker, locks, out);
    for (size_t i = 0; i < WORKER_N_KINDS; i++)
        relock_lock_free(locks[i]);
    relock_client_free(client);
    return fclose(out) == 0 && good ? EXIT_SUCCESS : EXIT_FAILURE;
}
