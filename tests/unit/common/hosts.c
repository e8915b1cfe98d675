#include "unit/common/hosts.h"

#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

int hosts_find(const char *const addresses[HOSTS_MAX], const char *port, struct addrinfo **found)
{
    static const struct addrinfo hints = {
        .ai_socktype = SOCK_STREAM,
        .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV,
    };
    struct addrinfo **end = found;

    for (size_t i = 0; i < HOSTS_MAX && addresses[i]; i++) {
        char host[64], own_port[8];
        int n = sscanf(addresses[i], "%63s %7s", host, own_port);
        int err = __real_getaddrinfo(host, n == 2 ? own_port : port, &hints, end);

        if (err != 0)
            return err;
        end = &(*end)->ai_next;
    }
    return 0;
}
