/*
 * Master - reads what one sentinel reports about the master
 *
 * Each failover begins a new configuration, whose number is higher. So of two sentinels that name
 * different masters, the one with the lower number lags.
 *
 * Threads: its user.
 */
#ifndef RELOCK_MASTER_H
#define RELOCK_MASTER_H

#include "redis/server/command.h"
#include "redis/server/server.h"

#include <stdint.h>

struct redisReply;

/* Longer names of hosts are an error. */
#define RELOCK_MASTER_HOST_MAX 256

struct relock_master {
    char host[RELOCK_MASTER_HOST_MAX]; /* an address in digits, or a name */
    uint16_t port;
    uint64_t epoch; /* the number of the configuration; 0: unknown */
};

#define RELOCK_MASTER_REPLIES 2

/* Appends the commands that ask for the master of this name. */
void relock_master_ask(const char *name, struct relock_buffer *out);

/*
 * Takes the first reply, which has the address.
 *
 * Returns RELOCK_OK; or, with the cause in `why`: RELOCK_E_AUTH; RELOCK_E_SERVER, also when the
 * sentinel does not know the master; RELOCK_E_CONN when it refuses for now.
 */
int relock_master_take(struct relock_master *master, const struct redisReply *reply,
                       char why[RELOCK_WHY_MAX]);

/* Takes the second reply. An error leaves the number unknown. */
void relock_master_take_epoch(struct relock_master *master, const struct redisReply *reply);

#endif
