#include "redis/peer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* Room for an address with a scope. */
#define ADDRESS_MAX 80

static bool is_name(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1;
}

bool relock_peer_is_of(const struct relock_peer *peer, int fd)
{
    struct sockaddr_storage address;
    socklen_t len = sizeof(address);
    char host[ADDRESS_MAX];
    char port[8];

    if (fd < 0 || getpeername(fd, (struct sockaddr *)&address, &len) < 0)
        return false;
    if (getnameinfo((struct sockaddr *)&address, len, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return false;
    return strcmp(port, peer->port) == 0 && (is_name(peer->host) || strcmp(host, peer->host) == 0);
}
