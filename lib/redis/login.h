/*
 * Login - the first words on a connection
 *
 * AUTH, HELLO, CLIENT SETNAME, SELECT, INFO and CLIENT INFO, as far as they are wanted, in one
 * piece. The server's name for the connection comes out of it. HELLO says what the server is: a
 * Sentinel, a node of a cluster or a replica takes no locks. It needs no right; a server that does
 * not know it is taken for a master.
 *
 * Threads: the one that drives the connection.
 */
#ifndef RELOCK_LOGIN_H
#define RELOCK_LOGIN_H

#include "redis/origin.h"
#include "redis/server.h"

struct relock_buffer;
struct redisReply;

enum relock_login_step {
    RELOCK_LOGIN_AUTH,
    RELOCK_LOGIN_HELLO,
    RELOCK_LOGIN_NAME,
    RELOCK_LOGIN_DB,
    RELOCK_LOGIN_RUN,
    RELOCK_LOGIN_INFO,
    RELOCK_LOGIN_DONE,
};

struct relock_login {
    const struct relock_server *server;
    enum relock_login_step step;  /* whose reply comes next */
    char run[RELOCK_RUN_MAX + 1]; /* of the server; "" until it has said, or when it does not */
    struct relock_origin *origin; /* taken out by the caller; NULL when the server does not say */
    char why[RELOCK_WHY_MAX];
};

/* Appends all its commands. */
void relock_login_begin(struct relock_login *login, const struct relock_server *server,
                        struct relock_buffer *buffer);

/*
 * Takes the next reply.
 *
 * Returns RELOCK_OK when that was the last; RELOCK_AGAIN when more are to come; RELOCK_REPLICA;
 * RELOCK_E_UNSUPPORTED for a Sentinel or a node of a cluster; RELOCK_E_AUTH, RELOCK_E_SERVER,
 * RELOCK_E_NOMEM; RELOCK_E_CONN when the server does not want us for now. `why` says so.
 */
int relock_login_take(struct relock_login *login, const struct redisReply *reply);

/* Drops what it found out. */
void relock_login_end(struct relock_login *login);

#endif
