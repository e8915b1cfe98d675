#include "locker.h"

#include "support/held.h"
#include "support/wait.h"

#include <inttypes.h>
#include <pthread.h>
#include <relock.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#define N_NAMES 1000
#define N_WANTED 18 /* by all, often */
#define N_MULTI 10
#define N_MEMBERS 3
#define MAX_THREADS 16
#define WAIT_MS 1000
#define LONG_HOLD_MS 1500
#define SWEEP_PATIENCE_MS 1000
#define N_RESULTS 32

static const struct {
    const char *name;
    int (*make)(struct relock_client *client, const char *name, struct relock_lock **lock);
} kinds[] = {
#define KIND(name, make) {#name, make},
    LOCKER_KIND_MAP(KIND)
#undef KIND
};

#define N_KINDS (int)(sizeof(kinds) / sizeof(kinds[0]))

/* A name, or several. */
struct target {
    struct relock_lock *lock;
    const char *kind;
    int names[N_MEMBERS];
    int n_names;
};

struct toiler {
    const struct locker *locker;
    FILE *out;
    int number;
    unsigned seed;
    size_t n_holds, n_lost;
    size_t n_results[N_RESULTS]; /* of all calls, by the negated result */
};

static struct relock_client *client;
static struct relock_lock *locks[N_NAMES], *readers[N_NAMES], *multis[N_MULTI];
static atomic_bool ends;

static int dice(struct toiler *toiler, int n)
{
    return rand_r(&toiler->seed) % n;
}

/* ---- names --------------------------------------------------------------------------------- */

/* Some share a slot. */
static void name_text(int number, char text[32])
{
    if (number % 10 == 9)
        snprintf(text, 32, "{shop-%d}:%d", number % 100, number);
    else
        snprintf(text, 32, "name-%d", number);
}

/* A reentrant name. */
static int member(int multi, int i)
{
    static const int distances[N_MEMBERS] = {0, 5, 60};

    return (multi + distances[i]) * N_KINDS;
}

static bool make_locks(void)
{
    char text[32];
    bool good = true;

    for (int i = 0; i < N_NAMES; i++) {
        name_text(i, text);
        good = good && kinds[i % N_KINDS].make(client, text, &locks[i]) == RELOCK_OK;
        if (kinds[i % N_KINDS].make == relock_wrlock_new)
            good = good && relock_rdlock_new(client, text, &readers[i]) == RELOCK_OK;
    }
    for (int i = 0; i < N_MULTI && good; i++) {
        struct relock_lock *members[N_MEMBERS];

        for (int k = 0; k < N_MEMBERS; k++)
            members[k] = locks[member(i, k)];
        good = relock_multilock_new(members, N_MEMBERS, &multis[i]) == RELOCK_OK;
    }
    return good;
}

static void free_locks(void)
{
    for (int i = 0; i < N_MULTI; i++)
        relock_lock_free(multis[i]);
    for (int i = 0; i < N_NAMES; i++) {
        relock_lock_free(locks[i]);
        relock_lock_free(readers[i]);
    }
}

static struct target draw_target(struct toiler *toiler)
{
    int name = dice(toiler, dice(toiler, 2) == 0 ? N_WANTED : N_NAMES);
    int multi = dice(toiler, N_MULTI);
    struct target target = {locks[name], kinds[name % N_KINDS].name, {name}, 1};

    if (readers[name] && dice(toiler, 2) == 0) {
        target.lock = readers[name];
        target.kind = "read";
    } else if (dice(toiler, 12) == 0) {
        target = (struct target){.lock = multis[multi], .kind = "multi", .n_names = N_MEMBERS};
        for (int i = 0; i < N_MEMBERS; i++)
            target.names[i] = member(multi, i);
    }
    return target;
}

/* ---- a hold -------------------------------------------------------------------------------- */

static int note(struct toiler *toiler, int result)
{
    if (-result < N_RESULTS)
        toiler->n_results[-result]++;
    return result;
}

static void record(struct toiler *toiler, const struct target *target, uint64_t from_ns,
                   uint64_t to_ns, const struct relock_grant *grant)
{
    for (int i = 0; i < target->n_names; i++)
        fprintf(toiler->out, "%d.%d %s %d %" PRIu64 " %" PRIu64 " %" PRIu64 " %u\n",
                toiler->locker->number, toiler->number, target->kind, target->names[i], from_ns,
                to_ns, grant->fencing_token, grant->acked_replicas);
    toiler->n_holds++;
}

/* Mostly a moment, sometimes until after a renewal. Returns when the hold was last certain. */
static uint64_t keep(struct toiler *toiler, struct relock_lock *lock)
{
    uint64_t until_ms = now_ms() + (uint64_t)dice(toiler, dice(toiler, 60) ? 5 : LONG_HOLD_MS);
    uint64_t certain_ns = 0, at_ns;

    for (;;) {
        at_ns = held_now_ns();
        if (relock_valid_ms(lock) == 0) {
            toiler->n_lost++;
            return certain_ns;
        }
        certain_ns = at_ns;
        if (now_ms() >= until_ms)
            return certain_ns;
        let_pass(2);
    }
}

static void hold(struct toiler *toiler, const struct target *target)
{
    struct relock_how how = {.wait_ms = dice(toiler, 4) ? WAIT_MS : 0};
    struct relock_grant grant;
    uint64_t from_ns, to_ns;
    bool deeper;

    if (note(toiler, relock_acquire(target->lock, &how, &grant)) != RELOCK_OK)
        return;
    from_ns = held_now_ns();
    deeper = dice(toiler, 6) == 0 && note(toiler, relock_lock(target->lock)) == RELOCK_OK;
    to_ns = keep(toiler, target->lock);
    if (deeper)
        note(toiler, relock_unlock(target->lock));
    note(toiler, relock_unlock(target->lock));
    if (to_ns > 0)
        record(toiler, target, from_ns, to_ns, &grant);
}

