/*
 * Sentinels - finds the address of the master by asking the sentinels that watch it
 *
 * This replaces the system's resolver: the thread of the resolver asks one sentinel after the other
 * until one answers, and begins with that one the next time. An answer may be out of date. If the
 * user of the address finds that the server is down or a replica, it distrusts the answer. Then the
 * thread begins with the next sentinel. It uses an old master that still answers only if all
 * sentinels name it.
 *
 * Threads: attach before the server is used, then as the resolver; retire from any.
 */
#ifndef RELOCK_SENTINELS_H
#define RELOCK_SENTINELS_H

#include "base/thread.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stdint.h>

struct redisReply;
struct relock_options;
struct relock_peer;
struct relock_sentinels;
struct relock_succession;

/*
 * Gives a server whose url names sentinels its resolver. Does nothing to other servers. The server
 * must not move from here on. `id` follows the colon in the name of the connections.
 *
 * A lookup ends with RELOCK_OK; RELOCK_E_CONN when a sentinel could not be reached and no other has
 * answered; RELOCK_E_NOMEM. When all have refused: RELOCK_E_AUTH; RELOCK_E_SERVER, also when they
 * do not know the master; RELOCK_E_UNSUPPORTED when they are no sentinels.
 *
 * Returns RELOCK_OK, RELOCK_E_NOMEM, or as relock_tls_context_new.
 */
int relock_sentinels_attach(struct relock_server *server, const struct relock_options *options,
                            const char *id);

/* A sentinel has reported that this master was replaced: sentinels that name it lag, and addresses
 * that were found before are outdated. */
void relock_sentinels_retire(struct relock_sentinels *sentinels, const struct relock_peer *old);

/* The reports of the sentinels so far. */
struct relock_succession *relock_sentinels_succession(struct relock_sentinels *sentinels);

/* The i-th sentinel of the url. */
const struct relock_server *relock_sentinels_at(const struct relock_sentinels *sentinels,
                                                unsigned i);

/* ---- succession ------------------------------------------------------------------------------ */

/* Longer names of hosts are an error. */
#define RELOCK_MASTER_HOST_MAX 256

/* One sentinel's report about the master. Each failover begins a new configuration, whose number is
 * higher. So of two sentinels that name different masters, the one with the lower number lags. */
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

/* Uses this master from now on, also if its sentinel lags. Returns whether the address is new. */
bool relock_succession_use(struct relock_succession *succession,
                           const struct relock_master *answer);

/* If the answer is of the newest configuration, finds a master that is none any more: the one in
 * use, or one that a lookup found replaced. Returns true, and `*old`, once for each, so call it
 * until it returns false. */
bool relock_succession_replaces(struct relock_succession *succession,
                                const struct relock_master *answer, struct relock_master *old);

#endif
