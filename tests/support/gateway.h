/*
 * Gateway - a proxy of another project in front of one server
 *
 * Each is there in a version of its own: HAProxy and stunnel of the system, and Envoy below
 * RELOCK_TEST_PROXIES, where tests/proxies/build.sh has put it. Those that move bytes end a
 * connection on which none have passed for GATEWAY_IDLE_MS.
 *
 * Threads: the one that started it, which must live as long.
 */
#ifndef RELOCK_TEST_GATEWAY_H
#define RELOCK_TEST_GATEWAY_H

#include "support/port.h"
#include "support/server.h"

#define GATEWAY_IDLE_MS 1000 /* stunnel counts whole seconds */

struct gateway_kind;

struct gateway {
    const struct gateway_kind *kind;
    char dir[64]; /* removed at the end */
    char log[80]; /* path of what it prints */
    char url[64];
    struct port port;
    pid_t pid;
};

/* By its name: "envoy-redis", which speaks the protocol of Redis; "envoy-tcp" and "haproxy";
 * "stunnel-client", which speaks TLS to the server, and "stunnel-server", which speaks TLS to
 * clients. NULL, and the reason on stderr, if there is none of that name, or no program. */
const struct gateway_kind *gateway_find(const char *name);

/* Starts it and waits until it listens. The server has a port, and one with TLS. Ends the test
 * program if that fails. */
struct gateway *gateway_start(const struct gateway_kind *kind, const struct server *server);
struct gateway *gateway_stop(struct gateway *gateway);

#endif
