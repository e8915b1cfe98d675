#include "redis/connect/conn_id.h"

#include "base/decimal.h"
#include "redis/connect/explain.h"
#include "redis/server/command.h"
#include "redis/server/reply.h"
#include "redis/server/server.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relock_conn_id {
    atomic_uint refs;
    struct relock_node *node; /* or NULL */
    atomic_uint *node_refs;
    char run[RELOCK_RUN_MAX + 1];
    uint64_t id;
    char address[]; /* ours, as the server sees it */
};

struct relock_conn_id *relock_conn_id_new(const struct relock_server *server, const char *run,
                                          uint64_t id, const char *address, size_t len)
{
    struct relock_conn_id *conn_id = malloc(sizeof(*conn_id) + len + 1);

    if (!conn_id)
        return NULL;
    atomic_init(&conn_id->refs, 1);
    conn_id->node = server->node;
    conn_id->node_refs = server->node_refs;
    if (conn_id->node_refs)
        atomic_fetch_add(conn_id->node_refs, 1);
    (void)snprintf(conn_id->run, sizeof(conn_id->run), "%s", run);
    conn_id->id = id;
    memcpy(conn_id->address, address, len);
    conn_id->address[len] = '\0';
    return conn_id;
}

struct relock_node *relock_conn_id_node(const struct relock_conn_id *conn_id)
{
    return conn_id->node;
}

uint64_t relock_conn_id_number(const struct relock_conn_id *conn_id)
{
    return conn_id->id;
}

bool relock_conn_id_has_run(const struct relock_conn_id *conn_id)
{
    return *conn_id->run != '\0';
}

bool relock_conn_id_is_beside(const struct relock_conn_id *conn_id,
                              const struct relock_conn_id *other)
{
    return relock_conn_id_has_run(conn_id) && strcmp(conn_id->run, other->run) == 0;
}

struct relock_conn_id *relock_conn_id_ref(struct relock_conn_id *conn_id)
{
    atomic_fetch_add(&conn_id->refs, 1);
    return conn_id;
}

struct relock_conn_id *relock_conn_id_unref(struct relock_conn_id *conn_id)
{
    if (!conn_id || atomic_fetch_sub(&conn_id->refs, 1) > 1)
        return NULL;
    if (conn_id->node_refs)
        atomic_fetch_sub(conn_id->node_refs, 1);
    free(conn_id);
    return NULL;
}

/* Over a unix socket all peers have the path of the socket as address, and port 0. */
static bool has_address_of_its_own(const struct relock_conn_id *conn_id)
{
    const char *port = strrchr(conn_id->address, ':');

    return port && strcmp(port, ":0") != 0;
}

static bool can_be_killed(const struct relock_conn_id *conn_id, const struct relock_conn_id *killer)
{
    if (killer && *killer->run && *conn_id->run)
        return strcmp(killer->run, conn_id->run) == 0;
    return has_address_of_its_own(conn_id);
}

void relock_conn_id_kill(const struct relock_conn_id *conn_id, const struct relock_conn_id *killer,
                         struct relock_buffer *buffer)
{
    char id[RELOCK_DECIMAL_MAX];

    if (!can_be_killed(conn_id, killer)) {
        relock_command_words(buffer, "PING");
        return;
    }
    (void)relock_decimal(id, conn_id->id);
    relock_command_words(buffer, "CLIENT", "KILL", "ID", id, "ADDR", conn_id->address);
}

bool relock_conn_id_is_killed(const struct relock_server *server, const struct redisReply *reply)
{
    const char *error = relock_reply_error(reply);

    if (!error)
        return true;
    if (!relock_explain_is_missing(error))
        return false;
    relock_explain_extra(server, RELOCK_EXTRA_KILL, error);
    return true;
}
