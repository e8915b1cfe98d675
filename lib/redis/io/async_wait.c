#include "redis/io/async_wait.h"

#include "base/clock.h"
#include "redis/io/reading.h"

/* A connection that is up for so long and owes no answer works, like one that has answered. */
#define FINE_MS 1000

/* After so long in which only another thread may have read, the I/O thread watches again. */
#define LEAVE_MS 100

void relock_async_wait_for(struct relock_async_conn *conn, int fd, int events)
{
    if (ev_is_active(&conn->io) && conn->io.fd == fd && conn->watched == events)
        return;
    ev_io_stop(conn->ev, &conn->io);
    conn->left_until_ms = RELOCK_NEVER;
    if (fd < 0)
        return;
    conn->watched = events;
    ev_io_set(&conn->io, fd, events);
    ev_io_start(conn->ev, &conn->io);
}

void relock_async_wait_leave(struct relock_async_conn *conn)
{
    ev_io_stop(conn->ev, &conn->io);
    conn->left_until_ms = relock_clock_in(LEAVE_MS);
    relock_async_wait_arm(conn);
}

void relock_async_wait_arm(struct relock_async_conn *conn)
{
    uint64_t due_ms = relock_async_wait_due_ms(conn);
    uint64_t left_ms = relock_clock_left(relock_clock_now_ms(), due_ms);

    ev_timer_stop(conn->ev, &conn->timer);
    if (left_ms == RELOCK_NEVER)
        return;
    ev_now_update(conn->ev);
    ev_timer_set(&conn->timer, (double)left_ms / 1000, 0.);
    ev_timer_start(conn->ev, &conn->timer);
}

/* ---- deadlines ----------------------------------------------------------------------------- */

bool relock_async_wait_is_owed(const struct relock_async_conn *conn)
{
    return conn->n_sent > conn->n_answered;
}

bool relock_async_wait_is_fine(const struct relock_async_conn *conn)
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

uint64_t relock_async_wait_due_ms(const struct relock_async_conn *conn)
{
    return relock_clock_sooner(due_in_state_ms(conn), conn->borrow_ms);
}

bool relock_async_wait_is_over(const struct relock_async_conn *conn)
{
    return relock_clock_now_ms() >= due_in_state_ms(conn);
}

/* ---- shared connections -------------------------------------------------------------------- */

bool relock_async_wait_is_for_messages(const struct relock_async_conn *conn)
{
    return conn->state == RELOCK_ASYNC_CONN_READY && !relock_async_wait_is_owed(conn) &&
           conn->met == 0;
}

bool relock_async_wait_may_leave(const struct relock_async_conn *conn)
{
    return relock_async_wait_is_for_messages(conn) && relock_reading_is_left(conn->reading);
}

bool relock_async_wait_is_due(const struct relock_async_conn *conn)
{
    if (conn->state != RELOCK_ASYNC_CONN_READY)
        return false;
    if (conn->met < 0)
        return true;
    return !ev_is_active(&conn->io) &&
           relock_reading_is_due(conn->reading, conn->left_until_ms != RELOCK_NEVER);
}
