/*
 * long_job - hold a lock for longer than its lease, and see what a lost lock looks like
 *
 * The lease is 3 s and the job takes 4 s: the watchdog renews the lock while this process lives.
 * Before each step the job checks that the lock is certain for as long as the step takes. This does
 * not ask Redis. In a second run an operator forces the lock open, and the job stops at its next
 * step.
 *
 *     cc long_job.c $(pkg-config --cflags --libs relock) -pthread -o long_job
 *     ./long_job [URL]                                      default: redis://127.0.0.1:6379
 */
#include <pthread.h>
#include <relock.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOCK_NAME "nightly-report"
#define LEASE_MS 3000
#define STEP_MS 200
#define N_STEPS 20

struct job {
    struct relock_lock *lock;
    atomic_int lost; /* RELOCK_LOST_*; 0 while the lock is held */
    int n_steps;
    int result;
};

static void must(int r, const char *what)
{
    if (r == RELOCK_OK)
        return;
    fprintf(stderr, "long_job: %s: %s\n", what, relock_strerror(r));
    exit(EXIT_FAILURE);
}

/* Runs on a thread of the library. It only notes the reason; the job checks the lock itself. */
static void on_lost(const struct relock_lost *what, void *arg)
{
    struct job *job = arg;

    atomic_store(&job->lost, what->reason);
}

static void *run_job(void *arg)
{
    struct job *job = arg;
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER, .on_lost = on_lost, .arg = job};

    must(relock_acquire(job->lock, &how, NULL), "acquire the lock");

    while (job->n_steps < N_STEPS) {
        /*
         * The lock must last for the whole step. If renewals fail, its certain time runs down, and
         * the job stops here before another owner can acquire the lock.
         */
        if (relock_valid_ms(job->lock) < STEP_MS)
            break;
        usleep(STEP_MS * 1000);
        job->n_steps++;
    }

    /* When this returns, on_lost has returned or will never be called, so `job` may be freed. */
    job->result = relock_unlock(job->lock);
    return NULL;
}

static void print_result(struct job *job)
{
    static const char *const reasons[] = {
        [RELOCK_LOST_EXPIRED] = "the lease expired",
        [RELOCK_LOST_GONE] = "the key was deleted",
        [RELOCK_LOST_TAKEN] = "another owner holds the lock",
        [RELOCK_LOST_CAPPED] = "max_hold_ms was reached",
        [RELOCK_LOST_REPLICAS] = "too few replicas acknowledged the renewals",
    };
    int lost = atomic_load(&job->lost);

    printf("    %d of %d steps done\n", job->n_steps, N_STEPS);
    if (lost != 0)
        printf("    on_lost: %s\n", reasons[lost]);
    printf("    unlock: %s\n", relock_strerror(job->result));
}

/* An operator who wrongly believes that the holder is dead. */
static void force_unlock_from_elsewhere(const struct relock_options *options)
{
    struct relock_client *client;
    struct relock_lock *lock;

    must(relock_client_new(options, &client), "connect the operator");
    must(relock_lock_new(client, LOCK_NAME, &lock), "make the operator's lock");
    must(relock_force_unlock(lock), "force the lock open");
    relock_lock_free(lock);
    relock_client_free(client);
}

int main(int argc, char **argv)
{
    struct relock_options options = {
        .url = argc > 1 ? argv[1] : NULL,
        .watchdog_timeout_ms = LEASE_MS,
    };
    struct relock_client *client;
    struct relock_lock *lock;
    pthread_t thread;

    must(relock_client_new(&options, &client), "connect");
    must(relock_lock_new(client, LOCK_NAME, &lock), "make the lock");

    printf("a job of %d ms with a lease of %d ms:\n", N_STEPS * STEP_MS, LEASE_MS);
    struct job calm = {.lock = lock};
    run_job(&calm);
    print_result(&calm);

    printf("the same job; after a second an operator forces the lock open:\n");
    struct job robbed = {.lock = lock};
    if (pthread_create(&thread, NULL, run_job, &robbed) != 0)
        return EXIT_FAILURE;
    sleep(1);
    force_unlock_from_elsewhere(&options);
    pthread_join(thread, NULL);
    print_result(&robbed);

    relock_lock_free(lock);
    relock_client_free(client);
    return calm.result == RELOCK_OK && robbed.result == RELOCK_LOST ? EXIT_SUCCESS : EXIT_FAILURE;
}
