#include "redis/deployment/slot_query.h"

#include "base/status.h"
#include "redis/connect/explain.h"
#include "redis/server/reply.h"

#include <stdio.h>

static int fail(struct relock_slot_query *query, int result, const char *why)
{
    (void)snprintf(query->why, sizeof(query->why), "%s", why);
    return result;
}

/* `result` is that of a question. A result that is still to come is a failure. */
static int conclude(struct relock_slot_query *query, int result)
{
    if (result == RELOCK_OK)
        return result;
    return fail(query, result == RELOCK_AGAIN ? RELOCK_E_CONN : result, query->conn.wire.why);
}

static int receive(struct relock_slot_query *query, struct redisReply **reply)
{
    return conclude(query, relock_question_receive(&query->question, reply));
}

/* A server without sharded channels, or a user without the right, answers with an error. Without a
 * channel, Azure Managed Redis does not answer the first question at all. */
static int send_questions(struct relock_slot_query *query)
{
    struct relock_buffer *out = &query->conn.wire.out;

    relock_command_words(out, "PUBSUB", "SHARDNUMSUB", "relock");
    relock_command_words(out, "CLUSTER", "SLOTS");
    return conclude(query, relock_question_send(&query->question));
}

static int refuse(struct relock_slot_query *query, const char *error)
{
    char what[RELOCK_WHY_MAX];

    relock_explain(what, NULL, error);
    (void)snprintf(query->why, sizeof(query->why), "%.80s: CLUSTER SLOTS: %.150s",
                   query->server.label, what);
    return relock_refusal_result(relock_refusal_of(error));
}

static void keep_sharded(struct relock_slot_query *query, const struct redisReply *reply)
{
    const char *error = relock_reply_error(reply);

    *query->not_sharded = '\0';
    if (error)
        (void)snprintf(query->not_sharded, sizeof(query->not_sharded),
                       "%.80s refused PUBSUB SHARDNUMSUB: %.120s", query->server.label, error);
}

static int take_answers(struct relock_slot_query *query, struct redisReply **map)
{
    struct redisReply *reply = NULL;
    int r = receive(query, &reply);

    if (r < 0)
        return r;
    keep_sharded(query, reply);
    relock_reply_free(reply);
    r = receive(query, &reply);
    if (r < 0)
        return r;
    if (!relock_reply_error(reply)) {
        *map = reply;
        return RELOCK_OK;
    }
    r = refuse(query, relock_reply_error(reply));
    relock_reply_free(reply);
    return r;
}

int relock_slot_query_ask(struct relock_slot_query *query, const struct relock_server *server,
                          struct redisReply **map)
{
    int r;

    query->server = *server;
    query->server.may_be_replica = true;
    relock_sync_conn_init(&query->conn, &query->server);
    query->conn.wire.takes_long = true;
    query->question.conn = &query->conn;
    atomic_store(&query->is_running, true);
    r = conclude(query, relock_question_reach(&query->question));
    relock_peer_ip(query->conn.wire.fd, query->ip);
    if (r == RELOCK_OK)
        r = send_questions(query);
    if (r == RELOCK_OK)
        r = take_answers(query, map);
    relock_sync_conn_deinit(&query->conn);
    atomic_store(&query->is_running, false);
    return r;
}

void relock_slot_query_abandon(struct relock_slot_query *query)
{
    if (atomic_load(&query->is_running))
        relock_sync_conn_abandon(&query->conn);
}
