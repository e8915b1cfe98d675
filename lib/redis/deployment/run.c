#include "redis/deployment/run.h"

#include "base/backoff.h"
#include "base/clock.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/connect/explain.h"
#include "redis/deployment/topology.h"
#include "redis/lane/call.h"
#include "redis/lane/inflight.h"
#include "redis/lane/lane.h"
#include "redis/lane/lanes.h"
#include "redis/server/reply.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- eviction policies --------------------------------------------------------------------- */

static bool evicts(const char *policy, size_t len)
{
    static const char none[] = "noeviction";

    return len != strlen(none) || memcmp(policy, none, len) != 0;
}

/* "# Memory\r\n...maxmemory:104857600\r\n...maxmemory_policy:allkeys-lru\r\n..." */
void relock_eviction_warn(const struct relock_server *server, const struct redisReply *memory)
{
    const char *limit, *policy;
    size_t len;

    if (!relock_reply_field(memory, "maxmemory", &limit, &len) || strtoull(limit, NULL, 10) == 0)
        return;
    if (!relock_reply_field(memory, "maxmemory_policy", &policy, &len) || !evicts(policy, len))
        return;
    relock_log_write(server->log, RELOCK_LOG_WARNING,
                     "%s: maxmemory-policy is %.*s: a server that is short of memory may evict the "
                     "key of a held lock, and the lock is lost; set maxmemory-policy noeviction",
                     server->label, len < 40 ? (int)len : 40, policy);
}

/* ---- one attempt over one lane ------------------------------------------------------------- */

/* Keeps the reason of a failure. Returns `result`. */
static int attempt_fail(struct relock_call *call, int result, const char *why)
{
    (void)snprintf(call->why, sizeof(call->why), "%s", why);
    return result;
}

/* ---- the fence ----------------------------------------------------------------------------- */

/* Kills the connection that the fence names, if there is one, and drops the fence. Returns as
 * attempt_run. */
static int attempt_kill_fence(struct relock_call *call, struct relock_lane *lane,
                              uint64_t deadline_ms)
{
    struct relock_round_trip round_trip;
    int r;

    if (!call->fence || !*call->fence)
        return RELOCK_OK;
    relock_round_trip_begin(&round_trip);
    round_trip.exchange.kills = *call->fence;
    round_trip.exchange.n_replies = 1;
    round_trip.exchange.forms = RELOCK_CONN_ID_KILL_FORMS;
    r = relock_round_trip_ask_harmless(&round_trip, lane, deadline_ms);
    if (r != RELOCK_OK)
        return attempt_fail(call, r, round_trip.exchange.why);

    if (relock_conn_id_is_killed(relock_lane_server(lane), round_trip.exchange.reply))
        *call->fence = relock_conn_id_unref(*call->fence);
    else
        r = attempt_fail(call, RELOCK_AGAIN, relock_reply_error(round_trip.exchange.reply));
    relock_reply_free(round_trip.exchange.reply);
    return r;
}

/* ---- replies ------------------------------------------------------------------------------- */

/* A command of this call was not answered and may have run. An orphan is the last command of its
 * call: both have the same deadline. */
static int fail_sent(struct relock_call *call, const struct relock_exchange *exchange, int result)
{
    call->unanswered = true;
    if (call->fence) {
        *call->fence = exchange->sent ? exchange->conn_id : NULL;
        call->orphan = exchange->orphan;
    } else if (exchange->sent) {
        relock_conn_id_unref(exchange->conn_id);
        relock_orphan_drop(exchange->orphan);
    }
    return attempt_fail(call, result, exchange->why);
}

static bool is_missing_script(const struct redisReply *reply)
{
    const char *error = relock_reply_error(reply);

    return error && relock_refusal_of(error) == RELOCK_REFUSED_SCRIPT;
}

/* ---- replicas ------------------------------------------------------------------------------ */

