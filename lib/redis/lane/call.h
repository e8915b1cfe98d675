/*
 * Call - a script to run on Redis, with its key and arguments, and the outcome
 *
 * A call ends in exactly one way:
 *
 *   answered                 RELOCK_OK, and the reply
 *   refused                  RELOCK_E_SERVER, RELOCK_E_AUTH, RELOCK_E_UNSUPPORTED
 *   never sent               RELOCK_E_CONN, RELOCK_E_NOMEM, `unanswered` is false
 *   sent, outcome unknown    RELOCK_E_CONN, RELOCK_E_NOMEM, `unanswered` is true
 *
 * `unanswered` may also be true with the first two: an earlier attempt was not answered and may
 * have run. A call that `is_once` ends with that attempt instead, with RELOCK_E_CONN.
 *
 * Fences: a command that was not answered may still run, for as long as the server keeps its end of
 * the connection. The call stores the id of that connection in `*fence`. Every later call with the
 * same `fence` first kills the connection (CLIENT KILL), so that the old command cannot run after a
 * newer one. If the server forbids CLIENT KILL, the call goes on without.
 *
 * At its deadline, a call whose command is in flight leaves an orphan in its place. The connection
 * stays open for other commands, and is a fence only until the orphan's reply has come.
 *
 * Threads: that of the call.
 */
#ifndef RELOCK_CALL_H
#define RELOCK_CALL_H

#include "redis/server/command.h"
#include "redis/server/script.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_conn_id;
struct relock_node;
struct relock_orphan;

#define RELOCK_CALL_ARGS 7

/* Where a command of a pipeline is in flight. Changes if a node redirects the command. */
struct relock_flight {
    bool is_in_flight;              /* it may run, or have run, without an answer */
    struct relock_conn_id *conn_id; /* the connection, a reference; NULL: unknown */
};

struct relock_call {
    /* the script, or a command like one, and its arguments: set by the caller */
    const struct relock_script *script;
    struct relock_text key;

    /* Of a script or a command for many locks of one node, in a cluster of one slot: `n_more_keys`
     * further keys, and behind them arguments, `n_more` texts together. Else NULL. */
    const struct relock_text *more;
    size_t n_more_keys, n_more;

    struct relock_text args[RELOCK_CALL_ARGS];
    size_t n_args;

    /* Which of `args` is the command with which the script publishes, from 1; 0: none. Its text is
     * written with the call: while no node is known, nobody knows whether the channels are sharded.
     */
    size_t publish_arg;

    struct relock_conn_id **fence; /* the connection to kill first; NULL: not needed */
    struct relock_flight *flight;  /* for a pipeline: lives until the answer; NULL: not needed */

    /* For a pipeline: the answer sets it to the node that will report the next change of the keys,
     * or to NULL if none will. Lives until the answer. NULL: the keys need not be tracked. */
    const struct relock_node **tracker;

    /* For a pipeline: the answer RELOCK_OK sets it to the node that gave it, which may have been
     * redirected to. Lives until the answer. NULL: not needed. */
    struct relock_node **answered_by;

    unsigned min_replicas; /* above 0: WAIT until so many replicas have it */
    uint64_t replica_timeout_ms;
    bool is_once;          /* must not run twice; over lanes only (relock_call_run) */
    bool grants_by_number; /* a grant is 1 or more; otherwise a number is a refusal */

    /* the outcome */
    struct redisReply *reply; /* with RELOCK_OK */
    unsigned acked_replicas;  /* the answer of WAIT */
    bool unanswered;          /* some command of it was not answered and may have run */
    bool is_for_now; /* with RELOCK_E_SERVER: the server refused it for a reason that may pass, and
                        did so until the deadline */
    struct relock_orphan *orphan; /* with a fence: its reply may still come; or NULL */
    char why[RELOCK_WHY_MAX];     /* the cause of a failure, also of one of WAIT */
};

/* Frees the reply, and drops the orphan if it was not adopted. */
void relock_call_end(struct relock_call *call);

/* How a script gets to the server. If the server lacks it, the call is sent in the next form. */
enum relock_call_form {
    RELOCK_CALL_BY_HASH, /* EVALSHA: the server has it */
    RELOCK_CALL_LOADED,  /* SCRIPT LOAD and EVALSHA: two replies; not behind ASKING, which the first
                            of them would use up */
    RELOCK_CALL_WHOLE,   /* EVAL, if the server or the user lacks SCRIPT LOAD, or an operator has
                            flushed the scripts meanwhile */
};

/* Sets the next form; `asks`: behind ASKING. Returns false if there is none: the server refuses the
 * script itself, or this is a plain command, whose body is empty. */
bool relock_call_next_form(const struct relock_script *script, bool asks,
                           enum relock_call_form *form);

/* Append the commands of a call: up to the first key, and the rest. `n_args` texts follow the
 * keys. */
void relock_call_write_head(const struct relock_script *script, size_t n_keys, size_t n_args,
                            enum relock_call_form form, struct relock_buffer *buffer);
void relock_call_write_args(const struct relock_call *call, bool is_sharded,
                            struct relock_buffer *buffer);

/* Appends SCRIPT LOAD. */
void relock_call_write_load(const struct relock_script *script, struct relock_buffer *buffer);

/* If this reply to SCRIPT LOAD says that the command is missing, warns once. */
void relock_call_check_loaded(const struct relock_server *server, const struct redisReply *loaded);

#endif
