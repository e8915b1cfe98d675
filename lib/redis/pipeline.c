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

/* A command in flight. */
struct command {
    const struct relock_script *script; /* that it runs; NULL for other commands */
    relock_pipeline_fn *fn;             /* receives the answer; NULL: the answer is dropped */
    void *arg;
    bool is_kill;     /* CLIENT KILL */
    bool is_repeated; /* its script was missing, and has been loaded since */
    struct command *next, *prev;
    size_t len;
    char bytes[]; /* of a script's command, which may have to be sent again */
};

struct relock_pipeline {
    struct relock_async_conn conn;
    relock_pipeline_up_fn *up;
    void *arg;
    struct command *in_flight; /* in the order of their replies */
};

/* ---- sending ------------------------------------------------------------------------------- */

/* Returns NULL when out of memory. */
static struct command *new_command(struct command command, const char *bytes)
{
    struct command *new = malloc(sizeof(*new) + command.len);

    if (!new)
        return NULL;
    *new = command;
    if (new->len > 0)
        memcpy(new->bytes, bytes, new->len);
    return new;
}

/* Sends the command appended since the buffer had that length. */
static int send_command(struct relock_pipeline *pipeline, size_t from, struct command command)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    struct command *new = NULL;

    command.len = command.fn ? out->len - from : 0;
    if (!out->failed)
        new = new_command(command, out->data + from);
    if (!new) {
        relock_buffer_take_back(out, from);
        return RELOCK_E_NOMEM;
    }
    DL_APPEND(pipeline->in_flight, new);
    relock_async_conn_send(&pipeline->conn, 1);
    return RELOCK_OK;
}

int relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                         relock_pipeline_fn *fn, void *arg)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    size_t from = out->len;

    if (!relock_async_conn_is_up(&pipeline->conn))
        return RELOCK_E_CONN;
    relock_call_write(call, out);
    return send_command(pipeline, from,
                        (struct command){.script = call->script, .fn = fn, .arg = arg});
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

int relock_pipeline_kill(struct relock_pipeline *pipeline, const struct relock_conn_id *conn_id)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    size_t from = out->len;

    if (!relock_async_conn_is_up(&pipeline->conn))
        return RELOCK_E_CONN;
    relock_conn_id_kill(conn_id, pipeline->conn.login.conn_id, out);
    return send_command(pipeline, from, (struct command){.is_kill = true});
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Loads the script that the server does not have and sends the command again. Returns false when
 * out of memory. */
static bool repeat(struct relock_pipeline *pipeline, struct command *command)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    size_t from = out->len;

    relock_call_write_load(command->script, out);
    if (send_command(pipeline, from, (struct command){0}) < 0)
        return false;
    from = out->len;
    relock_buffer_append(out, command->bytes, command->len);
    if (out->failed) {
        relock_buffer_take_back(out, from);
        return false;
    }
    command->is_repeated = true;
    DL_APPEND(pipeline->in_flight, command);
    relock_async_conn_send(&pipeline->conn, 1);
    return true;
}

/* Returns false when the command is in flight again. */
static bool answer(struct relock_pipeline *pipeline, struct command *command,
                   const struct redisReply *reply, enum relock_refusal refusal)
{
    const char *error = relock_reply_error(reply);

    if (command->is_kill && error && relock_explain_is_missing(error))
        relock_explain_extra(pipeline->conn.server, RELOCK_EXTRA_KILL, error);
    if (!command->fn)
        return true;
    if (refusal == RELOCK_REFUSED_SCRIPT && !command->is_repeated && repeat(pipeline, command))
        return false;
    command->fn(command->arg, error ? relock_refusal_result(refusal) : RELOCK_OK, reply);
    if (refusal == RELOCK_REFUSED_HERE) {
        char why[RELOCK_WHY_MAX];

        relock_explain(why, command->script, error);
        relock_async_conn_fail(&pipeline->conn, why);
    }
    return true;
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
    DL_DELETE(pipeline->in_flight, command);
    if (answer(pipeline, command, reply, refusal))
        free(command);
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

bool relock_pipeline_is_up(const struct relock_pipeline *pipeline)
{
    return relock_async_conn_is_up(&pipeline->conn);
}

struct relock_conn_id *relock_pipeline_conn_id(const struct relock_pipeline *pipeline)
{
    return relock_pipeline_is_up(pipeline) ? pipeline->conn.login.conn_id : NULL;
}

uint64_t relock_pipeline_reconnects(const struct relock_pipeline *pipeline)
{
    return relock_async_conn_reconnects(&pipeline->conn);
}

void relock_pipeline_abandon(struct relock_pipeline *pipeline)
{
    relock_async_conn_abandon(&pipeline->conn);
}
