#include "redis/io/io.h"
#include "redis/io/private.h"

#include "base/clock.h"
#include "base/decimal.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/connect/explain.h"
#include "redis/deployment/topology.h"
#include "redis/lane/lanes.h"
#include "redis/server/loop.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

#define ALLOC_MIN 256

/* ---- a command in flight ------------------------------------------------------------------- */

static void write_caching(struct relock_buffer *out)
{
    relock_command_words(out, "CLIENT", "CACHING", "YES");
}

/* Which reply comes behind those to KILL and LOAD. */
static enum relock_next_reply caching_or_call(const struct relock_sent_command *command)
{
    return command->is_tracked ? RELOCK_NEXT_CACHING : RELOCK_NEXT_CALL;
}

/* One of few sizes, as malloc() keeps freed pieces of each size for its thread. */
static size_t size_to_alloc(size_t len)
{
    size_t size = ALLOC_MIN;

    while (size < sizeof(struct relock_sent_command) + len)
        size *= 2;
    return size;
}

/* Appends the call to the buffer. `is_fenced`: behind a KILL. Returns NULL when out of memory; the
 * buffer may have a part of it then. */
static struct relock_sent_command *sent_command_new(const struct relock_call *call, bool is_fenced,
                                                    bool is_tracked, bool is_sharded,
                                                    struct relock_buffer *out)
{
    size_t n_keys = 1 + call->n_more_keys;
    size_t n_args = call->n_args + call->n_more - call->n_more_keys;
    struct relock_sent_command *command = NULL;
    size_t from;

    if (is_tracked)
        write_caching(out);
    relock_call_write_head(call->script, n_keys, n_args, RELOCK_CALL_BY_HASH, out);
    from = out->len;
    relock_call_write_args(call, is_sharded, out);
    if (!out->failed)
        command = malloc(size_to_alloc(out->len - from));
    if (!command)
        return NULL;
    *command = (struct relock_sent_command){.n_replies = 1U + is_fenced + is_tracked,
                                            .is_tracked = is_tracked,
                                            .forms = call->script->forms,
                                            .script = call->script,
                                            .flight = call->flight,
                                            .tracker = call->tracker,
                                            .answered_by = call->answered_by,
                                            .n_keys = n_keys,
                                            .n_args = n_args,
                                            .len = out->len - from};
    command->next_reply = is_fenced ? RELOCK_NEXT_KILL : caching_or_call(command);
    memcpy(command->args, out->data + from, command->len);
    return command;
}

/* For a command of one reply, of one of these `forms`, neither a script nor repeated, that the
 * caller has appended since the buffer had the length `from`. Returns NULL when out of memory: the
 * buffer has that length. */
static struct relock_sent_command *sent_command_appended(struct relock_buffer *out, size_t from,
                                                         unsigned forms)
{
    struct relock_sent_command *command = out->failed ? NULL : calloc(1, sizeof(*command));

    if (!command) {
        relock_buffer_take_back(out, from);
        return NULL;
    }
    command->n_replies = 1;
    command->forms = forms;
    return command;
}

/* Appends the command once more, in this form, and tracked if it may be. Returns false when out of
 * memory: the buffer is as it was. */
static bool sent_command_repeat(struct relock_sent_command *command, enum relock_call_form form,
                                bool may_track, struct relock_buffer *out)
{
    bool loads = form == RELOCK_CALL_LOADED;
    size_t from = out->len;

    command->form = form;
    command->is_tracked = may_track && !command->asks;
    command->n_replies = 1U + loads + command->asks + command->is_tracked;
    command->next_reply = loads ? RELOCK_NEXT_LOAD : caching_or_call(command);
    if (command->asks) {
        command->next_reply = RELOCK_NEXT_ASKING;
        relock_command_words(out, "ASKING");
    }
    if (loads)
        relock_call_write_load(command->script, out);
    if (command->is_tracked)
        write_caching(out);
    relock_call_write_head(command->script, command->n_keys, command->n_args,
                           loads ? RELOCK_CALL_BY_HASH : form, out);
    relock_buffer_append(out, command->args, command->len);
    if (out->failed) {
        relock_buffer_take_back(out, from);
        return false;
    }
    return true;
}

