/*
 * relock-bench - the cost of the library, compared with hiredis alone on the same server
 *
 *     relock-bench URL [--rows NAME,NAME] [--rounds N] [--seconds S] [--json] [--plot FILE.svg]
 *                  [--cluster] [--processes A,B] [--threads A,B] [--holds A,B] [--servers N]
 *                  [--grid] [--min-rounds N] [--against PROGRAM]
 *
 * URL is redis://host[:port] or unix://path; the server is written to, and best has nothing else to
 * do. Ends with success if it ran and all counts were right, whatever the times were: ratios mean
 * something on a quiet machine only.
 */
#include "arena.h"
#include "machine.h"
#include "plot.h"
#include "rows.h"
#include "support/cluster.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_ROUNDS 10
#define DEFAULT_SECONDS 0.5
#define SECONDS_MAX 3600.0

/* Long, compared with one turn of one side. */
#define LONG_FACTOR 20
#define LONG_ROUNDS_OF 5

/* Checks that all rows run. */
#define QUICK_ROUNDS 2
#define QUICK_SECONDS 0.02
#define QUICK_SHRINK 50

#define NODE_TIMEOUT_MS 60000 /* no node takes another one for dead */

#define USAGE                                                                                  \
    "usage: relock-bench URL [--rows NAME,NAME] [--rounds N] [--seconds S] [--quick]\n"        \
    "                        [--json] [--plot FILE.svg]\n"                                     \
    "                        [--cluster]\n"                                                    \
    "                        [--processes A,B] [--threads A,B] [--holds A,B] [--servers N]\n"  \
    "                        [--grid] [--min-rounds N] [--against PROGRAM]\n"                  \
    "       relock-bench --list\n"                                                             \
    "\n"                                                                                       \
    "  URL            redis://host[:port] or unix://path\n"                                    \
    "  --rows A,B     these rows instead of all\n"                                             \
    "  --list         the names of the rows\n"                                                 \
    "  --rounds N     each side of each row runs N times, in turns [10]; rows that take\n"     \
    "                 long, a fifth as often\n"                                                \
    "  --seconds S    for so long each time [0.5]; where time has to pass, 20 x as long\n"     \
    "  --quick        all is small and short: figures that mean nothing\n"                     \
    "  --json         JSON on the standard output, the table on the standard error\n"          \
    "  --plot FILE    latency and throughput over threads, from the row own_locks\n"           \
    "  --cluster      the rows contention, cached and recall are measured in a cluster of\n"   \
    "                 three masters of its own, contention at a server of its own as well;\n"  \
    "                 the other rows ignore this\n"                                            \
    "\n"                                                                                       \
    "  The row contention, to which alone these apply, measures each combination of:\n"        \
    "  --processes A,B    processes, up to 1000 [2,8,200]\n"                                   \
    "  --threads A,B      threads of each process, up to 64 [1]\n"                             \
    "  --holds A,B        milliseconds for which the lock is held, up to 1000 [0.2,20]\n"      \
    "  --servers N        a red lock on N servers of its own, 3 to 9\n"                        \
    "  --grid             by default 2,3,5,8,32,100,200; 1,2,8; 0,0.2,5,20,200 instead\n"      \
    "                     of these, or of 2,8,32,100,200; 1; 0.2,5,20 in a cluster; the row\n" \
    "                     renewals also measures 1,000,000 locks, and memory as many\n"        \
    "  --min-rounds N     a cell lasts until the lock has gone round N times [10], or for\n"   \
    "                     60 x S; if it had fewer rounds, it is left out\n"                    \
    "  --against PROGRAM  another relock-bench, of these rows and another library, measures\n" \
    "                     the same, in turns\n"                                                \
    "  --cell P,T,MS,MIN,MAX,ROUNDS[,N]  measures one cell for MIN to MAX seconds; prints\n"   \
    "                     bare figures\n"

