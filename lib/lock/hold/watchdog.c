#include "lock/hold/holds.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/private.h"
#include "lock/state/kind.h"
#include "lock/state/observer.h"
#include "lock/state/resource.h"
#include "lock/wake/outbox.h"
#include "lock/wake/wake.h"
#include "redis/connect/explain.h"
#include "redis/deployment/topology.h"
#include "redis/io/io.h"
#include "redis/server/reply.h"

#include <string.h>

/* ---- acknowledgement by replicas ------------------------------------------------------------ */

/*
 * Has replicas acknowledge the renewals of holds, if the client has `min_replicas`.
 *
 * The watchdog renews a hold over the connection that it shares with releases and pings. After the
 * grant, the hold is renewed once more over a connection of its own to the same node, the
 * confirmer, and WAIT counts the replicas that have this renewal. Only then is the hold certain for
 * longer. One WAIT serves all holds of a node whose renewals were granted before it was sent.
 *
 * The second renewal is needed for two reasons. WAIT counts replicas that have the last write of
 * its own connection. And after a failover, only an answer over that connection proves that this
 * server has the renewal.
 *
 *     state      next       when
 *     NONE       WANTED     the watchdog's renewal is granted: confirm_want
 *     WANTED     SENT       the confirmer is up, and no WAIT is in flight there
 *     SENT       GRANTED    the renewal is granted, by `node`
 *     GRANTED    COUNTED    WAIT is sent to that node
 *     COUNTED    NONE       enough replicas have it: the hold is certain for longer
 *     COUNTED    NONE       too few have it: the hold is suspect, and is soon renewed again
 *     SENT       NONE       the renewal is not granted
 *     not NONE   WANTED     the connection broke
 *
 * While a hold is GRANTED, a WAIT is in flight at its node, so the connection is still the one that
 * granted it. A missing acknowledgement never shortens the time for which a hold is certain.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */

/* WAIT ends in this part of the time after which its connection is taken for dead. */
#define WAIT_PART 2

static void end_confirming(struct relock_client *client, struct relock_hold *hold, bool is_enough,
                           uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    relock_holds_end_confirming(client, hold);
    relock_shortcut_close(hold->resource);
    if (!relock_hold_is_live(hold))
        return;
    (void)relock_holds_ref(hold);
    if (is_enough)
        relock_holds_confirm(client, hold, hold->confirm->sent_ms, now_ms);
    else
        relock_let_go_suspect(client, hold, RELOCK_E_REPLICAS);
    relock_holds_arm(client, hold, now_ms);
    relock_holds_unref(client, hold);
}

static void on_confirming(void *arg, int result, const struct redisReply *reply);
static void on_counted(void *arg, int result, const struct redisReply *reply);

/* Unless its node is counting, or is not connected: then the hold stays WANTED. */
static void send_to_confirm(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
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
    request.call.answered_by = &hold->confirm->node;
    node = relock_node_io_open(client->topology, request.call.key);
    if (!node || node->is_counting)
        return;
    r = relock_pipeline_call(node->confirmer, &request.call, on_confirming, relock_holds_ref(hold));
    if (r == RELOCK_OK) {
        hold->confirm->state = RELOCK_CONFIRM_SENT;
        hold->confirm->sent_ms = now_ms;
        return;
    }
    relock_holds_unref(client, hold);
    if (r != RELOCK_E_CONN)
        end_confirming(client, hold, false, now_ms);
}

/* A confirmer is up, or keys have other nodes now: sends the renewals that waited for that. */
static void confirm_up(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold, *next;

    DL_FOREACH_SAFE2(client->guarded.confirming, hold, next, confirm->next)
    if (hold->confirm->state == RELOCK_CONFIRM_WANTED)
        send_to_confirm(client, hold, now_ms);
}

