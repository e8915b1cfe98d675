/*
 *   a batch    becomes    when
 *   OPEN       SENT       it is full, or the iteration ends: send
 *              (freed)    it has one hold only
 *   SENT       (freed)    the script and EXISTS were answered: end() tells each of its holds
 *
 * A hold that is in a batch has a command in flight. Its owner releases or extends it meanwhile
 * without waiting, as with any other command of the I/O thread.
 */
#include "lock/hold/holds.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/private.h"
#include "lock/state/kind.h"
#include "lock/wake/outbox.h"
#include "redis/connect/explain.h"
#include "redis/deployment/slot_map.h"
#include "redis/deployment/topology.h"
#include "redis/io/io.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

/* In a cluster, due holds may have as many slots. */
#define OPEN_MAX 16

/* For how long holds are asked for by themselves. */
#define SINGLY_MS 3600000

struct relock_batch_entry {
    struct relock_hold *hold; /* a reference */
    bool renews;              /* or only checks */
    bool is_tracked;
    enum relock_verdict verdict; /* of the script; FAILED: none */
};

/* Used by the I/O thread alone; the lists are guarded by the mutex of the client. */
struct relock_batch {
    struct relock_client *client;
    struct relock_node *node; /* to which it is sent; not used later */
    const struct relock_kind *kind;
    unsigned slot;     /* in a cluster */
    unsigned n;        /* entries */
    unsigned n_levels; /* of readers, or permits, for each of which the script has commands; else as
                          `n` */
    unsigned n_unanswered;             /* commands in flight */
    bool is_script_answered;           /* `result` is set */
    bool is_put_off;                   /* the server refuses all commands for now */
    int result;                        /* of the script */
    const struct relock_node *tracker; /* that reports changes of the tracked keys; NULL: none */
    struct relock_batch *next, *prev;  /* of the client */
    struct relock_batch_entry entries[RELOCK_REQUEST_MANY];
};

/* ---- answers ------------------------------------------------------------------------------- */

static void end_entry(struct relock_client *client, struct relock_batch *batch,
                      struct relock_batch_entry *entry) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = entry->hold;
    bool is_told = batch->is_put_off || entry->verdict == RELOCK_VERDICT_DONE ||
                   entry->verdict == RELOCK_VERDICT_TAKEN;

    if (is_told || !relock_hold_is_live(hold))
        relock_watchdog_end(client, hold, entry->renews, batch->result, entry->verdict,
                            entry->is_tracked ? batch->tracker : NULL);
    else
        relock_watchdog_ask_again(client, hold, entry->renews, entry->verdict);
    relock_holds_unref(client, hold);
}

static void end(struct relock_client *client, struct relock_batch *batch)
    RELOCK_REQUIRES(client->mutex)
{
    for (unsigned i = 0; i < batch->n; i++)
        end_entry(client, batch, &batch->entries[i]);
    free(batch);
}

static void answered(struct relock_batch *batch)
{
    struct relock_client *client = batch->client;

    if (--batch->n_unanswered > 0)
        return;
    relock_mutex_lock(&client->mutex);
    DL_DELETE(client->guarded.batches.sent, batch);
    end(client, batch);
    relock_mutex_unlock(&client->mutex);
}

bool relock_batch_distrust(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    bool is_new = now_ms >= client->guarded.batches.singly_until_ms;

    client->guarded.batches.singly_until_ms = relock_clock_after(now_ms, SINGLY_MS);
    return is_new;
}

void relock_batch_log(const struct relock_client *client, const char *why)
{
    relock_log_write(&client->log, RELOCK_LOG_WARNING,
                     "%s: a script that renews many locks failed: %.150s; renewing each lock by "
                     "itself for an hour, which costs the server more",
                     client->server.label, why);
}

/* The server refuses every script, as while it loads its data. The same script is sent again after
 * a pause. To TRYAGAIN, the answers for single keys may differ: the slot of the keys moves. */
static bool is_put_off(const char *error)
{
    enum relock_refusal refusal = relock_refusal_of(error);

    return refusal == RELOCK_REFUSED_HERE ||
           (refusal == RELOCK_REFUSED_FOR_NOW && !strstr(error, "TRYAGAIN"));
}

static void log_put_off(const struct relock_batch *batch, const char *error)
{
    struct relock_client *client = batch->client;
    const struct relock_hold *hold = NULL;
    uint64_t owner = 0;

    for (unsigned i = 0; !hold && i < batch->n; i++)
        if (batch->entries[i].renews)
            hold = batch->entries[i].hold;
    if (!hold)
        return;
    relock_mutex_lock(&client->mutex);
    owner = hold->owner;
    relock_mutex_unlock(&client->mutex);
    relock_watchdog_log_refusal(client, hold->resource, owner, batch->result, error);
}

static void take_error(struct relock_batch *batch, const char *error)
{
    struct relock_client *client = batch->client;
    bool is_new = false;

    batch->is_put_off = is_put_off(error);
    if (batch->is_put_off)
        log_put_off(batch, error);
    if (!relock_refusal_is_final(relock_refusal_of(error)))
        return;
    relock_mutex_lock(&client->mutex);
    is_new = relock_batch_distrust(client);
    relock_mutex_unlock(&client->mutex);
    if (is_new)
        relock_batch_log(client, error);
}

