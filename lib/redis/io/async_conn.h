/*
 * Asynchronous connection - a connection that the I/O thread keeps up
 *
 * It never blocks. When it breaks, or the server does not answer in time, it reconnects, with a
 * growing and random pause between attempts. Sending only appends to a buffer: the bytes go out
 * when the loop finds the socket writable, so sending calls no callback.
 *
 * Threads: the I/O thread; init and deinit while that does not run. With `reading`, other threads
 * may read, too. Then the mutex of `reading` guards all fields but the constants: the loop's
 * callbacks lock it, and callers of these functions must.
 */
#ifndef RELOCK_ASYNC_CONN_H
#define RELOCK_ASYNC_CONN_H

#include "redis/io/async_wait.h"

struct redisReply;
struct relock_loan;
struct relock_peer;

struct relock_async_conn_ops {
    void (*up)(void *arg);                                    /* commands can be sent */
    void (*reply)(void *arg, const struct redisReply *reply); /* while up */
    void (*down)(void *arg);   /* it was up and failed: nothing more comes */
    void (*failed)(void *arg); /* after each failure, after `down`; may close it; or NULL */

    /* No connection can be made, or not in time: asks another user for its own. Returns whether it
     * was given away. NULL: there is no other user. */
    bool (*borrow)(void *arg, struct relock_loan *loan);
};

void relock_async_conn_init(struct relock_async_conn *conn, struct ev_loop *ev,
                            const struct relock_server *server,
                            const struct relock_async_conn_ops *ops, void *arg);
void relock_async_conn_deinit(struct relock_async_conn *conn);

/* Connects, and keeps the connection up until it is closed. Does nothing when it is open. */
void relock_async_conn_open(struct relock_async_conn *conn);

/* Ends this connection for the reason `what`, and makes another. Calls `down` if it was up, so not
 * under a mutex that `down` locks. */
void relock_async_conn_fail(struct relock_async_conn *conn, const char *what);

/* The same if the connection leads to this peer, which is no longer the master. A connection that
 * pauses between two attempts makes the next one at once. */
void relock_async_conn_cut(struct relock_async_conn *conn, const struct relock_peer *peer);

/* The credentials have changed: ends this connection and makes another, as relock_async_conn_fail.
 * A connection that pauses between two attempts makes the next one at once. */
void relock_async_conn_log_in_again(struct relock_async_conn *conn);

/* Ends the connection and makes no other. `down` is not called. */
void relock_async_conn_close(struct relock_async_conn *conn);

/* Gives the connection away, if it is up and nothing is in flight on it, and makes another after a
 * pause. Calls `down`, so not under a mutex that `down` locks. Returns whether it did. */
bool relock_async_conn_lend(struct relock_async_conn *conn, struct relock_loan *loan);

static inline bool relock_async_conn_is_up(const struct relock_async_conn *conn)
{
    return conn->state == RELOCK_ASYNC_CONN_READY;
}

/* To send, append commands to this buffer, then call send with the number of their replies. */
static inline struct relock_buffer *relock_async_conn_out(struct relock_async_conn *conn)
{
    return &conn->wire.out;
}
void relock_async_conn_send(struct relock_async_conn *conn, unsigned n_replies);

/* Sends a PING. Only while no command is unanswered. Returns false when out of memory. */
bool relock_async_conn_ping(struct relock_async_conn *conn);

/* Writes as much as the socket takes at once, instead of when the loop next finds it writable. */
void relock_async_conn_flush(struct relock_async_conn *conn);

/* Call this for each reply to a command, but not for a message, which no command asked for.
 * `proves`: the reply shows that the connection works. */
void relock_async_conn_answered(struct relock_async_conn *conn, bool proves);

/* For a connection that other threads may read: lets the I/O thread read again if none of them
 * does, and handles a failure that one of them met. */
void relock_async_conn_attend(struct relock_async_conn *conn);

/* In a forked child: closes the descriptor and does nothing else. */
void relock_async_conn_abandon(struct relock_async_conn *conn);

#endif
