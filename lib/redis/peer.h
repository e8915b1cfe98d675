/*
 * Peer - the address of a server, as text, to find the connections that lead there
 *
 * Threads: any.
 */
#ifndef RELOCK_PEER_H
#define RELOCK_PEER_H

#include <stdbool.h>

struct relock_peer {
    const char *host; /* an address in digits, or a name */
    const char *port;
};

/* Whether this socket leads to the peer. Of a name, only the port is compared. False for a
 * socket that is not connected. */
bool relock_peer_is_of(const struct relock_peer *peer, int fd);

#endif
