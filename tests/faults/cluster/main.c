/*
 * Several processes lock a thousand names of all kinds in a cluster, while its slots move, masters
 * die, stand still and hand over, and nodes are added and removed. Then the holds are checked:
 * support/held.h.
 *
 *     relock-cluster [--rounds N] [--seed N] [--processes P] [--threads T] [--gentle]
 *
 * In each round each upheaval happens once, in an order that is drawn from the seed. Half of the
 * processes lock with `min_replicas` 1. Their holds must survive each failover, because each master
 * has one replica, which takes over. Ends with 77 if there is no server, and with 1 if the holds
 * are impossible, a process has failed, or keys are left.
 *
 * A master that dies may take with it what it has answered, so a failover may also bring back a
 * place that a waiter has left in the queue of a fair lock. It goes like that of a dead waiter,
 * when the lock is acquired after its patience. With --gentle each master stops writing before it
 * fails. Then no two holders are excused, and nothing may be left in the first place.
 */
#include "locker.h"
#include "support/cluster.h"
#include "support/held.h"
#include "support/wait.h"
#include "upheaval.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MAX_PROCESSES 16
#define MAX_FAILOVERS 1000
#define N_KINDS (sizeof(kind_names) / sizeof(kind_names[0]))

/* For the end of a client: nothing may be pending in a cluster that is whole again. */
#define LONGEST_END_MS 5000

/* Without one hold of any process. */
#define LONGEST_GAP_MS 15000

static const char *const kind_names[] = {
#define KIND(name, make) #name,
    LOCKER_KIND_MAP(KIND)
#undef KIND
        "read",
    "multi"};

struct run {
    int n_rounds, n_processes, n_threads;
    bool is_gentle;
    unsigned seed;
    struct cluster *cluster;
    char dir[64];
    struct process {
        struct locker locker;
        struct child *child;
        char path[80], log[80];
    } processes[MAX_PROCESSES];
    struct held_failover failovers[MAX_FAILOVERS];
    size_t n_failovers;
    bool sweep_failed;
    size_t n_wrong;
};

static void wrong(struct run *run, const char *what)
{
    printf("WRONG: %s\n", what);
    run->n_wrong++;
}

/* ---- processes ----------------------------------------------------------------------------- */

static void start(struct run *run, int i)
{
    struct process *process = &run->processes[i];
    bool has_tls = run->cluster->tls_url[0] != '\0';

    snprintf(process->path, sizeof(process->path), "%s/held.%d", run->dir, i);
    snprintf(process->log, sizeof(process->log), "%s/log.%d", run->dir, i);
    process->locker = (struct locker){
        .url = has_tls ? run->cluster->tls_url : run->cluster->url,
        .ca_file = has_tls ? run->cluster->ca_file : NULL,
        .path = process->path,
        .log = process->log,
        .number = i,
        .n_threads = run->n_threads,
        .min_replicas = (unsigned)i % 2,
    };
    process->child = child_start(locker_run, &process->locker);
}

/* First all end their work, and only then all their clients. */
static void stop_all(struct run *run)
{
    int64_t number;

    for (int i = 0; i < run->n_processes; i++)
        child_send(run->processes[i].child, 0);
    for (int i = 0; i < run->n_processes; i++)
        if (!child_receive_within(run->processes[i].child, &number, CLUSTER_FAILOVER_MS))
            wrong(run, "a process does not end its work");
}

static void end_all(struct run *run)
{
    for (int i = 0; i < run->n_processes; i++)
        child_send(run->processes[i].child, LOCKER_END);
    for (int i = 0; i < run->n_processes; i++) {
        int64_t took_ms = -1;
        int status;

        (void)child_receive_within(run->processes[i].child, &took_ms, 3 * SOON_MS);
        status = child_wait(run->processes[i].child, SOON_MS);
        printf("process %d: its client ended within %lld ms\n", i, (long long)took_ms);
        if (took_ms > (int64_t)slow_ms(LONGEST_END_MS))
            wrong(run, "the end of a client took too long");
        if (status == 0)
            continue;
        printf("process %d ended with %d\n", i, status);
        wrong(run, "a process has failed");
    }
}

/* ---- the play ------------------------------------------------------------------------------ */

static void play(struct run *run, enum upheaval_kind kind)
{
    struct held_failover failover = {.from_ns = held_now_ns()};
    uint64_t began_ms = now_ms();

    if (run->is_gentle)
        upheaval_play_gently(run->cluster, kind, &run->seed);
    else
        upheaval_play(run->cluster, kind, &run->seed);
    failover.to_ns = held_now_ns() + slow_ms(LOCKER_LEASE_MS) * 1000000;
    if (!run->is_gentle && upheaval_loses(kind) && run->n_failovers < MAX_FAILOVERS)
        run->failovers[run->n_failovers++] = failover;
    printf("%s: %llu ms\n", upheaval_text(kind), (unsigned long long)(now_ms() - began_ms));
}

static void play_round(struct run *run)
{
    enum upheaval_kind order[UPHEAVAL_N_KINDS];

    for (int i = 0; i < UPHEAVAL_N_KINDS; i++) {
        int k = rand_r(&run->seed) % (i + 1);

        order[i] = order[k];
        order[k] = (enum upheaval_kind)i;
    }
    for (int i = 0; i < UPHEAVAL_N_KINDS; i++)
        play(run, order[i]);
}

/* ---- the end ------------------------------------------------------------------------------- */

/* Without the counters of fenced locks, which stay. */
static const char *keys_of(const struct cluster *cluster, size_t i)
{
    static const char script[] = "local all = {}\n"
                                 "for _, key in ipairs(redis.call('keys', '*')) do\n"
                                 "    if not key:find('^redisson_lock_token:') then\n"
                                 "        table.insert(all, key)\n"
                                 "    end\n"
                                 "end\n"
                                 "return table.concat(all, ' ')";

    return probe_text(cluster->node[i].probe, "EVAL %s 0", script);
}

