/*
 * Five processes of the library and three of Redisson want one lock all the time, with a thread
 * each, and neither side may get less than half of its share.
 *
 *     relock-redisson-shares [--seconds S] [--version V] [--cluster] [--report]
 *
 * For each of three lengths of holds they contend for S seconds [8]. Before, they contend as long
 * without being counted: the JVMs compile their code in that time. V is a version of Redisson that
 * build.sh builds [newest]. With --cluster, the lock is in a cluster of three. Prints the shares.
 * Ends with 1 if a side got too little, unless
 * --report is given, and with 77 if there is no server or no Redisson.
 */
#include "place.h"
#include "redisson.h"
#include "support/child.h"
#include "support/server.h"
#include "support/wait.h"

#include <getopt.h>
#include <inttypes.h>
#include <relock.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define N_OURS 5
#define N_THEIRS 3
#define N (N_OURS + N_THEIRS)
#define WATCHDOG_MS 5000
#define BEGIN_MS 500 /* all contend by then */
#define NAME "orders"
#define LEAST_PERCENT 50

static const uint64_t holds_us[] = {200, 5000, 20000};

struct arguments {
    uint64_t seconds;
    const char *version;
    int in_cluster, reports;
};

struct contest {
    struct place place;
    uint64_t round_ms;
    struct child *ours[N_OURS];
    struct player *theirs[N_THEIRS];
};

/* ---- a process of the library -------------------------------------------------------------- */

static void hold_for(uint64_t hold_us)
{
    struct timespec left = {.tv_sec = (time_t)(hold_us / 1000000),
                            .tv_nsec = (long)(hold_us % 1000000) * 1000};

    while (nanosleep(&left, &left) != 0)
        ;
}

/* Acquisitions count if they are made between these times. */
static int64_t contend_once(struct relock_lock *lock, uint64_t hold_us, uint64_t from_ms,
                            uint64_t until_ms)
{
    int64_t n = 0;

    while (now_ms() < until_ms) {
        uint64_t at_ms;

        child_must(relock_lock(lock) == RELOCK_OK);
        at_ms = now_ms();
        hold_for(hold_us);
        child_must(relock_unlock(lock) == RELOCK_OK);
        n += at_ms >= from_ms && at_ms < until_ms;
    }
    return n;
}

