/*
 * Slot query - asks one node of a cluster for its map of the slots, and blocks meanwhile
 *
 * Threads: its user; abandon in a forked child.
 */
#ifndef RELOCK_SLOT_QUERY_H
#define RELOCK_SLOT_QUERY_H

#include "redis/lane/question.h"
#include "redis/server/peer.h"

struct redisReply;

struct relock_slot_query {
    atomic_bool is_running;
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

/* In a forked child: closes the descriptor and does nothing else. */
void relock_slot_query_abandon(struct relock_slot_query *query);

#endif