/* One reply may stand for all. */
static enum relock_verdict verdict_of(const struct redisReply *reply, unsigned i)
{
    const struct redisReply *its_own = relock_reply_at(reply, i);

    return relock_verdict_renewal(its_own ? its_own : reply);
}

static void on_script(void *arg, int result, const struct redisReply *reply)
{
    struct relock_batch *batch = arg;
    const char *error = reply ? relock_reply_error(reply) : NULL;

    batch->is_script_answered = true;
    batch->result = result;
    for (unsigned i = 0; result == RELOCK_OK && i < batch->n; i++)
        batch->entries[i].verdict = verdict_of(reply, i);
    if (error)
        take_error(batch, error);
    answered(batch);
}

/* A key that the script has found may be gone since: nobody reports that. */
static bool may_one_be_gone(const struct relock_batch *batch, const struct redisReply *reply)
{
    int64_t n_there = 0;
    int64_t n_tracked = 0;

    for (unsigned i = 0; i < batch->n; i++)
        n_tracked += batch->entries[i].is_tracked;
    return !relock_reply_integer(reply, &n_there) || n_there < n_tracked;
}

static void on_exists(void *arg, int result, const struct redisReply *reply)
{
    struct relock_batch *batch = arg;

    if (result != RELOCK_OK || !batch->is_script_answered || batch->result != RELOCK_OK ||
        may_one_be_gone(batch, reply))
        batch->tracker = NULL;
    answered(batch);
}

/* ---- sending ------------------------------------------------------------------------------- */

static int send_script(struct relock_batch *batch, struct relock_request_many *many)
{
    relock_request_many(many, batch->kind, batch->n);
    for (unsigned i = 0; i < batch->n; i++) {
        const struct relock_batch_entry *entry = &batch->entries[i];

        relock_request_many_add(many, entry->hold, entry->renews);
    }
    return relock_pipeline_call(batch->node->pipeline, &many->call, on_script, batch);
}

/* Has the server report changes of the tracked keys. */
static void send_exists(struct relock_batch *batch)
{
    struct relock_text keys[RELOCK_REQUEST_MANY];
    struct relock_call call = {.script = &relock_script_exists, .tracker = &batch->tracker};
    size_t n = 0;

    for (unsigned i = 0; i < batch->n; i++)
        if (batch->entries[i].is_tracked)
            keys[n++] = relock_resource_key(batch->entries[i].hold->resource);
    if (n == 0)
        return;
    call.key = keys[0];
    call.more = keys + 1;
    call.n_more = call.n_more_keys = n - 1;
    if (relock_pipeline_call(batch->node->pipeline, &call, on_exists, batch) == RELOCK_OK)
        batch->n_unanswered++;
}

static void send_many(struct relock_client *client, struct relock_batch *batch)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_request_many many;

    for (unsigned i = 0; i < batch->n; i++)
        relock_tracked_sent(batch->entries[i].hold,
                            batch->entries[i].is_tracked ? batch->node : NULL);
    batch->result = send_script(batch, &many);
    if (batch->result < 0) {
        end(client, batch);
        return;
    }
    batch->n_unanswered = 1;
    send_exists(batch);
    DL_APPEND(client->guarded.batches.sent, batch);
}

static void send_one(struct relock_client *client, struct relock_batch *batch)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_batch_entry *entry = batch->entries;

    relock_watchdog_ask(client, entry->hold, batch->node, entry->renews, entry->is_tracked,
                        entry->hold->sent_ms);
    relock_holds_unref(client, entry->hold);
    free(batch);
}

/* Holds that have ended since need no command any more, and some no renewal. */
static void drop_ended(struct relock_client *client, struct relock_batch *batch)
    RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    unsigned n = 0;

    for (unsigned i = 0; i < batch->n; i++) {
        struct relock_batch_entry entry = batch->entries[i];

        if (relock_hold_is_live(entry.hold)) {
            entry.renews = entry.renews && relock_hold_is_renewed(entry.hold, now_ms);
            batch->entries[n++] = entry;
        } else {
            relock_holds_end_command(client, entry.hold, now_ms);
            relock_holds_unref(client, entry.hold);
        }
    }
    batch->n = n;
}

static void send(struct relock_client *client, struct relock_batch *batch)
    RELOCK_REQUIRES(client->mutex)
{
    DL_DELETE(client->guarded.batches.open, batch);
    client->guarded.batches.n_open--;
    drop_ended(client, batch);
    if (batch->n == 1)
        send_one(client, batch);
    else if (batch->n > 1)
        send_many(client, batch);
    else
        free(batch);
}

void relock_batch_send_all(struct relock_client *client)
{
    while (client->guarded.batches.open)
        send(client, client->guarded.batches.open);
}