/* Whether this can be the next reply; `may_doubt`: an unknown error to a script cannot. */
static bool sent_command_fits(const struct relock_sent_command *command,
                              const struct redisReply *reply, bool may_doubt)
{
    bool doubts = may_doubt && command->script;

    switch (command->next_reply) {
    case RELOCK_NEXT_CALL:
        break;
    case RELOCK_NEXT_KILL:
        return relock_reply_fits(reply, RELOCK_CONN_ID_KILL_FORMS);
    case RELOCK_NEXT_LOAD:
    case RELOCK_NEXT_ASKING:
    case RELOCK_NEXT_CACHING:
        return relock_reply_fits(reply, RELOCK_REPLY_TEXT);
    }
    return relock_reply_fits(reply, command->forms | (doubts ? RELOCK_REPLY_NO_ERR : 0));
}

/* Takes a reply. Returns whether it is the last one. */
static bool sent_command_take(struct relock_sent_command *command,
                              const struct relock_server *server, const struct redisReply *reply)
{
    switch (command->next_reply) {
    case RELOCK_NEXT_CALL:
        return true;
    case RELOCK_NEXT_KILL:
        command->is_kill_refused = !relock_conn_id_is_killed(server, reply);
        command->next_reply = caching_or_call(command);
        break;
    case RELOCK_NEXT_LOAD: /* the reply to the command tells whether the script is there now */
        relock_call_check_loaded(server, reply);
        command->next_reply = caching_or_call(command);
        break;
    case RELOCK_NEXT_ASKING:
    case RELOCK_NEXT_CACHING: /* the pipeline looks at it */
        command->next_reply = RELOCK_NEXT_CALL;
        break;
    }
    return false;
}

/* ---- the pipeline -------------------------------------------------------------------------- */

/* For how long unknown errors are believed after one was doubted. */
#define BELIEVE_MS 60000

/* The server notices a closed connection sooner than this. */
#define ROOM_MS 50

struct relock_pipeline {
    struct relock_async_conn conn;
    struct relock_topology *topology; /* NULL: no server refers to another */
    struct relock_node *node;         /* of the topology */
    relock_pipeline_up_fn *up;
    void *arg;
    struct relock_sent_command *in_flight; /* in the order of their replies */
    unsigned n_in_flight;
    unsigned n_of_turn;         /* the first so many belong to the last turn: see io.h */
    bool is_late;               /* the next turn has begun without the answers to the last one */
    bool tracks;                /* the server does */
    bool is_borrowed;           /* it becomes up without the login's answers */
    bool is_missed;             /* there was a call for it while it was not up */
    uint64_t believes_until_ms; /* even unknown errors */
};

/* ---- sending ------------------------------------------------------------------------------- */

static void take_off(const struct relock_pipeline *pipeline, struct relock_flight *flight)
{
    struct relock_conn_id *conn_id = pipeline->conn.login.conn_id;

    (void)relock_conn_id_unref(flight->conn_id);
    flight->conn_id = conn_id ? relock_conn_id_ref(conn_id) : NULL;
    flight->is_in_flight = true;
}

static void add(struct relock_pipeline *pipeline, struct relock_sent_command *command)
{
    DL_APPEND(pipeline->in_flight, command);
    pipeline->n_in_flight++;
}

/* The first one. */
static void take(struct relock_pipeline *pipeline, struct relock_sent_command *command)
{
    DL_DELETE(pipeline->in_flight, command);
    pipeline->n_in_flight--;
    if (pipeline->n_of_turn > 0)
        pipeline->n_of_turn--;
}

/* All of it was appended to the buffer. */
static void send_command(struct relock_pipeline *pipeline, struct relock_sent_command *command)
{
    if (command->flight)
        take_off(pipeline, command->flight);
    add(pipeline, command);
    relock_async_conn_send(&pipeline->conn, command->n_replies);
}

/* Has another node kill the fence. The command behind it cannot run meanwhile: that node does not
 * have the key. */
static void kill_at(struct relock_pipeline *pipeline, const struct relock_conn_id *fence)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    struct relock_sent_command *kill;
    size_t from = out->len;

    relock_conn_id_kill(fence, pipeline->conn.login.conn_id, out);
    kill = sent_command_appended(out, from, RELOCK_CONN_ID_KILL_FORMS);
    if (kill)
        send_command(pipeline, kill);
}

