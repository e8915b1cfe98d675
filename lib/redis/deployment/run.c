#include "redis/deployment/run.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/connect/explain.h"
#include "redis/deployment/private.h"
#include "redis/deployment/topology.h"
#include "redis/lane/call.h"
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

struct run {
    struct relock_call *call;
    struct relock_topology *topology;
    struct relock_node *node; /* a reference; NULL: the one that holds the key then */
    bool asks;                /* there, the script is to follow ASKING */
    struct relock_node *next; /* that a redirection names, a reference; or NULL */
    bool is_for_now;          /* the last refusal may pass */
    struct relock_attempts attempts;
};

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

static void write_script(const struct relock_call *call, const struct relock_topology *topology,
                         enum relock_call_form form, struct relock_buffer *buffer)
{
    relock_call_write_head(call->script, 1 + call->n_more_keys,
                           call->n_args + call->n_more - call->n_more_keys, form, buffer);
    relock_call_write_args(call, atomic_load(&topology->is_sharded), buffer);
}

static int run_script(const struct run *run, struct relock_lane *lane, enum relock_call_form form)
{
    struct relock_call *call = run->call;
    uint64_t deadline_ms = run->attempts.deadline_ms;
    struct relock_round_trip round_trip;
    int r;

    relock_round_trip_begin(&round_trip);
    if (run->asks)
        relock_command_words(&round_trip.commands, "ASKING");
    write_script(call, run->topology, form, &round_trip.commands);
    round_trip.exchange.n_replies = form == RELOCK_CALL_LOADED || run->asks ? 2 : 1;
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
 * Returns RELOCK_OK and the reply of the call, which may be a refusal; RELOCK_AGAIN, if the server
 * refuses CLIENT KILL for now; or as relock_lane_ask.
 */
static int attempt_run(const struct run *run, struct relock_lane *lane)
{
    enum relock_call_form form = RELOCK_CALL_BY_HASH;
    struct relock_call *call = run->call;
    int r = attempt_kill_fence(call, lane, run->attempts.deadline_ms);

    if (r != RELOCK_OK)
        return r;
    for (;;) {
        r = run_script(run, lane, form);
        if (r != RELOCK_OK || !is_missing_script(call->reply) ||
            !relock_call_next_form(call->script, run->asks, &form))
            return r;
        relock_call_end(call);
    }
}

/* The longest that a call waits for a node that does not hold its key. */
#define ELSEWHERE_MS 200

/* ---- from one attempt to the next ---------------------------------------------------------- */

/* Does as the step says. Returns whether to make another attempt. */
static bool go_on(const struct relock_attempts *attempts, enum relock_attempts_step step)
{
    if (step != RELOCK_ATTEMPTS_PAUSE)
        return step == RELOCK_ATTEMPTS_FOLLOW;
    if (attempts->until_ms == attempts->deadline_ms)
        return false;
    (void)poll(NULL, 0, relock_clock_poll_ms(relock_clock_now_ms(), attempts->until_ms));
    return true;
}

/* ---- loading all scripts ------------------------------------------------------------------- */

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
    struct relock_attempts attempts;
    struct relock_lane *lane;
    char last[RELOCK_WHY_MAX];
    int r;

    (void)snprintf(why, RELOCK_WHY_MAX, RELOCK_LANES_BUSY);
    r = relock_lanes_join(node->lanes, false, deadline_ms, &lane);
    if (r < 0)
        return r;
    relock_attempts_begin(&attempts, false, deadline_ms, RELOCK_ATTEMPTS_PAUSE_MS);
    r = load_all(lane, deadline_ms, why);
    while (may_pass(lane, r) && go_on(&attempts, relock_attempts_step(&attempts, r, NULL, why))) {
        r = load_all(lane, deadline_ms, last);
        /* At the deadline, the earlier reason says more than that the time is over. */
        if (r != RELOCK_OK && relock_clock_now_ms() < deadline_ms)
            (void)snprintf(why, RELOCK_WHY_MAX, "%s", last);
    }
    relock_lanes_leave(node->lanes, lane);
    return r;
}

/* ---- one attempt at one node --------------------------------------------------------------- */

