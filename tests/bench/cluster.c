/*
 * Locks spread over one, two and three masters of a cluster, and what limits their number: one
 * process with 64 threads for each master, and a lock for each thread. The cluster is the row's
 * own.
 *
 * Clients and masters share one machine, whose cores may be the limit. So it is measured again with
 * masters that run for a tenth of the time only, as if each had a slow machine of its own.
 */
#include "bare.h"
#include "crowd.h"
#include "rows.h"
#include "support/cluster_view.h"
#include "usage.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MASTERS_MAX 3
#define THREADS 64 /* for each master */
#define THREADS_MAX (MASTERS_MAX * THREADS)
#define NAMES_MAX 10000 /* to try, until one is on the right master */
#define NODE_TIMEOUT_MS 60000

/* Slow masters run, each at its time, and stand still in between. */
#define RUN_NS 1000000
#define CYCLE_NS 10000000
#define SLOW_PERCENT (100 * RUN_NS / CYCLE_NS)

#define ENOUGH 85 /* per cent: so much use makes something the limit */

enum { PAIRS, CLIENTS, BUSIEST, MACHINE, N_FIGURES };

struct setting {
    struct cluster *cluster;
    struct relock_client *client;
    struct relock_lock *locks[THREADS_MAX]; /* on one master after the other */
    bool is_slow;
    pthread_t brake;
    atomic_bool ends;
};

struct thread {
    struct relock_lock *lock;
};

static void pair(void *arg)
{
    struct thread *thread = arg;

    ours_take(thread->lock);
    ours_give(thread->lock);
}

/* ---- slow masters -------------------------------------------------------------------------- */

static void tell_all(struct setting *s, int signal)
{
    for (size_t i = 0; i < s->cluster->n; i++)
        kill(s->cluster->node[i].server->pid, signal);
}

static void *be_slow(void *arg)
{
    struct setting *s = arg;
    uint64_t at_ns = now_ns();

    tell_all(s, SIGSTOP);
    while (!atomic_load(&s->ends)) {
        for (size_t i = 0; i < s->cluster->n; i++) {
            pid_t pid = s->cluster->node[i].server->pid;

            sleep_until_ns(at_ns + i * CYCLE_NS / s->cluster->n);
            kill(pid, SIGCONT);
            sleep_ns(RUN_NS);
            kill(pid, SIGSTOP);
        }
        at_ns += CYCLE_NS;
    }
    tell_all(s, SIGCONT);
    return NULL;
}

static void begin_brake(struct setting *s)
{
    atomic_store(&s->ends, false);
    if (s->is_slow && pthread_create(&s->brake, NULL, be_slow, s) != 0)
        die("no thread");
}

static void end_brake(struct setting *s)
{
    atomic_store(&s->ends, true);
    if (s->is_slow)
        pthread_join(s->brake, NULL);
}

/* ---- measuring ----------------------------------------------------------------------------- */

struct cpu {
    uint64_t at_ns, clients_ns, masters_ns[MASTERS_MAX], machine_ns;
};

static struct cpu look(const struct setting *s)
{
    struct cpu cpu = {.at_ns = now_ns(),
                      .clients_ns = usage_process_cpu_ns(getpid()),
                      .machine_ns = usage_machine_cpu_ns()};

    for (int i = 0; i < MASTERS_MAX; i++)
        cpu.masters_ns[i] = usage_process_cpu_ns(s->cluster->node[i].server->pid);
    return cpu;
}

static double share(uint64_t before_ns, uint64_t after_ns, double took_ns)
{
    return 100 * (double)(after_ns - before_ns) / took_ns;
}

static void add_usage(struct line *lines, const struct cpu *before, const struct cpu *after)
{
    double took_ns = (double)(after->at_ns - before->at_ns), busiest = 0;
    double n_cores = (double)sysconf(_SC_NPROCESSORS_ONLN);

    for (int i = 0; i < MASTERS_MAX; i++) {
        double busy = share(before->masters_ns[i], after->masters_ns[i], took_ns);

        busiest = busy > busiest ? busy : busiest;
    }
    series_add(&lines[CLIENTS].series, share(before->clients_ns, after->clients_ns, took_ns));
    series_add(&lines[BUSIEST].series, busiest);
    series_add(&lines[MACHINE].series,
               share(before->machine_ns, after->machine_ns, took_ns * n_cores));
}

