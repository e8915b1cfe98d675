/*
 * lost - a job stops as soon as its lock is lost, even while it waits
 *
 * A job holds a lock and waits for a second one. Then another client forces the first lock open.
 * Redis reports that to the library, which fires `cancel_on_lost`: the wait of the job ends, and
 * from then on relock_valid_ms() returns 0. The lease is 30 s, so the next renewal, which would
 * have found the lock gone too, is seconds away.
 *
 *     cc lost.c $(pkg-config --cflags --libs relock) -pthread -o lost
 *     ./lost [URL]                                          default: redis://127.0.0.1:6379
 */
#include <pthread.h>
#include <relock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define STEP_MS 100
#define N_STEPS 5

struct job {
    struct relock_lock *report;  /* held by the job */
    struct relock_lock *printer; /* held by another owner; the job waits for it in the end */
    struct relock_cancel *stop;
    double woken_s;
    uint64_t valid_ms; /* how long the lock was certain after that */
    int wait_result, unlock_result;
};

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "lost: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

static double now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void *run_job(void *arg)
{
    struct job *job = arg;
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel_on_lost = job->stop};
    const struct relock_how wait = {.wait_ms = RELOCK_FOREVER, .cancel = job->stop};

    must(relock_acquire(job->report, &how, NULL), "acquire the lock");
    for (int step = 0; step < N_STEPS && relock_valid_ms(job->report) >= STEP_MS; step++)
        usleep(STEP_MS * 1000);

    /* This would last for as long as the printer is in use. */
    job->wait_result = relock_acquire(job->printer, &wait, NULL);
    job->woken_s = now_s();
    if (job->wait_result == RELOCK_OK)
        must(relock_unlock(job->printer), "release the printer");
    job->valid_ms = relock_valid_ms(job->report);
    job->unlock_result = relock_unlock(job->report);
    return NULL;
}

static struct relock_client *client_of(const char *url)
{
    struct relock_options options = {.url = url, .log_level = RELOCK_LOG_ERROR};
    struct relock_client *client;

    must(relock_client_new(&options, &client), "client");
    return client;
}

static struct relock_lock *lock_of(struct relock_client *client, const char *name)
{
    struct relock_lock *lock;

    must(relock_lock_new(client, name, &lock), name);
    return lock;
}

/* Until a call of the client waits for a lock. */
static void await_waiter(struct relock_client *client)
{
    struct relock_stats stats;

    do {
        usleep(10000);
        must(relock_client_stats(client, &stats, sizeof(stats)), "stats");
    } while (stats.waiters == 0);
}

static bool print_result(struct job *job, double deleted_s)
{
    printf("wait for the printer: %s, %.1f ms after the lock was forced open\n",
           relock_strerror(job->wait_result), (job->woken_s - deleted_s) * 1000);
    printf("relock_valid_ms:      %llu\n", (unsigned long long)job->valid_ms);
    printf("unlock:               %s\n", relock_strerror(job->unlock_result));
    return job->wait_result == RELOCK_CANCELLED && job->unlock_result == RELOCK_LOST &&
           job->valid_ms == 0;
}

int main(int argc, char **argv)
{
    const char *url = argc > 1 ? argv[1] : NULL;
    struct relock_client *client = client_of(url), *other = client_of(url);
    struct relock_lock *report = lock_of(other, "report"), *printer = lock_of(other, "printer");
    struct job job = {.report = lock_of(client, "report"), .printer = lock_of(client, "printer")};
    pthread_t thread;
    double deleted_s;
    bool as_expected;

    must(relock_cancel_new(&job.stop), "cancel");
    must(relock_lock(printer), "use the printer");
    if (pthread_create(&thread, NULL, run_job, &job) != 0)
        return EXIT_FAILURE;
    await_waiter(client); /* by then, Redis guards the lock, which is 100 ms old */
    deleted_s = now_s();
    must(relock_force_unlock(report), "force the lock open");
    pthread_join(thread, NULL);
    as_expected = print_result(&job, deleted_s);

    must(relock_unlock(printer), "release the printer");
    relock_lock_free(job.report);
    relock_lock_free(job.printer);
    relock_lock_free(report);
    relock_lock_free(printer);
    relock_client_free(client); /* before the cancel, which a hold of it may use */
    relock_client_free(other);
    relock_cancel_free(job.stop);
    return as_expected ? EXIT_SUCCESS : EXIT_FAILURE;
}
