#include "redis/call.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/status.h"
#include "redis/lane.h"
#include "redis/origin.h"
#include "redis/reply.h"

#include <poll.h>
#include <stdio.h>

#define FIRST_PAUSE_MS 10
#define MAX_PAUSE_MS 200

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

int relock_call_load_all(struct relock_lane *lane, uint64_t deadline_ms)
{
    int r;

    for (size_t i = 0; relock_scripts[i]; i++)
        relock_call_write_load(relock_scripts[i], &lane->wire.out);
    r = relock_lane_send(lane, deadline_ms);
    for (size_t i = 0; relock_scripts[i] && r == RELOCK_OK; i++) {
        struct redisReply *reply = NULL;

        r = relock_lane_receive(lane, deadline_ms, &reply);
        relock_reply_free(reply);
    }
    return r;
}

void relock_call_end(struct relock_call *call)
{
    call->reply = relock_reply_free(call->reply);
}

static int fail(struct relock_call *call, int result, const char *why)
{
    (void)snprintf(call->why, sizeof(call->why), "%s", why);
    return result;
}

/* The lane failed while a command of this call may have been on its way. */
static int fail_sent(struct relock_call *call, struct relock_lane *lane,
                     struct relock_origin *origin, int result)
{
    call->unanswered = true;
    if (call->debt)
        *call->debt = origin;
    else
        relock_origin_unref(origin);
    return fail(call, result, lane->wire.why);
}

static int pay_debt(struct relock_call *call, struct relock_lane *lane, uint64_t deadline_ms)
{
    struct redisReply *reply = NULL;
    const char *error;
    int r;

    if (!call->debt || !*call->debt)
        return RELOCK_OK;
    relock_origin_kill(*call->debt, &lane->wire.out);
    r = relock_lane_send(lane, deadline_ms);
    if (r == RELOCK_OK)
        r = relock_lane_receive(lane, deadline_ms, &reply);
    if (r < 0)
        return fail(call, r, lane->wire.why);

    error = relock_reply_error(reply);
    if (error && relock_refusal_of(error) == RELOCK_REFUSED_FOR_NOW)
        r = fail(call, RELOCK_AGAIN, error);
    relock_reply_free(reply);
    if (r != RELOCK_OK)
        return r;
    /* Killed, not there any more, or not permitted: there is no more that can be done. */
    *call->debt = relock_origin_unref(*call->debt);
    return RELOCK_OK;
}

static bool is_missing_script(const struct redisReply *reply)
{
    const char *error = relock_reply_error(reply);

    return error && relock_refusal_of(error) == RELOCK_REFUSED_SCRIPT;
}

static int read_reply(struct relock_call *call, struct relock_lane *lane, bool load,
                      uint64_t deadline_ms)
{
    struct redisReply *loaded = NULL;
    int r = RELOCK_OK;

    if (load)
        r = relock_lane_receive(lane, deadline_ms, &loaded);
    if (r == RELOCK_OK)
        r = relock_lane_receive(lane, deadline_ms, &call->reply);
    /* Why the script could not be loaded says more than that it is not there. */
    if (r == RELOCK_OK && load && is_missing_script(call->reply) && relock_reply_error(loaded)) {
        relock_reply_free(call->reply);
        call->reply = loaded;
        return r;
    }
    relock_reply_free(loaded);
    return r;
}

