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

#include "redis/server/server.h"

struct relock_peer;
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

#endif
