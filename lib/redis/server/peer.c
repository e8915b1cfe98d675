#include "redis/server/peer.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#define PORT_TEXT_MAX 8

static bool is_name(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, host, address) != 1 && inet_pton(AF_INET6, host, address) != 1;
}

static bool read_peer(int fd, char ip[RELOCK_PEER_IP_MAX], char port[PORT_TEXT_MAX])
{
    struct sockaddr_storage address = {0};
    socklen_t len = sizeof(address);

    if (fd < 0 || getpeername(fd, (struct sockaddr *)&address, &len) != 0 ||
        (address.ss_family != AF_INET && address.ss_family != AF_INET6))
        return false;
    return getnameinfo((struct sockaddr *)&address, len, ip, RELOCK_PEER_IP_MAX, port,
                       PORT_TEXT_MAX, NI_NUMERICHOST | NI_NUMERICSERV) == 0;
}

bool relock_peer_is_of(const struct relock_peer *peer, int fd)
{
    char ip[RELOCK_PEER_IP_MAX];
    char port[PORT_TEXT_MAX];

    return read_peer(fd, ip, port) && strcmp(port, peer->port) == 0 &&
           (is_name(peer->host) || strcmp(ip, peer->host) == 0);
}

void relock_peer_ip(int fd, char ip[RELOCK_PEER_IP_MAX])
{
    char port[PORT_TEXT_MAX];

    if (!read_peer(fd, ip, port) || is_name(ip))
        *ip = '\0';
}