/* If the key has left the node that the fence leads to, has that node kill it. The fence is dropped
 * then: its number may be that of another connection at this node. */
static void kill_fence_at_its_node(const struct run *run)
{
    struct relock_call *call = run->call;
    enum relock_fence_place place;
    struct relock_conn_id *fence;
    struct relock_node *node;
    struct relock_lane *lane;
    uint64_t limit_ms;

    if (!call->fence || !*call->fence)
        return;
    limit_ms = relock_clock_sooner(relock_clock_in(ELSEWHERE_MS), run->attempts.deadline_ms);
    place = relock_topology_fence_place(run->topology, *call->fence, run->node);
    if (place == RELOCK_FENCE_HERE)
        return;
    fence = relock_conn_id_ref(*call->fence); /* the reference to its node */
    node = relock_conn_id_node(fence);
    if (place == RELOCK_FENCE_ELSEWHERE &&
        relock_lanes_join(node->lanes, false, limit_ms, &lane) == RELOCK_OK) {
        if (attempt_kill_fence(call, lane, limit_ms) == RELOCK_E_CONN)
            relock_topology_distrust(run->topology, node);
        relock_lanes_leave(node->lanes, lane);
    }
    (void)relock_conn_id_unref(fence);
    *call->fence = relock_conn_id_unref(*call->fence);
}

/* The server has refused the script, and does not just lack it. The address of the node may lead to
 * another server now, but the connection of this lane does not. */
static int take_refusal(struct run *run, struct relock_lane *lane, const char *error)
{
    struct relock_call *call = run->call;
    enum relock_refusal refusal = relock_refusal_of(error);
    char what[RELOCK_WHY_MAX];

    relock_explain(what, call->script, error);
    if (refusal == RELOCK_REFUSED_HERE)
        relock_topology_distrust(run->topology, run->node);
    if (refusal == RELOCK_REFUSED_MOVED)
        run->next = relock_topology_redirect(run->topology, run->node, error, call->script,
                                             &run->attempts.n_redirects, &run->asks);
    if (run->next == run->node) {
        relock_explain_replaced(what, error);
        relock_topology_drop(run->topology, run->next);
        run->next = NULL;
        refusal = RELOCK_REFUSED_HERE;
    }
    if (refusal == RELOCK_REFUSED_HERE)
        relock_lane_retire(lane);
    (void)snprintf(call->why, sizeof(call->why), "%s: %.180s", relock_lane_server(lane)->label,
                   what);
    return run->next ? RELOCK_MOVED : RELOCK_E_SERVER;
}

/* The attempt has brought no answer. `error`: the reply, if the server has refused it. */
static enum relock_attempts_step take_failure(struct run *run, int result, const char *error)
{
    enum relock_refusal refusal = error ? relock_refusal_of(error) : RELOCK_REFUSED;
    enum relock_attempts_step step;

    if (error || result == RELOCK_REPLICA)
        run->is_for_now = result == RELOCK_REPLICA || refusal == RELOCK_REFUSED_FOR_NOW ||
                          refusal == RELOCK_REFUSED_HERE;
    run->attempts.unanswered = run->call->unanswered;
    step = relock_attempts_step(&run->attempts, result, error, run->call->why);
    run->call->unanswered = run->attempts.unanswered;
    if (error)
        relock_call_end(run->call);
    return step;
}

static enum relock_attempts_step attempt(struct run *run)
{
    uint64_t deadline_ms = run->attempts.deadline_ms;
    struct relock_lanes *lanes = run->node->lanes;
    struct relock_call *call = run->call;
    const char *error = NULL;
    struct relock_lane *lane;
    int r;