static void say_not_counted(struct relock_call *call, const struct relock_lane *lane,
                            const char *error)
{
    if (relock_explain_is_missing(error))
        relock_explain_extra(relock_lane_server(lane), RELOCK_EXTRA_WAIT, error);
    (void)attempt_fail(call, RELOCK_E_REPLICAS, error);
}

/* A refusal of an acquire is an integer, the remaining lease. */
static bool is_granted(const struct relock_call *call)
{
    int64_t number;

    if (relock_reply_error(call->reply))
        return false;
    return relock_reply_integer(call->reply, &number) ? call->grants_by_number && number > 0 : true;
}

/* Waits only after a grant. WAIT counts replicas that have the writes of its connection. A new one
 * has written nothing, so every replica would count. */
static int wait_for_replicas(struct relock_call *call, struct relock_lane *lane,
                             uint64_t deadline_ms)
{
    struct relock_round_trip round_trip;
    uint64_t left_ms, wait_ms;
    int64_t acked = 0;
    int r;

    if (call->min_replicas == 0 || !is_granted(call))
        return RELOCK_OK;
    left_ms = relock_clock_left(relock_clock_now_ms(), deadline_ms);
    wait_ms = left_ms - (left_ms / 4); /* the answer has the remaining quarter */
    if (wait_ms > call->replica_timeout_ms)
        wait_ms = call->replica_timeout_ms;
    relock_round_trip_begin(&round_trip);
    relock_command_begin(&round_trip.commands, 3);
    relock_command_word(&round_trip.commands, "WAIT");
    relock_command_number(&round_trip.commands, call->min_replicas);
    relock_command_number(&round_trip.commands, wait_ms > 0 ? wait_ms : 1);
    round_trip.exchange.n_replies = 1;
    round_trip.exchange.forms = RELOCK_REPLY_INTEGER;
    round_trip.exchange.stays = true;
    r = relock_round_trip_ask(&round_trip, lane, deadline_ms);
    if (r != RELOCK_OK) {
        relock_call_end(call);
        return fail_sent(call, &round_trip.exchange, r);
    }
    if (relock_reply_integer(round_trip.exchange.reply, &acked) && acked > 0)
        call->acked_replicas = (unsigned)acked;
    if (relock_reply_error(round_trip.exchange.reply))
        say_not_counted(call, lane, relock_reply_error(round_trip.exchange.reply));
    relock_reply_free(round_trip.exchange.reply);
    return RELOCK_OK;
}

/* ---- the script ---------------------------------------------------------------------------- */

/* An unknown error may be the reply to bytes of another program on this connection. Over a new one,
 * it is believed. */
static unsigned forms_of(const struct relock_call *call)
{
    return call->script->forms | (call->unanswered ? 0 : RELOCK_REPLY_NO_ERR);
}

static int run_script(struct relock_call *call, struct relock_lane *lane, bool asks,
                      enum relock_call_form form, uint64_t deadline_ms)
{
    struct relock_round_trip round_trip;
    int r;

    relock_round_trip_begin(&round_trip);
    if (asks)
        relock_command_words(&round_trip.commands, "ASKING");
    relock_call_write_head(call->script, call->n_args, form, &round_trip.commands);
    relock_call_write_args(call, &round_trip.commands);
    round_trip.exchange.n_replies = form == RELOCK_CALL_LOADED || asks ? 2 : 1;
    round_trip.exchange.forms = forms_of(call);
    round_trip.exchange.forms_before = RELOCK_REPLY_TEXT; /* of ASKING or SCRIPT LOAD */
    r = relock_round_trip_ask(&round_trip, lane, deadline_ms);
    if (r < 0 && round_trip.exchange.sent)
        return fail_sent(call, &round_trip.exchange, r);
    if (r != RELOCK_OK)
        return attempt_fail(call, r, round_trip.exchange.why);
    call->reply = round_trip.exchange.reply;
    if (form == RELOCK_CALL_LOADED && is_missing_script(call->reply))
        relock_call_check_loaded(relock_lane_server(lane), round_trip.exchange.before);
    relock_reply_free(round_trip.exchange.before);
    return wait_for_replicas(call, lane, deadline_ms);
}

