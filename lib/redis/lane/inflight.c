#include "redis/lane/lane.h"
#include "redis/lane/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- orphans ------------------------------------------------------------------------------- */

/*
 * The second of the two threads frees the orphan, so no state follows ADOPTED or ENDED.
 *
 *     state      next       when
 *     PENDING    ADOPTED    its caller adopts or drops it; the driver then frees it at its end
 *                ENDED      the driver ends it; its caller then frees it
 */

/* A thread sends beside the driver while there are fewer bytes of unanswered commands, which are
 * about ten commands. A socket takes these at once. With more, it is faster to send in batches. */
#define BESIDE_MAX 2560

enum state { PENDING, ADOPTED, ENDED };

/* For an exchange that was sent over `conn_id`. Returns NULL when out of memory. */
static struct relock_orphan *orphan_new(const struct relock_exchange *exchange,
                                        struct relock_conn_id *conn_id)
{
    struct relock_orphan *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    atomic_init(&new->state, PENDING);
    new->exchange.is_orphan = true;
    new->exchange.commands.len = exchange->commands.len;
    new->exchange.n_left = exchange->n_left;
    new->exchange.forms = exchange->forms;
    new->exchange.forms_before = exchange->forms_before;
    new->exchange.limit_ms = exchange->limit_ms;
    new->exchange.conn_id = conn_id ? relock_conn_id_ref(conn_id) : NULL;
    return new;
}

/* The orphan that this exchange is part of. */
static struct relock_orphan *orphan_of(struct relock_exchange *exchange)
{
    return RELOCK_CONTAINER(struct relock_orphan, exchange, exchange);
}

static void destroy(struct relock_orphan *orphan)
{
    relock_reply_free(orphan->exchange.before);
    relock_reply_free(orphan->exchange.reply);
    relock_conn_id_unref(orphan->exchange.conn_id);
    free(orphan);
}

bool relock_orphan_adopt(struct relock_orphan *orphan, relock_orphan_fn *fn, void *arg,
                         bool *answered)
{
    orphan->fn = fn;
    orphan->arg = arg;
    if (atomic_exchange(&orphan->state, ADOPTED) == PENDING)
        return true;
    *answered = orphan->answered;
    destroy(orphan);
    return false;
}

void relock_orphan_drop(struct relock_orphan *orphan)
{
    bool answered;

    if (orphan)
        (void)relock_orphan_adopt(orphan, NULL, NULL, &answered);
}

void relock_orphan_end(struct relock_exchange *exchange)
{
    struct relock_orphan *orphan = orphan_of(exchange);
    bool answered = exchange->result == RELOCK_OK && exchange->ended;

    orphan->answered = answered;
    if (atomic_exchange(&orphan->state, ENDED) == PENDING)
        return;
    if (orphan->fn)
        orphan->fn(orphan->arg, orphan->exchange.conn_id, answered);
    destroy(orphan);
}

/* Whether its thread waits for the replies. */
static bool has_thread(const struct relock_exchange *exchange)
{
    return !exchange->is_orphan && !exchange->is_posted;
}

/* ---- deadlines ----------------------------------------------------------------------------- */

uint64_t relock_inflight_due_ms(const struct relock_inflight *inflight)
{
    const struct relock_exchange *at;
    uint64_t due_ms = RELOCK_NEVER;

    DL_FOREACH(inflight->exchanges, at)
    {
        due_ms = relock_clock_sooner(due_ms, at->limit_ms);
        if (has_thread(at))
            due_ms = relock_clock_sooner(due_ms, at->leave_ms);
    }
    return due_ms;
}

struct relock_exchange *relock_inflight_first(const struct relock_inflight *inflight)
{
    struct relock_exchange *at;

    DL_FOREACH(inflight->exchanges, at)
    if (has_thread(at))
        return at;
    return NULL;
}

bool relock_inflight_has_orphan(const struct relock_inflight *inflight)
{
    const struct relock_exchange *at;

    DL_FOREACH(inflight->exchanges, at)
    if (at->is_orphan)
        return true;
    return false;
}

bool relock_inflight_has_posted(const struct relock_inflight *inflight)
{
    const struct relock_exchange *at;

    DL_FOREACH(inflight->exchanges, at)
    if (at->is_posted)
        return true;
    return false;
}

/* ---- ending without replies ---------------------------------------------------------------- */

