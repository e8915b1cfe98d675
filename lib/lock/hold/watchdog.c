#include "lock/hold/watchdog.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/arming.h"
#include "lock/hold/cache.h"
#include "lock/hold/confirm.h"
#include "lock/hold/holds.h"
#include "lock/hold/settle.h"
#include "lock/state/observer.h"
#include "lock/state/resource.h"
#include "lock/state/verdict.h"
#include "lock/wake/request.h"
#include "lock/wake/vigil.h"
#include "redis/connect/explain.h"
#include "redis/deployment/topology.h"
#include "redis/io/node_io.h"
#include "redis/io/pipeline.h"
#include "redis/server/reply.h"

#include <string.h>

/* ---- reports ------------------------------------------------------------------------------- */

static void check_at(struct relock_client *client, struct relock_hold *hold, uint64_t at_ms,
                     uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    relock_arming_drop(hold);
    if (!relock_hold_is_live(hold))
        return;
    relock_arming_set(hold, at_ms);
    relock_holds_arm(client, hold, now_ms);
}

/* If a command is in flight, its reply may be older than the report, so a check follows. */
static void hear(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    check_at(client, hold, relock_arming_pace(hold, now_ms), now_ms);
}

static void hear_all(struct relock_client *client, uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        if (hold->arming.node)
            hear(client, hold, now_ms);
    }
}

static void hear_of(struct relock_client *client, const struct relock_resource *primary,
                    uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    while (primary->armed)
        hear(client, primary->armed, now_ms);
}

void relock_reports_own_change(struct relock_client *client, struct relock_resource *resource)
{
    hear_of(client, resource->primary, relock_clock_now_ms());
    relock_vigil_spend(client, resource->primary);
}

void relock_reports_hear(struct relock_client *client, const char *key, size_t len)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_resource *resource;

    if (!key) {
        hear_all(client, now_ms);
        return;
    }
    resource = relock_resources_find_key(client, key, len);
    if (resource)
        hear_of(client, resource, now_ms);
}

/* ---- nodes --------------------------------------------------------------------------------- */

/* The I/O thread alone, as relock_topology_find() requires. */
static const struct relock_node *node_of(struct relock_client *client,
                                         const struct relock_hold *hold)
{
    return relock_topology_find(client->topology, relock_resource_key(hold->resource));
}

/* It has become old enough while no node could report. A younger one is not due yet. */
static bool is_to_be_armed(struct relock_client *client, const struct relock_hold *hold,
                           const struct relock_node *node)
{
    return !hold->arming.node && hold->arming.due_ms == RELOCK_NEVER &&
           hold->resource->kind->renew && node_of(client, hold) == node;
}

/* When a node reports no more, its holds may have another one. */
void relock_reports_turn(struct relock_client *client, const struct relock_node *node, bool is_on)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        bool was_armed = hold->arming.node == node;

        if (is_on ? is_to_be_armed(client, hold, node) : was_armed)
            check_at(client, hold, now_ms, now_ms);
    }
}

void relock_reports_follow(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        if (hold->arming.node && node_of(client, hold) != hold->arming.node)
            check_at(client, hold, now_ms, now_ms);
    }
}

/* ---- watchdog ------------------------------------------------------------------------------ */

#define ANSWER_MIN_MS 100

uint64_t relock_watchdog_answer_ms(const struct relock_options *options)
{
    uint64_t ms = relock_hold_renewal_ms(options->watchdog_timeout_ms);

    return relock_clock_sooner(relock_clock_later(ms, ANSWER_MIN_MS), options->command_timeout_ms);
}

/* ---- sending ------------------------------------------------------------------------------- */

/* Finds the node of the request, and whether the node is to track it; if it does not track yet, it
 * is to begin. Returns NULL if no node is known. */
static struct relock_node *aim(struct relock_client *client, struct relock_hold *hold,
                               struct relock_request *request, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_node *node = relock_node_io_open(client->topology, request->call.key);

    if (relock_arming_take(hold, node, now_ms))
        request->call.tracker = &hold->arming.tracker;
    return node;
}