/* Returns the fence that this server is to kill, or NULL: another server has it killed, or its
 * number may be that of another connection here. */
static const struct relock_conn_id *fence_here(const struct relock_pipeline *pipeline,
                                               const struct relock_conn_id *fence)
{
    enum relock_fence_place place = RELOCK_FENCE_HERE;
    const struct relock_node *node;

    if (fence && pipeline->topology)
        place = relock_topology_fence_place(pipeline->topology, fence, pipeline->node);
    if (place == RELOCK_FENCE_HERE)
        return fence;
    node = relock_conn_id_node(fence);
    if (place == RELOCK_FENCE_ELSEWHERE && node->pipeline &&
        relock_async_conn_is_up(&node->pipeline->conn))
        kill_at(node->pipeline, fence);
    return NULL;
}

static bool is_sharded(const struct relock_pipeline *pipeline)
{
    return pipeline->topology && atomic_load(&pipeline->topology->is_sharded);
}

int relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                         relock_pipeline_fn *fn, void *arg)
{
    const struct relock_conn_id *fence;
    struct relock_sent_command *command;
    struct relock_buffer *out;
    size_t from;

    if (!pipeline)
        return RELOCK_E_NOMEM;
    pipeline->is_missed = !relock_async_conn_is_up(&pipeline->conn);
    if (pipeline->is_missed)
        return RELOCK_E_CONN;
    out = relock_async_conn_out(&pipeline->conn);
    from = out->len;
    fence = fence_here(pipeline, call->fence ? *call->fence : NULL);
    if (fence)
        relock_conn_id_kill(fence, pipeline->conn.login.conn_id, out);
    command = sent_command_new(call, fence != NULL, call->tracker && pipeline->tracks,
                               is_sharded(pipeline), out);
    if (!command) {
        relock_buffer_take_back(out, from);
        return RELOCK_E_NOMEM;
    }
    command->fn = fn;
    command->arg = arg;
    send_command(pipeline, command);
    return RELOCK_OK;
}

/* A plain command, whose reply has one of the `forms`, was appended since the buffer had the length
 * `from`. */
static int send_appended(struct relock_pipeline *pipeline, size_t from, unsigned forms,
                         relock_pipeline_fn *fn, void *arg)
{
    struct relock_sent_command *command =
        sent_command_appended(relock_async_conn_out(&pipeline->conn), from, forms);

    if (!command)
        return RELOCK_E_NOMEM;
    command->fn = fn;
    command->arg = arg;
    send_command(pipeline, command);
    return RELOCK_OK;
}

int relock_pipeline_track(struct relock_pipeline *pipeline, uint64_t number, relock_pipeline_fn *fn,
                          void *arg)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    char id[RELOCK_DECIMAL_MAX];
    size_t from = out->len;

    if (!relock_async_conn_is_up(&pipeline->conn))
        return RELOCK_E_CONN;
    (void)relock_decimal(id, number);
    relock_command_words(out, "CLIENT", "TRACKING", "ON", "REDIRECT", id, "OPTIN", "NOLOOP");
    return send_appended(pipeline, from, RELOCK_REPLY_STATUS, fn, arg);
}

int relock_pipeline_count_replicas(struct relock_pipeline *pipeline, unsigned n,
                                   uint64_t timeout_ms, relock_pipeline_fn *fn, void *arg)
{
    struct relock_buffer *out = relock_async_conn_out(&pipeline->conn);
    size_t from = out->len;

    if (!relock_async_conn_is_up(&pipeline->conn))
        return RELOCK_E_CONN;
    relock_command_begin(out, 3);
    relock_command_word(out, "WAIT");
    relock_command_number(out, n);
    relock_command_number(out, timeout_ms);
    return send_appended(pipeline, from, RELOCK_REPLY_INTEGER, fn, arg);
}

void relock_pipeline_set_tracks(struct relock_pipeline *pipeline, bool tracks)
{
    pipeline->tracks = tracks;
}

bool relock_pipeline_tracks(const struct relock_pipeline *pipeline)
{
    return pipeline->tracks;
}

