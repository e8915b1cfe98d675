/*
 * Run - runs a call at the node that has its key, before a deadline
 *
 * This is the seam between the locks and the connections. The scripts of locks may be repeated
 * without harm. So a call whose connection breaks is repeated over another one, and a call that a
 * node redirects is repeated at the other node. A call that `is_once` is repeated only while it has
 * certainly not run.
 *
 * An attempt runs over one lane. It first kills the connection that the fence of the call names. It
 * loads the script if the server lacks it, and counts replicas if the call asks for them.
 *
 * Threads: any. Blocks until the deadline; for a command that was sent just before it, up to
 * RELOCK_ANSWER_MIN_MS longer.
 */
#ifndef RELOCK_RUN_H
#define RELOCK_RUN_H

#include "redis/lane/lane.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_call;
struct relock_lane;
struct relock_node;
struct relock_topology;

#define RELOCK_CALLS_AT_ONCE 64

/*
 * Makes one attempt at each of up to RELOCK_CALLS_AT_ONCE calls of one script. Those of one node go
 * out together, up to 16 in a round trip. They may be repeated, and have no fence. A call that was
 * answered has its reply, which is no error. The others have none: relock_call_run() runs them.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN, with the cause in `why`: at the deadline, a node had not
 * answered.
 */
int relock_call_try_all(struct relock_call *calls, size_t n, struct relock_topology *topology,
                        uint64_t deadline_ms, char why[RELOCK_WHY_MAX]);

/* Returns as call.h says. */
int relock_call_run(struct relock_call *call, struct relock_topology *topology,
                    uint64_t deadline_ms);

/*
 * Post - a call that ends without its caller
 *
 * One attempt: the call is sent once, where its key is, and its answer is passed to `fn`. Whatever
 * the answer is, nothing is repeated or followed.
 *
 * Threads: that of the call; `fn` runs on any thread, under no mutex.
 */
#define RELOCK_POST_ROOM 640 /* longer commands are allocated */

struct relock_post {
    struct relock_posted posted; /* first */
    struct relock_topology *topology;
    struct relock_node *node; /* a reference */
    struct relock_lane *lane; /* of the node */
    struct relock_buffer commands;
    char room[RELOCK_POST_ROOM];

    /* As of struct relock_posted; it frees the reply and the post, and the connection id if
     * `posted.exchange` was sent. Set by the caller. */
    void (*fn)(struct relock_post *post);
};

/*
 * Returns RELOCK_OK: `fn` is called, perhaps already. RELOCK_AGAIN, at the deadline at the latest:
 * nothing was sent, and relock_call_run() may succeed. The call has no fence, and its texts are not
 * used any more.
 */
int relock_call_post(const struct relock_call *call, struct relock_topology *topology,
                     uint64_t deadline_ms, struct relock_post *post);

/* Where the answer to a post will come. */
struct relock_post_place {
    struct relock_topology *topology;
    struct relock_node *node; /* a reference */
    struct relock_lane *lane;
};

/* The post has not ended yet. */
struct relock_post_place relock_post_place(const struct relock_post *post);

/* Reads answers there until the deadline, or until another call does. Drops the place. Returns
 * false if another thread reads already. */
bool relock_post_read(struct relock_post_place place, uint64_t deadline_ms);

/*
 * Loads all scripts, so that no first call has to be sent twice. If the server refuses, each script
 * is loaded or sent whole when it is first needed. A server that answers the login is asked until
 * it answers this, too, or until the deadline. In the same round trip, it warns of a server that
 * may evict locks. Returns as relock_lane_ask, with the cause of a failure in `why`.
 */
int relock_call_load_all(struct relock_node *node, uint64_t deadline_ms, char why[RELOCK_WHY_MAX]);

/* Warns of a server that may evict the key of a held lock. Every policy except noeviction may do
 * so, because such a key has a lease; a server without `maxmemory` evicts nothing. `memory` is the
 * reply to INFO memory. An error, or a reply without these fields, is ignored. */
void relock_eviction_warn(const struct relock_server *server, const struct redisReply *memory);

/* ---- attempts -------------------------------------------------------------------------------- */

/*
 * Attempts - decides after each attempt at a script what comes next, until the deadline
 *
 * Two drivers make the attempts and carry out the steps: a calling thread (run.c), and the I/O
 * thread for asynchronous calls (lock/async/async_command.c). The scripts of locks may be repeated
 * without harm. A call that `is_once` ends with the first attempt that may have run. An attempt
 * kills the connection that a fence names, and then sends the script. A driver itself follows
 * redirections and brings a missing script, for which relock_topology_redirect() and
 * relock_call_next_form() have the limits.
 *
 * Threads: the driver.
 */

enum relock_attempts_step {
    RELOCK_ATTEMPTS_END,    /* with `result` and `why` */
    RELOCK_ATTEMPTS_FOLLOW, /* at once, at the node that a redirection names */
    RELOCK_ATTEMPTS_PAUSE,  /* until `until_ms`; at the deadline as END */
};

struct relock_attempts {
    bool is_cluster;      /* constant: of the topology */
    bool is_once;         /* constant: of the call */
    uint64_t deadline_ms; /* constant */
    uint64_t pause_ms;    /* the next pause */
    uint64_t until_ms;    /* of PAUSE: at the latest the deadline */
    unsigned n_redirects; /* since the last pause */
    bool unanswered;      /* a command was not answered and may have run; set by the driver, too */
    int result;           /* if they end now; RELOCK_OK: none has failed */
    char why[RELOCK_WHY_MAX];
};

/* The shortest pause between two attempts, but for the first. */
#define RELOCK_ATTEMPTS_PAUSE_MS 10

/* `pause_ms` is the first pause. A calling thread has none: the server closes idle connections, and
 * the thread makes a new one itself. The I/O thread has the shortest: another attempt without a
 * connection would be in vain, and it ends all pauses when it has one. */
static inline void relock_attempts_begin(struct relock_attempts *attempts, bool is_cluster,
                                         uint64_t deadline_ms, uint64_t pause_ms)
{
    attempts->is_cluster = is_cluster;
    attempts->is_once = false;
    attempts->deadline_ms = deadline_ms;
    attempts->pause_ms = pause_ms;
    attempts->n_redirects = 0;
    attempts->unanswered = false;
    attempts->result = RELOCK_OK;
}

/*
 * An attempt has brought no answer. `error` is the refusal of the server; NULL: there was none, but
 * the failure `result`, or one of these: RELOCK_AGAIN, refused for now; RELOCK_REPLICA;
 * RELOCK_MOVED, the node to follow is known. `why` explains it.
 */
enum relock_attempts_step relock_attempts_step(struct relock_attempts *attempts, int result,
                                               const char *error, const char *why);

#endif