/* `fn` gets the hold, with a reference. */
static int send(struct relock_client *client, struct relock_hold *hold, struct relock_node *node,
                const struct relock_request *request, relock_pipeline_fn *fn)
    RELOCK_REQUIRES(client->mutex)
{
    int r = relock_pipeline_call(node ? node->pipeline : NULL, &request->call, fn,
                                 relock_holds_ref(hold));

    if (r == RELOCK_OK)
        relock_arming_sent(hold, request->call.tracker ? node : NULL);
    else
        relock_holds_unref(client, hold);
    return r;
}

/* ---- renewals ------------------------------------------------------------------------------ */

static void take_answer(struct relock_client *client, struct relock_hold *hold,
                        const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    enum relock_verdict verdict = relock_verdict_renewal(reply);
    uint64_t now_ms = relock_clock_now_ms();

    if (verdict == RELOCK_VERDICT_DONE && relock_confirm_is_needed(client, hold)) {
        relock_holds_grant(hold, now_ms);
        relock_confirm_want(client, hold);
    } else if (verdict == RELOCK_VERDICT_DONE)
        relock_holds_renew(client, hold, now_ms);
    else if (relock_verdict_loss(verdict))
        relock_reuse_lose(client, hold, relock_verdict_loss(verdict), now_ms);
    else
        relock_let_go_suspect(client, hold, now_ms + relock_hold_retry_ms(hold->renewal_ms));
}

/* Handles the answer to a renewal. Returns whether to log that Redis refused it. */
static bool take_result(struct relock_client *client, struct relock_hold *hold, int result,
                        const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    uint64_t retry_ms = relock_hold_retry_ms(hold->renewal_ms);
    bool refused = result < 0 && result != RELOCK_E_CONN;

    if (result == RELOCK_OK)
        take_answer(client, hold, reply);
    else
        relock_let_go_suspect(client, hold,
                              refused ? relock_clock_now_ms() + retry_ms : RELOCK_NEVER);
    return refused;
}

static void log_refusal(const struct relock_client *client, const struct relock_resource *resource,
                        uint64_t owner, int result, const char *error)
{
    struct relock_subject subject = {resource->given, owner, result};
    char name[RELOCK_LOG_NAME_MAX];
    char why[RELOCK_WHY_MAX];

    relock_explain(why, resource->kind->renew, error);
    relock_log_about(&client->log, (struct relock_cause){"renewal refused", result}, &subject,
                     "%s: owner %llu: renewal refused: %s; retrying until the lease expires",
                     relock_log_name(resource->name, name), (unsigned long long)owner, why);
}

static void on_renewed(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;
    bool refused = false;
    uint64_t owner;

    relock_mutex_lock(&client->mutex);
    owner = hold->owner;
    if (relock_hold_is_live(hold))
        refused = take_result(client, hold, result, reply);
    relock_arming_answered(hold, relock_clock_now_ms());
    if (result == RELOCK_OK && !hold->arming.tracker)
        relock_reports_own_change(client, hold->resource);
    relock_holds_end_command(client, hold, relock_clock_now_ms());
    if (result == RELOCK_OK && hold->state == RELOCK_HOLD_HELD)
        relock_observer_tell_renewed(client, hold);
    if (refused) { /* the reference keeps the resource meanwhile */
        relock_mutex_unlock(&client->mutex);
        log_refusal(client, hold->resource, owner, result, relock_reply_error(reply));
        relock_mutex_lock(&client->mutex);
    }
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

void relock_watchdog_renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    struct relock_request request;
    struct relock_node *node;
    int r;

    relock_request_renew(&request, hold);
    node = aim(client, hold, &request, now_ms);
    r = send(client, hold, node, &request, on_renewed);
    if (r == RELOCK_OK)
        relock_holds_send(hold, now_ms);
    else if (r == RELOCK_E_CONN)
        relock_let_go_suspect(client, hold, RELOCK_NEVER); /* until there is a connection again */
    else
        relock_let_go_suspect(client, hold, now_ms + relock_hold_retry_ms(hold->renewal_ms));
    relock_holds_arm(client, hold, now_ms);
}