/* Only what was granted is worth the wait. */
static int wait_for_replicas(struct relock_call *call, struct relock_lane *lane,
                             uint64_t deadline_ms)
{
    uint64_t left_ms = relock_clock_left(relock_clock_now_ms(), deadline_ms);
    uint64_t wait_ms = left_ms - (left_ms / 4); /* the answer has to come in time, too */
    struct redisReply *reply = NULL;
    int64_t acked = 0;
    int r;

    if (call->min_replicas == 0 || !relock_reply_is_nil(call->reply))
        return RELOCK_OK;
    if (wait_ms > call->replica_timeout_ms)
        wait_ms = call->replica_timeout_ms;
    relock_command_begin(&lane->wire.out, 3);
    relock_command_word(&lane->wire.out, "WAIT");
    relock_command_number(&lane->wire.out, call->min_replicas);
    relock_command_number(&lane->wire.out, wait_ms > 0 ? wait_ms : 1);
    r = relock_lane_send(lane, deadline_ms);
    if (r == RELOCK_OK)
        r = relock_lane_receive(lane, deadline_ms, &reply);
    if (r < 0) {
        lane->touched = true; /* the command before it has gone out for certain */
        relock_call_end(call);
        return r;
    }
    if (relock_reply_integer(reply, &acked) && acked > 0)
        call->acked_replicas = (unsigned)acked;
    if (relock_reply_error(reply))
        (void)fail(call, RELOCK_E_REPLICAS, relock_reply_error(reply));
    relock_reply_free(reply);
    return RELOCK_OK;
}

static int exchange(struct relock_call *call, struct relock_lane *lane, bool load,
                    uint64_t deadline_ms)
{
    /* The lane drops it when it fails, and that is when it is needed. */
    struct relock_origin *origin = lane->origin ? relock_origin_ref(lane->origin) : NULL;
    int r;

    if (load)
        relock_call_write_load(call->script, &lane->wire.out);
    relock_call_write(call, &lane->wire.out);
    if (lane->wire.out.failed) {
        relock_buffer_clear(&lane->wire.out);
        relock_origin_unref(origin);
        return fail(call, RELOCK_E_NOMEM, "out of memory for a command");
    }
    r = relock_lane_send(lane, deadline_ms);
    if (r == RELOCK_OK)
        r = read_reply(call, lane, load, deadline_ms);
    if (r == RELOCK_OK)
        r = wait_for_replicas(call, lane, deadline_ms);
    if (r < 0 && lane->touched)
        return fail_sent(call, lane, origin, r);
    relock_origin_unref(origin);
    return r < 0 ? fail(call, r, lane->wire.why) : r;
}

/* Returns RELOCK_AGAIN when it was refused for now. */
static int attempt(struct relock_call *call, struct relock_lane *lane, uint64_t deadline_ms)
{
    enum relock_refusal refusal = RELOCK_REFUSED;
    int r = relock_lane_connect(lane, deadline_ms);

    if (r < 0)
        return fail(call, r, lane->wire.why);
    r = pay_debt(call, lane, deadline_ms);
    if (r != RELOCK_OK)
        return r;
    for (unsigned loads = 0; loads <= MAX_LOADS; loads++) {
        const char *error;

        r = exchange(call, lane, loads > 0, deadline_ms);
        if (r < 0)
            return r;
        error = relock_reply_error(call->reply);
        if (!error)
            return RELOCK_OK;
        refusal = relock_refusal_of(error);
        (void)snprintf(call->why, sizeof(call->why), "%s: %s", lane->server->label, error);
        relock_call_end(call);
        if (refusal != RELOCK_REFUSED_SCRIPT)
            break;
    }
    if (refusal == RELOCK_REFUSED_HERE)
        relock_lane_close(lane);
    return refusal == RELOCK_REFUSED_FOR_NOW || refusal == RELOCK_REFUSED_HERE
               ? RELOCK_AGAIN
               : relock_refusal_result(refusal);
}

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
    char refused[RELOCK_WHY_MAX] = "";
    int r;

    do {
        struct relock_lane *lane;

        r = relock_lanes_take(lanes, deadline_ms, &lane);
        if (r < 0) {
            (void)fail(call, r, "all connections were busy until the deadline");
            break;
        }
        r = attempt(call, lane, deadline_ms);
        relock_lanes_give(lanes, lane);
        if (r == RELOCK_AGAIN)
            (void)snprintf(refused, sizeof(refused), "%s", call->why);
        else if (r != RELOCK_E_CONN)
            return r;
    } while (pause_before_retry(&pause_ms, deadline_ms));

    /* That there was no time for a last try says less than what all the others were told. */
    if (*refused && !call->unanswered)
        return fail(call, RELOCK_E_SERVER, refused);
    return r == RELOCK_AGAIN ? RELOCK_E_SERVER : r;
}
