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

#include "redis/connect/dial.h"
#include "redis/connect/login.h"
#include "redis/connect/wire.h"
#include "redis/server/server.h"

#include <ev.h>

enum relock_health_state {
    RELOCK_HEALTH_FINE,     /* no failure since it last proved to work */
    RELOCK_HEALTH_BROKEN,   /* no connection */
    RELOCK_HEALTH_RETURNED, /* connected again, not proved yet */
    RELOCK_HEALTH_REJECTED, /* it broke again before it had proved */
};

/*
 * Whether a connection that reconnects has proved to work, and the pause before its next attempt.
 * The log gets one line when the connection breaks and one when it is back, however many attempts
 * lie between. Some servers accept a connection and end it at the first command; after the second
 * time only an answered command counts as back.
 */
struct relock_health {
    const struct relock_server *server;
    const char *meanwhile; /* constant: the consequence of a failure, for the log; or NULL */
    enum relock_health_state state;
    char why[RELOCK_WHY_MAX]; /* the last failure that was logged */
    uint64_t pause_ms; /* before the next attempt, after the last failure; 0: it has worked since */
};

void relock_health_init(struct relock_health *health, const struct relock_server *server);

/* The connection has failed, or an attempt to make it. The pause grows. */
void relock_health_break(struct relock_health *health, const char *why);

/* It is up. `again`: not for the first time. */
void relock_health_return(struct relock_health *health, bool again);

/* It works: it has answered a command as a master, or was up for a while. */
void relock_health_prove(struct relock_health *health);

struct relock_async_conn_ops;
struct relock_reading;

enum relock_async_conn_state {
    RELOCK_ASYNC_CONN_CLOSED, /* not opened */
    RELOCK_ASYNC_CONN_DIALING,
    RELOCK_ASYNC_CONN_LOGGING_IN,
    RELOCK_ASYNC_CONN_READY,
    RELOCK_ASYNC_CONN_BACKING_OFF, /* failed; the next attempt follows */
};

struct relock_async_conn {
    /* constant */
    const struct relock_server *server;
    const struct relock_async_conn_ops *ops;
    void *arg;
    struct ev_loop *ev;
    struct relock_reading *reading; /* NULL unless other threads may read, too */
    uint64_t answer_ms;             /* the longest that an answer may take */
    uint64_t ping_ms;               /* after so much silence a PING is sent; 0: never */
    uint64_t pong_ms;               /* the longest that the answer to a PING may take */

    enum relock_async_conn_state state;
    uint64_t since_ms;  /* when it entered this state */
    uint64_t borrow_ms; /* when to ask for the connection of another user; RELOCK_NEVER: not */
    struct relock_dial dial;
    struct relock_login login; /* `conn_id` is this connection's while READY */
    struct relock_wire wire;
    struct relock_health health;
    ev_io io;
    int watched;            /* the events that `io` waits for */
    uint64_t left_until_ms; /* until then only another thread reads; RELOCK_NEVER: not so */
    ev_timer timer;

    uint64_t n_sent;     /* commands sent over this connection, without those that get no answer */
    uint64_t n_answered; /* how many of these were answered */
    bool pinging;        /* nothing but a PING is unanswered */
    uint64_t quiet_ms;   /* when bytes last came, or the first unanswered command was sent */
    uint64_t silent_ms;  /* since when an answer has been owed, earlier connections included */

    int met; /* the failure that another thread met when it read; RELOCK_OK: none */

    bool was_ready; /* it came up before */
};

/* Whether the server owes an answer. */
bool relock_async_wait_is_owed(const struct relock_async_conn *conn);

/* Whether nothing but messages can come, so that another thread may read. */
bool relock_async_wait_is_for_messages(const struct relock_async_conn *conn);

/* Whether the I/O thread has to attend to a shared connection: relock_async_conn_attend. */
bool relock_async_wait_is_due(const struct relock_async_conn *conn);

struct relock_loan;
struct relock_peer;

struct relock_async_conn_ops {
    void (*up)(void *arg);                                    /* commands can be sent */
    void (*reply)(void *arg, const struct redisReply *reply); /* while up */
    void (*down)(void *arg);   /* it was up and failed: nothing more comes; or NULL */
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

/* The server or the credentials have changed: as relock_async_conn_fail, if the connection leads to
 * `peer`; NULL: wherever it leads. A connection that pauses between two attempts makes the next one
 * at once. Locks the mutex of `reading`. */
void relock_async_conn_renew(struct relock_async_conn *conn, const struct relock_peer *peer,
                             const char *what);

/* Ends the connection and makes no other. `down` is not called. */
void relock_async_conn_close(struct relock_async_conn *conn);

/* Gives the connection away, if it is up and nothing is in flight on it, and makes another after a
 * pause. Calls `down`, so not under a mutex that `down` locks. Returns whether it did. */
bool relock_async_conn_lend(struct relock_async_conn *conn, struct relock_loan *loan);

static inline bool relock_async_conn_is_up(const struct relock_async_conn *conn)
{
    return conn->state == RELOCK_ASYNC_CONN_READY;
}

/* While it pauses between two attempts: the next one comes after `pause_ms` from now. */
void relock_async_conn_retry_in(struct relock_async_conn *conn, uint64_t pause_ms);

/* Whether the connection has been up for a while and owes no answer: it works, like one that has
 * answered. */
bool relock_async_conn_is_fine(const struct relock_async_conn *conn);

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

#endif
