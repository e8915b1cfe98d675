/*
 * once_per_fleet - a cron job that runs on one machine of many
 *
 * Every machine starts this program from cron at the same time. One of them runs the job; the
 * others end at once, and so does a machine whose clock is some minutes late: the lock is not
 * released when the job is done but stays until its lease ends, a little less than the period.
 *
 * So the job runs at most once per period. If its machine dies half-way, nobody tries again before
 * the next period; idempotent.c shows a job that is tried until it is done.
 *
 *     cc once_per_fleet.c $(pkg-config --cflags --libs relock) -o once_per_fleet
 *     ./once_per_fleet [URL [PERIOD_S]]     default: redis://127.0.0.1:6379, 3600
 *
 * Exit status: 0 done here; 1 failed; 75 (EX_TEMPFAIL) another machine has this period.
 */
#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <sysexits.h>
#include <unistd.h>

static int run_job(void)
{
    printf("%d sends the hourly report\n", (int)getpid());
    return EXIT_SUCCESS;
}

/*
 * The lease is nine tenths of the period: long enough for clocks that differ, and over when the
 * next period begins. The owner is not this thread but a number of its own, so the end of the
 * thread does not release the lock either.
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
        return run_job(); /* without relock_client_free, which would release the lock */

    if (r != RELOCK_BUSY)
        fprintf(stderr, "cron:hourly-report: %s\n", relock_strerror(r));
    relock_lock_free(lock);
    relock_client_free(client);
    return r == RELOCK_BUSY ? EX_TEMPFAIL : EXIT_FAILURE;
}
