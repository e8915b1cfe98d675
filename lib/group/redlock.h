/*
 * Redlock - one lock on several independent servers, held while more than half of them say so
 *
 * All servers are asked at the same time and the first quorum decides, so a server that is down,
 * hangs or is late costs nothing. The hold on the coordinator, the client of the first member,
 * counts the levels; its tally says how long it is certain.
 *
 * Threads: with the mutex of the coordinator held; unlocks it meanwhile.
 */
#ifndef RELOCK_REDLOCK_H
#define RELOCK_REDLOCK_H

#include "lock/state/client.h"

extern const struct relock_kind relock_kind_red;

/* At the end of a client: the votes that its server gave are lost, and released. */
void relock_redlock_drop_votes(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