/* ---- checks -------------------------------------------------------------------------------- */

static void on_checked(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;
    uint64_t now_ms = relock_clock_now_ms();
    int reason = 0;

    if (result == RELOCK_OK)
        reason = relock_verdict_loss(relock_verdict_renewal(reply));
    relock_mutex_lock(&client->mutex);
    if (reason)
        relock_reuse_lose(client, hold, reason, now_ms);
    relock_arming_answered(hold, now_ms);
    relock_holds_end_check(client, hold, now_ms);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

/* Returns whether the reply to a look says that the hold is there. */
static bool is_there(const struct relock_hold *hold, const struct redisReply *reply)
{
    char token[RELOCK_FIELD_MAX];
    const char *text;
    size_t len;

    if (!relock_reply_text(reply, &text, &len))
        return relock_verdict_renewal(reply) == RELOCK_VERDICT_DONE;
    return len == relock_tokens_write(&hold->resource->client->tokens, hold->number, token) &&
           memcmp(text, token, len) == 0;
}

/* If the hold is not there, a check is due: it tells why, and loses the hold. */
static void on_looked(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;
    uint64_t now_ms = relock_clock_now_ms();

    relock_mutex_lock(&client->mutex);
    relock_arming_answered(hold, now_ms);
    if (result == RELOCK_OK && !is_there(hold, reply))
        relock_arming_set(hold, now_ms);
    relock_holds_end_check(client, hold, now_ms);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

static void check(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    bool looks = hold->arming.is_first && hold->resource->kind->look;
    struct relock_request request;
    struct relock_node *node;

    if (looks)
        relock_request_look(&request, hold);
    else
        relock_request_check(&request, hold);
    node = aim(client, hold, &request, now_ms);
    if (request.call.tracker &&
        send(client, hold, node, &request, looks ? on_looked : on_checked) == RELOCK_OK)
        relock_holds_send_check(hold, now_ms);
    else if (request.call.tracker)
        relock_arming_retry(hold, now_ms);
    relock_holds_arm(client, hold, now_ms);
}

/* ---- the timer ----------------------------------------------------------------------------- */

/* Unchecked: the I/O thread calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED void relock_watchdog_fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_hold *hold = RELOCK_CONTAINER(struct relock_hold, timer, timer);
    struct relock_client *client = hold->resource->client;

    if (hold->state == RELOCK_HOLD_SETTLING || hold->state == RELOCK_HOLD_LOST) {
        relock_settle_step(client, hold, now_ms);
        return;
    }
    relock_holds_check_time(client, hold, now_ms);
    if (hold->state == RELOCK_HOLD_CACHED &&
        (now_ms >= hold->cache_until_ms || now_ms >= hold->valid_until_ms))
        relock_let_go(client, hold, now_ms);
    if (!relock_hold_is_live(hold))
        return;
    if (relock_hold_is_renewed(hold, now_ms) && hold->renew_at_ms <= now_ms &&
        hold->command == RELOCK_HOLD_NOTHING_SENT) {
        hold->resource->kind->operations->renew(client, hold, now_ms); /* may end it */
        return;
    }
    if (hold->arming.due_ms <= now_ms && hold->command == RELOCK_HOLD_NOTHING_SENT)
        check(client, hold, now_ms);
    else
        relock_holds_arm(client, hold, now_ms);
}

void relock_watchdog_up(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    {
        if (hold->command != RELOCK_HOLD_NOTHING_SENT)
            continue;
        if (hold->state == RELOCK_HOLD_SUSPECT || hold->state == RELOCK_HOLD_SETTLING ||
            hold->state == RELOCK_HOLD_LOST) {
            hold->renew_at_ms = 0;
            relock_holds_arm(client, hold, now_ms);
        }
    }
    relock_confirm_up(client);
}
