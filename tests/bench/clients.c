/*
 * Many clients, each with its own uuid as if it were a process, wait for one lock. They live in a
 * few processes. A bare connection holds the lock and releases it once. One client acquires it and
 * keeps it. The row counts the commands until all others sleep again.
 */
#include "bare.h"
#include "counts.h"
#include "rows.h"
#include "support/child.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define N_CLIENTS 1000
#define PER_PROCESS 100
#define PROCESSES_MAX (N_CLIENTS / PER_PROCESS)
#define CONNECTIONS_EACH 4 /* upper limit while it waits for one lock */
#define NEVER_MS 3600000   /* no waiter retries without a message */
#define WITHIN_MS 60000
#define LOOK_NS 1000000

struct group {
    const char *url;
    unsigned n; /* clients of this process */
};

/* The state of a process. */
struct waits {
    struct relock_cancel *cancel;
    atomic_bool over;
};

struct member {
    pthread_t thread;
    struct waits *waits;
    struct relock_client *client;
    struct relock_lock *lock;
};

/* ---- a process of clients ------------------------------------------------------------------ */

static void *wait_for_lock(void *arg)
{
    struct member *member = arg;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = member->waits->cancel};
    int r = relock_acquire(member->lock, &how, NULL);

    if (r == RELOCK_CANCELLED)
        return NULL;
    ours_must(r, "acquire");
    while (!atomic_load(&member->waits->over))
        sleep_ns(LOOK_NS);
    ours_give(member->lock);
    return NULL;
}

static void begin_waiting(struct member *member, const char *url, const char *name,
                          struct waits *waits)
{
    member->client = ours_client_with(url, &(struct relock_options){.recheck_ms = NEVER_MS});
    member->lock = ours_lock(member->client, name);
    member->waits = waits;
    if (pthread_create(&member->thread, NULL, wait_for_lock, member) != 0)
        die("no thread");
}

static void await_sleep(struct member *member)
{
    while (ours_stats(member->client).waits == 0)
        sleep_ns(LOOK_NS);
}

static void end_waiting(struct member *member)
{
    pthread_join(member->thread, NULL);
    relock_lock_free(member->lock);
    relock_client_free(member->client);
}

static int wait_as_many(struct child *parent, void *arg)
{
    struct group *group = arg;
    struct member members[PER_PROCESS];
    struct waits waits = {.over = false};
    char name[NAME_MAX_LEN];

    row_name(name, "clients", 0);
    ours_must(relock_cancel_new(&waits.cancel), "cancel");
    for (unsigned i = 0; i < group->n; i++)
        begin_waiting(&members[i], group->url, name, &waits);
    for (unsigned i = 0; i < group->n; i++)
        await_sleep(&members[i]);
    child_must(child_send(parent, 0));

    child_must(child_receive_within(parent, &(int64_t){0}, WITHIN_MS));
    relock_cancel_fire(waits.cancel); /* before the holder releases the lock */
    atomic_store(&waits.over, true);
    for (unsigned i = 0; i < group->n; i++)
        end_waiting(&members[i]);
    relock_cancel_free(waits.cancel);
    return EXIT_SUCCESS;
}

/* ---- the row ------------------------------------------------------------------------------- */

static uint64_t count_attempts(struct redisContext *redis, const struct bare_lock *holder)
{
    struct counts before;

    counts_settle(redis);
    before = counts_now(redis);
    bare_give(redis, holder);
    counts_settle(redis);
    return counts_since(redis, &before).scripts - 1; /* without the release */
}

static uint64_t run_clients(const struct plan *plan, struct redisContext *redis, unsigned n)
{
    struct child *children[PROCESSES_MAX];
    struct group groups[PROCESSES_MAX];
    struct bare_lock holder;
    unsigned n_children = 0;
    char name[NAME_MAX_LEN];
    uint64_t attempts;

    row_name(name, "clients", 0);
    bare_lock_init(&holder, name, 1);
    bare_lock_lease(&holder, NEVER_MS);
    if (!bare_take(redis, &holder))
        die("%s is held by another", name);

    for (unsigned rest = n; rest > 0; rest -= groups[n_children++].n) {
        groups[n_children] = (struct group){plan->url, rest < PER_PROCESS ? rest : PER_PROCESS};
        children[n_children] = child_start(wait_as_many, &groups[n_children]);
    }
    for (unsigned i = 0; i < n_children; i++)
        if (!child_receive_within(children[i], &(int64_t){0}, WITHIN_MS))
            die("not all clients come to wait");

    attempts = count_attempts(redis, &holder);
    for (unsigned i = 0; i < n_children; i++)
        (void)child_send(children[i], 0);
    for (unsigned i = 0; i < n_children; i++)
        if (child_wait(children[i], WITHIN_MS) != EXIT_SUCCESS)
            die("a process of clients failed");
    must_be_gone(redis, name);
    return attempts;
}

static unsigned server_connections(struct redisContext *redis)
{
    char *info = bare_info(redis, "clients");
    const char *at = strstr(info, "maxclients:");
    unsigned n = at ? (unsigned)strtoul(at + strlen("maxclients:"), NULL, 10) : 0;

    free(info);
    return n;
}

void row_clients(const struct plan *plan, struct report *report)
{
    struct redisContext *redis = bare_connect(plan->url);
    unsigned n = plan_size(plan, N_CLIENTS), n_connections = server_connections(redis);
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "%u clients wait for one lock, one release", n);
    result = report_add(report, "clients", title);
    if (n_connections > 0 && n_connections < n * CONNECTIONS_EACH) {
        result_note(result, "the server takes %u connections only", n_connections);
        bare_close(redis);
        return;
    }

    result_add_line(result, "attempts", "attempts at Redis", "commands");
    result_add_line(result, "each", "attempts at Redis, for each client", "commands");
    result_add_limit(result, 1, AT_MOST, 1);
    for (unsigned round = 0; round < plan->long_rounds; round++) {
        uint64_t attempts = run_clients(plan, redis, n);

        series_add(&result->lines[0].series, (double)attempts);
        series_add(&result->lines[1].series, (double)attempts / n);
    }
    bare_close(redis);
}