/* Redis granted a renewal of the hold. The caller arms the timer of the hold. */
static void confirm_want(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex)
{
    if (hold->confirm->state == RELOCK_CONFIRM_NONE) {
        hold->confirm->state = RELOCK_CONFIRM_WANTED;
        DL_APPEND2(client->guarded.confirming, hold, confirm->prev, confirm->next);
    }
    if (hold->confirm->state == RELOCK_CONFIRM_WANTED)
        send_to_confirm(client, hold, relock_clock_now_ms());
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
    DL_FOREACH2(client->guarded.confirming, hold, confirm->next)
    if (hold->confirm->state == RELOCK_CONFIRM_GRANTED && hold->confirm->node == node) {
        hold->confirm->state = RELOCK_CONFIRM_COUNTED;
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
    DL_FOREACH_SAFE2(client->guarded.confirming, hold, next, confirm->next)
    if (hold->confirm->state == RELOCK_CONFIRM_COUNTED && hold->confirm->node == node)
        end_confirming(client, hold, false, relock_clock_now_ms());
}

static void on_confirming(void *arg, int result, const struct redisReply *reply)
{
    struct relock_hold *hold = arg;
    struct relock_client *client = hold->resource->client;
    enum relock_verdict verdict = RELOCK_VERDICT_FAILED;

    if (result == RELOCK_OK)
        verdict = relock_verdict_renewal(reply);
    relock_mutex_lock(&client->mutex);
    if (hold->confirm->state != RELOCK_CONFIRM_SENT) {
        /* a confirmation that was dropped */
    } else if (result == RELOCK_E_CONN) {
        hold->confirm->state = RELOCK_CONFIRM_WANTED;
    } else if (verdict == RELOCK_VERDICT_DONE) {
        hold->confirm->state = RELOCK_CONFIRM_GRANTED;
        count(client, hold->confirm->node);
    } else {
        /* the watchdog's next renewal tells why */
        end_confirming(client, hold, false, relock_clock_now_ms());
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

    DL_FOREACH_SAFE2(client->guarded.confirming, hold, next, confirm->next)
    {
        bool is_granted = hold->confirm->state == RELOCK_CONFIRM_GRANTED;

        if ((!is_granted && hold->confirm->state != RELOCK_CONFIRM_COUNTED) ||
            hold->confirm->node != node)
            continue;
        if (is_broken)
            hold->confirm->state = RELOCK_CONFIRM_WANTED;
        else if (!is_granted)
            end_confirming(client, hold, is_enough, now_ms);
    }
}

static void log_missing(const struct relock_client *client, const struct relock_resource *resource,
                        uint64_t owner, int64_t acked, const char *error)
{
    struct relock_subject subject = {relock_resource_given(resource), owner, RELOCK_E_REPLICAS};
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
    node = hold->confirm->node;
    owner = hold->owner;
    node->is_counting = false;
    settle(client, node, result == RELOCK_E_CONN, is_enough);
    count(client, node);
    confirm_up(client);
    relock_mutex_unlock(&client->mutex);
    if (error && relock_explain_is_missing(error)) /* the reference keeps the node meanwhile */
        relock_explain_extra(node->server, RELOCK_EXTRA_WAIT, error);
    if (!is_enough && result != RELOCK_E_CONN)
        log_missing(client, hold->resource, owner, acked, error);
    relock_mutex_lock(&client->mutex);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

/* ---- reports ------------------------------------------------------------------------------- */

static void check_at(struct relock_client *client, struct relock_hold *hold, uint64_t at_ms,
                     uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    relock_tracked_drop(hold);
    if (!relock_hold_is_live(hold))
        return;
    relock_tracked_set(hold, at_ms);
    relock_holds_arm(client, hold, now_ms);
}

/* If a command is in flight, its reply may be older than the report, so a check follows. */
static void hear(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    check_at(client, hold, relock_tracked_pace(hold, now_ms), now_ms);
}

static void hear_all(struct relock_client *client, uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    RELOCK_HOLDS_FOREACH(client, hold)
    {
        if (hold->is_tracked)
            hear(client, hold, now_ms);
    }
}

static void hear_of_side(struct relock_client *client, const struct relock_resource *side,
                         uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    LL_FOREACH(side->holds, hold)
    if (hold->is_tracked)
        hear(client, hold, now_ms);
}

static void hear_of(struct relock_client *client, const struct relock_resource *primary,
                    uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_resource *readers = relock_resource_readers(primary);

    hear_of_side(client, primary, now_ms);
    if (readers)
        hear_of_side(client, readers, now_ms);
}

void relock_watchdog_own_change(struct relock_client *client, struct relock_resource *resource)
{
    hear_of(client, resource->primary, relock_clock_now_ms());
    relock_vigil_spend(client, resource->primary);
}

void relock_watchdog_hear(struct relock_client *client, const char *key, size_t len)
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
static bool is_to_be_tracked(struct relock_client *client, const struct relock_hold *hold,
                             const struct relock_node *node)
{
    return relock_hold_is_live(hold) && !hold->is_tracked && hold->tracked.due_ms == RELOCK_NEVER &&
           hold->resource->kind->renew && node_of(client, hold) == node;
}

/* When a node reports no more, its holds may have another one. */
void relock_watchdog_tracking(struct relock_client *client, const struct relock_node *node,
                              bool is_on)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    RELOCK_HOLDS_FOREACH(client, hold)
    {
        bool was_tracked = hold->is_tracked && hold->tracked.node == node;

        if (is_on ? is_to_be_tracked(client, hold, node) : was_tracked)
            check_at(client, hold, now_ms, now_ms);
    }
}

void relock_watchdog_follow(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    RELOCK_HOLDS_FOREACH(client, hold)
    {
        if (hold->is_tracked && node_of(client, hold) != hold->tracked.node)
            check_at(client, hold, now_ms, now_ms);
    }
}

#define ANSWER_MIN_MS 100

uint64_t relock_watchdog_answer_ms(const struct relock_options *options)
{
    uint64_t ms = relock_hold_renewal_ms(options->watchdog_timeout_ms);

    return relock_clock_sooner(relock_clock_later(ms, ANSWER_MIN_MS), options->command_timeout_ms);
}

/* ---- renewals ------------------------------------------------------------------------------ */

static void take_verdict(struct relock_client *client, struct relock_hold *hold,
                         enum relock_verdict verdict) RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();

    if (verdict == RELOCK_VERDICT_DONE && hold->confirms) {
        relock_holds_grant(hold, now_ms);
        confirm_want(client, hold);
    } else if (verdict == RELOCK_VERDICT_DONE)
        relock_holds_renew(client, hold, now_ms);
    else if (relock_verdict_loss(verdict))
        relock_cache_lose(client, hold, relock_verdict_loss(verdict), now_ms);
    else
        relock_let_go_suspect(client, hold, RELOCK_E_SERVER);
}

/* The answer to a renewal, or none: `verdict` counts with RELOCK_OK. Returns whether to log that
 * Redis refused it. */
static bool end_renewal(struct relock_client *client, struct relock_hold *hold, int result,
                        enum relock_verdict verdict, const struct relock_node *tracker)
    RELOCK_REQUIRES(client->mutex)
{
    bool is_live = relock_hold_is_live(hold);

    relock_shortcut_close(hold->resource);
    if (is_live && result == RELOCK_OK)
        take_verdict(client, hold, verdict);
    else if (is_live)
        relock_let_go_suspect(client, hold, result);
    relock_tracked_answered(hold, tracker, relock_clock_now_ms());
    if (result == RELOCK_OK && !hold->is_tracked)
        relock_watchdog_own_change(client, hold->resource);
    relock_holds_end_command(client, hold, relock_clock_now_ms());
    if (result == RELOCK_OK && hold->state == RELOCK_HOLD_HELD)
        relock_observer_tell_renewed(client, hold);
    return is_live && result < 0 && result != RELOCK_E_CONN;
}

void relock_watchdog_log_refusal(const struct relock_client *client,
                                 const struct relock_resource *resource, uint64_t owner, int result,
                                 const char *error)
{
    struct relock_subject subject = {relock_resource_given(resource), owner, result};
    char name[RELOCK_LOG_NAME_MAX];
    char why[RELOCK_WHY_MAX];

    relock_explain(why, resource->kind->renew, error);
    relock_log_about(&client->log, (struct relock_cause){"renewal refused", result}, &subject,
                     "%s: owner %llu: renewal refused: %s; retrying until the lease expires",
                     relock_log_name(resource->name, name), (unsigned long long)owner, why);
}

/* ---- checks -------------------------------------------------------------------------------- */

static void end_check(struct relock_client *client, struct relock_hold *hold, int result,
                      enum relock_verdict verdict, const struct relock_node *tracker)
    RELOCK_REQUIRES(client->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();

    relock_shortcut_close(hold->resource);
    if (result == RELOCK_OK && relock_verdict_loss(verdict))
        relock_cache_lose(client, hold, relock_verdict_loss(verdict), now_ms);
    relock_tracked_answered(hold, tracker, now_ms);
    relock_holds_end_check(client, hold, now_ms);
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
    relock_tracked_answered(hold, client->tracker, now_ms);
    if (result == RELOCK_OK && !is_there(hold, reply))
        relock_tracked_set(hold, now_ms);
    relock_holds_end_check(client, hold, now_ms);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

/* ---- sending ------------------------------------------------------------------------------- */

/* The verdict of an answer about this hold alone. Without a connection, what a script of many did
 * not find is gone. */
static enum relock_verdict judge(struct relock_hold *hold, int *result,
                                 const struct redisReply *reply)
{
    bool is_missed = hold->is_missed;

    hold->is_missed = false;
    if (*result == RELOCK_OK)
        return relock_verdict_renewal(reply);
    if (!is_missed || *result != RELOCK_E_CONN)
        return RELOCK_VERDICT_FAILED;
    *result = RELOCK_OK;
    return RELOCK_VERDICT_GONE;
}

static void on_answered(struct relock_hold *hold, bool renews, int result,
                        const struct redisReply *reply)
{
    struct relock_client *client = hold->resource->client;
    bool is_refused = false;
    bool is_misled = false;
    enum relock_verdict verdict;
    uint64_t owner;

    relock_mutex_lock(&client->mutex);
    owner = hold->owner;
    is_misled = hold->is_missed;
    verdict = judge(hold, &result, reply);
    is_misled = is_misled && verdict == RELOCK_VERDICT_DONE && relock_batch_distrust(client);
    if (renews)
        is_refused = end_renewal(client, hold, result, verdict, client->tracker);
    else
        end_check(client, hold, result, verdict, client->tracker);
    relock_mutex_unlock(&client->mutex); /* the reference keeps the resource meanwhile */
    if (is_refused)
        relock_watchdog_log_refusal(client, hold->resource, owner, result,
                                    relock_reply_error(reply));
    if (is_misled)
        relock_batch_log(client, "it did not find a lock that is there");
    relock_mutex_lock(&client->mutex);
    relock_holds_unref(client, hold);
    relock_mutex_unlock(&client->mutex);
}

static void on_renewed(void *arg, int result, const struct redisReply *reply)
{
    on_answered(arg, true, result, reply);
}

static void on_checked(void *arg, int result, const struct redisReply *reply)
{
    on_answered(arg, false, result, reply);
}

/* `fn` gets the hold, with a reference. */
static int send(struct relock_client *client, struct relock_hold *hold, struct relock_node *node,
                const struct relock_request *request, relock_pipeline_fn *fn)
    RELOCK_REQUIRES(client->mutex)
{
    int r = relock_pipeline_call(node ? node->pipeline : NULL, &request->call, fn,
                                 relock_holds_ref(hold));

    if (r == RELOCK_OK)
        relock_tracked_sent(hold, request->call.tracker ? node : NULL);
    else
        relock_holds_unref(client, hold);
    return r;
}

static int send_request(struct relock_client *client, struct relock_hold *hold,
                        struct relock_node *node, bool renews, bool is_tracked)
    RELOCK_REQUIRES(client->mutex)
{
    bool looks = !renews && is_tracked && hold->is_unlooked && !hold->is_missed &&
                 hold->resource->kind->look;
    struct relock_request request;

    if (renews)
        relock_request_renew(&request, hold);
    else if (looks)
        relock_request_look(&request, hold);
    else
        relock_request_check(&request, hold);
    if (is_tracked)
        request.call.tracker = &client->tracker;
    return send(client, hold, node, &request, renews ? on_renewed : looks ? on_looked : on_checked);
}

void relock_watchdog_ask(struct relock_client *client, struct relock_hold *hold,
                         struct relock_node *node, bool renews, bool is_tracked, uint64_t now_ms)
{
    int r;

    relock_shortcut_close(hold->resource); /* what happens from now on, this does not verify */
    r = send_request(client, hold, node, renews, is_tracked);
    if (r == RELOCK_OK && renews)
        relock_holds_send(hold, now_ms);
    else if (r == RELOCK_OK)
        relock_holds_send_check(hold, now_ms);
    else {
        enum relock_verdict verdict = judge(hold, &r, NULL);

        if (is_tracked)
            relock_tracked_retry(hold, now_ms);
        relock_watchdog_end(client, hold, renews, r, verdict, NULL);
    }
    relock_holds_arm(client, hold, now_ms);
}

void relock_watchdog_end(struct relock_client *client, struct relock_hold *hold, bool renews,
                         int result, enum relock_verdict verdict, const struct relock_node *tracker)
{
    if (renews)
        (void)end_renewal(client, hold, result, verdict, tracker);
    else
        end_check(client, hold, result, verdict, tracker);
}

/* Finds the node of the lock, and whether the node is to track the command that is due; if the node
 * does not track yet, it is to begin. Returns NULL if no node is known. */
static struct relock_node *aim(struct relock_client *client, struct relock_hold *hold,
                               bool *is_tracked, uint64_t now_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_node *node =
        relock_node_io_open(client->topology, relock_resource_key(hold->resource));

    *is_tracked = relock_tracked_take(hold, node, now_ms);
    return node;
}

void relock_watchdog_ask_again(struct relock_client *client, struct relock_hold *hold, bool renews,
                               enum relock_verdict verdict)
{
    uint64_t now_ms = relock_clock_now_ms();
    bool is_tracked;
    struct relock_node *node = aim(client, hold, &is_tracked, now_ms);

    hold->is_missed = verdict == RELOCK_VERDICT_GONE;
    relock_watchdog_ask(client, hold, node, renews && relock_hold_is_renewed(hold, now_ms),
                        is_tracked, now_ms);
}

void relock_watchdog_renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    bool is_tracked;
    struct relock_node *node = aim(client, hold, &is_tracked, now_ms);

    relock_batch_add(client, hold, node, true, is_tracked, now_ms);
}

static void check(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex)
{
    bool is_tracked;
    struct relock_node *node = aim(client, hold, &is_tracked, now_ms);

    if (is_tracked)
        relock_batch_add(client, hold, node, false, true, now_ms);
    else
        relock_holds_arm(client, hold, now_ms);
}

/* ---- the timer ----------------------------------------------------------------------------- */

void relock_watchdog_fire(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
{
    relock_shortcut_close(hold->resource);
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
    if (hold->tracked.due_ms <= now_ms && hold->command == RELOCK_HOLD_NOTHING_SENT)
        check(client, hold, now_ms);
    else
        relock_holds_arm(client, hold, now_ms);
}

void relock_watchdog_renew_ahead(struct relock_client *client, struct relock_hold *hold,
                                 uint64_t now_ms, uint64_t until_ms)
{
    const struct relock_node *node = node_of(client, hold);

    relock_shortcut_close(hold->resource);
    if (node && node->pipeline && relock_pipeline_may_take_turn(node->pipeline) &&
        relock_hold_is_live(hold) && relock_hold_is_renewed(hold, now_ms) &&
        hold->renew_at_ms <= until_ms && hold->command == RELOCK_HOLD_NOTHING_SENT)
        hold->resource->kind->operations->renew(client, hold, now_ms);
    else
        relock_holds_arm(client, hold, now_ms);
}

void relock_watchdog_up(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    RELOCK_HOLDS_FOREACH(client, hold)
    {
        if (hold->command != RELOCK_HOLD_NOTHING_SENT)
            continue;
        if (hold->state == RELOCK_HOLD_SUSPECT || hold->state == RELOCK_HOLD_SETTLING ||
            hold->state == RELOCK_HOLD_LOST) {
            /* At once, and first those whose time ends first. */
            hold->renew_at_ms = relock_clock_sooner(hold->valid_until_ms / 2, now_ms);
            relock_holds_arm(client, hold, now_ms);
        }
    }
    confirm_up(client);
}
