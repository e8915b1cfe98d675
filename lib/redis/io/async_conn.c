/*
 * Each state waits for the socket, for the timer, or for both. Every failure leads to BACKING_OFF,
 * and close() to CLOSED.
 *
 *     state         next          when                     fails after
 *     CLOSED        DIALING       open()                   -
 *                   BACKING_OFF   open(), soon after a failure
 *     DIALING       LOGGING_IN    connected                the time limits of the dial
 *     LOGGING_IN    READY         the last reply came      connect_timeout_ms
 *     READY         -             -                        answer_ms, or pong_ms, without an answer
 *     BACKING_OFF   DIALING       the pause is over        -
 *
 * In READY, the timer also sends a PING after ping_ms of silence, and checks after FINE_MS whether
 * the connection has proved to work.
 *
 * While the connection is neither READY nor CLOSED, its user may get the connection of another one
 * (lanes.h), as soon as an attempt has failed, or has taken answer_ms. It is then READY at once.
 *
 * If a thread that waits for messages may read them itself (reading.c), the I/O thread stops to
 * watch the socket when something comes. A timer, or relock_async_conn_attend(), starts that again.
 */
#include "redis/io/private.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/lane/lanes.h"
#include "redis/server/peer.h"
#include "redis/server/reply.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* ---- health -------------------------------------------------------------------------------- */

/*
 *                 break           return              prove
 *
 *     FINE        BROKEN, log     -                   -
 *     BROKEN      log a new why   RETURNED, log       -
 *     RETURNED    REJECTED, log   -                   FINE
 *     REJECTED    log a new why   -                   FINE, log
 */

#define MIN_PAUSE_MS 10
#define MAX_PAUSE_MS 1000

void relock_health_init(struct relock_health *health, const struct relock_server *server)
{
    *health = (struct relock_health){.server = server};
}

static void log_up(const struct relock_health *health, bool again)
{
    relock_log_write(health->server->log, RELOCK_LOG_INFO, "%s: connected%s", health->server->label,
                     again ? " again" : "");
}

void relock_health_break(struct relock_health *health, const char *why)
{
    bool was_up = health->state == RELOCK_HEALTH_FINE || health->state == RELOCK_HEALTH_RETURNED;
    bool is_new = was_up || strcmp(health->why, why) != 0;

    if (health->state == RELOCK_HEALTH_FINE)
        health->state = RELOCK_HEALTH_BROKEN;
    else if (health->state == RELOCK_HEALTH_RETURNED)
        health->state = RELOCK_HEALTH_REJECTED;
    relock_log_cause(health->server->log, (struct relock_cause){.what = health->meanwhile},
                     is_new ? RELOCK_LOG_WARNING : RELOCK_LOG_DEBUG, "%s; reconnecting%s", why,
                     health->meanwhile ? health->meanwhile : "");
    (void)snprintf(health->why, sizeof(health->why), "%s", why);
    health->pause_ms = relock_backoff_ms(health->pause_ms, MIN_PAUSE_MS, MAX_PAUSE_MS);
}

void relock_health_return(struct relock_health *health, bool again)
{
    if (health->state != RELOCK_HEALTH_BROKEN)
        return;
    health->state = RELOCK_HEALTH_RETURNED;
    log_up(health, again);
}

void relock_health_prove(struct relock_health *health)
{
    if (health->state == RELOCK_HEALTH_REJECTED)
        log_up(health, true);
    health->state = RELOCK_HEALTH_FINE;
    health->pause_ms = 0;
}

/* A connection that is up for so long and owes no answer works, like one that has answered. */
#define FINE_MS 1000

/* After so long in which only another thread may have read, the I/O thread watches again. */
#define LEAVE_MS 100

/* ---- deadlines ----------------------------------------------------------------------------- */

bool relock_async_wait_is_owed(const struct relock_async_conn *conn)
{
    return conn->n_sent > conn->n_answered;
}

bool relock_async_conn_is_fine(const struct relock_async_conn *conn)
{
    return !relock_async_wait_is_owed(conn) && relock_clock_now_ms() - conn->since_ms >= FINE_MS;
}

