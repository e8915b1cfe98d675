#include "lock/hold/confirm.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/hold/settle.h"
#include "lock/state/verdict.h"
#include "lock/wake/request.h"
#include "redis/connect/explain.h"
#include "redis/io/node_io.h"
#include "redis/io/pipeline.h"
#include "redis/server/reply.h"

/* WAIT ends in this part of the time after which its connection is taken for dead. */
#define WAIT_PART 2

/* ---- the end ------------------------------------------------------------------------------- */

static void fail(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    relock_holds_end_confirming(client, hold);
    if (!relock_hold_is_live(hold))
        return;
    (void)relock_holds_ref(hold);
    relock_let_go_suspect(client, hold, now_ms + relock_hold_retry_ms(hold->renewal_ms));
    relock_holds_arm(client, hold, now_ms);
    relock_holds_unref(client, hold);
}

static void succeed(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    relock_holds_end_confirming(client, hold);
    if (!relock_hold_is_live(hold))
        return;
    relock_holds_confirm(client, hold, hold->confirm.sent_ms, now_ms);
    relock_holds_arm(client, hold, now_ms);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void on_renewed(void *arg, int result, const struct redisReply *reply);
static void on_counted(void *arg, int result, const struct redisReply *reply);

/* Unless its node is counting, or is not connected: then the hold stays WANTED. */
static void send(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_request request;
    struct relock_node *node;
    int r;

    if (!relock_hold_is_live(hold)) {
        relock_holds_end_confirming(client, hold);
        return;
    }
    relock_request_renew(&request, hold);
    request.call.answered_by = &hold->confirm.node;
    node = relock_node_io_open(client->topology, request.call.key);
    if (!node || node->is_counting)
        return;
    r = relock_pipeline_call(node->confirmer, &request.call, on_renewed, relock_holds_ref(hold));
    if (r == RELOCK_OK) {
        hold->confirm.state = RELOCK_CONFIRM_SENT;
        hold->confirm.sent_ms = now_ms;
        return;
    }
    relock_holds_unref(client, hold);
    if (r != RELOCK_E_CONN)
        fail(client, hold, now_ms);
}

void relock_confirm_up(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold, *next;

    DL_FOREACH_SAFE2(client->guarded.confirming, hold, next, confirm.next)
    if (hold->confirm.state == RELOCK_CONFIRM_WANTED)
        send(client, hold, now_ms);
}

void relock_confirm_want(struct relock_client *client, struct relock_hold *hold)
{
    if (hold->confirm.state == RELOCK_CONFIRM_NONE) {
        hold->confirm.state = RELOCK_CONFIRM_WANTED;
        DL_APPEND2(client->guarded.confirming, hold, confirm.prev, confirm.next);
    }
    if (hold->confirm.state == RELOCK_CONFIRM_WANTED)
        send(client, hold, relock_clock_now_ms());
}

/* Sends WAIT for all that this node has granted, unless one is in flight. */
static void count(struct relock_client *client, struct relock_node *node)
    RELOCK_REQUIRES(client->mutex)
{
    uint64_t wait_ms = client->topology->io.answer_ms / WAIT_PART;
    struct relock_hold *first = NULL;
    struct relock_hold *hold, *next;
    int r;

    if (node->is_counting)
        return;
    DL_FOREACH2(client->guarded.confirming, hold, confirm.next)
    if (hold->confirm.state == RELOCK_CONFIRM_GRANTED && hold->confirm.node == node) {
        hold->confirm.state = RELOCK_CONFIRM_COUNTED;
        first = first ? first : hold;
    }
    if (!first)
        return;
    r = relock_pipeline_count_replicas(node->confirmer, client->options.min_replicas, wait_ms,
                                       on_counted, relock_holds_ref(first));
    node->is_counting = r == RELOCK_OK;
    if (r == RELOCK_OK)
        return;
    relock_holds_unref(client, first);
    DL_FOREACH_SAFE2(client->guarded.confirming, hold, next, confirm.next)
    if (hold->confirm.state == RELOCK_CONFIRM_COUNTED && hold->confirm.node == node)
        fail(client, hold, relock_clock_now_ms());
}

/* ---- answers ------------------------------------------------------------------------------- */

static void on_renewed(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;
    enum relock_verdict verdict = RELOCK_VERDICT_FAILED;

    if (result == RELOCK_OK)
        verdict = relock_verdict_renewal(reply);
    relock_mutex_lock(&client->mutex);
    if (hold->confirm.state != RELOCK_CONFIRM_SENT) {
        /* a confirmation that was dropped */
    } else if (result == RELOCK_E_CONN) {
        hold->confirm.state = RELOCK_CONFIRM_WANTED;
    } else if (verdict == RELOCK_VERDICT_DONE) {
        hold->confirm.state = RELOCK_CONFIRM_GRANTED;
        count(client, hold->confirm.node);
    } else {
        fail(client, hold, relock_clock_now_ms()); /* the watchdog's next renewal tells why */
    }
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

/* Ends what this WAIT was for, or has it sent once more, over the next connection. */
static void settle(struct relock_client *client, const struct relock_node *node, bool is_broken,
                   bool is_enough) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold, *next;

    DL_FOREACH_SAFE2(client->guarded.confirming, hold, next, confirm.next)
    {
        bool is_granted = hold->confirm.state == RELOCK_CONFIRM_GRANTED;

        if ((!is_granted && hold->confirm.state != RELOCK_CONFIRM_COUNTED) ||
            hold->confirm.node != node)
            continue;
        if (is_broken)
            hold->confirm.state = RELOCK_CONFIRM_WANTED;
        else if (!is_granted && is_enough)
            succeed(client, hold, now_ms);
        else if (!is_granted)
            fail(client, hold, now_ms);
    }
}

static void log_missing(const struct relock_client *client, const struct relock_resource *resource,
                        uint64_t owner, int64_t acked, const char *error)
{
    struct relock_subject subject = {resource->given, owner, RELOCK_E_REPLICAS};
    char name[RELOCK_LOG_NAME_MAX];

    relock_log_about(
        &client->log, (struct relock_cause){"renewal not acknowledged", RELOCK_E_REPLICAS},
        &subject,
        "%s: owner %llu: renewal not acknowledged: %lld replicas have it, and min_replicas is %u%s"
        "%.100s; retrying while the hold lasts: check the replicas of this server",
        relock_log_name(resource->name, name), (unsigned long long)owner, (long long)acked,
        client->options.min_replicas, error ? ": " : "", error ? error : "");
}

static void on_counted(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg; /* one of those that WAIT is for */
    struct relock_client *client = hold->resource->client;
    const char *error = result == RELOCK_E_CONN ? NULL : relock_reply_error(reply);
    bool is_enough;
    struct relock_node *node;
    uint64_t owner;
    int64_t acked = 0;

    is_enough = result == RELOCK_OK && relock_reply_integer(reply, &acked) &&
                acked >= (int64_t)client->options.min_replicas;
    relock_mutex_lock(&client->mutex);
    node = hold->confirm.node;
    owner = hold->owner;
    node->is_counting = false;
    settle(client, node, result == RELOCK_E_CONN, is_enough);
    count(client, node);
    relock_confirm_up(client);
    relock_mutex_unlock(&client->mutex);
    if (error && relock_explain_is_missing(error)) /* the reference keeps the node meanwhile */
        relock_explain_extra(node->server, RELOCK_EXTRA_WAIT, error);
    if (!is_enough && result != RELOCK_E_CONN)
        log_missing(client, hold->resource, owner, acked, error);
    relock_mutex_lock(&client->mutex);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}
