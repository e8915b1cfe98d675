#include "redis/deployment/attempt.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/connect/explain.h"
#include "redis/lane/call.h"
#include "redis/lane/lane.h"
#include "redis/lane/orphan.h"
#include "redis/lane/round_trip.h"
#include "redis/server/reply.h"

#include <stdio.h>

/* An operator may flush the scripts just after one was loaded, but not every time. */
#define MAX_LOADS 3

int relock_attempt_fail(struct relock_call *call, int result, const char *why)
{
    (void)snprintf(call->why, sizeof(call->why), "%s", why);
    return result;
}

/* ---- the fence ----------------------------------------------------------------------------- */

int relock_attempt_kill_fence(struct relock_call *call, struct relock_lane *lane,
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
        return relock_attempt_fail(call, r, round_trip.exchange.why);

    if (relock_conn_id_is_killed(relock_lane_server(lane), round_trip.exchange.reply))
        *call->fence = relock_conn_id_unref(*call->fence);
    else
        r = relock_attempt_fail(call, RELOCK_AGAIN, relock_reply_error(round_trip.exchange.reply));
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
    return relock_attempt_fail(call, result, exchange->why);
}

static bool is_missing_script(const struct redisReply *reply)
{
    const char *error = relock_reply_error(reply);

    return error && relock_refusal_of(error) == RELOCK_REFUSED_SCRIPT;
}

/*
 * Chooses the reply of the call, and how to send the script next, if the server lacks it. `loaded`
 * is the reply to SCRIPT LOAD; NULL: none was sent. That a script could not be loaded is a better
 * explanation than that it is missing.
 */
static void take_replies(struct relock_call *call, const struct relock_server *server,
                         struct redisReply *loaded, struct redisReply *reply,
                         enum relock_call_form *form)
{
    call->reply = reply;
    if (is_missing_script(reply)) {
        *form = RELOCK_CALL_LOADED;
        if (loaded && relock_call_cannot_load(server, loaded)) {
            *form = RELOCK_CALL_WHOLE;
        } else if (loaded && relock_reply_error(loaded)) {
            call->reply = loaded;
            loaded = reply;
        }
    }
    relock_reply_free(loaded);
}

/* The same behind ASKING, which SCRIPT LOAD would use up. */
static void take_asked(struct relock_call *call, const struct relock_exchange *exchange,
                       enum relock_call_form *form)
{
    relock_reply_free(exchange->before);
    call->reply = exchange->reply;
    if (is_missing_script(call->reply))
        *form = RELOCK_CALL_WHOLE;
}

/* ---- replicas ------------------------------------------------------------------------------ */

static void say_not_counted(struct relock_call *call, const struct relock_lane *lane,
                            const char *error)
{
    if (relock_explain_is_missing(error))
        relock_explain_extra(relock_lane_server(lane), RELOCK_EXTRA_WAIT, error);
    (void)relock_attempt_fail(call, RELOCK_E_REPLICAS, error);
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

/* Changes the form if the server lacks the script. */
static int run_script(struct relock_call *call, struct relock_lane *lane, bool asks,
                      enum relock_call_form *form, uint64_t deadline_ms)
{
    struct relock_round_trip round_trip;
    int r;

    relock_round_trip_begin(&round_trip);
    if (asks)
        relock_command_words(&round_trip.commands, "ASKING");
    relock_call_write_head(call->script, call->n_args, *form, &round_trip.commands);
    relock_call_write_args(call, &round_trip.commands);
    round_trip.exchange.n_replies = *form == RELOCK_CALL_LOADED || asks ? 2 : 1;
    round_trip.exchange.forms = forms_of(call);
    round_trip.exchange.forms_before = RELOCK_REPLY_TEXT; /* of ASKING or SCRIPT LOAD */
    r = relock_round_trip_ask(&round_trip, lane, deadline_ms);
    if (r < 0 && round_trip.exchange.sent)
        return fail_sent(call, &round_trip.exchange, r);
    if (r != RELOCK_OK)
        return relock_attempt_fail(call, r, round_trip.exchange.why);
    if (asks)
        take_asked(call, &round_trip.exchange, form);
    else
        take_replies(call, relock_lane_server(lane), round_trip.exchange.before,
                     round_trip.exchange.reply, form);
    return wait_for_replicas(call, lane, deadline_ms);
}

int relock_attempt_run(struct relock_call *call, struct relock_lane *lane, bool asks,
                       uint64_t deadline_ms)
{
    enum relock_call_form form = RELOCK_CALL_BY_HASH;
    int r = relock_attempt_kill_fence(call, lane, deadline_ms);

    if (r != RELOCK_OK)
        return r;
    for (unsigned loads = 0;; loads++) {
        r = run_script(call, lane, asks, &form, deadline_ms);
        if (r != RELOCK_OK || !is_missing_script(call->reply) || loads == MAX_LOADS)
            return r;
        relock_call_end(call);
    }
}
