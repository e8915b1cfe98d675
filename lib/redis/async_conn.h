/*
 * Asynchronous connection - a connection that the I/O thread keeps up
 *
 * It never blocks. When it breaks, or the server does not answer in time, it is made again, with a
 * growing and random pause between attempts. Sending only appends to a buffer: the bytes go out
 * when the loop finds the socket writable, so no callback is called from inside a call to it.
 *
 * Threads: the I/O thread; init and deinit while that does not run.
 */
#ifndef RELOCK_ASYNC_CONN_H
#define RELOCK_ASYNC_CONN_H

#include "redis/dial.h"
#include "redis/health.h"
#include "redis/login.h"
#include "redis/wire.h"

#include <ev.h>

struct relock_peer;

enum relock_async_conn_state {
    RELOCK_ASYNC_CONN_CLOSED, /* not opened */
    RELOCK_ASYNC_CONN_DIALING,
    RELOCK_ASYNC_CONN_LOGGING_IN,
    RELOCK_ASYNC_CONN_READY,
    RELOCK_ASYNC_CONN_BACKING_OFF, /* failed; the next attempt follows */
};

struct relock_async_conn_ops {
    void (*up)(void *arg);                                    /* commands can be sent */
    void (*reply)(void *arg, const struct redisReply *reply); /* while up */
    void (*down)(void *arg);   /* it was up and failed: nothing more comes */
    void (*failed)(void *arg); /* after each failure, and `down`; may close it; or NULL */
};

struct relock_async_conn {
    /* constant */
    const struct relock_server *server;
    const struct relock_async_conn_ops *ops;
    void *arg;
    struct ev_loop *ev;
    uint64_t answer_ms; /* the longest that an answer may take */
    uint64_t ping_ms;   /* after so much silence a PING is sent; 0: never */
    uint64_t pong_ms;   /* the longest that the answer to a PING may take */

    enum relock_async_conn_state state;
    uint64_t since_ms; /* when it entered this state */
    struct relock_dial dial;
    struct relock_login login; /* `conn_id` is this connection's while READY */
    struct relock_wire wire;
    struct relock_health health;
    uint64_t pause_ms; /* the last pause before an attempt; 0: it has worked since */
    ev_io io;
    int watched; /* the events that `io` waits for */
    ev_timer timer;

    uint64_t n_sent;     /* commands with an answer that were sent over this connection */
    uint64_t n_answered; /* and how many of them were answered */
    bool pinging;        /* nothing but a PING is unanswered */
    uint64_t quiet_ms;   /* when bytes last came, or when a command was sent and none unanswered */
    uint64_t silent_ms;  /* since when the server has owed an answer, over all connections */

    bool was_ready; /* it came up before */
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

/* The same if the connection leads to this peer, which is no master any more. Between two attempts,
 * the next one follows at once. */
void relock_async_conn_cut(struct relock_async_conn *conn, const struct relock_peer *peer);

/* Ends this connection and makes another: the credentials have changed. Between two attempts, the
 * next one follows at once. As relock_async_conn_fail. */
void relock_async_conn_log_in_again(struct relock_async_conn *conn);

/* Ends the connection and makes no other. `down` is not called. */
void relock_async_conn_close(struct relock_async_conn *conn);

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

/* Sends a PING. Nothing may be unanswered. Returns false when out of memory. */
bool relock_async_conn_ping(struct relock_async_conn *conn);

/* Writes as much as the socket takes at once, instead of when the loop next finds it writable. */
void relock_async_conn_flush(struct relock_async_conn *conn);

/* To be called for each of those replies, to distinguish them from messages. `proves`: the reply
 * shows that the connection works. */
void relock_async_conn_answered(struct relock_async_conn *conn, bool proves);

/* In a forked child: closes the descriptor and does nothing else. */
void relock_async_conn_abandon(struct relock_async_conn *conn);

#endif