static void *toil(void *arg)
{
    struct toiler *toiler = arg;

    while (!atomic_load(&ends)) {
        struct target target = draw_target(toiler);

        hold(toiler, &target);
        let_pass((uint64_t)dice(toiler, 4));
    }
    return NULL;
}

/* ---- the process --------------------------------------------------------------------------- */

/* Results that no failover explains. */
static bool is_wrong(int result)
{
    switch (result) {
    case RELOCK_OK:
    case RELOCK_BUSY:
    case RELOCK_TIMEOUT:
    case RELOCK_LOST:
    case RELOCK_E_CONN:
    case RELOCK_E_SERVER:
    case RELOCK_E_REPLICAS:
        return false;
    default:
        return true;
    }
}

/* Prints the sums. Returns whether all results may be. */
static bool report(const struct locker *locker, const struct toiler *toilers)
{
    size_t n_holds = 0, n_lost = 0, sums[N_RESULTS] = {0};
    bool good = true;
    char text[1024];
    int size;

    for (int i = 0; i < locker->n_threads; i++) {
        n_holds += toilers[i].n_holds;
        n_lost += toilers[i].n_lost;
        for (int k = 0; k < N_RESULTS; k++)
            sums[k] += toilers[i].n_results[k];
    }
    size = snprintf(text, sizeof(text), "process %d: %zu holds, %zu lost", locker->number, n_holds,
                    n_lost);
    for (int i = 1; i < N_RESULTS; i++) {
        if (sums[i] > 0)
            size += snprintf(text + size, sizeof(text) - (size_t)size, "; %zu x %s", sums[i],
                             relock_strerror(-i));
        good = good && (sums[i] == 0 || !is_wrong(-i));
    }
    puts(text);
    return good;
}

static bool run_threads(const struct locker *locker, FILE *out, struct child *parent)
{
    struct toiler toilers[MAX_THREADS] = {{0}};
    pthread_t threads[MAX_THREADS];
    int64_t number;

    for (int i = 0; i < locker->n_threads; i++) {
        toilers[i] = (struct toiler){.locker = locker,
                                     .out = out,
                                     .number = i,
                                     .seed = (unsigned)(locker->number * MAX_THREADS + i + 1)};
        child_must(pthread_create(&threads[i], NULL, toil, &toilers[i]) == 0);
    }
    child_must(child_receive_within(parent, &number, NEVER_MS));
    atomic_store(&ends, true);
    for (int i = 0; i < locker->n_threads; i++)
        pthread_join(threads[i], NULL);
    return report(locker, toilers);
}

static int sweep_one(struct relock_lock *lock)
{
    int r = relock_timedlock(lock, (int64_t)slow_ms(LOCKER_LEASE_MS) + SOON_MS);

    return r == RELOCK_OK ? relock_unlock(lock) : r;
}

/* Waits for the leases that failovers have brought back, and for waiters that are gone. */
static int sweep(bool sweeps_fair)
{
    int r = RELOCK_OK;

    for (int i = 0; i < N_NAMES && r == RELOCK_OK; i++) {
        bool is_fair = kinds[i % N_KINDS].make == relock_fairlock_new;
        bool has_line = kinds[i % N_KINDS].make == relock_lock_new ||
                        kinds[i % N_KINDS].make == relock_fencedlock_new ||
                        kinds[i % N_KINDS].make == relock_wrlock_new;

        if (is_fair && sweeps_fair)
            r = relock_fairlock_set_patience(locks[i], SWEEP_PATIENCE_MS);
        if (r == RELOCK_OK && (has_line || (is_fair && sweeps_fair)))
            r = sweep_one(locks[i]);
    }
    return r;
}

static void obey(struct child *parent)
{
    int64_t order;

    for (;;) {
        child_must(child_receive_within(parent, &order, NEVER_MS));
        if (order == LOCKER_END)
            return;
        child_send(parent, sweep(order == LOCKER_SWEEP));
    }
}

/* A slow machine may need longer than the time limit for connecting, which suits failovers. */
static bool connect_client(const struct relock_options *options)
{
    uint64_t until_ms = deadline_in(SOON_MS);
    int r;

    do
        r = relock_client_new(options, &client);
    while (r == RELOCK_E_CONN && now_ms() < until_ms);
    return r == RELOCK_OK;
}

int locker_run(struct child *parent, void *arg)
{
    const struct locker *locker = arg;
    const struct relock_options options = {
        .url = locker->url,
        .tls_ca_file = locker->ca_file,
        .command_timeout_ms = slow_ms(SOON_MS),
        .watchdog_timeout_ms = slow_ms(LOCKER_LEASE_MS),
        .min_replicas = locker->min_replicas,
    };
    FILE *out = fopen(locker->path, "w");
    uint64_t began_ms;
    bool good;

    child_must(freopen(locker->log, "w", stderr));
    child_must(locker->n_threads <= MAX_THREADS);
    child_must(out);
    child_must(connect_client(&options));
    child_must(make_locks());
    child_must(child_send(parent, 0));
    good = run_threads(locker, out, parent);
    child_must(fclose(out) == 0);
    child_must(child_send(parent, 0));
    obey(parent);
    free_locks();
    began_ms = now_ms();
    relock_client_free(client);
    child_send(parent, (int64_t)(now_ms() - began_ms));
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}