/* How long it may stay quiet; RELOCK_NEVER: for ever. */
static uint64_t quiet_limit_ms(const struct relock_async_conn *conn)
{
    if (!relock_async_wait_is_owed(conn))
        return conn->ping_ms > 0 ? conn->ping_ms : RELOCK_NEVER;
    return conn->pinging && conn->pong_ms < conn->answer_ms ? conn->pong_ms : conn->answer_ms;
}

static uint64_t due_when_ready_ms(const struct relock_async_conn *conn)
{
    uint64_t due_ms = relock_clock_after(conn->quiet_ms, quiet_limit_ms(conn));
    uint64_t fine_ms = conn->since_ms + FINE_MS;
    bool is_to_prove = conn->health.state != RELOCK_HEALTH_FINE && !relock_async_wait_is_owed(conn);

    if (is_to_prove)
        due_ms = relock_clock_sooner(due_ms, fine_ms);
    return relock_clock_sooner(due_ms, conn->left_until_ms);
}

static uint64_t due_in_state_ms(const struct relock_async_conn *conn)
{
    switch (conn->state) {
    case RELOCK_ASYNC_CONN_DIALING:
        return conn->dial.deadline_ms;
    case RELOCK_ASYNC_CONN_LOGGING_IN:
        return relock_clock_after(conn->since_ms, conn->server->connect_timeout_ms);
    case RELOCK_ASYNC_CONN_READY:
        return due_when_ready_ms(conn);
    case RELOCK_ASYNC_CONN_BACKING_OFF:
        return conn->since_ms + conn->health.pause_ms;
    case RELOCK_ASYNC_CONN_CLOSED:
        break;
    }
    return RELOCK_NEVER;
}

/* The next deadline of its state; RELOCK_NEVER: none. */
static uint64_t async_wait_due_ms(const struct relock_async_conn *conn)
{
    return relock_clock_sooner(due_in_state_ms(conn), conn->borrow_ms);
}

/* Whether the deadline of its state has passed. */
static bool async_wait_is_over(const struct relock_async_conn *conn)
{
    return relock_clock_now_ms() >= due_in_state_ms(conn);
}

/* ---- waiting for the socket ---------------------------------------------------------------- */

/* The I/O thread alone calls these. */

/* Waits for these events of that descriptor, and for no others; -1: for none. */
static void async_wait_for(struct relock_async_conn *conn, int fd, int events)
{
    if (ev_is_active(&conn->io) && conn->io.fd == fd && conn->watched == events)
        return;
    ev_io_stop(conn->ev, &conn->io);
    conn->left_until_ms = RELOCK_NEVER;
    relock_reading_watch(conn->reading, conn);
    if (fd < 0)
        return;
    conn->watched = events;
    ev_io_set(&conn->io, fd, events);
    ev_io_start(conn->ev, &conn->io);
}

/* Sets the timer. Call this whenever async_wait_due_ms() moves to an earlier time. If it
 * moves to a later one, the timer fires once without effect. */
static void async_wait_arm(struct relock_async_conn *conn)
{
    uint64_t due_ms = async_wait_due_ms(conn);
    uint64_t left_ms = relock_clock_left(relock_clock_now_ms(), due_ms);

    ev_timer_stop(conn->ev, &conn->timer);
    if (left_ms == RELOCK_NEVER)
        return;
    ev_now_update(conn->ev);
    ev_timer_set(&conn->timer, (double)left_ms / 1000, 0.);
    ev_timer_start(conn->ev, &conn->timer);
}

/* Leaves the socket to another thread for a while. */
static void async_wait_leave(struct relock_async_conn *conn)
{
    ev_io_stop(conn->ev, &conn->io);
    conn->reading->shared.left = conn;
    conn->left_until_ms = relock_clock_in(LEAVE_MS);
    async_wait_arm(conn);
}

/* ---- shared connections -------------------------------------------------------------------- */

bool relock_async_wait_is_for_messages(const struct relock_async_conn *conn)
{
    return conn->state == RELOCK_ASYNC_CONN_READY && !relock_async_wait_is_owed(conn) &&
           conn->met == 0 && !conn->met_a_notice;
}

/* Whether the I/O thread may leave the socket to the thread that polls it. */
static bool async_wait_may_leave(const struct relock_async_conn *conn)
{
    return relock_async_wait_is_for_messages(conn) && relock_reading_is_left(conn->reading, conn);
}

