/*
 * Each command in flight knows whose reply comes next. Behind CALL, REPEAT and WHOLE it ends.
 *
 *     next reply    then      when
 *     KILL          CALL      the server has answered CLIENT KILL
 *     CALL          LOAD      it lacks the script: SCRIPT LOAD and the command are sent
 *     LOAD          REPEAT    it has answered SCRIPT LOAD
 *     REPEAT        WHOLE     it lacks SCRIPT LOAD, too: the command is sent with the whole script
 */
#include "redis/pipeline.h"

#include "base/hash.h"
#include "base/status.h"
#include "redis/async_conn.h"
#include "redis/call.h"
#include "redis/conn_id.h"
#include "redis/explain.h"
#include "redis/loop.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>

enum next_reply { CALL, KILL, LOAD, REPEAT, WHOLE };

/* A command in flight. */
struct command {
    enum next_reply next_reply;
    bool is_kill_refused;               /* for now: an older command may still run */
    bool cannot_load;                   /* the server or the user lacks SCRIPT LOAD */
    const struct relock_script *script; /* that it runs */
    relock_pipeline_fn *fn;             /* receives the answer; NULL: it is a PING */
    void *arg;
    struct command *next, *prev;
    size_t n_args;
    size_t len;
    char args[]; /* as bytes: may have to be sent again */
};

struct relock_pipeline {
    struct relock_async_conn conn;
    relock_pipeline_up_fn *up;
    void *arg;
    struct command *in_flight; /* in the order of their replies */
};

/* ---- sending ------------------------------------------------------------------------------- */

/* Its bytes were appended to the buffer. */
static void send_command(struct relock_pipeline *pipeline, struct command *command,
                         enum next_reply next_reply)
{
    command->next_reply = next_reply;
    DL_APPEND(pipeline->in_flight, command);
    relock_async_conn_send(&pipeline->conn, next_reply == KILL || next_reply == LOAD ? 2 : 1);
}

int relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                         relock_pipeline_fn *fn, void *arg)
{
    const struct relock_conn_id *fence = call->fence ? *call->fence : NULL;
    struct command *command = NULL;
    struct relock_buffer *out;
    size_t before, from;

    if (!pipeline)
        return RELOCK_E_NOMEM;
    if (!relock_async_conn_is_up(&pipeline->conn))
        return RELOCK_E_CONN;
    out = relock_async_conn_out(&pipeline->conn);
    before = out->len;
    if (fence)
        relock_conn_id_kill(fence, pipeline->conn.login.conn_id, out);
    relock_call_write_head(call->script, call->n_args, RELOCK_CALL_BY_HASH, out);
    from = out->len;
    relock_call_write_args(call, out);
    if (!out->failed)
        command = malloc(sizeof(*command) + out->len - from);
    if (!command) {
        relock_buffer_take_back(out, before);
        return RELOCK_E_NOMEM;
    }
    *command = (struct command){.script = call->script,
                                .fn = fn,
                                .arg = arg,
                                .n_args = call->n_args,
                                .len = out->len - from};
    memcpy(command->args, out->data + from, command->len);
    send_command(pipeline, command, fence ? KILL : CALL);
    return RELOCK_OK;
}

void relock_pipeline_ping(struct relock_pipeline *pipeline)
{
    struct command *ping;

    if (!relock_async_conn_is_up(&pipeline->conn) || pipeline->in_flight)
        return;
    ping = calloc(1, sizeof(*ping));
    if (ping && relock_async_conn_ping(&pipeline->conn))
        DL_APPEND(pipeline->in_flight, ping);
    else
        free(ping); /* out of memory: the next ping does */
}

uint64_t relock_pipeline_silent_ms(const struct relock_pipeline *pipeline)
{
    return pipeline->conn.silent_ms;
}

void relock_pipeline_flush(struct relock_pipeline *pipeline)
{
    relock_async_conn_flush(&pipeline->conn);
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Sends the command again, with the script that the server does not have. Returns false when out
 * of memory. */
static bool repeat(struct relock_pipeline *pipeline, struct command *command,
                   enum relock_call_form form)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    size_t from = out->len;

    relock_call_write_head(command->script, command->n_args, form, out);
    relock_buffer_append(out, command->args, command->len);
    if (out->failed) {
        relock_buffer_take_back(out, from);
        return false;
    }
    send_command(pipeline, command, form == RELOCK_CALL_LOADED ? LOAD : WHOLE);
    return true;
}

