/*
 * Places - addresses on the loopback at which a server listens, hangs, or is missing
 *
 * Each has a port of its own.
 *
 * Threads: one.
 */
#ifndef RELOCK_TEST_PLACES_H
#define RELOCK_TEST_PLACES_H

#include <stdbool.h>
#include <sys/socket.h>

#define PLACES_MAX 8

/* A server listens there; nobody does; or one whose queue is full, so that a connection attempt has
 * no answer. Each returns the number of the place, from 0. */
int places_listen(void);
int places_refuse(void);
int places_hang(void);

/* The queue of a place that hangs gets room: an attempt is answered when the system repeats it. */
void places_let_in(int place);

struct sockaddr_storage places_address(int place, socklen_t *len);

/* "127.0.0.1 7001" */
const char *places_text(int place);

/* Whether the socket is connected to the place. */
bool places_is_at(int place, int socket);

/* Whether a connection came to the place. */
bool places_had_visitor(int place);

/* Closes them all. */
void places_end(void);

#endif
