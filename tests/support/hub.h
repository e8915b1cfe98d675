/*
 * Hub - the connections of a proxy, and the thread that moves their bytes
 *
 * The thread sleeps until a socket is ready or another thread wakes it. While it moves bytes it
 * holds the mutex, so a thread with the mutex sees the connections stand still.
 *
 * Threads: as said at each.
 */
#ifndef RELOCK_TEST_HUB_H
#define RELOCK_TEST_HUB_H

#include "support/port.h"
#include "support/relay.h"

#include <pthread.h>
#include <stdint.h>

struct hub {
    /* constant once started */
    char path[108];       /* where it listens, "" with TCP */
    char url[128];        /* the same */
    struct port port;     /* none with a unix socket */
    struct seal_key *key; /* NULL without TLS */
    int wake;
    const struct relay_ops *ops; /* called with the mutex held */
    void *arg;
    pthread_t thread;

    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct {
        bool refuse, by_byte, stopping;
        uint64_t delay_ms;
        char server[108];    /* a unix socket, to which new connections lead */
        unsigned n_to_break; /* next connections, each after so many bytes to its client: */
        size_t break_after;
        uint64_t asked, done; /* turns of the thread: wanted, and made */
        int listener;         /* -1 while connections are refused; the thread's */
        struct relay *relays;
        unsigned n_relays; /* so far */
    } guarded;             /* by mutex */
};

/* Listens at `path`, NULL: on a free port of the loopback; with certificates in that folder, on
 * such a port with TLS. */
void hub_start(struct hub *hub, const char *server, const char *path, const char *certs,
               const struct relay_ops *ops, void *arg);

/* New connections lead there from now on. With the mutex held. */
void hub_lead_to(struct hub *hub, const char *server);

/* Ends the thread and all connections. */
void hub_stop(struct hub *hub);

/* Makes the thread look at the changes, and waits until it has. With the mutex held. */
void hub_look(struct hub *hub);

/* Waits until the answer, asked for with the mutex held, is yes; false if it is not in time. */
bool hub_wait(struct hub *hub, bool (*predicate)(const void *arg), const void *arg);

#endif
