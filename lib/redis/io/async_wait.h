/*
 * Async wait - the state of a connection of the I/O thread, and its waits for the socket and for
 * the next deadline
 *
 * Threads: those of the connection. Only the I/O thread calls for, leave and arm.
 */
#ifndef RELOCK_ASYNC_WAIT_H
#define RELOCK_ASYNC_WAIT_H

#include "redis/connect/dial.h"
#include "redis/connect/login.h"
#include "redis/connect/wire.h"
#include "redis/io/health.h"

#include <ev.h>

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

/* Waits for these events of that descriptor, and for no others; -1: for none. */
void relock_async_wait_for(struct relock_async_conn *conn, int fd, int events);

/* Leaves the socket to another thread for a while. */
void relock_async_wait_leave(struct relock_async_conn *conn);

/* Sets the timer. Call this whenever relock_async_wait_due_ms() moves to an earlier time. If it
 * moves to a later one, the timer fires once without effect. */
void relock_async_wait_arm(struct relock_async_conn *conn);

/* The next deadline of its state; RELOCK_NEVER: none. */
uint64_t relock_async_wait_due_ms(const struct relock_async_conn *conn);

/* Whether the deadline of its state has passed. */
bool relock_async_wait_is_over(const struct relock_async_conn *conn);

/* Whether the server owes an answer. */
bool relock_async_wait_is_owed(const struct relock_async_conn *conn);

/* Whether the connection has been up for a while and owes no answer: it works, like one that has
 * answered. */
bool relock_async_wait_is_fine(const struct relock_async_conn *conn);

/* Whether nothing but messages can come, so that another thread may read. */
bool relock_async_wait_is_for_messages(const struct relock_async_conn *conn);

/* Whether the I/O thread may leave the socket to the thread that polls it. */
bool relock_async_wait_may_leave(const struct relock_async_conn *conn);

/* Whether the I/O thread has to attend to a shared connection: relock_async_conn_attend. */
bool relock_async_wait_is_due(const struct relock_async_conn *conn);

#endif
