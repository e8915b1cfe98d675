/*
 * Login - authenticates a new connection and prepares it
 *
 * It sends AUTH, HELLO, CLIENT SETNAME, SELECT, INFO and CLIENT INFO, as far as they are needed, in
 * one piece. INFO and CLIENT INFO give the connection id. INFO also tells the version; a server
 * that does not tell it counts as new enough. HELLO tells the role of the server: a Sentinel, a
 * node of a cluster and a replica take no locks. HELLO needs no ACL right. If it does not tell the
 * role, because the server or a proxy lacks it, a second piece asks INFO or ROLE; a server that
 * does not answer these either counts as a master. A server that is to be a Sentinel must be one.
 *
 * Threads: the user of the connection.
 */
#ifndef RELOCK_LOGIN_H
#define RELOCK_LOGIN_H

#include "redis/connect/conn_id.h"
#include "redis/server/server.h"

enum relock_login_step {
    RELOCK_LOGIN_AUTH,
    RELOCK_LOGIN_HELLO,
    RELOCK_LOGIN_NAME,
    RELOCK_LOGIN_DB,
    RELOCK_LOGIN_SERVER,
    RELOCK_LOGIN_INFO,
    RELOCK_LOGIN_ROLE, /* sent alone, after the other replies */
    RELOCK_LOGIN_DONE,
};

/* The role that the server tells; all false if it tells none. */
struct relock_login_role {
    bool is_standalone;
    bool is_cluster; /* a node of one; as HELLO says: INFO may be that of a node behind a proxy */
    bool is_sentinel;
    bool is_replica;
};

struct relock_login {
    const struct relock_server *server;
    struct relock_credentials credentials;
    enum relock_login_step step; /* the command whose reply comes next */
    struct relock_login_role role;
    bool asks_role;                 /* HELLO has not told it */
    bool has_info;                  /* the server answers INFO */
    char run[RELOCK_RUN_MAX + 1];   /* the run id of the server; "" if it has not told */
    struct relock_conn_id *conn_id; /* NULL if the server does not tell it */
    char why[RELOCK_WHY_MAX];
};

/* Appends the commands. */
void relock_login_begin(struct relock_login *login, const struct relock_server *server,
                        struct relock_buffer *buffer);

/*
 * Takes the next reply. When `step` becomes RELOCK_LOGIN_ROLE, it has appended a further command,
 * for the caller to send.
 *
 * Returns RELOCK_OK after the last reply; RELOCK_AGAIN when more are to come; RELOCK_REPLICA;
 * RELOCK_E_UNSUPPORTED for a Sentinel, a node of a cluster or a version that is too old, and for
 * anything else in the place of a Sentinel; RELOCK_E_AUTH, RELOCK_E_SERVER, RELOCK_E_NOMEM;
 * RELOCK_E_CONN when the server refuses for now. A failure has its cause in `why`.
 */
int relock_login_take(struct relock_login *login, const struct redisReply *reply,
                      struct relock_buffer *buffer);

/* Returns the command whose reply comes next. */
const char *relock_login_command(const struct relock_login *login);

/* Drops the connection id. */
void relock_login_end(struct relock_login *login);

#endif