static void fail(struct relock_inflight *inflight, struct relock_exchange *exchange, int result)
{
    for (unsigned i = 0; exchange->replies && i < exchange->n_replies - exchange->n_left; i++)
        exchange->replies[i] = relock_reply_free(exchange->replies[i]);
    exchange->reply = relock_reply_free(exchange->reply);
    exchange->before = relock_reply_free(exchange->before);
    if (exchange->sent && inflight->conn.login.conn_id)
        exchange->conn_id = relock_conn_id_ref(inflight->conn.login.conn_id);
    exchange->result = result;
    exchange->ended = true;
    (void)snprintf(exchange->why, sizeof(exchange->why), "%s", inflight->conn.wire.why);
}

static void end_orphans(struct relock_inflight *inflight)
{
    struct relock_exchange *at, *next;

    DL_FOREACH_SAFE(inflight->exchanges, at, next)
    {
        if (!at->is_orphan)
            continue;
        DL_DELETE(inflight->exchanges, at);
        at->ended = false; /* also if its reply has come, and does not count */
        relock_orphan_end(at);
    }
}

void relock_inflight_fail(struct relock_inflight *inflight, int result,
                          struct relock_exchange *unsent, struct relock_exchange **ended)
{
    struct relock_exchange *at;

    if (inflight->failure)
        (void)relock_wire_fail(&inflight->conn.wire, inflight->failure);
    end_orphans(inflight);
    DL_CONCAT(inflight->exchanges, unsent);
    DL_FOREACH(inflight->exchanges, at)
    fail(inflight, at, result);
    DL_CONCAT(*ended, inflight->exchanges);
    inflight->exchanges = NULL;
    relock_inflight_close(inflight);
}

void relock_inflight_close(struct relock_inflight *inflight)
{
    relock_sync_conn_close(&inflight->conn);
    end_orphans(inflight);
    inflight->n_unanswered = 0;
    inflight->failure = NULL;
}

/* Its caller returns without the replies. Returns false when out of memory. */
static bool leave(struct relock_inflight *inflight, struct relock_exchange *exchange)
{
    struct relock_orphan *orphan = orphan_new(exchange, inflight->conn.login.conn_id);

    if (!orphan)
        return false;
    DL_PREPEND_ELEM(inflight->exchanges, exchange, &orphan->exchange);
    DL_DELETE(inflight->exchanges, exchange);
    fail(inflight, exchange, RELOCK_E_CONN);
    exchange->orphan = orphan;
    return true;
}

/* No reply came in time: exchanges whose deadline has passed leave. Returns RELOCK_E_CONN when that
 * means that the connection has failed. */
static int let_leave(struct relock_inflight *inflight, struct relock_exchange **ended)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_exchange *at, *next;

    DL_FOREACH_SAFE(inflight->exchanges, at, next)
    {
        if (now_ms >= at->limit_ms)
            return RELOCK_E_CONN;
        if (!has_thread(at) || now_ms < at->leave_ms)
            continue;
        if (!leave(inflight, at))
            return RELOCK_E_CONN;
        DL_APPEND(*ended, at);
    }
    return RELOCK_OK;
}

/* ---- sending and receiving ----------------------------------------------------------------- */

/* Its time limit, if it is sent now. */
static uint64_t limited_ms(const struct relock_exchange *exchange, uint64_t now_ms)
{
    return relock_clock_later(relock_clock_after(now_ms, RELOCK_ANSWER_MIN_MS),
                              exchange->deadline_ms);
}

uint64_t relock_inflight_leaves_ms(const struct relock_exchange *exchange, uint64_t now_ms)
{
    return exchange->is_posted ? RELOCK_NEVER : limited_ms(exchange, now_ms);
}

void relock_inflight_add(struct relock_inflight *inflight, struct relock_exchange *exchange,
                         uint64_t now_ms)
{
    struct relock_sync_conn *conn = &inflight->conn;
    struct relock_buffer *out = &conn->wire.out;

    exchange->starts = inflight->n_sent + out->len;
    if (exchange->kills)
        relock_conn_id_kill(exchange->kills, conn->login.conn_id, out);
    else
        relock_buffer_append(out, exchange->commands.data, exchange->commands.len);
    exchange->leave_ms = limited_ms(exchange, now_ms);
    exchange->limit_ms = relock_clock_after(now_ms, conn->server->command_timeout_ms);
    exchange->sent = true;
    inflight->n_unanswered += exchange->commands.len;
    DL_APPEND(inflight->exchanges, exchange);
}