/* Round after round. A hold of no length is the end. */
static int contend(struct child *parent, void *arg)
{
    const struct contest *contest = arg;
    struct relock_options options = {.url = contest->place.url,
                                     .watchdog_timeout_ms = WATCHDOG_MS,
                                     .connect_timeout_ms = SOON_MS, /* the JVMs start now */
                                     .command_timeout_ms = WATCHDOG_MS};
    struct relock_client *client;
    struct relock_lock *lock;
    int64_t hold_us, from_ms;

    child_must(relock_client_new(&options, &client) == RELOCK_OK);
    child_must(relock_lock_new(client, NAME, &lock) == RELOCK_OK);
    while (child_receive(parent, &hold_us) && hold_us > 0) {
        child_must(child_receive(parent, &from_ms));
        child_must(child_send(parent, contend_once(lock, (uint64_t)hold_us, (uint64_t)from_ms,
                                                   (uint64_t)from_ms + contest->round_ms)));
    }
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

/* ---- all ----------------------------------------------------------------------------------- */

static void open_contest(struct contest *contest, const char *folder)
{
    const char *url = contest->place.url;

    for (int i = 0; i < N_THEIRS; i++)
        contest->theirs[i] = redisson_start(folder, url, WATCHDOG_MS);
    for (int i = 0; i < N_OURS; i++)
        contest->ours[i] = child_start(contend, contest);
}

/* The number of processes of the library that failed. */
static int close_contest(struct contest *contest)
{
    int n_failed = 0;

    for (int i = 0; i < N_OURS; i++) {
        (void)child_send(contest->ours[i], 0);
        n_failed += child_wait(contest->ours[i], SOON_MS) != EXIT_SUCCESS;
    }
    for (int i = 0; i < N_THEIRS; i++)
        player_end(contest->theirs[i]);
    place_close(&contest->place);
    return n_failed;
}

/* The acquisitions of each process, ours first. A process that did not answer has made none. */
static void run_round(struct contest *contest, uint64_t hold_us, int64_t *counts)
{
    uint64_t from_ms = now_ms() + BEGIN_MS;
    uint64_t until_ms = from_ms + contest->round_ms;
    uint64_t within_ms = contest->round_ms + 3 * SOON_MS;
    unsigned orders[N_THEIRS];

    for (int i = 0; i < N_THEIRS; i++)
        orders[i] = player_begin(contest->theirs[i], "ann",
                                 "contend reentrant " NAME " %" PRIu64 " %" PRIu64 " %" PRIu64,
                                 hold_us, from_ms, until_ms);
    for (int i = 0; i < N_OURS; i++) {
        (void)child_send(contest->ours[i], (int64_t)hold_us);
        (void)child_send(contest->ours[i], (int64_t)from_ms);
    }
    for (int i = 0; i < N_OURS; i++)
        if (!child_receive_within(contest->ours[i], &counts[i], within_ms))
            counts[i] = 0;
    for (int i = 0; i < N_THEIRS; i++) {
        const char *answer = player_answer_within(contest->theirs[i], orders[i], within_ms);
        char *end;

        counts[N_OURS + i] = strtoll(answer, &end, 10);
        if (end == answer)
            printf("Redisson answered \"%s\"\n", answer);
    }
}

/* ---- shares -------------------------------------------------------------------------------- */

static int64_t sum(const int64_t *counts, int n)
{
    int64_t all = 0;

    for (int i = 0; i < n; i++)
        all += counts[i];
    return all;
}

/* The result is in percent of the side's share: each process should get the same. */
static double print_side(const char *name, const int64_t *counts, int n, int64_t all)
{
    int64_t own = sum(counts, n);
    double share = all > 0 ? 100.0 * N * (double)own / (double)n / (double)all : 0;

    printf("    %-9s %3.0f %% of its share:", name, share);
    for (int i = 0; i < n; i++)
        printf(" %" PRId64, counts[i]);
    printf("\n");
    return share;
}

/* The number of sides that got too little. */
static int judge(const struct contest *contest, uint64_t hold_us, const int64_t *counts)
{
    int64_t all = sum(counts, N);
    double ours, theirs;

    printf("holds of %g ms: %.0f acquisitions/s\n", (double)hold_us / 1000,
           (double)all * 1000 / (double)contest->round_ms);
    ours = print_side("relock", counts, N_OURS, all);
    theirs = print_side("Redisson", counts + N_OURS, N_THEIRS, all);
    return (ours < LEAST_PERCENT) + (theirs < LEAST_PERCENT);
}

static void read_arguments(struct arguments *a, int argc, char **argv)
{
    const struct option known[] = {{"seconds", required_argument, NULL, 's'},
                                   {"version", required_argument, NULL, 'v'},
                                   {"cluster", no_argument, &a->in_cluster, true},
                                   {"report", no_argument, &a->reports, true},
                                   {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 's')
            a->seconds = strtoull(optarg, NULL, 10);
        else if (c == 'v')
            a->version = optarg;
        else if (c != 0)
            exit(EXIT_FAILURE);
    }
}

int main(int argc, char **argv)
{
    struct arguments arguments = {.seconds = 8, .version = "newest"};
    struct contest contest = {0};
    int64_t counts[N];
    const char *folder;
    int n_wrong = 0;

    read_arguments(&arguments, argc, argv);
    folder = redisson_find(arguments.version);
    if (!folder || !place_open(&contest.place, arguments.in_cluster)) {
        printf("there is no server, or no Redisson: skipped\n");
        return SERVER_EXIT_SKIP;
    }
    contest.round_ms = arguments.seconds * 1000;
    open_contest(&contest, folder);
    run_round(&contest, holds_us[0], counts);
    for (size_t i = 0; i < sizeof(holds_us) / sizeof(holds_us[0]); i++) {
        run_round(&contest, holds_us[i], counts);
        n_wrong += judge(&contest, holds_us[i], counts);
    }
    n_wrong = (arguments.reports ? 0 : n_wrong) + close_contest(&contest);
    return n_wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
