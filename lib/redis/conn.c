/*
 * The states move in four places: open and close, on_io, on_timer, and fail, which every failure
 * comes to. A state waits for `io` or `timer` or both:
 *
 *   connecting      the dial says for what and until when
 *   authenticating  the login's replies, connect_timeout_ms long
 *   ready           replies and messages; with something unanswered, answer_ms since the last
 *                   sign of life; else, where pings are wanted, ping_ms of quiet
 *   backing off     the pause
 */
#include "redis/conn.h"

#include "base/clock.h"
#include "base/ident.h"
#include "base/status.h"
#include "redis/reply.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define FIRST_PAUSE_MS 20
#define MAX_PAUSE_MS 1000

static bool has_unanswered(const struct relock_conn *conn)
{
    return conn->n_sent > conn->n_answered;
}

static void watch(struct relock_conn *conn, int fd, int events)
{
    if (ev_is_active(&conn->io) && conn->io.fd == fd && conn->watched == events)
        return;
    ev_io_stop(conn->ev, &conn->io);
    if (fd < 0)
        return;
    conn->watched = events;
    ev_io_set(&conn->io, fd, events);
    ev_io_start(conn->ev, &conn->io);
}

static void set_timer(struct relock_conn *conn, uint64_t ms)
{
    ev_timer_stop(conn->ev, &conn->timer);
    if (ms == RELOCK_NEVER)
        return;
    ev_now_update(conn->ev);
    ev_timer_set(&conn->timer, (double)ms / 1000, 0.);
    ev_timer_start(conn->ev, &conn->timer);
}

/* Once for each trouble, and when there is another reason for it: not once for each try. */
static void tell_down(struct relock_conn *conn, const char *why)
{
    bool is_news = !conn->is_told_down || strcmp(conn->told, why) != 0;
    int level = is_news ? RELOCK_LOG_WARNING : RELOCK_LOG_DEBUG;

    relock_log_write(conn->server->log, level, "%s; connecting again", why);
    conn->is_told_down = true;
    (void)snprintf(conn->told, sizeof(conn->told), "%s", why);
}

static void tell_up(struct relock_conn *conn)
{
    if (conn->is_told_down)
        relock_log_write(conn->server->log, RELOCK_LOG_INFO, "%s: connected%s", conn->server->label,
                         conn->ready_once ? " again" : "");
    conn->is_told_down = false;
}

static void end_trouble(struct relock_conn *conn)
{
    conn->in_trouble = false;
    conn->is_turned_out = false;
    conn->pause_ms = FIRST_PAUSE_MS;
}

static void drop(struct relock_conn *conn)
{
    watch(conn, -1, 0);
    set_timer(conn, RELOCK_NEVER);
    relock_dial_end(&conn->dial);
    relock_login_end(&conn->login);
    relock_wire_close(&conn->wire);
    conn->n_sent = 0;
    conn->n_answered = 0;
}

/* It has been up for a while, and owes no answer. */
static bool is_fine(const struct relock_conn *conn)
{
    return !has_unanswered(conn) && relock_clock_now_ms() - conn->ready_ms >= MAX_PAUSE_MS;
}

static void fail(struct relock_conn *conn, const char *why)
{
    bool was_up = conn->state == RELOCK_CONN_READY;
    uint64_t pause_ms;

    if (was_up && is_fine(conn))
        end_trouble(conn);
    if (was_up && conn->in_trouble)
        conn->is_turned_out = true;
    conn->in_trouble = true;
    pause_ms = conn->pause_ms;
    tell_down(conn, why);
    drop(conn);
    conn->state = RELOCK_CONN_BACKING_OFF;
    set_timer(conn, (pause_ms / 2) + relock_ident_jitter((uint32_t)pause_ms / 2 + 1));
    conn->pause_ms = pause_ms * 2 < MAX_PAUSE_MS ? pause_ms * 2 : MAX_PAUSE_MS;
    if (was_up)
        conn->ops->down(conn->arg);
}

static void fail_wire(struct relock_conn *conn, const char *what)
{
    char why[RELOCK_WHY_MAX];

    (void)snprintf(why, sizeof(why), "%s: %.180s", conn->server->label, what);
    fail(conn, why);
}

