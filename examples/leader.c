/*
 * leader - elect one leader among any number of processes
 *
 * Every process runs this program. One of them leads for as long as it lives and reaches Redis; the
 * others sleep. If the leader dies, the next process leads within the lease, here 3 s. If the
 * leader loses contact with Redis, it stops leading before its lease ends, so two never lead at
 * once.
 *
 *     cc leader.c $(pkg-config --cflags --libs relock) -o leader
 *     ./leader [URL [STEPS]]    default: redis://127.0.0.1:6379, and until SIGTERM or SIGINT
 */
#include <limits.h>
#include <relock.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define LEASE_MS 3000
#define STEP_MS 200 /* the longest that one step of the leader's work takes */

static volatile sig_atomic_t is_stopping;
static long n_left; /* steps until the program ends */

static void on_signal(int number)
{
    (void)number;
    is_stopping = 1;
}

/* The leader's work. A step must not overlap with a step of another leader. */
static void do_step(void)
{
    printf("process %d leads\n", (int)getpid());
    nanosleep(&(struct timespec){.tv_nsec = STEP_MS / 2 * 1000000L}, NULL);
}

/*
 * Before each step the leader checks, without asking Redis, that its hold is certain for as long as
 * the step takes. If it is not, another process may lead soon, so this one stops.
 */
static void lead(struct relock_lock *leadership)
{
    while (n_left > 0 && !is_stopping && relock_valid_ms(leadership) >= STEP_MS) {
        do_step();
        n_left--;
    }
}

/* Waits one second at a time, so that a signal ends the program soon. */
static int become_leader(struct relock_lock *leadership)
{
    int r = RELOCK_TIMEOUT;

    while (r == RELOCK_TIMEOUT && !is_stopping)
        r = relock_timedlock(leadership, 1000);
    return r;
}

/* A process that cannot reach Redis retries, and does not lead meanwhile. */
static void campaign(struct relock_lock *leadership)
{
    while (n_left > 0 && !is_stopping) {
        int r = become_leader(leadership);

        if (r == RELOCK_OK) {
            lead(leadership);
            r = relock_unlock(leadership);
        }
        if (r != RELOCK_OK && r != RELOCK_TIMEOUT) {
            fprintf(stderr, "leader: %s\n", relock_strerror(r));
            sleep(1);
        }
    }
}

int main(int argc, char **argv)
{
    struct relock_options options = {
        .url = argc > 1 ? argv[1] : NULL,
        .watchdog_timeout_ms = LEASE_MS,
        .flags = RELOCK_LAZY,
    };
    struct relock_client *client = NULL;
    struct relock_lock *leadership = NULL;
    int r;

    n_left = argc > 2 ? strtol(argv[2], NULL, 10) : LONG_MAX;
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    r = relock_client_new(&options, &client);
    if (r == RELOCK_OK)
        r = relock_lock_new(client, "leader:reports", &leadership);
    if (r == RELOCK_OK)
        campaign(leadership);
    else
        fprintf(stderr, "leader: %s\n", relock_strerror(r));

    relock_lock_free(leadership);
    relock_client_free(client);
    return r == RELOCK_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