/*
 * `asks`: the script is to follow ASKING. Returns RELOCK_OK and the reply of the call, which may be
 * a refusal; RELOCK_AGAIN, if the server refuses CLIENT KILL for now; or as relock_lane_ask.
 */
static int attempt_run(struct relock_call *call, struct relock_lane *lane, bool asks,
                       uint64_t deadline_ms)
{
    enum relock_call_form form = RELOCK_CALL_BY_HASH;
    int r = attempt_kill_fence(call, lane, deadline_ms);

    if (r != RELOCK_OK)
        return r;
    for (;;) {
        r = run_script(call, lane, asks, form, deadline_ms);
        if (r != RELOCK_OK || !is_missing_script(call->reply) ||
            !relock_call_next_form(call->script, asks, &form))
            return r;
        relock_call_end(call);
    }
}

#define MIN_PAUSE_MS 10
#define MAX_PAUSE_MS 200

/* Without a pause. */
#define MAX_REDIRECTS 5

/* The longest that a call waits for a node that does not hold its key. */
#define ELSEWHERE_MS 200

/* ---- loading all scripts ------------------------------------------------------------------- */

/* Pauses, and computes the next pause. Returns false when the deadline is too near. */
static bool pause_before_retry(uint64_t *pause_ms, uint64_t deadline_ms)
{
    uint64_t ms = *pause_ms;

    *pause_ms = relock_backoff_ms(ms, MIN_PAUSE_MS, MAX_PAUSE_MS);
    if (relock_clock_left(relock_clock_now_ms(), deadline_ms) <= ms)
        return false;
    (void)poll(NULL, 0, (int)ms);
    return true;
}

static int load_all(struct relock_lane *lane, uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    struct relock_round_trip round_trip;
    int r;

    relock_round_trip_begin(&round_trip);
    for (size_t i = 0; relock_scripts[i]; i++) {
        relock_call_write_load(relock_scripts[i], &round_trip.commands);
        round_trip.exchange.n_replies++;
    }
    relock_command_words(&round_trip.commands, "INFO", "memory");
    round_trip.exchange.n_replies++;
    round_trip.exchange.forms = round_trip.exchange.forms_before = RELOCK_REPLY_TEXT;
    r = relock_round_trip_ask_harmless(&round_trip, lane, deadline_ms);
    if (r != RELOCK_OK) {
        (void)snprintf(why, RELOCK_WHY_MAX, "%s", round_trip.exchange.why);
        return r;
    }
    relock_call_check_loaded(relock_lane_server(lane), round_trip.exchange.before);
    relock_eviction_warn(relock_lane_server(lane), round_trip.exchange.reply);
    relock_reply_free(round_trip.exchange.before);
    relock_reply_free(round_trip.exchange.reply);
    return r;
}

/* While a failover goes on, sentinels name a server that is down or a replica. A server that has
 * answered the login, and nothing since, is slow. */
static bool may_pass(const struct relock_lane *lane, int result)
{
    bool has_sentinels = relock_lane_server(lane)->url.master;

    return (result == RELOCK_REPLICA && has_sentinels) ||
           (result == RELOCK_E_CONN && (has_sentinels || relock_lane_connects(lane) > 0));
}

int relock_call_load_all(struct relock_node *node, uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    struct relock_lane *lane;
    uint64_t pause_ms = MIN_PAUSE_MS;
    char last[RELOCK_WHY_MAX];
    int r;

    (void)snprintf(why, RELOCK_WHY_MAX, RELOCK_LANES_BUSY);
    r = relock_lanes_join(node->lanes, false, deadline_ms, &lane);
    if (r < 0)
        return r;
    r = load_all(lane, deadline_ms, why);
    while (may_pass(lane, r) && pause_before_retry(&pause_ms, deadline_ms)) {
        r = load_all(lane, deadline_ms, last);
        /* At the deadline, the earlier reason says more than that the time is over. */
        if (r != RELOCK_OK && relock_clock_now_ms() < deadline_ms)
            (void)snprintf(why, RELOCK_WHY_MAX, "%s", last);
    }
    relock_lanes_leave(node->lanes, lane);
    return r;
}