void relock_pipeline_ping(struct relock_pipeline *pipeline)
{
    struct relock_sent_command *ping;

    if (!relock_async_conn_is_up(&pipeline->conn) || pipeline->in_flight)
        return;
    ping = calloc(1, sizeof(*ping));
    if (!ping || !relock_async_conn_ping(&pipeline->conn)) {
        free(ping); /* out of memory: the next ping does */
        return;
    }
    ping->forms = RELOCK_REPLY_STATUS;
    add(pipeline, ping);
}

uint64_t relock_pipeline_silent_ms(const struct relock_pipeline *pipeline)
{
    return pipeline->conn.silent_ms;
}

void relock_pipeline_flush(struct relock_pipeline *pipeline)
{
    relock_async_conn_flush(&pipeline->conn);
}

/* ---- turns --------------------------------------------------------------------------------- */

void relock_pipeline_begin_turn(struct relock_pipeline *pipeline)
{
    pipeline->is_late = pipeline->n_of_turn > 0;
    if (!pipeline->is_late)
        pipeline->n_of_turn = pipeline->n_in_flight;
}

bool relock_pipeline_may_take_turn(const struct relock_pipeline *pipeline)
{
    return relock_async_conn_is_up(&pipeline->conn) && pipeline->n_of_turn == 0;
}

bool relock_pipeline_is_in_turn(const struct relock_pipeline *pipeline)
{
    return pipeline->n_of_turn > 0 && !pipeline->is_late;
}

/* ---- answers ------------------------------------------------------------------------------- */

/* Sends the command once more, here or to another node. Returns false when out of memory. */
static bool repeat(struct relock_pipeline *pipeline, struct relock_sent_command *command,
                   enum relock_call_form form)
{
    if (!sent_command_repeat(command, form, command->tracker && pipeline->tracks,
                             relock_async_conn_out(&pipeline->conn)))
        return false;
    send_command(pipeline, command);
    return true;
}

/* Sends it with the script that the server does not have. Returns as redirect. */
static int bring_script(struct relock_pipeline *pipeline, struct relock_sent_command *command)
{
    enum relock_call_form form = command->form;

    if (!command->script || !relock_call_next_form(command->script, command->asks, &form))
        return RELOCK_E_SERVER;
    return repeat(pipeline, command, form) ? RELOCK_AGAIN : RELOCK_E_NOMEM;
}

/* The pipeline of another node for the same commands. */
static struct relock_pipeline *counterpart(const struct relock_pipeline *pipeline,
                                           const struct relock_node *node)
{
    return pipeline == pipeline->node->confirmer ? node->confirmer : node->pipeline;
}

/* Returns the result of the command; RELOCK_AGAIN: another node answers it; RELOCK_REPLICA: another
 * server has taken the place of this one, behind its address. */
static int redirect(struct relock_pipeline *pipeline, struct relock_sent_command *command,
                    const char *error)
{
    struct relock_topology *topology = pipeline->topology;
    struct relock_pipeline *other;
    struct relock_node *node = NULL;
    bool asks;

    if (command->flight)
        command->flight->is_in_flight = false;
    if (topology && command->fn)
        node = relock_topology_redirect(topology, pipeline->node, error, command->script,
                                        &command->n_redirects, &asks);
    relock_topology_drop(topology, node); /* only this thread frees nodes */
    if (!node)
        return RELOCK_E_SERVER;
    if (node == pipeline->node)
        return RELOCK_REPLICA;
    if (topology->io.open(topology, node) < 0)
        return RELOCK_E_NOMEM;
    other = counterpart(pipeline, node);
    if (!relock_async_conn_is_up(&other->conn))
        return RELOCK_E_CONN; /* its user tries again when it is */
    command->asks = asks;
    return repeat(other, command, RELOCK_CALL_BY_HASH) ? RELOCK_AGAIN : RELOCK_E_NOMEM;
}

static int result_of(struct relock_pipeline *pipeline, struct relock_sent_command *command,
                     const char *error, enum relock_refusal refusal)
{
    if (!error)
        return command->is_kill_refused ? RELOCK_E_SERVER : RELOCK_OK;
    if (refusal == RELOCK_REFUSED_SCRIPT)
        return bring_script(pipeline, command);
    if (refusal == RELOCK_REFUSED_MOVED)
        return redirect(pipeline, command, error);
    return relock_refusal_result(refusal);
}