bool relock_async_wait_is_due(const struct relock_async_conn *conn)
{
    if (conn->state != RELOCK_ASYNC_CONN_READY)
        return false;
    if (conn->met < 0 || conn->met_a_notice)
        return true;
    return !ev_is_active(&conn->io) &&
           relock_reading_is_due(conn->reading, conn, conn->left_until_ms != RELOCK_NEVER);
}

/* The pause between two attempts to get the connection of another user. */
#define BORROW_MS 20

/* The pause after a connection was given away, before another is made. */
#define LENT_MS 100

/* ---- states -------------------------------------------------------------------------------- */

static void count(struct relock_async_conn *conn, enum relock_async_conn_state state)
{
    struct relock_counts *counts = conn->server->counts;
    int up = (state == RELOCK_ASYNC_CONN_READY) - relock_async_conn_is_up(conn);
    int open = (state != RELOCK_ASYNC_CONN_CLOSED) - (conn->state != RELOCK_ASYNC_CONN_CLOSED);

    if (!counts)
        return;
    atomic_fetch_add(&counts->n_up, (unsigned)up);
    atomic_fetch_add(&counts->n_open, (unsigned)open);
}

static void enter(struct relock_async_conn *conn, enum relock_async_conn_state state)
{
    count(conn, state);
    conn->state = state;
    conn->since_ms = relock_clock_now_ms();
    async_wait_arm(conn);
}

/* ---- failing ------------------------------------------------------------------------------- */

static void drop(struct relock_async_conn *conn)
{
    async_wait_for(conn, -1, 0);
    relock_reading_end(conn->reading, conn);
    relock_dial_end(&conn->dial);
    relock_login_end(&conn->login);
    relock_wire_close(&conn->wire);
    conn->met = RELOCK_OK;
    conn->met_a_notice = false;
    conn->n_sent = 0;
    conn->n_answered = 0;
}

static void fail(struct relock_async_conn *conn, const char *why)
{
    bool was_up = conn->state == RELOCK_ASYNC_CONN_READY;

    if (was_up && relock_async_conn_is_fine(conn))
        relock_health_prove(&conn->health);
    relock_health_break(&conn->health, why);
    drop(conn);
    if (conn->ops->borrow && !was_up)
        conn->borrow_ms = relock_clock_now_ms();
    enter(conn, RELOCK_ASYNC_CONN_BACKING_OFF);
    if (was_up && conn->ops->down)
        conn->ops->down(conn->arg);
    if (conn->ops->failed)
        conn->ops->failed(conn->arg);
}

void relock_async_conn_fail(struct relock_async_conn *conn, const char *what)
{
    char why[RELOCK_WHY_MAX];

    (void)snprintf(why, sizeof(why), "%s: %.180s", conn->server->label, what);
    fail(conn, why);
}

/* ---- connecting ---------------------------------------------------------------------------- */

static void begin_login(struct relock_async_conn *conn, struct relock_socket socket)
{
    if (relock_wire_open(&conn->wire, socket) < 0) {
        relock_async_conn_fail(conn, "out of memory for a connection");
        return;
    }
    relock_login_begin(&conn->login, conn->server, &conn->wire.out);
    conn->wire.awaited = relock_login_command(&conn->login);
    async_wait_for(conn, conn->wire.fd, EV_READ | EV_WRITE);
    enter(conn, RELOCK_ASYNC_CONN_LOGGING_IN);
}

static void step_dial(struct relock_async_conn *conn)
{
    struct relock_socket socket;
    int r;

    async_wait_for(conn, -1, 0); /* the dial may close its socket */
    r = relock_dial_step(&conn->dial, relock_clock_now_ms(), &socket);
    if (r == RELOCK_OK) {
        begin_login(conn, socket);
    } else if (r == RELOCK_AGAIN) {
        async_wait_for(conn, conn->dial.fd,
                       relock_dial_wants_to_write(&conn->dial) ? EV_WRITE : EV_READ);
        async_wait_arm(conn);
    } else {
        fail(conn, conn->dial.why);
    }
}

static void connect_now(struct relock_async_conn *conn)
{
    if (conn->silent_ms == RELOCK_NEVER)
        conn->silent_ms = relock_clock_now_ms();
    if (conn->ops->borrow && conn->borrow_ms == RELOCK_NEVER)
        conn->borrow_ms = relock_clock_in(conn->answer_ms);
    enter(conn, RELOCK_ASYNC_CONN_DIALING);
    step_dial(conn);
}

