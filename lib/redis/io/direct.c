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

/* A call that waits. */
struct direct {
    struct relock_reading *reading;
    const _Atomic(struct relock_pubsub *) *pubsub; /* NULL: none */
};

/* These functions are called with the mutex locked. */

static struct relock_pubsub *pubsub_of(const struct direct *direct)
{
    return direct->pubsub ? atomic_load(direct->pubsub) : NULL;
}

/* Returns the socket that this thread, which is counted as waiting, is to poll; -1: none. */
static int choose_socket(const struct direct *direct)
{
    struct relock_reading *reading = direct->reading;
    const struct relock_pubsub *pubsub = pubsub_of(direct);
    bool is_alone = reading->shared.n_waiting == 1 && !reading->shared.is_needed;

    if (!is_alone || !pubsub || !relock_async_wait_is_for_messages(&pubsub->conn))
        return -1;
    reading->shared.polled = &pubsub->conn;
    return pubsub->conn.wire.fd;
}

/* Whether the I/O thread has to attend to the connection of this thread, or to one that it left to
 * another thread before. */
static bool is_due(const struct direct *direct)
{
    const struct relock_pubsub *pubsub = pubsub_of(direct);
    const struct relock_async_conn *left = direct->reading->shared.left;

    return (pubsub && relock_async_wait_is_due(&pubsub->conn)) ||
           (left && relock_async_wait_is_due(left));
}

/* ---- steps ----------------------------------------------------------------------------------- */

static int begin(const struct direct *direct)
{
    struct relock_reading *reading = direct->reading;
    bool wakes;
    int fd;

    relock_reading_lock(reading);
    reading->shared.n_waiting++;
    fd = choose_socket(direct);
    wakes = is_due(direct);
    relock_reading_unlock(reading);
    if (wakes)
        relock_loop_wake(reading->loop);
    return fd;
}

/* The connection may have ended since the poll, and another may have the same descriptor. Its end
 * wakes the poll. */
static int peek(const struct direct *direct)
{
    struct relock_reading *reading = direct->reading;
    struct relock_pubsub *pubsub;
    int fd;

    relock_reading_lock(reading);
    pubsub = pubsub_of(direct);
    if (pubsub && relock_async_wait_is_for_messages(&pubsub->conn))
        read_messages(pubsub);
    fd = choose_socket(direct);
    relock_reading_unlock(reading);
    return fd;
}

/* `is_over`: so is the wait. */
static void stop_polling(const struct direct *direct, bool is_over)
{
    struct relock_reading *reading = direct->reading;
    bool wakes;

    relock_reading_lock(reading);
    reading->shared.polled = NULL;
    reading->shared.n_waiting -= is_over;
    wakes = is_due(direct);
    relock_reading_unlock(reading);
    if (wakes)
        relock_loop_wake(reading->loop);
}

/* Returns whether the gate was opened. */
static bool poll_socket(const struct direct *direct, int fd, struct relock_gate *gate,
                        uint64_t deadline_ms)
{
    int event_fd = direct->reading->event_fd;
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
        fd = peek(direct);
    }
    return false;
}

static void sleep_at_gate(const struct direct *direct, struct relock_gate *gate,
                          uint64_t deadline_ms)
{
    struct relock_reading *reading = direct->reading;

    (void)relock_gate_wait(gate, deadline_ms);
    relock_reading_lock(reading);
    reading->shared.n_waiting--;
    relock_reading_unlock(reading);
}

void relock_direct_wait(struct relock_reading *reading,
                        const _Atomic(struct relock_pubsub *) *pubsub, struct relock_gate *gate,
                        uint64_t deadline_ms)
{
    const struct direct direct = {reading, pubsub};
    int fd = begin(&direct);
    bool is_over = false;

    if (fd >= 0) {
        is_over = poll_socket(&direct, fd, gate, deadline_ms);
        stop_polling(&direct, is_over);
    }
    if (!is_over)
        sleep_at_gate(&direct, gate, deadline_ms);
}
