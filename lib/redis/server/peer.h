/*
 * Peer - the address of a server, as text, to find the connections that lead there
 *
 * Threads: any.
 */
#ifndef RELOCK_PEER_H
#define RELOCK_PEER_H

#include <stdbool.h>

/* Room for an address in digits, with a scope. */
#define RELOCK_PEER_IP_MAX 80

struct relock_peer {
    const char *host; /* an address in digits, or a name */
    const char *port;
};

/* Whether this socket leads to the peer. Of a name, only the port is compared. False for a
 * socket that is not connected. */
bool relock_peer_is_of(const struct relock_peer *peer, int fd);

/* The address in digits to which this socket leads; "" if it is not connected, or has a path. */
void relock_peer_ip(int fd, char ip[RELOCK_PEER_IP_MAX]);

#endif
