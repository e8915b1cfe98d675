/*
 * Fake server - a port of the loopback and a thread that plays a server there
 *
 * Embedded by what the server knows. Connections are served one after the other.
 *
 * Threads: one; `serve` and what it calls, the server's.
 */
#ifndef RELOCK_TEST_FAKE_SERVER_H
#define RELOCK_TEST_FAKE_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

struct fake_server {
    int port;
    int listening; /* -1: stopped */
    pthread_t thread;
    void (*serve)(struct fake_server *server, int fd); /* until the connection ends */
};

/* Listens; then serves what connects. */
bool fake_server_listen(struct fake_server *server);
bool fake_server_run(struct fake_server *server, void (*serve)(struct fake_server *server, int fd));

/* Ends the thread. Also for one that is stopped. */
void fake_server_stop(struct fake_server *server);

/* The next bytes as a text, or false at the end of the connection; and sends a text. */
bool fake_server_hear(int fd, char *text, size_t size);
void fake_server_say(int fd, const char *text);

#endif
