/*
 * Port - a port of the loopback that only one program uses
 *
 * Reserved by a socket that is bound and does not listen: only a program that asks for this very
 * port gets it, also again after a crash.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_PORT_H
#define RELOCK_TEST_PORT_H

#include <stdbool.h>

/* The nodes of a cluster listen to each other so far above the port for clients. */
#define PORT_BUS_DISTANCE 10000

struct port {
    int number; /* 0: none */
    int fd;
    int bus_fd; /* of the port PORT_BUS_DISTANCE above, or -1 */
};

/* Reserves any free port; for a node of a cluster, one whose bus port is also free. False if there
 * is none. */
bool port_reserve(struct port *port, bool has_bus);
void port_release(struct port *port);

#endif
