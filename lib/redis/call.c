#include "redis/call.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/status.h"
#include "redis/explain.h"
#include "redis/lane.h"
#include "redis/lanes.h"
#include "redis/origin.h"
#include "redis/orphan.h"
#include "redis/reply.h"

#include <poll.h>
#include <stdio.h>

#define FIRST_PAUSE_MS 10
#define MAX_PAUSE_MS 200

/* Room on the stack for the commands of a lock with a name of usual length. */
#define ROOM_BYTES 1024

/* The scripts may be flushed between loading one and running it, but not for ever. */
#define MAX_LOADS 3

void relock_call_write(const struct relock_call *call, struct relock_buffer *buffer)
{
    relock_command_begin(buffer, 4 + call->n_args);
    relock_command_word(buffer, "EVALSHA");
    relock_command_word(buffer, call->script->sha1);
    relock_command_word(buffer, "1");
    relock_command_arg(buffer, call->key.data, call->key.len);
    for (size_t i = 0; i < call->n_args; i++)
        relock_command_arg(buffer, call->args[i].data, call->args[i].len);
}

void relock_call_write_load(const struct relock_script *script, struct relock_buffer *buffer)
{
    relock_command_begin(buffer, 3);
    relock_command_word(buffer, "SCRIPT");
    relock_command_word(buffer, "LOAD");
    relock_command_word(buffer, script->body);
}

void relock_call_end(struct relock_call *call)
{
    call->reply = relock_reply_free(call->reply);
    relock_orphan_drop(call->orphan);
    call->orphan = NULL;
}

/* ---- exchanges ----------------------------------------------------------------------------- */

/* Commands, and the question in which they are asked. */
struct exchange {
    struct relock_question question;
    struct relock_buffer commands;
    char room[ROOM_BYTES];
};

static void begin(struct exchange *exchange)
{
    relock_buffer_lend(&exchange->commands, exchange->room, sizeof(exchange->room));
    exchange->question.kills = NULL;
    exchange->question.n_replies = 0;
}

/* Asks what was appended, or has killed what is to be. */
static int ask(struct exchange *exchange, struct relock_lane *lane, uint64_t deadline_ms)
{
    struct relock_question *question = &exchange->question;
    int r = RELOCK_E_NOMEM;

    if (exchange->commands.failed) {
        question->sent = false;
        question->orphan = NULL;
        (void)snprintf(question->why, sizeof(question->why), "out of memory for a command");
    } else {
        question->commands.data = exchange->commands.data;
        question->commands.len = exchange->commands.len;
        r = relock_lane_ask(lane, question, deadline_ms);
    }
    relock_buffer_deinit(&exchange->commands);
    return r;
}

/* What went wrong is of no consequence for anything that was sent before. */
static int forget(struct exchange *exchange, int result)
{
    if (result < 0 && exchange->question.sent) {
        relock_origin_unref(exchange->question.origin);
        relock_orphan_drop(exchange->question.orphan);
    }
    return result;
}

int relock_call_load_all(struct relock_lanes *lanes, uint64_t deadline_ms, char why[RELOCK_WHY_MAX])
{
    struct relock_lane *lane;
    struct exchange exchange;
    int r;

    (void)snprintf(why, RELOCK_WHY_MAX, "all connections were busy until the deadline");
    r = relock_lanes_join(lanes, false, deadline_ms, &lane);
    if (r < 0)
        return r;
    begin(&exchange);
    for (size_t i = 0; relock_scripts[i]; i++) {
        relock_call_write_load(relock_scripts[i], &exchange.commands);
        exchange.question.n_replies++;
    }
    r = forget(&exchange, ask(&exchange, lane, deadline_ms));
    relock_lanes_leave(lanes, lane);
    if (r != RELOCK_OK) {
        (void)snprintf(why, RELOCK_WHY_MAX, "%s", exchange.question.why);
        return r;
    }
    relock_reply_free(exchange.question.before);
    relock_reply_free(exchange.question.reply);
    return r;
}

/* ---- one attempt --------------------------------------------------------------------------- */

static int fail(struct relock_call *call, int result, const char *why)
{
    (void)snprintf(call->why, sizeof(call->why), "%s", why);
    return result;
}