static bool leads_to(const struct relock_async_conn *conn, const struct relock_peer *peer)
{
    return conn->wire.fd >= 0 && (!peer || relock_peer_is_of(peer, conn->wire.fd));
}

void relock_async_conn_renew(struct relock_async_conn *conn, const struct relock_peer *peer,
                             const char *what)
{
    relock_reading_lock(conn->reading);
    if (conn->state == RELOCK_ASYNC_CONN_BACKING_OFF)
        connect_now(conn);
    else if (conn->state == RELOCK_ASYNC_CONN_DIALING)
        step_dial(conn); /* finds out if its addresses are outdated */
    else if (leads_to(conn, peer))
        relock_async_conn_fail(conn, what);
    relock_reading_unlock(conn->reading);
}

void relock_async_conn_retry_in(struct relock_async_conn *conn, uint64_t pause_ms)
{
    if (conn->state != RELOCK_ASYNC_CONN_BACKING_OFF)
        return;
    conn->health.pause_ms = relock_clock_now_ms() - conn->since_ms + pause_ms;
    async_wait_arm(conn);
}

static void become_ready(struct relock_async_conn *conn)
{
    if (conn->was_ready)
        atomic_fetch_add(&conn->server->counts->reconnects, 1);
    conn->was_ready = true;
    conn->quiet_ms = relock_clock_now_ms();
    conn->borrow_ms = RELOCK_NEVER;
    enter(conn, RELOCK_ASYNC_CONN_READY);
    conn->ops->up(conn->arg);
}

/* ---- handing over -------------------------------------------------------------------------- */

static void log_borrowed(const struct relock_async_conn *conn)
{
    const char *why = *conn->health.why ? conn->health.why : conn->dial.why;

    relock_log_write(conn->server->log, RELOCK_LOG_WARNING,
                     "%s: no connection for renewals could be made, so they go over one of the "
                     "calls; the last failure was: %s",
                     conn->server->label, *why ? why : "no answer in time");
}

/* Returns whether another user has given its connection away. */
static bool borrow(struct relock_async_conn *conn)
{
    struct relock_loan loan;

    conn->borrow_ms = relock_clock_in(BORROW_MS);
    if (!conn->ops->borrow(conn->arg, &loan))
        return false;
    log_borrowed(conn);
    drop(conn);
    (void)fcntl(loan.socket.fd, F_SETFL, fcntl(loan.socket.fd, F_GETFL) | O_NONBLOCK);
    conn->login.conn_id = loan.conn_id;
    if (relock_wire_open(&conn->wire, loan.socket) < 0) {
        relock_async_conn_fail(conn, "out of memory for a connection");
        return true;
    }
    conn->wire.has_received = true;
    async_wait_for(conn, conn->wire.fd, EV_READ);
    become_ready(conn);
    return true;
}

bool relock_async_conn_lend(struct relock_async_conn *conn, struct relock_loan *loan)
{
    if (conn->state != RELOCK_ASYNC_CONN_READY || relock_async_wait_is_owed(conn) ||
        conn->wire.out.len > 0 || !relock_wire_is_quiet(&conn->wire))
        return false;
    async_wait_for(conn, -1, 0);
    *loan = (struct relock_loan){
        .socket = relock_wire_release(&conn->wire),
        .conn_id = conn->login.conn_id,
        .n_switches = atomic_load(&conn->server->counts->switches),
    };
    conn->login.conn_id = NULL;
    drop(conn);
    conn->health.pause_ms = LENT_MS;
    enter(conn, RELOCK_ASYNC_CONN_BACKING_OFF);
    conn->ops->down(conn->arg);
    return true;
}

/* ---- sending and receiving ----------------------------------------------------------------- */

void relock_async_conn_send(struct relock_async_conn *conn, unsigned n_replies)
{
    bool was_idle = !relock_async_wait_is_owed(conn);

    conn->n_sent += n_replies;
    conn->pinging = false;
    if (was_idle) {
        conn->quiet_ms = relock_clock_now_ms();
        if (conn->silent_ms == RELOCK_NEVER)
            conn->silent_ms = conn->quiet_ms;
        async_wait_arm(conn);
    }
    async_wait_for(conn, conn->wire.fd, EV_READ | EV_WRITE);
}