    kill_fence_at_its_node(run);
    /* WAIT holds up every command behind it. */
    r = relock_lanes_join(lanes, call->min_replicas > 0, deadline_ms, &lane);
    if (r < 0)
        return take_failure(run, attempt_fail(call, r, RELOCK_LANES_BUSY), NULL);
    r = attempt_run(run, lane);
    if (r == RELOCK_OK)
        error = relock_reply_error(call->reply);
    if (error)
        r = take_refusal(run, lane, error);
    relock_lanes_leave(lanes, lane);
    if (r == RELOCK_OK) {
        relock_topology_trust(run->node);
        run->attempts.result = RELOCK_OK;
        return RELOCK_ATTEMPTS_END;
    }
    if (r == RELOCK_E_CONN || r == RELOCK_REPLICA) {
        if (relock_clock_now_ms() < deadline_ms)
            relock_topology_distrust(run->topology, run->node);
        else
            relock_topology_recheck(run->topology);
    }
    return take_failure(run, r, error);
}

/* ---- attempts until the deadline ----------------------------------------------------------- */

/* One attempt where the key is, or where a redirection has sent the call. */
static enum relock_attempts_step run_once(struct run *run)
{
    enum relock_attempts_step step;

    if (!run->node) {
        run->node = relock_topology_take(run->topology, run->call->key);
        run->asks = false;
    }
    if (!run->node)
        return take_failure(
            run,
            attempt_fail(run->call, RELOCK_E_CONN, "no node is known to have the slot of the lock"),
            NULL);
    step = attempt(run);
    relock_topology_drop(run->topology, run->node);
    run->node = run->next;
    run->next = NULL;
    return step;
}

int relock_call_run(struct relock_call *call, struct relock_topology *topology,
                    uint64_t deadline_ms)
{
    struct run run;

    run.call = call;
    run.topology = topology;
    run.node = run.next = NULL;
    run.is_for_now = false;
    relock_attempts_begin(&run.attempts, topology->is_cluster, deadline_ms, 0);
    run.attempts.is_once = call->is_once;
    while (go_on(&run.attempts, run_once(&run)))
        continue;
    relock_topology_drop(topology, run.node);
    call->is_for_now = run.is_for_now && run.attempts.result == RELOCK_E_SERVER;
    if (run.attempts.result != RELOCK_OK)
        (void)attempt_fail(call, run.attempts.result, run.attempts.why);
    return run.attempts.result;
}

/* ---- many calls at once -------------------------------------------------------------------- */

/* In one round trip. The server runs them without a pause for other clients. */
#define TRIP_MAX 16

static int send_all(const struct relock_topology *topology, struct relock_lane *lane,
                    struct relock_call *const *calls, size_t n, unsigned forms,
                    uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    struct redisReply *replies[TRIP_MAX] = {NULL};
    struct relock_round_trip round_trip;
    int r;

    relock_round_trip_begin(&round_trip);
    for (size_t i = 0; i < n; i++)
        write_script(calls[i], topology, RELOCK_CALL_BY_HASH, &round_trip.commands);
    round_trip.exchange.n_replies = (unsigned)n;
    round_trip.exchange.replies = replies;
    round_trip.exchange.forms = round_trip.exchange.forms_before = forms;
    r = relock_round_trip_ask_harmless(&round_trip, lane, deadline_ms);
    if (r != RELOCK_OK)
        (void)snprintf(why, RELOCK_WHY_MAX, "%s", round_trip.exchange.why);
    for (size_t i = 0; i < n; i++) {
        if (replies[i] && !relock_reply_error(replies[i]))
            calls[i]->reply = replies[i];
        else
            relock_reply_free(replies[i]);
    }
    return r;
}

/* An idle connection may have been closed: so once more, over a new one. As forms_of(), the first
 * doubts an unknown error: if it answered bytes of another program, each later call would get the
 * reply of the one before it. */
static int try_at(const struct relock_topology *topology, const struct relock_node *node,
                  struct relock_call *const *calls, size_t n, uint64_t deadline_ms,
                  char why[RELOCK_WHY_MAX])
{
    unsigned forms = calls[0]->script->forms;
    struct relock_lane *lane;
    int r = relock_lanes_join(node->lanes, false, deadline_ms, &lane);

    if (r < 0) {
        (void)snprintf(why, RELOCK_WHY_MAX, RELOCK_LANES_BUSY);
        return r;
    }
    r = send_all(topology, lane, calls, n, forms | RELOCK_REPLY_NO_ERR, deadline_ms, why);
    if (r == RELOCK_E_CONN && relock_clock_now_ms() < deadline_ms)
        r = send_all(topology, lane, calls, n, forms, deadline_ms, why);
    relock_lanes_leave(node->lanes, lane);
    return r;
}