static int pay_debt(struct relock_call *call, struct relock_lane *lane, uint64_t deadline_ms)
{
    struct exchange exchange;
    const char *error;
    int r;

    if (!call->debt || !*call->debt)
        return RELOCK_OK;
    begin(&exchange);
    exchange.question.kills = *call->debt;
    exchange.question.n_replies = 1;
    r = forget(&exchange, ask(&exchange, lane, deadline_ms));
    if (r != RELOCK_OK)
        return fail(call, r, exchange.question.why);

    error = relock_reply_error(exchange.question.reply);
    if (error && relock_refusal_of(error) == RELOCK_REFUSED_FOR_NOW)
        r = fail(call, RELOCK_AGAIN, error);
    else if (error && relock_explain_is_missing(error))
        relock_explain_extra(relock_lane_server(lane), RELOCK_EXTRA_KILL, error);
    relock_reply_free(exchange.question.reply);
    if (r != RELOCK_OK)
        return r;
    /* Killed, not there any more, or not permitted: there is no more that can be done. */
    *call->debt = relock_origin_unref(*call->debt);
    return RELOCK_OK;
}

/* A command of this call is without an answer, and may have run. An orphan is the last: its
 * deadline was that of the call. */
static int fail_sent(struct relock_call *call, const struct relock_question *question, int result)
{
    call->unanswered = true;
    if (call->debt) {
        *call->debt = question->sent ? question->origin : NULL;
        call->orphan = question->orphan;
    } else if (question->sent) {
        relock_origin_unref(question->origin);
        relock_orphan_drop(question->orphan);
    }
    return fail(call, result, question->why);
}

static bool is_missing_script(const struct redisReply *reply)
{
    const char *error = relock_reply_error(reply);

    return error && relock_refusal_of(error) == RELOCK_REFUSED_SCRIPT;
}

/* Why the script could not be loaded says more than that it is not there. */
static struct redisReply *choose(struct redisReply *loaded, struct redisReply *reply)
{
    if (loaded && is_missing_script(reply) && relock_reply_error(loaded)) {
        relock_reply_free(reply);
        return loaded;
    }
    relock_reply_free(loaded);
    return reply;
}

/*
 * Asks what was appended, where WAIT counts what this connection has written: on a new one that is
 * nothing, and all replicas have it.
 */
static int ask_on_the_same(struct exchange *exchange, struct relock_lane *lane,
                           uint64_t deadline_ms)
{
    uint64_t reconnects = relock_lane_reconnects(lane);
    int r = ask(exchange, lane, deadline_ms);

    if (r != RELOCK_OK || relock_lane_reconnects(lane) == reconnects)
        return r;
    relock_reply_free(exchange->question.reply);
    exchange->question.sent = false;
    (void)snprintf(exchange->question.why, sizeof(exchange->question.why),
                   "%s: the connection ended before replicas could be asked for",
                   relock_lane_label(lane));
    return RELOCK_E_CONN;
}

/* Only what was granted is worth the wait: a refusal is a number, the rest of a lease. */
static int wait_for_replicas(struct relock_call *call, struct relock_lane *lane,
                             uint64_t deadline_ms)
{
    uint64_t left_ms = relock_clock_left(relock_clock_now_ms(), deadline_ms);
    uint64_t wait_ms = left_ms - (left_ms / 4); /* the answer has to come in time, too */
    struct exchange exchange;
    int64_t acked = 0;
    int64_t rest_ms;
    int r;

    if (call->min_replicas == 0 || relock_reply_integer(call->reply, &rest_ms) ||
        relock_reply_error(call->reply))
        return RELOCK_OK;
    if (wait_ms > call->replica_timeout_ms)
        wait_ms = call->replica_timeout_ms;
    begin(&exchange);
    relock_command_begin(&exchange.commands, 3);
    relock_command_word(&exchange.commands, "WAIT");
    relock_command_number(&exchange.commands, call->min_replicas);
    relock_command_number(&exchange.commands, wait_ms > 0 ? wait_ms : 1);
    exchange.question.n_replies = 1;
    r = ask_on_the_same(&exchange, lane, deadline_ms);
    if (r != RELOCK_OK) {
        relock_call_end(call);
        return fail_sent(call, &exchange.question, r);
    }
    if (relock_reply_integer(exchange.question.reply, &acked) && acked > 0)
        call->acked_replicas = (unsigned)acked;
    if (relock_reply_error(exchange.question.reply))
        (void)fail(call, RELOCK_E_REPLICAS, relock_reply_error(exchange.question.reply));
    relock_reply_free(exchange.question.reply);
    return RELOCK_OK;
}

