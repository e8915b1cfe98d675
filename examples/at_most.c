/*
 * at_most - at most N jobs at a time, on all machines together
 *
 * Each job acquires a permit of a semaphore, and waits while all N are out. Here the jobs are
 * processes of this machine; they may also run on several, or be Java programs that use Redisson's
 * RPermitExpirableSemaphore. The library renews the permits, so those of a process that dies come
 * back when their lease ends.
 *
 *     cc at_most.c $(pkg-config --cflags --libs relock) -o at_most
 *     ./at_most [URL [JOBS]]      default: redis://127.0.0.1:6379, 6
 */
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define AT_MOST 3
#define JOB_MS 200

static void convert(int job)
{
    printf("job %d begins\n", job);
    fflush(stdout);
    usleep(JOB_MS * 1000); /* converts a film, for example */
    printf("job %d ends\n", job);
    fflush(stdout);
}

/* The first process sets the number. Returns RELOCK_E_INVALID if it is another one. */
static int agree_on_number(struct relock_lock *semaphore)
{
    struct relock_permits permits = {0};
    int r = relock_semaphore_init(semaphore, AT_MOST, NULL);

    if (r == RELOCK_OK)
        r = relock_semaphore_read(semaphore, &permits);
    if (r == RELOCK_OK && permits.n_free + (int64_t)permits.n_out != AT_MOST)
        r = RELOCK_E_INVALID;
    return r;
}

static int run_job(struct relock_lock *semaphore, int job)
{
    int r = agree_on_number(semaphore);

    if (r == RELOCK_OK)
        r = relock_timedlock(semaphore, 60000);
    if (r == RELOCK_OK) {
        convert(job);
        r = relock_unlock(semaphore); /* RELOCK_LOST: one job too many may have run */
    }
    return r;
}

/* One job, in a process of its own. */
static int work(const struct relock_options *options, int job)
{
    struct relock_client *client = NULL;
    struct relock_lock *semaphore = NULL;
    int r;

    r = relock_client_new(options, &client);
    if (r == RELOCK_OK)
        r = relock_semaphore_new(client, "convert", &semaphore);
    if (r == RELOCK_OK)
        r = run_job(semaphore, job);
    if (r != RELOCK_OK)
        fprintf(stderr, "job %d: %s\n", job, relock_strerror(r));
    relock_lock_free(semaphore);
    relock_client_free(client);
    return r == RELOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    int n_jobs = argc > 2 ? atoi(argv[2]) : 6;
    int n_failed = 0, status;

    for (int job = 1; job <= n_jobs; job++)
        if (fork() == 0) /* no client exists here: each job makes its own */
            return work(&options, job);
    while (wait(&status) > 0)
        n_failed += status != 0;
    return n_failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