/* ---- one attempt at one node --------------------------------------------------------------- */

/* Where to run the script. */
struct place {
    struct relock_topology *topology;
    struct relock_node *node; /* a reference; NULL: the one that holds the key then */
    bool asks;                /* it is to follow ASKING */
};

/* Its number may be that of another connection at this node. */
static void drop_foreign_fence(struct relock_call *call, const struct place *place)
{
    if (place->topology->is_cluster && call->fence && *call->fence &&
        relock_conn_id_node(*call->fence) != place->node)
        *call->fence = relock_conn_id_unref(*call->fence);
}

/* If the key has left the node that the fence leads to, has that node kill it. */
static void kill_fence_at_its_node(struct relock_call *call, const struct place *place,
                                   uint64_t deadline_ms)
{
    uint64_t limit_ms = relock_clock_sooner(relock_clock_in(ELSEWHERE_MS), deadline_ms);
    struct relock_node *fence_node = NULL;
    struct relock_conn_id *fence;
    struct relock_lane *lane;

    if (call->fence && *call->fence)
        fence_node = relock_topology_fence_node(place->topology, *call->fence, place->node);
    if (!fence_node) {
        drop_foreign_fence(call, place);
        return;
    }
    fence = relock_conn_id_ref(*call->fence); /* the reference to `fence_node` */
    if (relock_lanes_join(fence_node->lanes, false, limit_ms, &lane) == RELOCK_OK) {
        if (attempt_kill_fence(call, lane, limit_ms) == RELOCK_E_CONN)
            relock_topology_distrust(place->topology, fence_node);
        relock_lanes_leave(fence_node->lanes, lane);
    }
    (void)relock_conn_id_unref(fence);
    drop_foreign_fence(call, place);
}

static void say_refused(struct relock_call *call, const struct relock_lane *lane, const char *error)
{
    char what[RELOCK_WHY_MAX];

    relock_explain(what, call->script, error);
    (void)snprintf(call->why, sizeof(call->why), "%s: %.180s", relock_lane_server(lane)->label,
                   what);
}

/* The address of the node leads to another server now, but this connection does not. */
static void leave_replaced(struct relock_call *call, struct relock_lane *lane, const char *error)
{
    char what[RELOCK_WHY_MAX];

    relock_explain_replaced(what, error);
    (void)snprintf(call->why, sizeof(call->why), "%s: %.180s", relock_lane_server(lane)->label,
                   what);
    relock_lane_retire(lane);
}

/* Of a lock with several keys, that node may not have all yet: its script waits for the others. */
static int redirect(struct relock_call *call, struct relock_lane *lane, const char *error,
                    const struct place *place, struct place *next)
{
    bool asks = false;
    struct relock_node *node = relock_topology_redirect(place->topology, place->node, error, &asks);

    if (!node && !place->topology->is_cluster)
        return RELOCK_E_SERVER;
    if (node == place->node)
        leave_replaced(call, lane, error);
    if (node == place->node || (asks && !relock_script_has_one_key(call->script))) {
        relock_topology_drop(place->topology, node);
        node = NULL;
    }
    next->node = node;
    next->asks = asks;
    return RELOCK_AGAIN;
}

/* The script was refused, and is not just missing. */
static int take_refusal(struct relock_call *call, struct relock_lane *lane, const char *error,
                        const struct place *place, struct place *next)
{
    enum relock_refusal refusal = relock_refusal_of(error);

    if (refusal == RELOCK_REFUSED_MOVED)
        return redirect(call, lane, error, place, next);
    if (refusal == RELOCK_REFUSED_HALFWAY)
        call->unanswered = true; /* what it has done is not undone */
    if (refusal == RELOCK_REFUSED_HERE) {
        relock_topology_distrust(place->topology, place->node);
        relock_lane_retire(lane);
    }
    return refusal == RELOCK_REFUSED_FOR_NOW || refusal == RELOCK_REFUSED_HERE ||
                   refusal == RELOCK_REFUSED_HALFWAY
               ? RELOCK_AGAIN
               : relock_refusal_result(refusal);
}