bool relock_async_conn_ping(struct relock_async_conn *conn)
{
    struct relock_buffer *out = &conn->wire.out;
    size_t from = out->len;

    relock_command_words(out, "PING");
    if (out->failed) {
        relock_buffer_take_back(out, from);
        return false;
    }
    relock_async_conn_send(conn, 1);
    conn->pinging = true;
    async_wait_arm(conn);
    return true;
}

void relock_async_conn_flush(struct relock_async_conn *conn)
{
    if (conn->state != RELOCK_ASYNC_CONN_READY || !(conn->watched & EV_WRITE))
        return;
    /* The loop meets a failure again at the socket, and handles it. */
    if (relock_wire_flush(&conn->wire) == RELOCK_OK)
        async_wait_for(conn, conn->wire.fd, EV_READ);
}

void relock_async_conn_answered(struct relock_async_conn *conn, bool proves)
{
    if (!relock_async_wait_is_owed(conn))
        return;
    conn->n_answered++;
    if (proves)
        relock_health_prove(&conn->health);
    if (!relock_async_wait_is_owed(conn))
        async_wait_arm(conn);
}

static void take_reply(struct relock_async_conn *conn, const struct redisReply *reply)
{
    int r;

    if (conn->state == RELOCK_ASYNC_CONN_READY) {
        conn->ops->reply(conn->arg, reply);
        return;
    }
    r = relock_login_take(&conn->login, reply, &conn->wire.out);
    conn->wire.awaited = r == RELOCK_AGAIN ? relock_login_command(&conn->login) : NULL;
    if (r == RELOCK_OK) {
        relock_health_return(&conn->health, conn->was_ready);
        become_ready(conn);
    } else if (r != RELOCK_AGAIN) {
        fail(conn, conn->login.why);
    } else if (conn->login.step == RELOCK_LOGIN_ROLE) {
        async_wait_for(conn, conn->wire.fd, EV_READ | EV_WRITE);
    }
}

static void receive(struct relock_async_conn *conn)
{
    int r = conn->met < 0 ? conn->met : relock_wire_fill(&conn->wire);
    bool came = r == RELOCK_OK;

    if (came)
        conn->silent_ms = conn->quiet_ms = relock_clock_now_ms();
    while (r == RELOCK_OK) {
        struct redisReply *reply;

        r = relock_wire_take(&conn->wire, &reply);
        if (r != RELOCK_OK)
            break;
        take_reply(conn, reply);
        relock_reply_free(reply);
        if (conn->wire.fd < 0)
            return; /* the reply has ended the connection */
    }
    if (came && !relock_async_wait_is_owed(conn))
        conn->silent_ms = RELOCK_NEVER;
    if (r < 0)
        fail(conn, conn->wire.why);
}

/* ---- other threads that read --------------------------------------------------------------- */

void relock_async_conn_attend(struct relock_async_conn *conn)
{
    if (!relock_async_wait_is_due(conn))
        return;
    async_wait_for(conn, conn->wire.fd, EV_READ);
    if (conn->met < 0)
        receive(conn);
}

/* A server that refuses a connection closes it behind the reason. */
static void fail_to_write(struct relock_async_conn *conn)
{
    if (conn->state == RELOCK_ASYNC_CONN_LOGGING_IN)
        receive(conn);
    if (conn->wire.fd >= 0)
        fail(conn, conn->wire.why);
}

static void handle_io(struct relock_async_conn *conn, int events)
{
    int r;

    if (conn->state == RELOCK_ASYNC_CONN_DIALING) {
        step_dial(conn);
        return;
    }
    if (events & EV_WRITE) {
        r = relock_wire_flush(&conn->wire);
        if (r < 0) {
            fail_to_write(conn);
            return;
        }
        async_wait_for(conn, conn->wire.fd, r == RELOCK_AGAIN ? EV_READ | EV_WRITE : EV_READ);
    }
    if (events == EV_READ && async_wait_may_leave(conn))
        async_wait_leave(conn);
    else if (events & EV_READ)
        receive(conn);
}

static void on_io(struct ev_loop *ev, ev_io *watcher, int events)
{
    struct relock_async_conn *conn = watcher->data;

    (void)ev;
    relock_reading_lock(conn->reading);
    handle_io(conn, events);
    relock_reading_unlock(conn->reading);
}