static const struct row {
    const char *name;
    row_fn *run;
    const char *what;
} rows[] = {
    {"uncontended", row_uncontended, "lock+unlock, 1 thread, against two bare EVALSHA"},
    {"tls", row_tls, "the same over TLS, against bare OpenSSL"},
    {"spin", row_spin, "the same with RELOCK_NO_SPIN, over each kind of connection, busy or not"},
    {"own_locks", row_own_locks, "1 to 256 threads with a lock each, against bare connections"},
    {"deferred", row_deferred,
     "releases that do not wait for their reply, against bare connections"},
    {"one_lock", row_one_lock, "8 threads on one lock, against 1, and against a fair mutex"},
    {"passing", row_passing, "released in one process, acquired in another"},
    {"cached", row_cached, "locks that are kept: 1 and 64 threads, against Redis each time"},
    {"recall", row_recall, "a lock that is kept, acquired by another client"},
    {"lost", row_lost, "a held lock is deleted: how soon on_lost is called"},
    {"armed", row_armed, "locks that client tracking guards: commands and memory"},
    {"plain", row_plain, "a plain lock that another library releases, acquired by a waiter"},
    {"deadlock", row_deadlock, "2 to 4 processes wait for each other: how soon one is refused"},
    {"commands", row_commands, "commands for a pair, a level, an acquisition in a crowd"},
    {"waiting", row_waiting, "commands while 1, 100 or 1000 threads wait for a held lock"},
    {"async", row_async, "1000 asynchronous calls, against 1000 threads"},
    {"clients", row_clients, "1000 clients wait for one lock, which is released once"},
    {"fairness", row_fairness, "two processes x 8 threads on one lock"},
    {"contention", row_contention, "2 to 200 processes on one lock: shares, waits, commands"},
    {"holds", row_holds, "10,000 held locks: renewals, processor time, memory"},
    {"renewals", row_renewals, "1000 and 100,000 held locks: what renewals cost the server"},
    {"memory", row_memory, "100,000 locks: memory of a handle, a held lock and a wait"},
    {"handles", row_handles, "100,000 lock handles: time and memory of each"},
    {"names", row_names, "10,000 names that are waited for: time of each"},
    {"red", row_red, "a lock on five servers against one, and with two of them hanging"},
    {"cluster", row_cluster, "locks spread over 1, 2 and 3 masters of a cluster"},
    {"subscriptions", row_subscriptions, "10,000 names that are waited for, or kept, in a cluster"},
    {"ceiling", row_ceiling, "redis-benchmark with the same script"},
};

#define N_ROWS (sizeof(rows) / sizeof(rows[0]))

struct job {
    struct plan plan;
    bool selected[N_ROWS];
    bool in_cluster, json;
    const char *plot;
    const char *cell; /* instead of rows */
};

static _Noreturn void refuse(void)
{
    fputs(USAGE, stderr);
    exit(2);
}

static double number_of(const char *text, double min, double max)
{
    char *end;
    double number = strtod(text, &end);

    if (end == text || *end || !(number >= min && number <= max))
        refuse();
    return number;
}

static void list_rows(void)
{
    for (size_t i = 0; i < N_ROWS; i++)
        printf("%-13s %s\n", rows[i].name, rows[i].what);
    exit(EXIT_SUCCESS);
}

static bool *find_row(struct job *job, const char *name)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (strcmp(rows[i].name, name) == 0)
            return &job->selected[i];
    fprintf(stderr, "relock-bench: there is no row %s\n", name);
    refuse();
}

static void select_rows(struct job *job, char *names)
{
    for (char *name = strtok_r(names, ",", &names); name; name = strtok_r(NULL, ",", &names))
        *find_row(job, name) = true;
}

static void read_numbers(struct numbers *numbers, char *list, double min, double max)
{
    numbers->n = 0;
    for (char *text = strtok_r(list, ",", &list); text; text = strtok_r(NULL, ",", &list)) {
        if (numbers->n == NUMBERS_MAX)
            refuse();
        numbers->at[numbers->n++] = number_of(text, min, max);
    }
}

static void be_quick(struct plan *plan)
{
    plan->rounds = QUICK_ROUNDS;
    plan->seconds = QUICK_SECONDS;
    plan->shrink = QUICK_SHRINK;
}

static void read_grid_option(struct job *job, int option)
{
    struct grid *grid = &job->plan.grid;

    switch (option) {
    case 'P':
        read_numbers(&grid->processes, optarg, 1, CELL_PROCESSES_MAX);
        break;
    case 'T':
        read_numbers(&grid->threads, optarg, 1, CELL_THREADS_MAX);
        break;
    case 'H':
        read_numbers(&grid->holds_ms, optarg, 0, CELL_HOLD_MAX_MS);
        break;
    case 'S':
        grid->n_servers = (unsigned)number_of(optarg, CELL_SERVERS_MIN, CELL_SERVERS_MAX);
        break;
    case 'm':
        grid->min_rounds = (unsigned)number_of(optarg, 1, CELL_ROUNDS_MAX);
        break;
    case 'g':
        grid->whole = true;
        break;
    case 'a':
        grid->against = optarg;
        break;
    case 'c':
        job->cell = optarg;
        break;
    default:
        refuse();
    }
}

