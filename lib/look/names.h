/*
 * Names - finds the name of a client by its id
 *
 * CLIENT LIST shows each connection of a client as `<client_name>:<client id>`. A lock in Redis
 * shows the id alone.
 *
 * Threads: the owner of the struct.
 */
#ifndef RELOCK_NAMES_H
#define RELOCK_NAMES_H

#include "redis/deployment/topology.h"

struct redisReply;

#define RELOCK_PEER_NAME_MAX 128

struct relock_names {
    struct redisReply **lists; /* of each server */
    size_t n_lists;
};

/* Asks all servers for CLIENT LIST. Names from a server that refuses or does not answer stay
 * unknown. */
void relock_names_init(struct relock_names *names, struct relock_topology *topology,
                       uint64_t timeout_ms);
void relock_names_deinit(struct relock_names *names);

/* Writes the name of the client whose id is at the beginning of `owner`, or "". */
void relock_names_find(const struct relock_names *names, const char *owner,
                       char name[RELOCK_PEER_NAME_MAX]);

#endif
