/*
 * Seats - a server that reserves seats, for any event loop; see seats.c
 *
 * The loop watches the listener, the queue of relock and every connection, and calls the functions
 * below. None of them blocks.
 */
#ifndef SEATS_H
#define SEATS_H

#include <relock.h>
#include <stdint.h>

#define N_SEATS 1000

struct connection;

struct seats {
    /* Set by the loop before seats_start(). */
    void (*watch)(struct connection *connection, int fd);   /* seats_read() when it is readable */
    void (*unwatch)(struct connection *connection, int fd); /* before it is closed */

    struct relock_client *client;
    struct relock_events *events; /* relock_events_dispatch() when its descriptor is readable */
    struct connection *connections;
    int listener;
    unsigned n_reserved;
};

struct connection {
    struct seats *seats;
    struct connection *next, *prev;
    void *watcher; /* of the loop */
    int fd;        /* -1 after the customer has left */
    enum { IDLE, WAITS, HAS_SEAT, LEAVES } state;
    struct relock_lock *lock;
    struct relock_cancel *cancel; /* ends its wait */
    uint64_t owner;               /* of the lock, in HAS_SEAT */
};

/* Ends the program if the step failed. */
void must(int done, const char *what);

/* Listens on a port of this machine; 0: any free one. Returns the port. */
uint16_t seats_listen(struct seats *seats, uint16_t port);

/* Connects to Redis. `url` may be NULL. */
void seats_start(struct seats *seats, const char *url);

/* The listener is readable. */
void seats_accept(struct seats *seats);

/* A connection is readable. May free it. */
void seats_read(struct connection *connection);

/* Begins to end all connections; the server may stop when `connections` is NULL. */
void seats_drain(struct seats *seats);

/* Disconnects from Redis. */
void seats_stop(struct seats *seats);

/* seats_customers.c: a demonstration. Returns the status of a process of customers. */
int customers_run(uint16_t port);

/* The arguments of both programs: [URL [PORT]]. Without PORT, another process plays the customers;
 * when it ends, the server gets SIGCHLD. Returns its process, or 0. */
int seats_begin(struct seats *seats, int argc, char **argv);

#endif
