/*
 * Conn - a connection on the I/O thread
 *
 * Once opened it stays wanted: when it breaks, or the server does not answer in time, it is made
 * again, with a growing and jittered pause between the tries. It never blocks. Sending only
 * appends; the bytes go out when the loop finds the socket writable, so none of its callbacks is
 * called from inside a call to it.
 *
 * Threads: the I/O thread; init and deinit while that does not run.
 */
#ifndef RELOCK_CONN_H
#define RELOCK_CONN_H

#include "redis/dial.h"
#include "redis/login.h"
#include "redis/wire.h"

#include <ev.h>
#include <stdatomic.h>

enum relock_conn_state {
    RELOCK_CONN_CLOSED,         /* not wanted */
    RELOCK_CONN_CONNECTING,     /* dial */
    RELOCK_CONN_AUTHENTICATING, /* login */
    RELOCK_CONN_READY,
    RELOCK_CONN_BACKING_OFF, /* failed; tries again when the timer fires */
};

struct relock_conn_ops {
    void (*up)(void *arg);                                    /* it can be used */
    void (*reply)(void *arg, const struct redisReply *reply); /* while up */
    void (*down)(void *arg);                                  /* it was up; nothing more comes */
};

struct relock_conn {
    const struct relock_server *server;
    const struct relock_conn_ops *ops;
    void *arg;
    struct ev_loop *ev;
    uint64_t answer_ms; /* longest that an answer may take */
    uint64_t ping_ms;   /* quiet for so long: ping; 0 never */
    uint64_t pong_ms;   /* longest that the answer to a ping may take */

    enum relock_conn_state state;
    struct relock_dial dial;
    struct relock_login login;
    struct relock_wire wire;
    ev_io io;
    int watched; /* events that `io` waits for */
    ev_timer timer;
    uint64_t n_sent;     /* commands that have an answer, on this connection, */
    uint64_t n_answered; /* and of these, answered */
    bool pinging;        /* all that is unanswered is a ping */
    uint64_t quiet_ms;   /* since then: when something last came, or was sent after quiet */
    uint64_t silent_ms;  /* since then the server owes something, however often we connected */
    uint64_t pause_ms;   /* before the next try */
    uint64_t ready_ms;   /* since then */
    bool ready_once;
    bool in_trouble;                 /* it has failed, and not been fine since */
    bool is_turned_out;              /* and in this trouble was let in before, and failed again */
    bool is_told_down;               /* what the log last said of it is `told`, not that it is up */
    char told[RELOCK_WHY_MAX];       /* why it is down */
    atomic_uint_fast64_t reconnects; /* any thread */
};

void relock_conn_init(struct relock_conn *conn, struct ev_loop *ev,
                      const struct relock_server *server, const struct relock_conn_ops *ops,
                      void *arg);
void relock_conn_deinit(struct relock_conn *conn);

/* Wants the connection; does nothing when it is wanted already. */
void relock_conn_open(struct relock_conn *conn);

/* Gives this connection up for what was said on it; another is made. From `reply` only. */
void relock_conn_fail(struct relock_conn *conn, const char *why);

/* Wants it no more; `down` is not called. */
void relock_conn_close(struct relock_conn *conn);

bool relock_conn_is_up(const struct relock_conn *conn);

/* Where commands are appended; then relock_conn_send says how many replies they will have. */
struct relock_buffer *relock_conn_out(struct relock_conn *conn);
void relock_conn_send(struct relock_conn *conn, unsigned n_replies);

/* Asks for an answer, where there is nothing unanswered. */
void relock_conn_ping(struct relock_conn *conn);

/* Sends what it can right away, instead of when the loop finds the socket writable. */
void relock_conn_flush(struct relock_conn *conn);

/* To be told of each of those replies: the others, messages, answer nothing. */
void relock_conn_answered(struct relock_conn *conn);

/* In a forked child: closes the descriptor, and no more. */
void relock_conn_abandon(struct relock_conn *conn);

#endif
