#include "work.h"

#include "job.h"
#include "pulse.h"
#include "rush.h"
#include "schedule.h"
#include "support/sentinels.h"
#include "support/wait.h"
#include "toll.h"

#include <relock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMAND_TIMEOUT_MS 1500
#define HOT_PAUSE_MS 2

static struct workshop workshop;
static struct pulse pulse;
static struct relock_client *clients[SCHEDULE_MAX_SERVERS];
static size_t n_clients;
static struct toiler toilers[WORKER_MAX_THREADS];
static atomic_bool done;

uint64_t worker_longest_lease_ms(uint64_t lease_ms, enum history_sort sort)
{
    return sort == HISTORY_RED ? SCHEDULE_RED_LEASES * lease_ms : 4 * lease_ms;
}

/* ---- threads ------------------------------------------------------------------------------- */

/* Before an attempt. */
static uint64_t draw_pause(struct toiler *toiler)
{
    if (workshop.options.set == NAMES_HOT)
        return rush_begins_in_ms() + toiler_dice(toiler, HOT_PAUSE_MS);
    return toiler_dice(toiler, toiler_dice(toiler, 4) == 0 ? 100 : 5);
}

static void *run(void *arg)
{
    struct toiler *toiler = arg;

    while (history_now_ns() < workshop.options.until_ns) {
        let_pass(draw_pause(toiler));
        toiler_come(toiler);
        if (workshop.options.has_numbers && toiler_dice(toiler, 2) == 0)
            toll_pay(toiler);
    }
    toll_end(toiler);
    return NULL;
}