static void read_option(struct job *job, int option)
{
    switch (option) {
    case 'o':
        select_rows(job, optarg);
        break;
    case 'l':
        list_rows();
        break;
    case 'r':
        job->plan.rounds = (unsigned)number_of(optarg, 1, ROUNDS_MAX);
        break;
    case 's':
        job->plan.seconds = number_of(optarg, 0.01, SECONDS_MAX);
        break;
    case 'q':
        be_quick(&job->plan);
        break;
    case 'C':
        job->in_cluster = true;
        break;
    case 'j':
        job->json = true;
        break;
    case 'p':
        job->plot = optarg;
        break;
    case 'h':
        fputs(USAGE, stdout);
        exit(EXIT_SUCCESS);
    default:
        read_grid_option(job, option);
    }
}

static bool any_selected(const struct job *job)
{
    for (size_t i = 0; i < N_ROWS; i++)
        if (job->selected[i])
            return true;
    return false;
}

static const struct option options[] = {
    {"rows", required_argument, NULL, 'o'},    {"list", no_argument, NULL, 'l'},
    {"rounds", required_argument, NULL, 'r'},  {"seconds", required_argument, NULL, 's'},
    {"quick", no_argument, NULL, 'q'},         {"json", no_argument, NULL, 'j'},
    {"plot", required_argument, NULL, 'p'},    {"processes", required_argument, NULL, 'P'},
    {"threads", required_argument, NULL, 'T'}, {"holds", required_argument, NULL, 'H'},
    {"servers", required_argument, NULL, 'S'}, {"grid", no_argument, NULL, 'g'},
    {"against", required_argument, NULL, 'a'}, {"cell", required_argument, NULL, 'c'},
    {"cluster", no_argument, NULL, 'C'},       {"min-rounds", required_argument, NULL, 'm'},
    {"help", no_argument, NULL, 'h'},          {0},
};

static void read_args(int argc, char **argv, struct job *job)
{
    struct plan *plan = &job->plan;
    int option;

    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1)
        read_option(job, option);
    if (argc - optind != 1 || (job->in_cluster && plan->grid.n_servers > 0))
        refuse();
    if (!any_selected(job))
        for (size_t i = 0; i < N_ROWS; i++)
            job->selected[i] = true;
    if (job->plot && !*find_row(job, PLOT_ROW)) {
        fputs("relock-bench: there is nothing to plot without the row " PLOT_ROW "\n", stderr);
        refuse();
    }

    plan->url = argv[optind];
    plan->long_rounds = (plan->rounds + LONG_ROUNDS_OF - 1) / LONG_ROUNDS_OF;
    plan->long_seconds = LONG_FACTOR * plan->seconds;
}

static void run_cell(const struct job *job)
{
    double figures[CELL_FIGURES];
    struct cell cell;

    if (!cell_parse(&cell, job->cell))
        refuse();
    arena_run(&cell, job->plan.url, figures);
    cell_print(figures);
}

static struct cluster *start_cluster(void)
{
    struct cluster *cluster =
        cluster_start(&(struct cluster_options){.masters = 3, .node_timeout_ms = NODE_TIMEOUT_MS});

    if (!cluster)
        die("there is no redis-server and no valkey-server");
    return cluster;
}

static void run_rows(struct job *job)
{
    static struct report report;
    struct machine machine;

    report.table = job->json ? stderr : stdout;
    machine_look(&machine, job->plan.url);
    report_machine_text(&machine, report.table);
    fprintf(report.table, "%s, %u rounds of %g s for each side, in turns\n", job->plan.url,
            job->plan.rounds, job->plan.seconds);
    if (job->in_cluster)
        job->plan.cluster = start_cluster();
    for (size_t i = 0; i < N_ROWS; i++) {
        if (job->selected[i])
            rows[i].run(&job->plan, &report);
        report_show(&report);
    }
    job->plan.cluster = cluster_stop(job->plan.cluster);
    if (job->json)
        report_json(&report, &machine, stdout);
    if (job->plot)
        plot_threads(&report, &machine, job->plot);
}

int main(int argc, char **argv)
{
    struct job job = {
        .plan = {.rounds = DEFAULT_ROUNDS, .seconds = DEFAULT_SECONDS, .shrink = 1},
    };

    read_args(argc, argv, &job);
    if (job.cell)
        run_cell(&job);
    else
        run_rows(&job);
    return EXIT_SUCCESS;
}