/* When it is looked at, should nothing come before. */
static uint64_t first_look_ms(const struct relock_conn *conn)
{
    uint64_t ms = conn->ping_ms > 0 ? conn->ping_ms : RELOCK_NEVER;

    return conn->in_trouble && ms > MAX_PAUSE_MS ? MAX_PAUSE_MS : ms;
}

static void become_ready(struct relock_conn *conn)
{
    /* A server may let us in and turn us out at the first word. Who has seen that waits for it. */
    if (!conn->is_turned_out)
        tell_up(conn);
    if (conn->ready_once)
        atomic_fetch_add(&conn->reconnects, 1);
    conn->ready_once = true;
    conn->n_sent = 0;
    conn->n_answered = 0;
    conn->ready_ms = relock_clock_now_ms();
    conn->quiet_ms = conn->ready_ms;
    conn->state = RELOCK_CONN_READY;
    set_timer(conn, first_look_ms(conn));
    conn->ops->up(conn->arg);
}

static void step_dial(struct relock_conn *conn)
{
    uint64_t now_ms = relock_clock_now_ms();
    int fd;
    int r;

    watch(conn, -1, 0); /* the dial may close what it waited for */
    r = relock_dial_step(&conn->dial, now_ms, &fd);
    if (r == RELOCK_AGAIN) {
        watch(conn, conn->dial.fd, conn->dial.for_writing ? EV_WRITE : EV_READ);
        set_timer(conn, relock_clock_left(now_ms, conn->dial.deadline_ms));
        return;
    }
    if (r < 0) {
        fail(conn, conn->dial.why);
        return;
    }
    if (relock_wire_open(&conn->wire, fd) < 0) {
        fail_wire(conn, "out of memory for a connection");
        return;
    }
    conn->state = RELOCK_CONN_AUTHENTICATING;
    relock_login_begin(&conn->login, conn->server, &conn->wire.out);
    watch(conn, conn->wire.fd, EV_READ | EV_WRITE);
    set_timer(conn, conn->server->connect_timeout_ms);
}

static void connect_now(struct relock_conn *conn)
{
    if (conn->silent_ms == RELOCK_NEVER)
        conn->silent_ms = relock_clock_now_ms();
    conn->state = RELOCK_CONN_CONNECTING;
    step_dial(conn);
}

static void take_reply(struct relock_conn *conn, const struct redisReply *reply)
{
    int r;

    if (conn->state == RELOCK_CONN_READY) {
        conn->ops->reply(conn->arg, reply);
        return;
    }
    r = relock_login_take(&conn->login, reply);
    if (r == RELOCK_OK)
        become_ready(conn);
    else if (r != RELOCK_AGAIN)
        fail(conn, conn->login.why);
}

static void receive(struct relock_conn *conn)
{
    int r = relock_wire_fill(&conn->wire);
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
            return; /* what came of the reply has closed us */
    }
    if (came && !has_unanswered(conn))
        conn->silent_ms = RELOCK_NEVER;
    if (r < 0)
        fail_wire(conn, conn->wire.why);
}

static void on_io(struct ev_loop *ev, ev_io *watcher, int events)
{
    struct relock_conn *conn = watcher->data;
    int r;

    (void)ev;
    if (conn->state == RELOCK_CONN_CONNECTING) {
        step_dial(conn);
        return;
    }
    if (events & EV_WRITE) {
        r = relock_wire_flush(&conn->wire);
        if (r < 0) {
            fail_wire(conn, conn->wire.why);
            return;
        }
        watch(conn, conn->wire.fd, r == RELOCK_AGAIN ? EV_READ | EV_WRITE : EV_READ);
    }
    if (events & EV_READ)
        receive(conn);
}

/* How long it may stay quiet; 0 for ever. */
static uint64_t quiet_limit(const struct relock_conn *conn)
{
    if (!has_unanswered(conn))
        return conn->ping_ms;
    return conn->pinging && conn->pong_ms < conn->answer_ms ? conn->pong_ms : conn->answer_ms;
}

void relock_conn_ping(struct relock_conn *conn)
{
    relock_command_begin(relock_conn_out(conn), 1);
    relock_command_word(relock_conn_out(conn), "PING");
    relock_conn_send(conn, 1);
    conn->pinging = true;
    set_timer(conn, quiet_limit(conn));
}

