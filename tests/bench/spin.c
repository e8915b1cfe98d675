/*
 * Calls that spin before they sleep, beside calls that sleep at once (RELOCK_NO_SPIN), in turns:
 * the time of a pair, and the processor time of the program for it. Over each kind of connection
 * to a server of the row's own, by some threads with a lock each, and by one thread beside others
 * that only compute.
 */
#include "crowd.h"
#include "relay.h"
#include "rows.h"
#include "support/server.h"
#include "usage.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 16
#define DELAY_NS 250000 /* each way */

#define MOST_TIME 1.1 /* room for the noise of medians that are equal */
#define MOST_CPU 1.1

enum { SPIN_P50, SLEEP_P50, SPIN_CPU, SLEEP_CPU, N_LINES };

/* Threads that lock and unlock; threads that compute. */
static const struct load {
    unsigned n_callers, n_computing;
} loads[] = {{1, 0}, {2, 0}, {4, 0}, {16, 0}, {1, 1}, {1, 2}, {1, 4}, {1, 16}};

struct caller {
    struct relock_lock *lock;
    struct samples samples;
};

struct side {
    struct relock_client *client;
    struct caller callers[THREADS_MAX];
};

struct computing {
    pthread_t threads[THREADS_MAX];
    atomic_bool ends;
    atomic_uint_fast64_t cpu_ns;
};

static void pair(void *arg)
{
    struct caller *caller = arg;
    uint64_t from_ns = now_ns();

    ours_take(caller->lock);
    ours_give(caller->lock);
    samples_add(&caller->samples, now_ns() - from_ns);
}

static void *compute(void *arg)
{
    struct computing *computing = arg;
    volatile unsigned work = 0;

    while (!atomic_load_explicit(&computing->ends, memory_order_relaxed))
        work = work + 1;
    atomic_fetch_add(&computing->cpu_ns, usage_own_cpu_ns());
    return NULL;
}

static void computing_start(struct computing *computing, unsigned n)
{
    memset(computing, 0, sizeof(*computing));
    for (unsigned i = 0; i < n; i++) {
        if (pthread_create(&computing->threads[i], NULL, compute, computing) != 0)
            die("no thread");
    }
}

/* The processor time that these threads used. */
static uint64_t computing_stop(struct computing *computing, unsigned n)
{
    atomic_store(&computing->ends, true);
    for (unsigned i = 0; i < n; i++)
        pthread_join(computing->threads[i], NULL);
    return atomic_load(&computing->cpu_ns);
}

static void run(struct side *side, const struct load *load, double seconds, struct line *p50,
                struct line *cpu)
{
    struct samples all = {0};
    struct computing computing;
    uint64_t cpu_ns = usage_process_cpu_ns(getpid());

    computing_start(&computing, load->n_computing);
    (void)crowd_run(load->n_callers, pair, side->callers, sizeof(side->callers[0]), seconds);
    cpu_ns += computing_stop(&computing, load->n_computing);
    cpu_ns = usage_process_cpu_ns(getpid()) - cpu_ns;
    for (unsigned i = 0; i < load->n_callers; i++) {
        samples_add_all(&all, &side->callers[i].samples);
        samples_clear(&side->callers[i].samples);
    }
    if (p50) {
        series_add(&cpu->series, (double)cpu_ns / 1000 / (double)all.n);
        series_add(&p50->series, samples_percentile_us(&all, 50));
    }
    samples_free(&all);
}

static struct result *add_result(struct report *report, const char *way, const struct load *load)
{
    struct result *result;
    char id[32], title[96];

    snprintf(id, sizeof(id), "spin_%s_%u_%u", way, load->n_callers, load->n_computing);
    snprintf(title, sizeof(title), "spinning, %s: %u thread%s lock%s, %u compute%s", way,
             load->n_callers, load->n_callers > 1 ? "s" : "", load->n_callers > 1 ? "" : "s",
             load->n_computing, load->n_computing == 1 ? "s" : "");
    result = report_add(report, id, title);
    result_add_line(result, "spin_p50", "a pair, p50", "us");
    result_add_line(result, "sleep_p50", "RELOCK_NO_SPIN, p50", "us");
    result_add_line(result, "spin_cpu", "processor time of a pair", "us");
    result_add_line(result, "sleep_cpu", "RELOCK_NO_SPIN, processor time", "us");
    result_add_ratio(result, "p50 / RELOCK_NO_SPIN", SPIN_P50, SLEEP_P50, AT_MOST, MOST_TIME);
    result_add_ratio(result, "processor time / RELOCK_NO_SPIN", SPIN_CPU, SLEEP_CPU, AT_MOST,
                     MOST_CPU);
    return result;
}

static void open_side(struct side *side, const char *url, const struct server *server,
                      unsigned flags)
{
    bool is_tls = url == server->tls_url;
    char name[NAME_MAX_LEN];

    side->client = ours_client_with(
        url,
        &(struct relock_options){.flags = flags, .tls_ca_file = is_tls ? server->ca_file : NULL});
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        row_name(name, flags ? "sleep" : "spins", i);
        side->callers[i].lock = ours_lock(side->client, name);
    }
}

static void close_side(struct side *side)
{
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        relock_lock_free(side->callers[i].lock);
        samples_free(&side->callers[i].samples);
    }
    relock_client_free(side->client);
}

static void compare(const struct plan *plan, struct result *result, const struct load *load,
                    struct side *spin, struct side *sleep)
{
    struct line *lines = result->lines;

    run(spin, load, plan->seconds / 4, NULL, NULL); /* warms up, and learns */
    run(sleep, load, plan->seconds / 4, NULL, NULL);
    for (unsigned round = 0; round < plan->rounds; round++) {
        run(spin, load, plan->seconds, &lines[SPIN_P50], &lines[SPIN_CPU]);
        run(sleep, load, plan->seconds, &lines[SLEEP_P50], &lines[SLEEP_CPU]);
    }
}

static void measure(const struct plan *plan, struct report *report, const char *way,
                    const char *url, const struct server *server)
{
    struct side spin = {0}, sleep = {0};

    open_side(&spin, url, server, 0);
    open_side(&sleep, url, server, RELOCK_NO_SPIN);
    for (size_t i = 0; i < sizeof(loads) / sizeof(loads[0]); i++)
        compare(plan, add_result(report, way, &loads[i]), &loads[i], &spin, &sleep);
    close_side(&spin);
    close_side(&sleep);
}

void row_spin(const struct plan *plan, struct report *report)
{
    struct server *server = server_start(&(struct server_options){.tcp = true});
    struct server *tls = tls_server();
    struct relay *relay;

    if (!server)
        die("there is no server");
    relay = relay_start(server->socket, DELAY_NS);
    measure(plan, report, "unix", server->unix_url, server);
    measure(plan, report, "tcp", server->tcp_url, server);
    measure(plan, report, "far", relay_url(relay), server);
    if (tls)
        measure(plan, report, "tls", tls->tls_url, tls);
    else
        result_note(report_add(report, "spin_tls", "spinning, tls"), "there is no TLS");
    relay_stop(relay);
    server_stop(server);
    server_stop(tls);
}