/* Returns RELOCK_AGAIN or RELOCK_REPLICA when the server refused for now, or the script is to run
 * at another place, `next`. */
static int attempt(struct relock_call *call, struct relock_lane *lane, uint64_t deadline_ms,
                   const struct place *place, struct place *next)
{
    int r = attempt_run(call, lane, place->asks, deadline_ms);
    const char *error;

    if (r != RELOCK_OK)
        return r;
    error = relock_reply_error(call->reply);
    if (!error)
        return RELOCK_OK;
    say_refused(call, lane, error);
    r = take_refusal(call, lane, error, place, next);
    relock_call_end(call);
    return r;
}

/* ---- attempts until the deadline ----------------------------------------------------------- */

/* One attempt. Where the next one belongs is left in `next`. */
static int run_at(struct relock_call *call, const struct place *place, bool alone,
                  uint64_t deadline_ms, struct place *next)
{
    struct relock_lanes *lanes = place->node->lanes;
    struct relock_lane *lane;
    int r;

    kill_fence_at_its_node(call, place, deadline_ms);
    r = relock_lanes_join(lanes, alone, deadline_ms, &lane);
    if (r < 0)
        return attempt_fail(call, r, RELOCK_LANES_BUSY);
    r = attempt(call, lane, deadline_ms, place, next);
    relock_lanes_leave(lanes, lane);
    if (r == RELOCK_E_CONN || r == RELOCK_REPLICA) {
        if (relock_clock_now_ms() < deadline_ms)
            relock_topology_distrust(place->topology, place->node);
        else
            relock_topology_recheck(place->topology);
    } else if (r == RELOCK_OK) {
        relock_topology_trust(place->node);
    }
    return r;
}

/* The same where the key is. */
static int run_once(struct relock_call *call, struct place *place, bool alone, uint64_t deadline_ms)
{
    struct place here = *place;
    int r;

    if (!here.node) {
        here.node = relock_topology_take(here.topology, call->key);
        here.asks = false;
    }
    if (!here.node)
        return attempt_fail(call, RELOCK_E_CONN, "no node is known to have the slot of the lock");
    place->node = NULL;
    r = run_at(call, &here, alone, deadline_ms, place);
    relock_topology_drop(here.topology, here.node);
    return r;
}

/* Several nodes may refer to each other, so after some redirections there is a pause. */
static bool may_go_on(const struct place *place, unsigned *n_redirects, uint64_t *pause_ms,
                      uint64_t deadline_ms)
{
    if (place->node && ++*n_redirects % MAX_REDIRECTS != 0)
        return relock_clock_now_ms() < deadline_ms;
    return pause_before_retry(pause_ms, deadline_ms);
}

int relock_call_run(struct relock_call *call, struct relock_topology *topology,
                    uint64_t deadline_ms)
{
    struct place place = {.topology = topology};
    unsigned n_redirects = 0;
    uint64_t pause_ms = 0; /* the first retry comes at once: the server closes idle connections */
    bool alone = call->min_replicas > 0; /* WAIT holds up every command behind it */
    char refused[RELOCK_WHY_MAX];
    int r;

    refused[0] = '\0';
    do {
        r = run_once(call, &place, alone, deadline_ms);
        if (r == RELOCK_AGAIN || r == RELOCK_REPLICA)
            (void)snprintf(refused, sizeof(refused), "%s", call->why);
        else if (r != RELOCK_E_CONN)
            return r;
    } while (may_go_on(&place, &n_redirects, &pause_ms, deadline_ms));
    relock_topology_drop(topology, place.node);

    /* The refusal of earlier attempts says more than that there was no time for another. */
    if (*refused && !call->unanswered)
        return attempt_fail(call, RELOCK_E_SERVER, refused);
    return r > 0 ? RELOCK_E_SERVER : r;
}
