#include "redis/deployment/private.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/connect/explain.h"
#include "redis/server/reply.h"

#include <stdio.h>

/* ---- one question -------------------------------------------------------------------------- */

/* A server without sharded channels, or a user without the right, answers with an error. Without a
 * channel, Azure Managed Redis does not answer the first question at all. */
static int send_questions(struct relock_slot_query *query)
{
    struct relock_buffer *out = &query->conn.wire.out;

    relock_command_words(out, "PUBSUB", "SHARDNUMSUB", "relock");
    relock_command_words(out, "CLUSTER", "SLOTS");
    return relock_question_send(&query->question);
}

static int refuse(struct relock_slot_query *query, const char *error)
{
    char what[RELOCK_WHY_MAX];

    relock_explain(what, NULL, error);
    (void)snprintf(query->conn.wire.why, sizeof(query->conn.wire.why),
                   "%.80s: CLUSTER SLOTS: %.150s", query->server.label, what);
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
    int r = relock_question_receive(&query->question, &reply);

    if (r < 0)
        return r;
    keep_sharded(query, reply);
    relock_reply_free(reply);
    r = relock_question_receive(&query->question, &reply);
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
    r = relock_question_reach(&query->question);
    relock_peer_ip(query->conn.wire.fd, query->ip);
    if (r == RELOCK_OK)
        r = send_questions(query);
    if (r == RELOCK_OK)
        r = take_answers(query, map);
    if (r != RELOCK_OK)
        (void)snprintf(query->why, sizeof(query->why), "%s", query->conn.wire.why);
    relock_sync_conn_deinit(&query->conn);
    return r;
}

/* The least time for each of several nodes to answer. */
#define MIN_ANSWER_MS 50

/* After so many masters without an answer, the nodes of the url are asked before further ones. The
 * whole cluster may have moved, and the name in the url leads to it. */
#define MAX_SILENT 3

/* ---- the order ----------------------------------------------------------------------------- */

/* The nodes of the survey in a ring. */
struct ring {
    unsigned next;
    unsigned n_left;
};

struct turn {
    struct relock_node *moved_to; /* the node that a MOVED has named, a reference; or NULL */
    bool has_asked_it;
    struct ring trusted;
    unsigned n_silent; /* nodes that have not answered */
    unsigned seed;     /* the next of the seeds */
    struct ring doubted;
};

/* One of the masters, or a node of the url. */
struct asked {
    struct relock_node *node; /* NULL: of the url */
    const struct relock_server *server;
};

static struct ring ring_of(const struct relock_slot_survey *survey)
{
    struct ring ring = {.n_left = survey->n_nodes};

    if (ring.n_left > 0)
        ring.next = survey->n_rounds % ring.n_left;
    return ring;
}

static bool next_of_ring(const struct relock_slot_survey *survey, struct ring *ring,
                         bool is_doubted, struct asked *next)
{
    while (ring->n_left > 0) {
        struct relock_node *node = survey->nodes[ring->next];

        ring->n_left--;
        ring->next = (ring->next + 1) % survey->n_nodes;
        if ((node->is_mute || atomic_load(&node->is_doubted)) != is_doubted ||
            !relock_members_has_slot(node))
            continue;
        *next = (struct asked){node, node->server};
        return true;
    }
    return false;
}

/* Returns false when all were asked. */
static bool choose_next(const struct relock_slot_survey *survey, struct turn *turn,
                        struct asked *next)
{
    if (turn->moved_to && !turn->has_asked_it) {
        turn->has_asked_it = true;
        *next = (struct asked){turn->moved_to, turn->moved_to->server};
        return true;
    }
    if (turn->n_silent < MAX_SILENT && next_of_ring(survey, &turn->trusted, false, next))
        return true;
    if (turn->seed < survey->n_seeds) {
        *next = (struct asked){NULL, &survey->seeds[turn->seed++]};
        return true;
    }
    return next_of_ring(survey, &turn->trusted, false, next) ||
           next_of_ring(survey, &turn->doubted, true, next);
}