bool relock_inflight_fits_beside(const struct relock_inflight *inflight,
                                 const struct relock_exchange *exchange, uint64_t now_ms,
                                 uint64_t until_ms)
{
    return !exchange->kills && relock_inflight_leaves_ms(exchange, now_ms) >= until_ms &&
           inflight->n_unanswered + exchange->commands.len <= BESIDE_MAX;
}

void relock_inflight_note_sent(struct relock_inflight *inflight, int result, size_t n)
{
    struct relock_exchange *at;

    inflight->n_sent += n;
    if (result == RELOCK_OK)
        return;
    DL_FOREACH(inflight->exchanges, at)
    at->sent = at->starts < inflight->n_sent;
    if (result == RELOCK_AGAIN)
        inflight->failure = "its socket took no further command";
    else if (result == RELOCK_E_NOMEM)
        inflight->failure = "out of memory for a command";
}

int relock_inflight_send(struct relock_inflight *inflight, uint64_t now_ms)
{
    struct relock_sync_conn *conn = &inflight->conn;
    uint64_t due_ms = relock_inflight_due_ms(inflight);
    const struct relock_exchange *at;
    int r;

    /* One that is posted may not block others for long. */
    DL_FOREACH(inflight->exchanges, at)
    if (at->starts >= inflight->n_sent)
        due_ms = relock_clock_sooner(due_ms, at->leave_ms);
    /* Also after the deadline: a command sent in part must be completed. */
    due_ms = relock_clock_later(due_ms, relock_clock_after(now_ms, RELOCK_ANSWER_MIN_MS));
    r = relock_sync_conn_send_now(conn, now_ms, due_ms);
    relock_inflight_note_sent(inflight, r, conn->n_sent);
    return r;
}

/* The reply belongs to the first in flight. Returns that exchange if this was its last reply. */
static struct relock_exchange *take_reply(struct relock_inflight *inflight,
                                          struct redisReply *reply)
{
    struct relock_exchange *exchange = inflight->exchanges;

    if (exchange->replies) {
        exchange->replies[exchange->n_replies - exchange->n_left] = reply;
    } else {
        relock_reply_free(exchange->before);
        exchange->before = exchange->reply;
        exchange->reply = reply;
    }
    if (--exchange->n_left > 0)
        return NULL;
    inflight->n_unanswered -= exchange->commands.len;
    DL_DELETE(inflight->exchanges, exchange);
    exchange->result = RELOCK_OK;
    exchange->ended = true;
    return exchange;
}

/* Whether the reply can be that to the first in flight. */
static bool fits(const struct relock_inflight *inflight, const struct redisReply *reply)
{
    const struct relock_exchange *exchange = inflight->exchanges;

    return relock_reply_fits(reply,
                             exchange->n_left == 1 ? exchange->forms : exchange->forms_before);
}

/* Those that have ended are in flight again, to fail. Returns RELOCK_E_CONN. */
static int put_back(struct relock_inflight *inflight, struct relock_exchange **ended)
{
    DL_CONCAT(*ended, inflight->exchanges);
    inflight->exchanges = *ended;
    *ended = NULL;
    return RELOCK_E_CONN;
}

int relock_inflight_wait(struct relock_inflight *inflight, uint64_t now_ms, uint64_t until_ms,
                         struct redisReply **reply)
{
    *reply = NULL;
    return until_ms > 0 ? relock_sync_conn_receive_soon(&inflight->conn, now_ms, until_ms, reply)
                        : relock_sync_conn_receive(&inflight->conn, 0, reply);
}

int relock_inflight_take(struct relock_inflight *inflight, struct redisReply *reply,
                         struct relock_exchange **ended, const char **doubt)
{
    int r = RELOCK_OK;

    *doubt = NULL;
    if (!reply)
        return let_leave(inflight, ended);
    while (r == RELOCK_OK) {
        struct relock_exchange *exchange;

        if (!fits(inflight, reply)) {
            relock_reply_free(reply);
            *doubt = RELOCK_REPLY_MISFIT;
            return put_back(inflight, ended);
        }
        exchange = take_reply(inflight, reply);
        if (exchange)
            DL_APPEND(*ended, exchange);
        if (!inflight->exchanges)
            break;
        r = relock_wire_take(&inflight->conn.wire, &reply);
    }
    if (r == RELOCK_OK && !relock_wire_is_quiet(&inflight->conn.wire)) {
        *doubt = RELOCK_REPLY_UNASKED;
        return put_back(inflight, ended);
    }
    return r == RELOCK_AGAIN ? RELOCK_OK : r;
}