static bool brings_script(struct relock_pipeline *pipeline, struct command *command)
{
    if (command->next_reply == CALL && command->script)
        return repeat(pipeline, command, RELOCK_CALL_LOADED);
    if (command->next_reply == REPEAT && command->cannot_load)
        return repeat(pipeline, command, RELOCK_CALL_WHOLE);
    return false;
}

/* It is in flight no more. */
static void answer(struct relock_pipeline *pipeline, struct command *command,
                   const struct redisReply *reply, enum relock_refusal refusal)
{
    const char *error = relock_reply_error(reply);
    int result = command->is_kill_refused ? RELOCK_E_SERVER : RELOCK_OK;
    char why[RELOCK_WHY_MAX];

    if (refusal == RELOCK_REFUSED_SCRIPT && brings_script(pipeline, command))
        return;
    if (command->fn)
        command->fn(command->arg, error ? relock_refusal_result(refusal) : result, reply);
    if (refusal == RELOCK_REFUSED_HERE && command->fn) {
        relock_explain(why, command->script, error);
        relock_async_conn_fail(&pipeline->conn, why);
    }
    free(command);
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct relock_pipeline *pipeline = arg;
    const char *error = relock_reply_error(reply);
    enum relock_refusal refusal = error ? relock_refusal_of(error) : RELOCK_REFUSED;
    struct command *command = pipeline->in_flight;

    if (!command) {
        relock_async_conn_fail(&pipeline->conn, "the server sent a reply without a command");
        return;
    }
    relock_async_conn_answered(&pipeline->conn, refusal != RELOCK_REFUSED_HERE);
    switch (command->next_reply) {
    case KILL:
        command->is_kill_refused = !relock_conn_id_is_killed(pipeline->conn.server, reply);
        command->next_reply = CALL;
        break;
    case LOAD:
        command->cannot_load = relock_call_cannot_load(pipeline->conn.server, reply);
        command->next_reply = REPEAT; /* whose own reply tells whether the script is there now */
        break;
    case CALL:
    case REPEAT:
    case WHOLE:
        DL_DELETE(pipeline->in_flight, command);
        answer(pipeline, command, reply, refusal);
        break;
    }
}

static void on_up(void *arg)
{
    struct relock_pipeline *pipeline = arg;

    pipeline->up(pipeline->arg);
}

static void on_down(void *arg)
{
    struct relock_pipeline *pipeline = arg;
    struct command *command;

    while ((command = pipeline->in_flight)) {
        DL_DELETE(pipeline->in_flight, command);
        if (command->fn)
            command->fn(command->arg, RELOCK_E_CONN, NULL);
        free(command);
    }
}

static const struct relock_async_conn_ops conn_ops = {
    .up = on_up,
    .reply = on_reply,
    .down = on_down,
};

int relock_pipeline_new(struct relock_loop *loop, const struct relock_server *server,
                        uint64_t answer_ms, relock_pipeline_up_fn *up, void *arg,
                        struct relock_pipeline **pipeline)
{
    struct relock_pipeline *new = calloc(1, sizeof(*new));

    if (!new)
        return RELOCK_E_NOMEM;
    relock_async_conn_init(&new->conn, relock_loop_ev(loop), server, &conn_ops, new);
    new->conn.answer_ms = answer_ms;
    /* Notices a dead connection before the server itself is taken for silent. */
    new->conn.pong_ms = server->command_timeout_ms / 2;
    new->up = up;
    new->arg = arg;
    *pipeline = new;
    return RELOCK_OK;
}

struct relock_pipeline *relock_pipeline_free(struct relock_pipeline *pipeline)
{
    struct command *command, *next;

    if (!pipeline)
        return NULL;
    relock_async_conn_deinit(&pipeline->conn);
    DL_FOREACH_SAFE(pipeline->in_flight, command, next)
    free(command);
    free(pipeline);
    return NULL;
}

void relock_pipeline_open(struct relock_pipeline *pipeline)
{
    relock_async_conn_open(&pipeline->conn);
}

struct relock_conn_id *relock_pipeline_conn_id(const struct relock_pipeline *pipeline)
{
    return relock_async_conn_is_up(&pipeline->conn) ? pipeline->conn.login.conn_id : NULL;
}

void relock_pipeline_abandon(struct relock_pipeline *pipeline)
{
    relock_async_conn_abandon(&pipeline->conn);
}

void relock_pipeline_cut(struct relock_pipeline *pipeline, const struct relock_peer *peer)
{
    relock_async_conn_cut(&pipeline->conn, peer);
}