/* Cancels one wait or another, while any thread may wait. */
static void *cancel_some(void *arg)
{
    uint64_t seed = workshop.options.seed;

    while (!atomic_load(&done)) {
        toiler_cancel(&toilers[schedule_dice(&seed, (uint64_t)workshop.options.n_threads)]);
        let_pass(5 + schedule_dice(&seed, 50));
    }
    return arg;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void start_thread(pthread_t *thread, void *(*run_it)(void *), void *arg)
{
    if (pthread_create(thread, NULL, run_it, arg) != 0)
        abort();
}

static void make_red(int lock)
{
    int (*const make_member)(struct relock_client *, const char *, struct relock_lock **) =
        lock % 2 == 0 ? relock_lock_new : relock_plainlock_new;
    struct relock_lock *members[SCHEDULE_MAX_SERVERS];

    for (size_t i = 0; i < n_clients; i++)
        if (make_member(clients[i], names_text(lock), &members[i]) != RELOCK_OK)
            abort();
    if (relock_redlock_new(members, n_clients, &workshop.locks[lock]) != RELOCK_OK)
        abort();
    for (size_t i = 0; i < n_clients; i++)
        relock_lock_free(members[i]);
}

/* The handles of a name. */
static void make(int lock)
{
    static int (*const makers[HISTORY_N_SORTS])(struct relock_client *, const char *,
                                                struct relock_lock **) = {
        [HISTORY_REENTRANT] = relock_lock_new,      [HISTORY_PLAIN] = relock_plainlock_new,
        [HISTORY_SPIN] = relock_spinlock_new,       [HISTORY_FENCED] = relock_fencedlock_new,
        [HISTORY_FAIR] = relock_fairlock_new,       [HISTORY_WRITE] = relock_wrlock_new,
        [HISTORY_SEMAPHORE] = relock_semaphore_new,
    };
    enum history_sort sort = workshop.names.sorts[lock];
    const char *name = names_text(lock);

    if (makers[sort](clients[0], name, &workshop.locks[lock]) != RELOCK_OK)
        abort();
    if (sort == HISTORY_WRITE &&
        relock_rdlock_new(clients[0], name, &workshop.readers[lock]) != RELOCK_OK)
        abort();
}

/* Some workers publish the releases of plain locks and subscribe, some do not, on the same
 * locks. */
static unsigned flags_of(int slot)
{
    return slot % 2 == 0 ? RELOCK_LAZY : RELOCK_LAZY | RELOCK_ANNOUNCE_PLAIN;
}

/* At hot locks a waiter that came in one rush retries in another one, and not in between. */
static uint64_t recheck_ms_of(enum names_set set)
{
    return set == NAMES_HOT ? 2 * rush_cycle_ms() : WORKER_RECHECK_MS;
}

/* The sentinels may name any server, so the url does not tell the name in the certificates. */
static const char *tls_name_of(const char *url)
{
    return strncmp(url, "rediss+sentinel:", 16) == 0 ? SENTINELS_NAME : NULL;
}

static void open_client(const struct worker_options *options, const char *url)
{
    char name[WORKER_NAME_MAX];
    const struct relock_options wanted = {.url = url,
                                          .client_name = name,
                                          .tls_server_name = tls_name_of(url),
                                          .watchdog_timeout_ms = options->lease_ms,
                                          .recheck_ms = recheck_ms_of(options->set),
                                          .command_timeout_ms = COMMAND_TIMEOUT_MS,
                                          .connections = 2,
                                          .min_replicas = options->min_replicas,
                                          .keep_ms = options->keep_ms,
                                          .flags = flags_of(options->slot)};

    worker_name(options->slot, name);
    if (n_clients == SCHEDULE_MAX_SERVERS ||
        relock_client_new(&wanted, &clients[n_clients++]) != RELOCK_OK)
        abort();
    fprintf(stderr, "client %s\n", relock_client_id(clients[n_clients - 1]));
}

static void open_clients(const struct worker_options *options)
{
    const char *end_of_url = options->set == NAMES_RED ? "," : "";
    char *urls = strdup(options->urls), *rest = urls;

    if (!urls)
        abort();
    while (rest)
        open_client(options, strsep(&rest, end_of_url));
    free(urls);
}

static void open_all(const struct worker_options *options)
{
    char path[512];

    snprintf(path, sizeof(path), "%s/history.%d.%d", options->dir, options->slot, options->life);
    history_open(&workshop.history, path);
    open_clients(options);
    names_draw(&workshop.names, options->set, options->names_seed);
    for (int i = 0; i < workshop.names.n; i++) {
        if (workshop.names.sorts[i] == HISTORY_RED)
            make_red(i);
        else
            make(i);
    }
}

static void run_threads(int n, uint64_t seed)
{
    pthread_t threads[WORKER_MAX_THREADS], canceller;

    for (int i = 0; i < n; i++) {
        toilers[i] =
            (struct toiler){.workshop = &workshop, .number = i, .seed = seed + 1 + (uint64_t)i};
        toilers[i].toll.client = clients[0];
        pthread_mutex_init(&toilers[i].mutex, NULL);
        start_thread(&threads[i], run, &toilers[i]);
    }
    start_thread(&canceller, cancel_some, NULL);
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&done, true);
    pthread_join(canceller, NULL);
}

static int64_t n_in_use(struct relock_client *client)
{
    struct relock_stats stats;

    if (relock_client_stats(client, &stats, sizeof(stats)) != RELOCK_OK)
        abort();
    return (int64_t)(stats.holds + stats.waiters);
}

void work_begin(const struct worker_options *options)
{
    struct history_record idle = {
        .kind = HISTORY_IDLE, .slot = options->slot, .life = options->life};

    if (options->n_threads > WORKER_MAX_THREADS)
        abort();
    workshop.options = *options;
    open_all(options);
    pulse_start(&pulse, &workshop.history, options->slot, options->life);
    run_threads(options->n_threads, options->seed);

    for (size_t i = 0; i < n_clients; i++)
        idle.value += n_in_use(clients[i]);
    idle.from_ns = idle.to_ns = history_now_ns();
    history_write(&workshop.history, &idle);
}

void work_end(void)
{
    for (int i = 0; i < workshop.names.n; i++) {
        relock_lock_free(workshop.locks[i]);
        relock_lock_free(workshop.readers[i]);
    }
    for (size_t i = 0; i < n_clients; i++)
        relock_client_free(clients[i]);
    pulse_stop(&pulse);
    history_close(&workshop.history);
}