void relock_batch_drop_all(struct relock_client *client)
{
    struct relock_batch *batch, *next;

    DL_CONCAT(client->guarded.batches.open, client->guarded.batches.sent);
    DL_FOREACH_SAFE(client->guarded.batches.open, batch, next)
    free(batch);
    client->guarded.batches = (struct relock_batches){0};
}

/* ---- adding -------------------------------------------------------------------------------- */

static unsigned levels_of(const struct relock_hold *hold)
{
    if (hold->resource->kind->has_permits)
        return (unsigned)hold->n_permits;
    return hold->resource->kind->is_shared && hold->count > 1 ? hold->count : 1;
}

static struct relock_batch *find(const struct relock_client *client, const struct relock_kind *kind,
                                 const struct relock_node *node, unsigned slot)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_batch *batch;

    DL_FOREACH(client->guarded.batches.open, batch)
    if (batch->kind->renew_many == kind->renew_many && batch->node == node && batch->slot == slot)
        return batch;
    return NULL;
}

static struct relock_batch *make(struct relock_client *client, const struct relock_kind *kind,
                                 struct relock_node *node, unsigned slot)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_batch *batch = malloc(sizeof(*batch));

    if (!batch)
        return NULL;
    if (client->guarded.batches.n_open == OPEN_MAX)
        send(client, client->guarded.batches.open);
    batch->client = client;
    batch->node = node;
    batch->kind = kind;
    batch->slot = slot;
    batch->n = batch->n_levels = batch->n_unanswered = 0;
    batch->is_script_answered = batch->is_put_off = false;
    batch->tracker = NULL;
    DL_APPEND(client->guarded.batches.open, batch);
    client->guarded.batches.n_open++;
    return batch;
}

/* Returns an open batch with room for the hold; NULL when out of memory. */
static struct relock_batch *batch_for(struct relock_client *client, const struct relock_hold *hold,
                                      struct relock_node *node) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_kind *kind = hold->resource->kind;
    unsigned slot = 0;
    struct relock_batch *batch;

    if (client->topology->is_cluster)
        slot = relock_slot_of(relock_resource_key(hold->resource));
    batch = find(client, kind, node, slot);
    if (batch && batch->n_levels + levels_of(hold) > RELOCK_REQUEST_MANY) {
        send(client, batch);
        batch = NULL;
    }
    return batch ? batch : make(client, kind, node, slot);
}

void relock_batch_add(struct relock_client *client, struct relock_hold *hold,
                      struct relock_node *node, bool renews, bool is_tracked, uint64_t now_ms)
{
    bool is_single = !node || now_ms < client->guarded.batches.singly_until_ms;
    struct relock_batch *batch = is_single ? NULL : batch_for(client, hold, node);

    if (!batch) {
        relock_watchdog_ask(client, hold, node, renews, is_tracked, now_ms);
        return;
    }
    batch->entries[batch->n++] = (struct relock_batch_entry){relock_holds_ref(hold), renews,
                                                             is_tracked, RELOCK_VERDICT_FAILED};
    batch->n_levels += levels_of(hold);
    if (renews)
        relock_holds_send(hold, now_ms);
    else
        relock_holds_send_check(hold, now_ms);
    relock_holds_arm(client, hold, now_ms);
}

/* ---- turns --------------------------------------------------------------------------------- */

/* Few enough that a call which comes while the server runs a turn is hardly slower: README.md. */
#define TURN_HOLDS 32

/* More, if the first hold is due so soon that the turns may be too slow. */
static unsigned turn_holds(const struct relock_client *client, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    uint64_t left_ms = relock_clock_left(now_ms, relock_heap_next_ms(&client->guarded.ahead));

    return left_ms >= client->guarded.batches.ahead_ms / 2 ? TURN_HOLDS : RELOCK_REQUEST_MANY;
}

/* When the next turn may begin, even if the last one is not answered by then. */
static uint64_t next_turn_ms(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_batches *batches = &client->guarded.batches;
    uint64_t from_ms =
        relock_clock_left(batches->ahead_ms, relock_heap_next_ms(&client->guarded.ahead));

    if (!relock_node_io_is_in_turn(client->topology))
        return from_ms;
    return relock_clock_later(from_ms, batches->turn_until_ms);
}

uint64_t relock_batch_next_ms(const struct relock_client *client)
{
    return relock_clock_sooner(relock_heap_next_ms(&client->guarded.ahead), next_turn_ms(client));
}

void relock_batch_take_turn(struct relock_client *client, uint64_t now_ms)
{
    uint64_t until_ms = now_ms + client->guarded.batches.ahead_ms;
    struct relock_heap_link *link;
    unsigned left;

    if (next_turn_ms(client) > now_ms)
        return;
    left = turn_holds(client, now_ms);
    while (left > 0 && (link = relock_heap_pop(&client->guarded.ahead, until_ms))) {
        struct relock_hold *hold = RELOCK_CONTAINER(struct relock_hold, timer, link);

        left -= relock_clock_sooner(left, levels_of(hold));
        relock_watchdog_renew_ahead(client, hold, now_ms, until_ms);
    }
    relock_batch_send_all(client);
    relock_node_io_begin_turn(client->topology);
    client->guarded.batches.turn_until_ms = until_ms;
}
