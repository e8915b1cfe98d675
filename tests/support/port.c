#include "support/port.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_TRIES 200

/* Any free port if the number is 0. -1: somebody has it. With SO_REUSEADDR from the start, two
 * programs could reserve the same port, and only one of them could listen. The option is set
 * afterwards, for the program that is to listen there. */
static int bind_port(int number)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)number)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int on = 1;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0 &&
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static int number_of(int fd)
{
    struct sockaddr_in address = {0};
    socklen_t size = sizeof(address);

    (void)getsockname(fd, (struct sockaddr *)&address, &size);
    return ntohs(address.sin_port);
}

static bool try_port(struct port *port, bool has_bus)
{
    *port = (struct port){.fd = bind_port(0), .bus_fd = -1};
    port->number = port->fd < 0 ? 0 : number_of(port->fd);
    if (port->number == 0 || !has_bus)
        return port->number > 0;
    if (port->number + PORT_BUS_DISTANCE <= UINT16_MAX)
        port->bus_fd = bind_port(port->number + PORT_BUS_DISTANCE);
    return port->bus_fd >= 0;
}

bool port_reserve(struct port *port, bool has_bus)
{
    for (int i = 0; i < MAX_TRIES; i++) {
        if (try_port(port, has_bus))
            return true;
        port_release(port);
    }
    return false;
}

void port_release(struct port *port)
{
    if (port->number > 0)
        close(port->fd);
    if (port->number > 0 && port->bus_fd >= 0)
        close(port->bus_fd);
    *port = (struct port){0};
}