static struct turn begin_turn(struct relock_slot_survey *survey)
{
    int slot = atomic_exchange(&survey->moved_slot, RELOCK_SLOT_NONE);
    struct turn turn = {0};

    survey->n_nodes = relock_members_with_slots(survey->members, survey->nodes);
    turn.trusted = turn.doubted = ring_of(survey);
    if (slot != RELOCK_SLOT_NONE)
        turn.moved_to = relock_members_take(survey->members, (unsigned)slot);
    survey->n_rounds++;
    return turn;
}

static void end_turn(struct relock_slot_survey *survey, const struct turn *turn)
{
    if (turn->moved_to)
        relock_members_drop(turn->moved_to);
    while (survey->n_nodes > 0)
        relock_members_drop(survey->nodes[--survey->n_nodes]);
}

/* ---- asking -------------------------------------------------------------------------------- */

static int ask(struct relock_slot_survey *survey, const struct asked *asked)
{
    struct redisReply *map = NULL;
    int r = relock_slot_query_ask(&survey->query, asked->server, &map);

    if (asked->node && (r == RELOCK_OK || r == RELOCK_E_CONN))
        asked->node->is_mute = r != RELOCK_OK;
    if (r != RELOCK_OK)
        return r;
    r = survey->take(survey->arg, &survey->query, map);
    relock_reply_free(map);
    return r;
}

/* One that does not answer leaves time for the nodes of the url. */
static uint64_t answer_limit_ms(const struct relock_slot_survey *survey, const struct turn *turn,
                                uint64_t now_ms, uint64_t deadline_ms)
{
    uint64_t n_left = survey->n_seeds - turn->seed + 1;
    uint64_t limit_ms = relock_clock_sooner(relock_clock_left(now_ms, deadline_ms) / n_left,
                                            survey->cluster->connect_timeout_ms);

    return relock_clock_after(now_ms, relock_clock_later(limit_ms, MIN_ANSWER_MS));
}

/* An attempt that may succeed later must not hide that another node refuses for good. */
static bool is_worse(int result, int than)
{
    return than == RELOCK_E_CONN && result != RELOCK_E_CONN;
}

int relock_slot_survey_run(struct relock_slot_survey *survey, uint64_t deadline_ms,
                           char why[RELOCK_WHY_MAX])
{
    struct turn turn = begin_turn(survey);
    int worst = RELOCK_E_CONN, r = worst;
    struct asked next;

    *why = '\0';
    while (r != RELOCK_OK && !atomic_load(survey->stops) && choose_next(survey, &turn, &next)) {
        survey->query.question.deadline_ms =
            answer_limit_ms(survey, &turn, relock_clock_now_ms(), deadline_ms);
        r = ask(survey, &next);
        turn.n_silent += r == RELOCK_E_CONN;
        if (r != RELOCK_OK && (*why == '\0' || is_worse(r, worst))) {
            (void)snprintf(why, RELOCK_WHY_MAX, "%s", survey->query.why);
            worst = r;
        }
    }
    end_turn(survey, &turn);
    return r == RELOCK_OK ? r : worst;
}

/* ---- life ---------------------------------------------------------------------------------- */

int relock_slot_survey_init(struct relock_slot_survey *survey)
{
    const struct relock_server *cluster = survey->cluster;
    int r = RELOCK_OK;

    survey->query.question.stops = survey->stops;
    atomic_init(&survey->moved_slot, RELOCK_SLOT_NONE);
    while (r == RELOCK_OK && survey->n_seeds < cluster->url.n_hosts) {
        const struct relock_url_host *host = &cluster->url.hosts[survey->n_seeds];

        r = relock_server_init_node(&survey->seeds[survey->n_seeds], cluster, host->name,
                                    host->port);
        survey->n_seeds += r == RELOCK_OK;
    }
    return r;
}

void relock_slot_survey_deinit(struct relock_slot_survey *survey)
{
    for (unsigned i = 0; i < survey->n_seeds; i++)
        relock_server_deinit_node(&survey->seeds[i]);
}