int relock_call_try_all(struct relock_call *calls, size_t n, struct relock_topology *topology,
                        uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    struct relock_node *nodes[RELOCK_CALLS_AT_ONCE]; /* each a reference, or NULL */
    struct relock_call *here[TRIP_MAX];
    int r = RELOCK_OK;

    for (size_t i = 0; i < n; i++)
        nodes[i] = relock_topology_take(topology, calls[i].key);
    for (size_t first = 0; first < n; first++) {
        struct relock_node *node = nodes[first];
        size_t n_here = 0;

        for (size_t i = first; i < n && node && n_here < TRIP_MAX; i++) {
            if (nodes[i] != node)
                continue;
            here[n_here++] = &calls[i];
            nodes[i] = NULL;
        }
        if (n_here > 0 && r != RELOCK_E_CONN)
            r = try_at(topology, node, here, n_here, deadline_ms, why);
        if (r == RELOCK_E_CONN && relock_clock_now_ms() < deadline_ms)
            r = RELOCK_OK;
        while (n_here-- > 0)
            relock_topology_drop(topology, node);
    }
    return r == RELOCK_E_CONN ? r : RELOCK_OK;
}

/* ---- posts --------------------------------------------------------------------------------- */

/* Its user frees the post. */
static void on_posted(struct relock_posted *posted)
{
    struct relock_post *post = RELOCK_CONTAINER(struct relock_post, posted, posted);
    struct relock_topology *topology = post->topology;
    struct relock_node *node = post->node;

    relock_buffer_deinit(&post->commands);
    if (posted->exchange.result == RELOCK_OK)
        relock_topology_trust(node);
    else
        relock_topology_distrust(topology, node);
    post->fn(post);
    relock_topology_drop(topology, node);
}

static void use(const struct relock_topology *topology, struct relock_node *node)
{
    if (topology->ops->take)
        atomic_fetch_add(&node->refs, 1);
}

static int post_at(struct relock_node *node, struct relock_post *post, uint64_t deadline_ms)
{
    struct relock_lane *lane;
    int r = relock_lanes_join(node->lanes, false, deadline_ms, &lane);

    if (r < 0)
        return RELOCK_AGAIN;
    post->lane = lane;
    r = relock_lane_post(lane, &post->posted, deadline_ms);
    relock_lanes_leave(node->lanes, lane);
    return r;
}

int relock_call_post(const struct relock_call *call, struct relock_topology *topology,
                     uint64_t deadline_ms, struct relock_post *post)
{
    struct relock_node *node = relock_topology_take(topology, call->key);
    struct relock_exchange *exchange = &post->posted.exchange;
    int r;

    if (!node)
        return RELOCK_AGAIN;
    relock_buffer_lend(&post->commands, post->room, sizeof(post->room));
    relock_call_write_head(call->script, 1, call->n_args, RELOCK_CALL_BY_HASH, &post->commands);
    relock_call_write_args(call, atomic_load(&topology->is_sharded), &post->commands);
    exchange->commands = (struct relock_text){post->commands.data, post->commands.len};
    exchange->n_replies = 1;
    exchange->forms = forms_of(call);
    post->posted.fn = on_posted;
    post->topology = topology;
    post->node = node;
    use(topology, node); /* on_posted() drops the other reference, perhaps at once */
    r = post->commands.failed ? RELOCK_AGAIN : post_at(node, post, deadline_ms);
    if (r != RELOCK_OK) {
        relock_buffer_deinit(&post->commands);
        relock_topology_drop(topology, node);
    }
    relock_topology_drop(topology, node);
    return r;
}

struct relock_post_place relock_post_place(const struct relock_post *post)
{
    use(post->topology, post->node);
    return (struct relock_post_place){post->topology, post->node, post->lane};
}

bool relock_post_read(struct relock_post_place place, uint64_t deadline_ms)
{
    bool reads = relock_lanes_await(place.node->lanes, place.lane, deadline_ms);

    relock_topology_drop(place.topology, place.node);
    return reads;
}
