/*
 * Call - run this script with these keys and arguments before this deadline
 *
 * The seam between the locks and the connections. Every script may be repeated without harm, so a
 * call that meets a broken connection is repeated on another. It ends in exactly one way:
 *
 *   answered                 RELOCK_OK, and the reply
 *   refused                  RELOCK_E_SERVER, RELOCK_E_AUTH, RELOCK_E_UNSUPPORTED
 *   never sent               RELOCK_E_CONN, RELOCK_E_NOMEM, `unanswered` is false
 *   sent, outcome unknown    RELOCK_E_CONN, RELOCK_E_NOMEM, `unanswered` is true
 *
 * `unanswered` may also be true with the first two: an attempt before the answered one went
 * without, and may have run.
 *
 * A connection that dies with a command unanswered is a debt of the number under which that was
 * sent. It is paid, by CLIENT KILL, before anything further goes out under that number: then what
 * was in its buffers never runs. A server that forbids CLIENT KILL is not asked for more.
 *
 * At the deadline a call leaves a command that was sent as an orphan: the connection stays for the
 * others on it, and the number owes it a killing only until the orphan was answered.
 *
 * Threads: any; the lanes do the rest. Blocks until the deadline, or RELOCK_LANE_ANSWER_MS for a
 * command that was sent just before.
 */
#ifndef RELOCK_CALL_H
#define RELOCK_CALL_H

#include "redis/command.h"
#include "redis/script.h"
#include "redis/server.h"

#define RELOCK_CALL_ARGS 4

struct relock_lanes;
struct relock_origin;
struct relock_orphan;
struct redisReply;

struct relock_call {
    /* what is asked */
    const struct relock_script *script;
    struct relock_text key;
    struct relock_text args[RELOCK_CALL_ARGS];
    size_t n_args;
    struct relock_origin **debt; /* of the number; NULL for what is asked under none */
    unsigned min_replicas;       /* above 0: WAIT for so many to have it */
    uint64_t replica_timeout_ms;

    /* what came of it */
    struct redisReply *reply; /* with RELOCK_OK */
    unsigned acked_replicas;
    bool unanswered;
    struct relock_orphan
        *orphan;              /* with a debt: its answer may come yet, and who adopts it is told */
    char why[RELOCK_WHY_MAX]; /* with a failure, also one of WAIT */
};

int relock_call_run(struct relock_call *call, struct relock_lanes *lanes, uint64_t deadline_ms);

/* Drops the reply, and the orphan that nobody has adopted. */
void relock_call_end(struct relock_call *call);

/* Appends EVALSHA for the call; SCRIPT LOAD for its script. */
void relock_call_write(const struct relock_call *call, struct relock_buffer *buffer);
void relock_call_write_load(const struct relock_script *script, struct relock_buffer *buffer);

/*
 * Loads all scripts, so that no first call has to be sent twice. A server that does not let us is
 * asked when a script is needed. Returns as relock_lane_ask; `why` says why.
 */
int relock_call_load_all(struct relock_lanes *lanes, uint64_t deadline_ms,
                         char why[RELOCK_WHY_MAX]);

#endif