/* Calls the user of the command. The reply of a command behind a kill that was refused would hide
 * that: an older command may still run. Behind ASKING, or if the server has turned tracking off,
 * the keys are not tracked. */
static void finish(struct relock_pipeline *pipeline, const struct relock_sent_command *command,
                   int result, const struct redisReply *reply)
{
    bool is_tracked = command->is_tracked && pipeline->tracks && result == RELOCK_OK;
    bool has_reply = result != RELOCK_E_CONN && !command->is_kill_refused;

    if (command->tracker)
        *command->tracker = is_tracked ? pipeline->node : NULL;
    if (command->answered_by && result == RELOCK_OK)
        *command->answered_by = pipeline->node;
    if (command->fn)
        command->fn(command->arg, result, has_reply ? reply : NULL);
}

/* This server was replaced. The node's connection for messages leads to the same server, so it is
 * made again, too: tracking needs both connections at one server. */
static void reconnect(struct relock_pipeline *pipeline, const char *why)
{
    if (pipeline->node && pipeline->node->pubsub)
        relock_pubsub_reconnect(pipeline->node->pubsub, why);
    relock_async_conn_fail(&pipeline->conn, why);
}

/* It is in flight no more. */
static void answer(struct relock_pipeline *pipeline, struct relock_sent_command *command,
                   const struct redisReply *reply, enum relock_refusal refusal)
{
    const char *error = relock_reply_error(reply);
    int result = result_of(pipeline, command, error, refusal);
    char why[RELOCK_WHY_MAX];

    if (result == RELOCK_AGAIN)
        return;
    finish(pipeline, command, result == RELOCK_REPLICA ? RELOCK_E_CONN : result, reply);
    if (result == RELOCK_REPLICA) {
        relock_explain_replaced(why, error);
        reconnect(pipeline, why);
    } else if (refusal == RELOCK_REFUSED_HERE && command->fn) {
        relock_explain(why, command->script, error);
        reconnect(pipeline, why);
    }
    free(command);
}

/* An unknown error may be the reply to bytes of another program on this connection. Soon after one
 * was doubted, the next is believed: it must not end the renewals of other locks again and again.
 */
static bool can_be_answer(struct relock_pipeline *pipeline,
                          const struct relock_sent_command *command, const struct redisReply *reply)
{
    uint64_t now_ms = relock_clock_now_ms();
    bool may_doubt = now_ms >= pipeline->believes_until_ms;

    if (sent_command_fits(command, reply, may_doubt))
        return true;
    pipeline->believes_until_ms = relock_clock_after(now_ms, BELIEVE_MS);
    return false;
}

/* The server does not track the command that follows. If it is only too busy, it has not turned
 * tracking off. */
static void note_untracked(struct relock_pipeline *pipeline, struct relock_sent_command *command,
                           const struct redisReply *reply)
{
    if (relock_reply_refuses_for_now(reply))
        command->is_tracked = false;
    else
        pipeline->tracks = false;
}

static void on_reply(void *arg, const struct redisReply *reply)
{
    struct relock_pipeline *pipeline = arg;
    const char *error = relock_reply_error(reply);
    enum relock_refusal refusal = error ? relock_refusal_of(error) : RELOCK_REFUSED;
    struct relock_sent_command *command = pipeline->in_flight;

    if (!command) {
        relock_async_conn_fail(&pipeline->conn, RELOCK_REPLY_UNASKED);
        return;
    }
    if (!can_be_answer(pipeline, command, reply)) {
        relock_async_conn_fail(&pipeline->conn, RELOCK_REPLY_MISFIT);
        return;
    }
    relock_async_conn_answered(&pipeline->conn,
                               refusal != RELOCK_REFUSED_HERE && refusal != RELOCK_REFUSED_MOVED);
    if (command->next_reply == RELOCK_NEXT_CACHING && error)
        note_untracked(pipeline, command, reply);
    if (!sent_command_take(command, pipeline->conn.server, reply))
        return;
    take(pipeline, command);
    answer(pipeline, command, reply, refusal);
}

