/*
 * start_together - workers that begin when all of them are ready
 *
 * A latch is set to the number of workers. Each worker prepares, counts down, and waits until the
 * count is zero, so all of them begin at the same time. Here the workers are processes of this
 * machine; they may also run on several, or be Java programs that use Redisson's RCountDownLatch.
 *
 * The latch has a new name for each run. A worker that dies before it counts down leaves the latch
 * closed, so the others limit their waits. If Redis does not answer a worker, nobody knows whether
 * it was counted. Then the run is over, and it ends for all.
 *
 *     cc start_together.c $(pkg-config --cflags --libs relock) -o start_together
 *     ./start_together [URL [WORKERS]]      default: redis://127.0.0.1:6379, 3
 */
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void prepare(int worker)
{
    usleep((useconds_t)worker * 100000); /* reads its part of the data, for example */
    printf("worker %d is ready\n", worker);
    fflush(stdout);
}

/* One worker, in a process of its own. */
static int work(const struct relock_options *options, const char *name, int worker)
{
    struct relock_client *client = NULL;
    struct relock_latch *latch = NULL;
    int r;

    r = relock_client_new(options, &client);
    if (r == RELOCK_OK)
        r = relock_latch_new(client, name, &latch);
    if (r == RELOCK_OK) {
        prepare(worker);
        r = relock_latch_count_down(latch);
        if (r == RELOCK_OK)
            r = relock_latch_wait(latch, 10000, NULL);
    }
    if (r == RELOCK_OK)
        printf("worker %d starts\n", worker);
    else
        fprintf(stderr, "worker %d: %s\n", worker, relock_strerror(r));
    relock_latch_free(latch);
    relock_client_free(client);
    return r == RELOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int close_latch(const struct relock_options *options, const char *name, int n_workers)
{
    struct relock_client *client = NULL;
    struct relock_latch *latch = NULL;
    bool is_set = false;
    int r;

    r = relock_client_new(options, &client);
    if (r == RELOCK_OK)
        r = relock_latch_new(client, name, &latch);
    if (r == RELOCK_OK)
        r = relock_latch_try_set(latch, (uint64_t)n_workers, &is_set);
    if (r != RELOCK_OK || !is_set)
        fprintf(stderr, "%s: %s\n", name, r == RELOCK_OK ? "exists" : relock_strerror(r));
    relock_latch_free(latch);
    relock_client_free(client);
    return r == RELOCK_OK && is_set;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    int n_workers = argc > 2 ? atoi(argv[2]) : 3;
    int n_failed = 0, status;
    char name[64];

    snprintf(name, sizeof(name), "start:run-%d", (int)getpid());
    if (!close_latch(&options, name, n_workers))
        return EXIT_FAILURE;
    for (int worker = 1; worker <= n_workers; worker++)
        if (fork() == 0) /* no client exists here: each worker makes its own */
            return work(&options, name, worker);
    while (wait(&status) > 0)
        n_failed += status != 0;
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
