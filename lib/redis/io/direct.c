#include "redis/io/io.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/io/private.h"
#include "redis/server/loop.h"
#include "redis/server/reply.h"

#include <poll.h>
#include <sys/eventfd.h>

/* Reads once, without blocking. A failure is for the I/O thread. */
static void read_messages(struct relock_pubsub *pubsub)
{
    struct relock_async_conn *conn = &pubsub->conn;
    struct redisReply *reply;
    int r = relock_wire_fill(&conn->wire);

    if (r == RELOCK_OK)
        conn->quiet_ms = relock_clock_now_ms();
    while (r == RELOCK_OK) {
        r = relock_wire_take(&conn->wire, &reply);
        if (r != RELOCK_OK)
            break;
        if (!relock_pubsub_hear(pubsub, reply))
            r = relock_wire_fail(&conn->wire, RELOCK_REPLY_UNASKED);
        relock_reply_free(reply);
    }
    if (r < 0)
        conn->met = r;
}

/* Returns the socket that this thread, which is counted as waiting, is to poll; -1: none. */
static int socket_to_poll(const struct relock_pubsub *pubsub)
{
    const struct relock_reading *reading = pubsub->conn.reading;
    bool is_alone = reading->shared.n_waiting == 1 && !reading->shared.is_needed;

    return is_alone && relock_async_wait_is_for_messages(&pubsub->conn) ? pubsub->conn.wire.fd : -1;
}

static int begin(struct relock_pubsub *pubsub)
{
    struct relock_reading *reading = pubsub->conn.reading;
    bool wakes;
    int fd;

    relock_reading_lock(reading);
    reading->shared.n_waiting++;
    fd = socket_to_poll(pubsub);
    reading->shared.is_polled |= fd >= 0;
    wakes = relock_async_wait_is_due(&pubsub->conn);
    relock_reading_unlock(reading);
    if (wakes)
        relock_loop_wake(reading->loop);
    return fd;
}

/* The connection may have ended since the poll, and another may have the same descriptor. Its end
 * wakes the poll: it shuts the socket down, and tells the subscribers. */
static int peek(struct relock_pubsub *pubsub)
{
    struct relock_reading *reading = pubsub->conn.reading;
    int fd;

    relock_reading_lock(reading);
    if (relock_async_wait_is_for_messages(&pubsub->conn))
        read_messages(pubsub);
    fd = socket_to_poll(pubsub);
    relock_reading_unlock(reading);
    return fd;
}

/* `is_over`: so is the wait. */
static void stop_polling(struct relock_pubsub *pubsub, bool is_over)
{
    struct relock_reading *reading = pubsub->conn.reading;
    bool wakes;

    relock_reading_lock(reading);
    reading->shared.is_polled = false;
    reading->shared.n_waiting -= is_over;
    wakes = relock_async_wait_is_due(&pubsub->conn);
    relock_reading_unlock(reading);
    if (wakes)
        relock_loop_wake(reading->loop);
}

/* Returns whether the gate was opened. */
static bool poll_socket(struct relock_pubsub *pubsub, int fd, struct relock_gate *gate,
                        uint64_t deadline_ms)
{
    int event_fd = pubsub->conn.reading->event_fd;
    uint64_t now_ms;

    while (fd >= 0 && (now_ms = relock_clock_now_ms()) < deadline_ms) {
        struct pollfd fds[] = {{.fd = event_fd, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
        eventfd_t count;

        if (relock_gate_begin_poll(gate, event_fd))
            (void)poll(fds, 2, relock_clock_poll_ms(now_ms, deadline_ms));
        if (relock_gate_end_poll(gate))
            return true;
        if (fds[0].revents)
            (void)eventfd_read(event_fd, &count);
        fd = peek(pubsub);
    }
    return false;
}

static void sleep_at_gate(struct relock_pubsub *pubsub, struct relock_gate *gate,
                          uint64_t deadline_ms)
{
    struct relock_reading *reading = pubsub->conn.reading;

    (void)relock_gate_wait(gate, deadline_ms);
    relock_reading_lock(reading);
    reading->shared.n_waiting--;
    relock_reading_unlock(reading);
}

void relock_direct_wait(struct relock_pubsub *pubsub, struct relock_gate *gate,
                        uint64_t deadline_ms)
{
    int fd = begin(pubsub);
    bool is_over = false;

    if (fd >= 0) {
        is_over = poll_socket(pubsub, fd, gate, deadline_ms);
        stop_polling(pubsub, is_over);
    }
    if (!is_over)
        sleep_at_gate(pubsub, gate, deadline_ms);
}