static void check_ready(struct relock_conn *conn)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t limit_ms = quiet_limit(conn);
    uint64_t due_ms = relock_clock_after(conn->quiet_ms, limit_ms);

    if (conn->in_trouble && is_fine(conn)) {
        tell_up(conn);
        end_trouble(conn);
    }
    if (limit_ms == 0)
        return;
    if (now_ms < due_ms)
        set_timer(conn, due_ms - now_ms);
    else if (has_unanswered(conn))
        fail_wire(conn, "no answer in time");
    else
        relock_conn_ping(conn);
}

/* If it was we who were held up, the answer is there already. */
static void receive_and_check(struct relock_conn *conn)
{
    receive(conn);
    if (conn->state == RELOCK_CONN_READY)
        check_ready(conn);
}

static void on_timer(struct ev_loop *ev, ev_timer *watcher, int events)
{
    struct relock_conn *conn = watcher->data;

    (void)ev;
    (void)events;
    switch (conn->state) {
    case RELOCK_CONN_CONNECTING:
        step_dial(conn);
        break;
    case RELOCK_CONN_AUTHENTICATING:
        fail_wire(conn, "no answer to logging in");
        break;
    case RELOCK_CONN_READY:
        receive_and_check(conn);
        break;
    case RELOCK_CONN_BACKING_OFF:
        connect_now(conn);
        break;
    case RELOCK_CONN_CLOSED:
        break;
    }
}

void relock_conn_init(struct relock_conn *conn, struct ev_loop *ev,
                      const struct relock_server *server, const struct relock_conn_ops *ops,
                      void *arg)
{
    *conn = (struct relock_conn){
        .server = server,
        .ops = ops,
        .arg = arg,
        .ev = ev,
        .answer_ms = server->command_timeout_ms,
        .silent_ms = RELOCK_NEVER,
        .pause_ms = FIRST_PAUSE_MS,
    };
    atomic_init(&conn->reconnects, 0);
    relock_dial_init(&conn->dial, server);
    relock_wire_init(&conn->wire);
    ev_init(&conn->io, on_io);
    conn->io.data = conn;
    ev_init(&conn->timer, on_timer);
    conn->timer.data = conn;
}

void relock_conn_deinit(struct relock_conn *conn)
{
    relock_conn_close(conn);
    relock_wire_deinit(&conn->wire);
}

void relock_conn_open(struct relock_conn *conn)
{
    if (conn->state == RELOCK_CONN_CLOSED)
        connect_now(conn);
}

void relock_conn_close(struct relock_conn *conn)
{
    drop(conn);
    conn->state = RELOCK_CONN_CLOSED;
}

bool relock_conn_is_up(const struct relock_conn *conn)
{
    return conn->state == RELOCK_CONN_READY;
}

struct relock_buffer *relock_conn_out(struct relock_conn *conn)
{
    return &conn->wire.out;
}

void relock_conn_send(struct relock_conn *conn, unsigned n_replies)
{
    bool was_idle = !has_unanswered(conn);

    conn->n_sent += n_replies;
    conn->pinging = false;
    if (was_idle) {
        conn->quiet_ms = relock_clock_now_ms();
        if (conn->silent_ms == RELOCK_NEVER)
            conn->silent_ms = conn->quiet_ms;
        set_timer(conn, quiet_limit(conn));
    }
    watch(conn, conn->wire.fd, EV_READ | EV_WRITE);
}

void relock_conn_flush(struct relock_conn *conn)
{
    if (conn->state != RELOCK_CONN_READY || !(conn->watched & EV_WRITE))
        return;
    /* A failure is met again, and dealt with, when the loop comes to the socket. */
    if (relock_wire_flush(&conn->wire) == RELOCK_OK)
        watch(conn, conn->wire.fd, EV_READ);
}

void relock_conn_answered(struct relock_conn *conn)
{
    if (!has_unanswered(conn))
        return;
    conn->n_answered++;
    if (!has_unanswered(conn) && conn->ping_ms > 0)
        set_timer(conn, conn->ping_ms);
    tell_up(conn);
    end_trouble(conn);
}

void relock_conn_fail(struct relock_conn *conn, const char *why)
{
    fail_wire(conn, why);
}

void relock_conn_abandon(struct relock_conn *conn)
{
    if (conn->wire.fd >= 0)
        close(conn->wire.fd);
    if (conn->dial.connecting)
        close(conn->dial.fd);
}