static void check_ready(struct relock_async_conn *conn)
{
    if (conn->health.state != RELOCK_HEALTH_FINE && relock_async_conn_is_fine(conn))
        relock_health_prove(&conn->health);
    if (conn->left_until_ms <= relock_clock_now_ms()) {
        conn->left_until_ms = RELOCK_NEVER;
        relock_async_conn_attend(conn); /* a thread that still polls wakes this one when it stops */
    }
    if (relock_clock_now_ms() < async_wait_due_ms(conn))
        async_wait_arm(conn);
    else if (relock_async_wait_is_owed(conn))
        relock_async_conn_fail(conn, "no answer in time");
    else if (!relock_async_conn_ping(conn))
        relock_async_conn_fail(conn, "out of memory for a command");
}

static void fail_login(struct relock_async_conn *conn)
{
    char what[64];

    (void)snprintf(what, sizeof(what), "no answer to %s in time", conn->wire.awaited);
    relock_async_conn_fail(conn, what);
}

static void handle_deadline(struct relock_async_conn *conn)
{
    switch (conn->state) {
    case RELOCK_ASYNC_CONN_DIALING:
        step_dial(conn);
        break;
    case RELOCK_ASYNC_CONN_LOGGING_IN:
        relock_resolver_distrust(conn->server->resolver); /* that server may hang */
        fail_login(conn);
        break;
    case RELOCK_ASYNC_CONN_READY:
        receive(conn); /* if this thread was held up, the answer has come already */
        if (conn->state == RELOCK_ASYNC_CONN_READY)
            check_ready(conn);
        break;
    case RELOCK_ASYNC_CONN_BACKING_OFF:
        connect_now(conn);
        break;
    case RELOCK_ASYNC_CONN_CLOSED:
        break;
    }
}

static void handle_timer(struct relock_async_conn *conn)
{
    if (conn->borrow_ms <= relock_clock_now_ms() && borrow(conn))
        return;
    if (async_wait_is_over(conn) || conn->state == RELOCK_ASYNC_CONN_READY)
        handle_deadline(conn);
    else
        async_wait_arm(conn);
}

static void on_timer(struct ev_loop *ev, ev_timer *watcher, int events)
{
    struct relock_async_conn *conn = watcher->data;

    (void)ev;
    (void)events;
    relock_reading_lock(conn->reading);
    handle_timer(conn);
    relock_reading_unlock(conn->reading);
}

/* ---- life ---------------------------------------------------------------------------------- */

void relock_async_conn_init(struct relock_async_conn *conn, struct ev_loop *ev,
                            const struct relock_server *server,
                            const struct relock_async_conn_ops *ops, void *arg)
{
    *conn = (struct relock_async_conn){
        .server = server,
        .ops = ops,
        .arg = arg,
        .ev = ev,
        .answer_ms = server->command_timeout_ms,
        .borrow_ms = RELOCK_NEVER,
        .left_until_ms = RELOCK_NEVER,
        .silent_ms = RELOCK_NEVER,
    };
    relock_dial_init(&conn->dial, server);
    relock_wire_init(&conn->wire, server->label);
    relock_health_init(&conn->health, server);
    ev_init(&conn->io, on_io);
    conn->io.data = conn;
    ev_init(&conn->timer, on_timer);
    conn->timer.data = conn;
}

void relock_async_conn_deinit(struct relock_async_conn *conn)
{
    relock_async_conn_close(conn);
    relock_wire_deinit(&conn->wire);
}

void relock_async_conn_open(struct relock_async_conn *conn)
{
    if (conn->state != RELOCK_ASYNC_CONN_CLOSED)
        return;
    if (relock_clock_now_ms() - conn->since_ms < conn->health.pause_ms)
        enter(conn, RELOCK_ASYNC_CONN_BACKING_OFF); /* it has just failed */
    else
        connect_now(conn);
}

void relock_async_conn_close(struct relock_async_conn *conn)
{
    drop(conn);
    conn->borrow_ms = RELOCK_NEVER;
    conn->silent_ms = RELOCK_NEVER; /* it owes nothing until it is opened again */
    enter(conn, RELOCK_ASYNC_CONN_CLOSED);
}