/* Acquires locks once more. That removes clients that could not leave a line while its slot was
 * half moved, and the places of fair locks that failovers have brought back. */
static void sweep(struct run *run)
{
    struct child *child = run->processes[0].child;
    int64_t result = -1;

    child_send(child, run->is_gentle ? LOCKER_SWEEP_LINES : LOCKER_SWEEP);
    if (child_receive_within(child, &result, CLUSTER_FAILOVER_MS) && result == 0)
        return;
    wrong(run, "a lock cannot be acquired in the end");
    run->sweep_failed = true;
}

static bool have_no_keys(void *arg)
{
    struct run *run = arg;
    bool none = true;

    for (size_t i = 0; i < run->cluster->n && none; i++)
        none = keys_of(run->cluster, i)[0] == '\0';
    if (!none && !run->sweep_failed)
        sweep(run);
    return none;
}

static void check_keys(struct run *run)
{
    uint64_t within_ms = LOCKER_LEASE_MS + SOON_MS;

    if (wait_until(have_no_keys, run, within_ms))
        return;
    wrong(run, "keys are left");
    for (size_t i = 0; i < run->cluster->n; i++)
        printf("node %zu: %s\n", i, keys_of(run->cluster, i));
}

static int compare_begins(const void *a, const void *b)
{
    const struct held *one = a, *other = b;

    return (one->from_ns > other->from_ns) - (one->from_ns < other->from_ns);
}

/* Sorts by time. */
static void check_gaps(struct run *run, struct helds *helds)
{
    uint64_t longest_ns = 0;

    qsort(helds->at, helds->n, sizeof(*helds->at), compare_begins);
    for (size_t i = 1; i < helds->n; i++)
        if (helds->at[i].from_ns - helds->at[i - 1].from_ns > longest_ns)
            longest_ns = helds->at[i].from_ns - helds->at[i - 1].from_ns;
    printf("longest time without a new hold: %llu ms\n", (unsigned long long)longest_ns / 1000000);
    if (longest_ns / 1000000 > slow_ms(LONGEST_GAP_MS))
        wrong(run, "locking stopped");
}

static void check_holds(struct run *run)
{
    struct helds helds = {0};
    struct held_pairs pairs;
    size_t n_acked = 0;

    for (int i = 0; i < run->n_processes; i++)
        held_read(&helds, run->processes[i].path);
    pairs = held_check(&helds, run->failovers, run->n_failovers, stdout);
    for (size_t i = 0; i < helds.n; i++)
        n_acked += helds.at[i].acked > 0;
    printf("%zu holds, %zu of them acknowledged by a replica; two holders, or tokens that did not "
           "grow: %zu times when a failover lost what no replica had acknowledged, %zu times "
           "otherwise\n",
           helds.n, n_acked, pairs.excused, pairs.impossible);
    if (pairs.impossible > 0)
        wrong(run, "holds are impossible");
    for (size_t i = 0; i < N_KINDS; i++)
        if (held_count(&helds, "", kind_names[i]) == 0)
            wrong(run, kind_names[i]);
    check_gaps(run, &helds);
    held_free(&helds);
}

static void run_all(struct run *run)
{
    for (int i = 0; i < run->n_processes; i++)
        start(run, i);
    for (int i = 0; i < run->n_processes; i++)
        if (!child_await(run->processes[i].child))
            wrong(run, "a process does not connect");
    for (int i = 0; i < run->n_rounds; i++)
        play_round(run);
    stop_all(run);
    check_keys(run);
    end_all(run);
    check_holds(run);
}

static void read_arguments(struct run *run, int argc, char **argv)
{
    static const struct option known[] = {
        {"rounds", required_argument, NULL, 'r'},    {"seed", required_argument, NULL, 's'},
        {"processes", required_argument, NULL, 'p'}, {"threads", required_argument, NULL, 't'},
        {"gentle", no_argument, NULL, 'g'},          {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "", known, NULL)) != -1) {
        if (c == 'r')
            run->n_rounds = atoi(optarg);
        else if (c == 's')
            run->seed = (unsigned)strtoul(optarg, NULL, 10);
        else if (c == 'p')
            run->n_processes = atoi(optarg);
        else if (c == 't')
            run->n_threads = atoi(optarg);
        else if (c == 'g')
            run->is_gentle = true;
        else
            exit(EXIT_FAILURE);
    }
    if (run->n_processes > MAX_PROCESSES)
        exit(EXIT_FAILURE);
}

int main(int argc, char **argv)
{
    struct run run = {
        .n_rounds = 1, .n_processes = 4, .n_threads = 4, .seed = (unsigned)time(NULL)};
    const char *tmp = getenv("TMPDIR");
    char command[128];

    read_arguments(&run, argc, argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("seed %u\n", run.seed);
    run.cluster = cluster_start(NULL);
    if (!run.cluster) {
        printf("there is no server that can run this: skipped\n");
        return SERVER_EXIT_SKIP;
    }
    snprintf(run.dir, sizeof(run.dir), "%.40s/relock-cluster-XXXXXX", tmp ? tmp : "/tmp");
    if (!mkdtemp(run.dir))
        return EXIT_FAILURE;
    run_all(&run);
    cluster_stop(run.cluster);
    if (run.n_wrong > 0) {
        printf("%zu things are wrong; the holds and logs are in %s\n", run.n_wrong, run.dir);
        return EXIT_FAILURE;
    }
    snprintf(command, sizeof(command), "rm -r '%s'", run.dir);
    return system(command) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
