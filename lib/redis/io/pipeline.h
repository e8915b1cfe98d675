/*
 * Pipeline - the connection over which the I/O thread runs scripts
 *
 * It sends each command without waiting for the replies of earlier ones. When the connection
 * breaks, all commands in flight end with RELOCK_E_CONN, and the pipeline reconnects; `up` tells
 * the user that it can send again. When the server does not have a script, the pipeline loads it
 * and sends the command once more. So each call ends with one answer, but the answers need not come
 * in the order of the calls.
 *
 * If no connection can be made, it takes one of the lanes that no call uses.
 *
 * Threads: the I/O thread; new and free while that does not run.
 */
#ifndef RELOCK_PIPELINE_H
#define RELOCK_PIPELINE_H

#include "redis/lane/call.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum relock_next_reply {
    RELOCK_NEXT_CALL,    /* the last one; the only one of a PING */
    RELOCK_NEXT_KILL,    /* CLIENT KILL, of the fence */
    RELOCK_NEXT_ASKING,  /* if the slot of the key is on its way to this server */
    RELOCK_NEXT_LOAD,    /* SCRIPT LOAD, if the server lacks the script */
    RELOCK_NEXT_CACHING, /* CLIENT CACHING, if the command is tracked */
};

/*
 * A command in flight on a pipeline, kept so that it can be sent again. Redis answers a command
 * with one reply, and with one more for each of KILL, ASKING, LOAD and CACHING that was sent before
 * it. The command knows which of them comes next. ASKING and CACHING must stand right before the
 * command, so a command behind ASKING is not tracked. After the reply to CALL the pipeline ends the
 * command, or sends it again over this or another connection: `args` has its arguments as bytes.
 */
struct relock_sent_command {
    enum relock_next_reply next_reply;
    unsigned n_replies; /* all that were due when it was last sent */
    unsigned forms;     /* of the last one: see reply.h */
    enum relock_call_form form;
    bool asks;            /* it follows ASKING, which SCRIPT LOAD would use up */
    bool is_tracked;      /* it follows CLIENT CACHING */
    bool is_kill_refused; /* for now: an older command may still run */
    unsigned n_redirects;
    const struct relock_script *script; /* that it runs; NULL: none */
    void (*fn)(void *arg, int result, const struct redisReply *reply); /* NULL: no caller */
    void *arg;
    struct relock_flight *flight;       /* NULL: its user need not know */
    const struct relock_node **tracker; /* see call.h; constant */
    struct relock_node **answered_by;   /* likewise */
    struct relock_sent_command *next, *prev;
    size_t n_args;
    size_t len;
    char args[]; /* as bytes */
};

struct relock_call;
struct relock_loan;
struct relock_loop;
struct relock_node;
struct relock_peer;
struct relock_pipeline;
struct relock_topology;
struct relock_conn_id;
struct redisReply;

/*
 * The answer to a call: RELOCK_OK and the reply; RELOCK_E_CONN without one, when the connection
 * ended first, or the key is at a node that is not connected; RELOCK_E_SERVER, RELOCK_E_AUTH and
 * the error. Without a reply, these two say that the server refused to kill the fence.
 */
typedef void relock_pipeline_fn(void *arg, int result, const struct redisReply *reply);

/* Called whenever a connection has been made. */
typedef void relock_pipeline_up_fn(void *arg);

/* Closes a connection on which an answer takes longer than `answer_ms`. */
int relock_pipeline_new(struct relock_loop *loop, const struct relock_server *server,
                        uint64_t answer_ms, relock_pipeline_up_fn *up, void *arg,
                        struct relock_pipeline **pipeline);

/* Drops the commands in flight without answering them. Takes NULL. Returns NULL. */
struct relock_pipeline *relock_pipeline_free(struct relock_pipeline *pipeline);

/* Sets the node of a topology to which the pipeline leads. From now on, if the server says that
 * another node has the key, the command goes on to the pipeline of that node for the same purpose.
 * It ends with RELOCK_E_CONN if that pipeline is not up yet. */
void relock_pipeline_join(struct relock_pipeline *pipeline, struct relock_topology *topology,
                          struct relock_node *node);

void relock_pipeline_open(struct relock_pipeline *pipeline);

/* Whether it may be closed: no command is in flight, and it is not connecting for one. */
bool relock_pipeline_is_idle(const struct relock_pipeline *pipeline);

/* Gives its connection away, if nothing is in flight on it, and makes another after a pause. Under
 * no mutex. Returns whether it did. */
bool relock_pipeline_lend(struct relock_pipeline *pipeline, struct relock_loan *loan);

/* Closes the connection if no command is in flight. It can be opened again. */
void relock_pipeline_close_idle(struct relock_pipeline *pipeline);

/* The id of the current connection, which the pipeline owns; NULL while there is none, or when the
 * server does not tell it. */
struct relock_conn_id *relock_pipeline_conn_id(const struct relock_pipeline *pipeline);

/* As relock_async_conn_renew. */
void relock_pipeline_renew(struct relock_pipeline *pipeline, const struct relock_peer *peer,
                           const char *what);

/*
 * Has the server kill the fence of the call, if it has one, and sends the call. The call need not
 * live longer. Calls `fn` once, later. The fence stays the caller's.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN while the connection is down; RELOCK_E_NOMEM, also if `pipeline`
 * is NULL because there was no memory for it. After a failure, `fn` is not called.
 */
int relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                         relock_pipeline_fn *fn, void *arg);

/*
 * Has the server report changes of keys to the connection of that number (CLIENT TRACKING). Calls
 * `fn` once, later. Returns as relock_pipeline_call.
 */
int relock_pipeline_track(struct relock_pipeline *pipeline, uint64_t number, relock_pipeline_fn *fn,
                          void *arg);

/*
 * Has the server count the replicas that have the last write of this connection (WAIT), until there
 * are `n` or `timeout_ms` have passed. Until then the server runs no later command. Calls `fn`
 * once, later. Returns as relock_pipeline_call.
 */
int relock_pipeline_count_replicas(struct relock_pipeline *pipeline, unsigned n,
                                   uint64_t timeout_ms, relock_pipeline_fn *fn, void *arg);

/* Whether a call with a `tracker` is tracked. tracking.c sets this when the server has agreed. It
 * ends with the connection, or when the server says that it tracks no longer. */
void relock_pipeline_set_tracks(struct relock_pipeline *pipeline, bool tracks);
bool relock_pipeline_tracks(const struct relock_pipeline *pipeline);

/* Sends PING, unless a command is in flight. */
void relock_pipeline_ping(struct relock_pipeline *pipeline);

/* Since when the server has owed an answer, over all connections; RELOCK_NEVER when it owes none.
 */
uint64_t relock_pipeline_silent_ms(const struct relock_pipeline *pipeline);

/* Writes to the socket at once, instead of when the loop next finds it writable. */
void relock_pipeline_flush(struct relock_pipeline *pipeline);

#endif