static int run_script(struct relock_call *call, struct relock_lane *lane, bool load,
                      uint64_t deadline_ms)
{
    struct exchange exchange;
    int r;

    begin(&exchange);
    if (load)
        relock_call_write_load(call->script, &exchange.commands);
    relock_call_write(call, &exchange.commands);
    exchange.question.n_replies = load ? 2 : 1;
    r = ask(&exchange, lane, deadline_ms);
    if (r < 0 && exchange.question.sent)
        return fail_sent(call, &exchange.question, r);
    if (r != RELOCK_OK)
        return fail(call, r, exchange.question.why);
    call->reply = choose(exchange.question.before, exchange.question.reply);
    return wait_for_replicas(call, lane, deadline_ms);
}

static void say_refused(struct relock_call *call, const struct relock_lane *lane, const char *error)
{
    char what[RELOCK_WHY_MAX];

    relock_explain(what, call->script, error);
    (void)snprintf(call->why, sizeof(call->why), "%s: %.180s", relock_lane_label(lane), what);
}

/* Returns RELOCK_AGAIN or RELOCK_REPLICA when it was refused for now. */
static int attempt(struct relock_call *call, struct relock_lane *lane, uint64_t deadline_ms)
{
    enum relock_refusal refusal = RELOCK_REFUSED;
    int r = pay_debt(call, lane, deadline_ms);

    if (r != RELOCK_OK)
        return r;
    for (unsigned loads = 0; loads <= MAX_LOADS; loads++) {
        const char *error;

        r = run_script(call, lane, loads > 0, deadline_ms);
        if (r != RELOCK_OK)
            return r;
        error = relock_reply_error(call->reply);
        if (!error)
            return RELOCK_OK;
        refusal = relock_refusal_of(error);
        say_refused(call, lane, error);
        relock_call_end(call);
        if (refusal != RELOCK_REFUSED_SCRIPT)
            break;
    }
    if (refusal == RELOCK_REFUSED_HERE)
        relock_lane_retire(lane);
    return refusal == RELOCK_REFUSED_FOR_NOW || refusal == RELOCK_REFUSED_HERE
               ? RELOCK_AGAIN
               : relock_refusal_result(refusal);
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* Spreads those who meet the same trouble. Returns false when the deadline is too near. */
static bool pause_before_retry(uint32_t *pause_ms, uint64_t deadline_ms)
{
    uint32_t ms = *pause_ms > 0 ? (*pause_ms / 2) + relock_ident_jitter((*pause_ms / 2) + 1) : 0;

    *pause_ms = *pause_ms > 0 ? *pause_ms * 2 : FIRST_PAUSE_MS;
    if (*pause_ms > MAX_PAUSE_MS)
        *pause_ms = MAX_PAUSE_MS;
    if (relock_clock_left(relock_clock_now_ms(), deadline_ms) <= ms)
        return false;
    (void)poll(NULL, 0, (int)ms);
    return true;
}

int relock_call_run(struct relock_call *call, struct relock_lanes *lanes, uint64_t deadline_ms)
{
    uint32_t pause_ms = 0; /* a connection that was idle and is gone: ask again at once */
    bool alone = call->min_replicas > 0; /* WAIT keeps all waiting that comes behind it */
    char refused[RELOCK_WHY_MAX];
    int r;

    refused[0] = '\0';
    do {
        struct relock_lane *lane;

        r = relock_lanes_join(lanes, alone, deadline_ms, &lane);
        if (r < 0) {
            (void)fail(call, r, "all connections were busy until the deadline");
            break;
        }
        r = attempt(call, lane, deadline_ms);
        relock_lanes_leave(lanes, lane);
        if (r == RELOCK_AGAIN || r == RELOCK_REPLICA)
            (void)snprintf(refused, sizeof(refused), "%s", call->why);
        else if (r != RELOCK_E_CONN)
            return r;
    } while (pause_before_retry(&pause_ms, deadline_ms));

    /* That there was no time for a last try says less than what all the others were told. */
    if (*refused && !call->unanswered)
        return fail(call, RELOCK_E_SERVER, refused);
    return r > 0 ? RELOCK_E_SERVER : r;
}
