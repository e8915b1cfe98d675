#include "redis/pipeline.h"

#include "base/status.h"
#include "redis/call.h"
#include "redis/conn.h"
#include "redis/explain.h"
#include "redis/loop.h"
#include "redis/origin.h"
#include "redis/reply.h"

#include <stdlib.h>

/* Who waits for the reply that comes next, and next but one, ... */
struct question {
    const struct relock_script *script;
    relock_pipeline_fn *fn; /* NULL: nobody does */
    void *arg;
    bool kills; /* a connection */
};

struct relock_pipeline {
    struct relock_conn conn;
    relock_pipeline_up_fn *up;
    void *arg;
    struct question *ring; /* `n` of them from `first` on are under way */
    size_t size;           /* a power of two, or 0 */
    size_t first;
    size_t n;
};

static int push(struct relock_pipeline *pipeline, struct question question)
{
    if (pipeline->n == pipeline->size) {
        size_t size = pipeline->size > 0 ? pipeline->size * 2 : 64;
        struct question *ring = malloc(size * sizeof(*ring));

        if (!ring)
            return RELOCK_E_NOMEM;
        for (size_t i = 0; i < pipeline->n; i++)
            ring[i] = pipeline->ring[(pipeline->first + i) & (pipeline->size - 1)];
        free(pipeline->ring);
        pipeline->ring = ring;
        pipeline->size = size;
        pipeline->first = 0;
    }
    pipeline->ring[(pipeline->first + pipeline->n) & (pipeline->size - 1)] = question;
    pipeline->n++;
    return RELOCK_OK;
}

static struct question pop(struct relock_pipeline *pipeline)
{
    struct question question = pipeline->ring[pipeline->first];

    pipeline->first = (pipeline->first + 1) & (pipeline->size - 1);
    pipeline->n--;
    return question;
}

/* Takes back what was appended since the buffer had that length. */
static int take_back(struct relock_pipeline *pipeline, size_t len, int result)
{
    struct relock_buffer *out = relock_conn_out(&pipeline->conn);

    out->len = len;
    out->failed = false;
    return result;
}

static int ask(struct relock_pipeline *pipeline, size_t len_before, struct question question)
{
    int r;

    if (relock_conn_out(&pipeline->conn)->failed)
        return take_back(pipeline, len_before, RELOCK_E_NOMEM);
    r = push(pipeline, question);
    if (r < 0)
        return take_back(pipeline, len_before, r);
    relock_conn_send(&pipeline->conn, 1);
    return RELOCK_OK;
}

int relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                         relock_pipeline_fn *fn, void *arg)
{
    struct relock_buffer *out = relock_conn_out(&pipeline->conn);
    size_t len = out->len;

    if (!relock_conn_is_up(&pipeline->conn))
        return RELOCK_E_CONN;
    relock_call_write(call, out);
    return ask(pipeline, len, (struct question){.script = call->script, .fn = fn, .arg = arg});
}

/* Without memory the next one does. */
void relock_pipeline_ping(struct relock_pipeline *pipeline)
{
    if (!relock_conn_is_up(&pipeline->conn) || pipeline->n > 0 ||
        push(pipeline, (struct question){0}) < 0)
        return;
    relock_conn_ping(&pipeline->conn);
}

uint64_t relock_pipeline_silent_ms(const struct relock_pipeline *pipeline)
{
    return pipeline->conn.silent_ms;
}

void relock_pipeline_flush(struct relock_pipeline *pipeline)
{
    relock_conn_flush(&pipeline->conn);
}

int relock_pipeline_kill(struct relock_pipeline *pipeline, const struct relock_origin *origin)
{
    struct relock_buffer *out = relock_conn_out(&pipeline->conn);
    size_t len = out->len;

    if (!relock_conn_is_up(&pipeline->conn))
        return RELOCK_E_CONN;
    relock_origin_kill(origin, pipeline->conn.login.origin, out);
    return ask(pipeline, len, (struct question){.kills = true});
}

/* Failing that, the next one that needs the script finds out the same. */
static void load(struct relock_pipeline *pipeline, const struct relock_script *script)
{
    struct relock_buffer *out = relock_conn_out(&pipeline->conn);
    size_t len = out->len;

    relock_call_write_load(script, out);
    (void)ask(pipeline, len, (struct question){0});
}

static void on_up(void *arg)
{
    struct relock_pipeline *pipeline = arg;

    pipeline->up(pipeline->arg);
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct relock_pipeline *pipeline = arg;
    const char *error = relock_reply_error(reply);
    struct question question;
    char why[RELOCK_WHY_MAX];
    bool is_elsewhere = false;
    int r = RELOCK_OK;

    if (pipeline->n == 0) {
        relock_conn_fail(&pipeline->conn, "an answer to what was not asked");
        return;
    }
    relock_conn_answered(&pipeline->conn);
    question = pop(pipeline);
    if (question.kills && error && relock_explain_is_missing(error))
        relock_explain_extra(pipeline->conn.server, RELOCK_EXTRA_KILL, error);
    if (!question.fn)
        return;
    if (error) {
        enum relock_refusal refusal = relock_refusal_of(error);

        r = relock_refusal_result(refusal);
        if (refusal == RELOCK_REFUSED_SCRIPT) {
            load(pipeline, question.script);
            r = RELOCK_AGAIN;
        }
        is_elsewhere = refusal == RELOCK_REFUSED_HERE;
    }
    question.fn(question.arg, r, reply);
    if (is_elsewhere) {
        relock_explain(why, question.script, error);
        relock_conn_fail(&pipeline->conn, why);
    }
}

static void on_down(void *arg)
{
    struct relock_pipeline *pipeline = arg;

    while (pipeline->n > 0) {
        struct question question = pop(pipeline);

        if (question.fn)
            question.fn(question.arg, RELOCK_E_CONN, NULL);
    }
}

static const struct relock_conn_ops conn_ops = {
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
    relock_conn_init(&new->conn, relock_loop_ev(loop), server, &conn_ops, new);
    new->conn.answer_ms = answer_ms;
    /* A connection that is dead, and not the server, is noticed before the server seems silent. */
    new->conn.pong_ms = server->command_timeout_ms / 2;
    new->up = up;
    new->arg = arg;
    *pipeline = new;
    return RELOCK_OK;
}

struct relock_pipeline *relock_pipeline_free(struct relock_pipeline *pipeline)
{
    if (!pipeline)
        return NULL;
    relock_conn_deinit(&pipeline->conn);
    free(pipeline->ring);
    free(pipeline);
    return NULL;
}

void relock_pipeline_open(struct relock_pipeline *pipeline)
{
    relock_conn_open(&pipeline->conn);
}

bool relock_pipeline_is_up(const struct relock_pipeline *pipeline)
{
    return relock_conn_is_up(&pipeline->conn);
}

struct relock_origin *relock_pipeline_origin(const struct relock_pipeline *pipeline)
{
    return relock_pipeline_is_up(pipeline) ? pipeline->conn.login.origin : NULL;
}

uint64_t relock_pipeline_reconnects(const struct relock_pipeline *pipeline)
{
    return atomic_load(&pipeline->conn.reconnects);
}

void relock_pipeline_abandon(struct relock_pipeline *pipeline)
{
    relock_conn_abandon(&pipeline->conn);
}