static void run(struct setting *s, unsigned n_masters, struct line *lines, double seconds)
{
    struct thread threads[THREADS_MAX];
    struct crowd_count count;
    struct cpu before, after;

    for (unsigned i = 0; i < THREADS_MAX; i++)
        threads[i].lock = s->locks[i];
    begin_brake(s);
    before = look(s);
    count = crowd_run(n_masters * THREADS, pair, threads, sizeof(threads[0]), seconds);
    after = look(s);
    end_brake(s);
    if (!lines)
        return;
    series_add(&lines[PAIRS].series, count.per_second);
    add_usage(lines, &before, &after);
}

/* ---- the result ---------------------------------------------------------------------------- */

static void add_lines(struct result *result)
{
    static const struct {
        const char *id[N_FIGURES], *what;
    } sides[MASTERS_MAX] = {
        {{"pairs_1", "clients_1", "busiest_1", "machine_1"}, "1 master"},
        {{"pairs_2", "clients_2", "busiest_2", "machine_2"}, "2 masters"},
        {{"pairs_3", "clients_3", "busiest_3", "machine_3"}, "3 masters"},
    };
    static const char *const units[N_FIGURES] = {"pairs/s", "the clients, % of a core",
                                                 "the busiest master, % of a core",
                                                 "all programs, % of all cores"};

    for (int i = 0; i < MASTERS_MAX; i++)
        for (int k = 0; k < N_FIGURES; k++)
            result_add_line(result, sides[i].id[k], sides[i].what, units[k]);
}

static const char *limit_of(const struct line *lines)
{
    if (series_summary(&lines[BUSIEST].series).median >= ENOUGH)
        return "the masters";
    if (series_summary(&lines[MACHINE].series).median >= ENOUGH)
        return "the cores of this machine";
    return "the round trips of the threads";
}

static void measure(const struct plan *plan, struct setting *s, struct result *result)
{
    struct line *lines = result->lines;

    add_lines(result);
    result_add_ratio(result, "2 masters / 1 master, pairs/s", N_FIGURES + PAIRS, PAIRS,
                     s->is_slow ? AT_LEAST : NO_TARGET, 0.9 * 2);
    result_add_ratio(result, "3 masters / 1 master, pairs/s", 2 * N_FIGURES + PAIRS, PAIRS,
                     s->is_slow ? AT_LEAST : NO_TARGET, 0.9 * 3);
    for (unsigned n = 1; n <= MASTERS_MAX; n++)
        run(s, n, NULL, plan->seconds / 4); /* warms up */
    for (unsigned round = 0; round < plan->rounds; round++)
        for (unsigned n = 1; n <= MASTERS_MAX; n++)
            run(s, n, &lines[(n - 1) * N_FIGURES], plan->seconds);
    if (s->is_slow)
        result_note(result, "each master runs for %d %% of the time", SLOW_PERCENT);
    else
        result_note(result, "the limit with 1, 2 and 3 masters: %s; %s; %s", limit_of(&lines[0]),
                    limit_of(&lines[N_FIGURES]), limit_of(&lines[2 * N_FIGURES]));
}

/* ---- locks --------------------------------------------------------------------------------- */

static struct relock_lock *lock_on(struct setting *s, size_t master)
{
    static unsigned number;
    char name[NAME_MAX_LEN];

    for (int i = 0; i < NAMES_MAX; i++) {
        row_name(name, "cluster", number++);
        if (cluster_owner(s->cluster, cluster_slot(s->cluster, name)) == master)
            return ours_lock(s->client, name);
    }
    die("no name is on master %zu", master);
}

static void open_all(struct setting *s)
{
    s->client = ours_client(s->cluster->url);
    for (size_t i = 0; i < THREADS_MAX; i++)
        s->locks[i] = lock_on(s, i / THREADS);
}

static void close_all(struct setting *s)
{
    for (size_t i = 0; i < THREADS_MAX; i++)
        relock_lock_free(s->locks[i]);
    relock_client_free(s->client);
    for (size_t i = 0; i < s->cluster->n; i++)
        if (probe_n_keys(s->cluster->node[i].probe) != 0)
            die("a master still has keys");
}

void row_cluster(const struct plan *plan, struct report *report)
{
    struct result *fast =
        report_add(report, "cluster", "64 threads for each master, with a lock each");
    struct result *slow = report_add(report, "cluster_slow", "the same with slow masters");
    struct setting setting = {.cluster = cluster_start(&(struct cluster_options){
                                  .masters = MASTERS_MAX, .node_timeout_ms = NODE_TIMEOUT_MS})};

    if (!setting.cluster) {
        result_note(fast, "there is no server");
        result_note(slow, "there is no server");
        return;
    }
    open_all(&setting);
    measure(plan, &setting, fast);
    setting.is_slow = true;
    measure(plan, &setting, slow);
    close_all(&setting);
    cluster_stop(setting.cluster);
}
