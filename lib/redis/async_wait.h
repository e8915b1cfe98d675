/*
 * Async wait - the state of a connection of the I/O thread, and what the connection waits for: its
 * socket, and its next deadline
 *
 * Threads: those of the connection. Only the I/O thread calls for, leave and arm.
 */
#ifndef RELOCK_ASYNC_WAIT_H
#define RELOCK_ASYNC_WAIT_H

#include "redis/dial.h"
#include "redis/health.h"
#include "redis/login.h"
#include "redis/wire.h"

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
    uint64_t since_ms; /* when it entered this state */
    struct relock_dial dial;
    struct relock_login login; /* `conn_id` is this connection's while READY */
    struct relock_wire wire;
    struct relock_health health;
    ev_io io;
    int watched;            /* the events that `io` waits for */
    uint64_t left_until_ms; /* another thread reads, and `io` is stopped; RELOCK_NEVER: not so */
    ev_timer timer;

    uint64_t n_sent;     /* commands with an answer that were sent over this connection */
    uint64_t n_answered; /* and how many of them were answered */
    bool pinging;        /* nothing but a PING is unanswered */
    uint64_t quiet_ms;   /* when bytes last came, or when a command was sent and none unanswered */
    uint64_t silent_ms;  /* since when the server has owed an answer, over all connections */

    int met; /* the failure that another thread met when it read; RELOCK_OK: none */

    bool was_ready; /* it came up before */
};

/* Waits for these events of that descriptor, and for no others; -1: for none. */
void relock_async_wait_for(struct relock_async_conn *conn, int fd, int events);

/* Leaves the socket to another thread for a while. */
void relock_async_wait_leave(struct relock_async_conn *conn);

/* Sets the timer. To be called whenever relock_async_wait_due_ms() comes earlier; when it comes
 * later, the timer fires once for nothing. */
void relock_async_wait_arm(struct relock_async_conn *conn);

/* The next deadline of its state; RELOCK_NEVER: none. */
uint64_t relock_async_wait_due_ms(const struct relock_async_conn *conn);

/* Whether the server owes an answer. */
bool relock_async_wait_is_owed(const struct relock_async_conn *conn);

/* Whether the connection has been up for a while and owes no answer: it works, like one that has
 * answered. */
bool relock_async_wait_is_fine(const struct relock_async_conn *conn);

/* Whether nothing but messages can come, so that another thread may read. */
bool relock_async_wait_is_for_messages(const struct relock_async_conn *conn);

/* Whether a thread that polls the socket reads what has come. */
bool relock_async_wait_may_leave(const struct relock_async_conn *conn);

/* Whether the I/O thread has to attend to a shared connection: relock_async_conn_attend. */
bool relock_async_wait_is_due(const struct relock_async_conn *conn);

#endif
