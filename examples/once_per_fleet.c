/*
 * once_per_fleet - a cron job that runs on one machine of many
 *
 * Cron starts this program on every machine at the same time. One machine runs the job, and the
 * others exit at once. The program does not release the lock after the job: the lock expires with
 * its lease, shortly before the next period. So a machine whose clock is some minutes late finds
 * the lock held and exits as well.
 *
 * The job runs at most once per period. If its machine dies, no other machine retries before the
 * next period. For a job that is retried until it is done, see idempotent.c.
 *
 *     cc once_per_fleet.c $(pkg-config --cflags --libs relock) -o once_per_fleet
 *     ./once_per_fleet [URL [PERIOD_S]]     default: redis://127.0.0.1:6379, 3600
 *
 * Exit status: 0: this machine ran the job. 75 (EX_TEMPFAIL): another one did. 1: error.
 */
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

static int run_job(void)
{
    printf("process %d sends the hourly report\n", (int)getpid());
    return EXIT_SUCCESS;
}

/*
 * The lease is nine tenths of the period: long enough for clocks that differ, and expired when the
 * next period begins. The owner is a number of its own instead of this thread, because the library
 * releases what a thread owns when the thread ends.
 */
static int claim_period(struct relock_lock *lock, uint64_t period_s)
{
    const struct relock_how how = {.lease_ms = period_s * 900, .owner = relock_owner_new()};

    return relock_acquire(lock, &how, NULL);
}

int main(int argc, char **argv)
{
    struct relock_options options = {.url = argc > 1 ? argv[1] : NULL};
    uint64_t period_s = argc > 2 ? strtoull(argv[2], NULL, 10) : 3600;
    struct relock_client *client = NULL;
    struct relock_lock *lock = NULL;
    int r;

    r = relock_client_new(&options, &client);
    if (r == RELOCK_OK)
        r = relock_lock_new(client, "cron:hourly-report", &lock);
    if (r == RELOCK_OK)
        r = claim_period(lock, period_s);
    if (r == RELOCK_OK)
        return run_job(); /* without relock_client_free(), which would release the lock */

    if (r != RELOCK_BUSY)
        fprintf(stderr, "cron:hourly-report: %s\n", relock_strerror(r));
    relock_lock_free(lock);
    relock_client_free(client);
    return r == RELOCK_BUSY ? EX_TEMPFAIL : EXIT_FAILURE;
}
