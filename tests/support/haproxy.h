/*
 * HAProxy - a proxy in front of two servers, which sends each connection to the master
 *
 * It asks each server for its role several times a second. When the master no longer answers, it
 * ends the connections to it, and sends new ones to the other server once that is a master.
 *
 * Threads: the one that started it, which must live as long.
 */
#ifndef RELOCK_TEST_HAPROXY_H
#define RELOCK_TEST_HAPROXY_H

#include "support/port.h"
#include "support/server.h"

#include <stdint.h>

struct haproxy {
    char dir[64];    /* removed at the end */
    char socket[80]; /* path, where it also listens */
    char log[80];    /* path of what it prints */
    char url[64];    /* redis://127.0.0.1:port */
    struct port port;
    pid_t pid;
};

/* Whether the program is installed. */
bool haproxy_is_there(void);

/* Starts it and waits until a master answers. It ends a connection on which nothing has been sent
 * for `idle_ms`. Both servers have a port. Ends the test program if that fails. */
struct haproxy *haproxy_start(const struct server *one, const struct server *other,
                              uint64_t idle_ms);
struct haproxy *haproxy_stop(struct haproxy *haproxy);

/* Waits until a master answers through it, or until none does: then it closes each connection. */
bool haproxy_has_master(struct haproxy *haproxy);
bool haproxy_has_none(struct haproxy *haproxy);

#endif