static void on_up(void *arg)
{
    struct relock_pipeline *pipeline = arg;
    bool is_reached = !pipeline->is_borrowed;

    pipeline->is_borrowed = false;
    if (pipeline->node && is_reached)
        relock_topology_trust(pipeline->node);
    pipeline->up(pipeline->arg);
    if (!is_reached)
        relock_pipeline_ping(pipeline);
}

static void on_down(void *arg)
{
    struct relock_pipeline *pipeline = arg;
    struct relock_sent_command *command;

    pipeline->tracks = false;
    while ((command = pipeline->in_flight)) {
        take(pipeline, command);
        finish(pipeline, command, RELOCK_E_CONN, NULL);
        free(command);
    }
}

/* A node that is down may have lost its slots to another one. If it has none any more, no
 * connection to it is needed. */
static void on_failure(void *arg)
{
    struct relock_pipeline *pipeline = arg;

    if (!pipeline->topology)
        return;
    relock_topology_distrust(pipeline->topology, pipeline->node);
    if (!relock_topology_uses(pipeline->topology, pipeline->node))
        relock_async_conn_close(&pipeline->conn);
}

/* From calls, or from the other pipeline of the node, which may have the only connection. If
 * neither has one, the connection for messages makes room: waiters can do without it, but holds are
 * lost without renewals. */
static bool borrow(void *arg, struct relock_loan *loan)
{
    struct relock_pipeline *pipeline = arg;
    struct relock_node *node = pipeline->node;
    struct relock_pipeline *other;

    if (!node)
        return false;
    other = pipeline == node->confirmer ? node->pipeline : node->confirmer;
    pipeline->is_borrowed = relock_lanes_lend(node->lanes, loan) ||
                            (pipeline->is_missed && other && relock_pipeline_lend(other, loan));
    if (!pipeline->is_borrowed && node->pubsub && relock_pubsub_make_room(node->pubsub))
        relock_async_conn_retry_in(&pipeline->conn, ROOM_MS);
    return pipeline->is_borrowed;
}

static const struct relock_async_conn_ops conn_ops = {
    .up = on_up,
    .reply = on_reply,
    .down = on_down,
    .failed = on_failure,
    .borrow = borrow,
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
    struct relock_sent_command *command, *next;

    if (!pipeline)
        return NULL;
    relock_async_conn_deinit(&pipeline->conn);
    DL_FOREACH_SAFE(pipeline->in_flight, command, next)
    free(command);
    free(pipeline);
    return NULL;
}

void relock_pipeline_join(struct relock_pipeline *pipeline, struct relock_topology *topology,
                          struct relock_node *node)
{
    pipeline->topology = topology;
    pipeline->node = node;
}

bool relock_pipeline_is_idle(const struct relock_pipeline *pipeline)
{
    enum relock_async_conn_state state = pipeline->conn.state;

    return !pipeline->in_flight &&
           (state == RELOCK_ASYNC_CONN_CLOSED || state == RELOCK_ASYNC_CONN_READY);
}

bool relock_pipeline_is_open(const struct relock_pipeline *pipeline)
{
    return pipeline->conn.state != RELOCK_ASYNC_CONN_CLOSED;
}

void relock_pipeline_open(struct relock_pipeline *pipeline)
{
    relock_async_conn_open(&pipeline->conn);
}

bool relock_pipeline_lend(struct relock_pipeline *pipeline, struct relock_loan *loan)
{
    return relock_async_conn_lend(&pipeline->conn, loan);
}

void relock_pipeline_close_idle(struct relock_pipeline *pipeline)
{
    if (pipeline->in_flight)
        return;
    pipeline->tracks = false;
    relock_async_conn_close(&pipeline->conn);
}

struct relock_conn_id *relock_pipeline_conn_id(const struct relock_pipeline *pipeline)
{
    return relock_async_conn_is_up(&pipeline->conn) ? pipeline->conn.login.conn_id : NULL;
}

void relock_pipeline_renew(struct relock_pipeline *pipeline, const struct relock_peer *peer,
                           const char *what)
{
    relock_async_conn_renew(&pipeline->conn, peer, what);
}
