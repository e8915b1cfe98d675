/*
 * Slot survey - asks the nodes of a cluster for the map of the slots, until one has answered
 *
 * It asks one after the other: first the node that the last MOVED has named, then the masters that
 * could be reached, then the nodes of the url, then the other masters. After three nodes without an
 * answer, those of the url are next. Each survey begins with another master, because one that is
 * cut off from the others still answers, with an old map.
 *
 * Threads: run from one, and it blocks; moved_slot is set by any.
 */
#ifndef RELOCK_SLOT_SURVEY_H
#define RELOCK_SLOT_SURVEY_H

#include "redis/deployment/members.h"
#include "redis/lane/sync_conn.h"
#include "redis/server/peer.h"

/* Asks one node of the cluster for its map, and blocks meanwhile. */
struct relock_slot_query {
    struct relock_server server; /* as the node's; a replica may answer, too */
    struct relock_sync_conn conn;
    struct relock_question question; /* `stops` and `deadline_ms`: set by the caller */

    /* the answer */
    char ip[RELOCK_PEER_IP_MAX];      /* of the node, in digits */
    char not_sharded[RELOCK_WHY_MAX]; /* why it has no sharded channels; "": it has them */
    char why[RELOCK_WHY_MAX];         /* the cause of a failure */
};

/*
 * Returns RELOCK_OK and the map, which the caller frees; or as relock_sync_conn_connect,
 * RELOCK_E_CONN at the deadline, and RELOCK_E_SERVER, RELOCK_E_AUTH if the server refuses.
 */
int relock_slot_query_ask(struct relock_slot_query *query, const struct relock_server *server,
                          struct redisReply **map);

#define RELOCK_SLOT_NONE (-1)

/* Takes the map that a node has answered with. Returns RELOCK_OK; or the failure, with its cause in
 * the query, and the next node is asked. */
typedef int relock_slot_survey_fn(void *arg, struct relock_slot_query *query,
                                  const struct redisReply *map);

struct relock_slot_survey {
    /* constant */
    const struct relock_server *cluster; /* of the url */
    struct relock_members *members;
    relock_slot_survey_fn *take;
    void *arg;
    const atomic_bool *stops;
    struct relock_server seeds[RELOCK_URL_HOSTS_MAX];
    unsigned n_seeds;

    atomic_int moved_slot; /* the slot of the last MOVED, or RELOCK_SLOT_NONE */

    /* of the thread that runs it */
    struct relock_slot_query query;                /* of the node that is being asked */
    struct relock_node *nodes[RELOCK_MEMBERS_MAX]; /* during a survey: references */
    unsigned n_nodes;
    unsigned n_rounds;
};

/* Makes the seeds; the caller has set `cluster`, `members`, `take`, `arg` and `stops`, at which a
 * survey ends early. Returns RELOCK_OK, RELOCK_E_NOMEM; deinit also after a failure. */
int relock_slot_survey_init(struct relock_slot_survey *survey);
void relock_slot_survey_deinit(struct relock_slot_survey *survey);

/* Returns RELOCK_OK when a map was taken. Otherwise the failure of the first node, or of the first
 * one with a failure that lasts, and its cause in `why`. */
int relock_slot_survey_run(struct relock_slot_survey *survey, uint64_t deadline_ms,
                           char why[RELOCK_WHY_MAX]);

#endif
