/*
 * Server - a private Redis or Valkey for one test program
 *
 * Lives in a temporary folder of its own, listens on a unix socket there and, when asked, on a free
 * port of the loopback, and writes to disk only if it is to keep its data. It dies with the test
 * program, however that ends.
 *
 * The program is that of RELOCK_TEST_SERVER, else redis-server or valkey-server from the PATH. With
 * RELOCK_TEST_TLS in the environment, every server also has a port with TLS.
 *
 * Threads: the one that started it, which must live as long: the server dies with its thread.
 */
#ifndef RELOCK_TEST_SERVER_H
#define RELOCK_TEST_SERVER_H

#include "support/port.h"

#include <stdbool.h>
#include <sys/types.h>

#define SERVER_EXIT_SKIP 77 /* the exit status of a test program without a server */
#define SERVER_MAX_ARGS 16

struct server_options {
    bool tcp;                          /* also on a port */
    bool tls;                          /* also on a port with TLS: support/certs.h */
    bool sentinel;                     /* it watches over servers, none so far, and is none */
    bool cluster;                      /* a node of a cluster, alone so far; needs tcp */
    bool keeps_data;                   /* answered writes are on disk and survive a restart */
    const char *certs;                 /* folder of certificates made before; NULL: makes them */
    const char *args[SERVER_MAX_ARGS]; /* further arguments, up to the first NULL; not copied */
};

struct server {
    char dir[64];         /* removed at the end */
    char socket[80];      /* path */
    char unix_url[96];    /* unix://... */
    char tcp_url[64];     /* redis://127.0.0.1:port, or "" */
    char tls_url[64];     /* rediss://127.0.0.1:port, or "" */
    char certs[80];       /* the folder of its certificates, "tls/" in its own */
    char ca_file[96];     /* there, for tls_ca_file */
    int port;             /* 0 without TCP; nobody else gets it, also while the server is down */
    int tls_port;         /* the same with TLS */
    char master_port[16]; /* of a replica */
    struct port reserved[2];
    pid_t pid;   /* 0 while it does not run */
    bool paused; /* between server_pause() and server_resume() */
    struct server_options options;
};

/* Starts a server and waits until it answers. NULL if there is no program to start, or none with
 * TLS; ends the test program if it does not come up. */
struct server *server_start(const struct server_options *options);

/* The same in steps, for several at once: one that does not run, its start, and the wait until it
 * answers. */
struct server *server_new(const struct server_options *options);
void server_launch(struct server *server);
void server_await(struct server *server);

/* A replica of `master`, which has a port. */
struct server *server_start_replica(const struct server *master);

/* Ends the server and removes its folder. Takes NULL, returns NULL. */
struct server *server_stop(struct server *server);

/* The server stands still, as on a machine that hangs: connections stay and nothing answers. */
void server_pause(struct server *server);
void server_resume(struct server *server);

/* The server is gone and so are its connections and, unless it keeps them, its data. */
void server_kill(struct server *server);

/* Starts again on the same addresses, empty or with the data that it kept; kills first if it still
 * runs. */
void server_restart(struct server *server);

/* Removes a folder, which may not exist, and all that is in it. */
void server_remove_dir(const char *path);

/* Deletes the data that it kept. Kills first if it still runs. */
void server_forget(struct server *server);

#endif
