#include "redis/lane.h"

#include "base/clock.h"
#include "base/gate.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/dial.h"
#include "redis/login.h"
#include "redis/origin.h"
#include "redis/reply.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* After this long without use a lane is looked at before it is trusted. */
#define STALE_MS 1000

/* A socket's timeout may overrun a deadline by this much, to save a system call per command. */
#define TIMEOUT_SLACK_MS 50

/* Who waits for a lane, on its stack. */
struct lane_waiter {
    struct relock_gate gate;
    struct relock_lane *lane; /* given; guarded by the mutex of the lanes */
    struct lane_waiter *next, *prev;
};

struct relock_lanes {
    struct relock_mutex mutex;
    struct {
        struct relock_lane *idle;    /* the last used first: warm, and few connections suffice */
        struct lane_waiter *waiters; /* the first to come is the first to be given one */
    } guarded;                       /* by mutex */
    atomic_uint_fast64_t reconnects;
    unsigned n;
    struct relock_lane lane[]; /* each belongs to whoever took it */
};

int relock_lanes_new(const struct relock_server *server, unsigned n, struct relock_lanes **lanes)
{
    struct relock_lanes *new = calloc(1, sizeof(*new) + (n * sizeof(new->lane[0])));

    if (!new)
        return RELOCK_E_NOMEM;
    relock_mutex_init(&new->mutex);
    atomic_init(&new->reconnects, 0);
    new->n = n;
    for (unsigned i = n; i-- > 0;) {
        struct relock_lane *lane = &new->lane[i];

        lane->server = server;
        lane->lanes = new;
        relock_wire_init(&lane->wire);
        lane->next = new->guarded.idle;
        new->guarded.idle = lane;
    }
    *lanes = new;
    return RELOCK_OK;
}

struct relock_lanes *relock_lanes_free(struct relock_lanes *lanes)
{
    if (!lanes)
        return NULL;
    for (unsigned i = 0; i < lanes->n; i++) {
        relock_lane_close(&lanes->lane[i]);
        relock_wire_deinit(&lanes->lane[i].wire);
    }
    relock_mutex_deinit(&lanes->mutex);
    free(lanes);
    return NULL;
}

void relock_lanes_abandon(struct relock_lanes *lanes)
{
    for (unsigned i = 0; i < lanes->n; i++)
        if (lanes->lane[i].wire.fd >= 0)
            close(lanes->lane[i].wire.fd);
}

uint64_t relock_lanes_reconnects(struct relock_lanes *lanes)
{
    return atomic_load(&lanes->reconnects);
}

int relock_lanes_take(struct relock_lanes *lanes, uint64_t deadline_ms, struct relock_lane **lane)
{
    struct lane_waiter waiter = {0};
    bool is_busy;

    relock_mutex_lock(&lanes->mutex);
    is_busy = !lanes->guarded.idle;
    if (is_busy) {
        relock_gate_init(&waiter.gate);
        DL_APPEND(lanes->guarded.waiters, &waiter);
        relock_mutex_unlock(&lanes->mutex);
        (void)relock_gate_wait(&waiter.gate, deadline_ms);
        relock_mutex_lock(&lanes->mutex);
        if (!waiter.lane)
            DL_DELETE(lanes->guarded.waiters, &waiter);
    } else {
        waiter.lane = lanes->guarded.idle;
        lanes->guarded.idle = waiter.lane->next;
    }
    relock_mutex_unlock(&lanes->mutex);
    if (is_busy)
        relock_gate_deinit(&waiter.gate);
    if (!waiter.lane)
        return RELOCK_E_CONN;
    *lane = waiter.lane;
    return RELOCK_OK;
}

void relock_lanes_give(struct relock_lanes *lanes, struct relock_lane *lane)
{
    struct lane_waiter *waiter;

    lane->used_ms = relock_clock_now_ms();
    relock_mutex_lock(&lanes->mutex);
    waiter = lanes->guarded.waiters;
    if (waiter) {
        DL_DELETE(lanes->guarded.waiters, waiter);
        waiter->lane = lane;
        relock_gate_open(&waiter->gate);
    } else {
        lane->next = lanes->guarded.idle;
        lanes->guarded.idle = lane;
    }
    relock_mutex_unlock(&lanes->mutex);
}

void relock_lane_close(struct relock_lane *lane)
{
    relock_wire_close(&lane->wire);
    lane->origin = relock_origin_unref(lane->origin);
}

static int fail(struct relock_lane *lane, int result, const char *why)
{
    (void)snprintf(lane->wire.why, sizeof(lane->wire.why), "%s", why);
    relock_lane_close(lane);
    return result;
}

/* A failure of the wire, which has said why, as a result of the lane. */
static int fail_wire(struct relock_lane *lane, int result)
{
    char why[RELOCK_WHY_MAX];

    (void)snprintf(why, sizeof(why), "%s: %.180s", lane->server->label,
                   result == RELOCK_AGAIN ? "no answer in time" : lane->wire.why);
    return fail(lane, result == RELOCK_AGAIN ? RELOCK_E_CONN : result, why);
}

static int dial(struct relock_lane *lane, uint64_t deadline_ms, int *fd)
{
    struct relock_dial dial;
    int r;

    relock_dial_init(&dial, lane->server);
    for (;;) {
        uint64_t now_ms = relock_clock_now_ms();
        uint64_t until_ms;
        struct pollfd pollfd;

        r = relock_dial_step(&dial, now_ms, fd);
        if (r != RELOCK_AGAIN)
            break;
        if (now_ms >= deadline_ms) {
            (void)snprintf(dial.why, sizeof(dial.why), "%s: no connection in time",
                           lane->server->label);
            r = RELOCK_E_CONN;
            break;
        }
        until_ms = dial.deadline_ms < deadline_ms ? dial.deadline_ms : deadline_ms;
        pollfd = (struct pollfd){.fd = dial.fd, .events = dial.for_writing ? POLLOUT : POLLIN};
        (void)poll(&pollfd, 1, relock_clock_poll_ms(now_ms, until_ms));
    }
    relock_dial_end(&dial);
    return r < 0 ? fail(lane, r, dial.why) : r;
}

static void set_timeout(struct relock_lane *lane, uint64_t timeout_ms)
{
    struct timeval tv = {
        .tv_sec = (time_t)(timeout_ms / 1000),
        .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000,
    };

    (void)setsockopt(lane->wire.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    (void)setsockopt(lane->wire.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    lane->timeout_ms = timeout_ms;
}

/* Lets the socket give up at about the deadline. Returns false when that has passed. */
static bool bound_by(struct relock_lane *lane, uint64_t deadline_ms)
{
    uint64_t left = relock_clock_left(relock_clock_now_ms(), deadline_ms);

    if (left == 0)
        return false;
    if (lane->timeout_ms > left + TIMEOUT_SLACK_MS || lane->timeout_ms < left / 2)
        set_timeout(lane, left);
    return true;
}

static int log_in(struct relock_lane *lane, uint64_t deadline_ms)
{
    struct relock_login login;
    int r;

    relock_login_begin(&login, lane->server, &lane->wire.out);
    r = relock_lane_send(lane, deadline_ms);
    if (r == RELOCK_OK)
        r = RELOCK_AGAIN;
    while (r == RELOCK_AGAIN) {
        struct redisReply *reply;

        r = relock_lane_receive(lane, deadline_ms, &reply);
        if (r < 0)
            break;
        r = relock_login_take(&login, reply);
        relock_reply_free(reply);
        if (r < 0)
            fail(lane, r, login.why);
    }
    lane->origin = login.origin;
    return r;
}

/* The server may have closed an idle connection: better found out before a command is on it. */
static bool has_ended(struct relock_lane *lane)
{
    char byte;
    ssize_t n;

    if (relock_clock_now_ms() - lane->used_ms < STALE_MS)
        return false;
    n = recv(lane->wire.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

int relock_lane_connect(struct relock_lane *lane, uint64_t deadline_ms)
{
    uint64_t limit_ms;
    int fd;
    int r;

    if (lane->wire.fd >= 0 && (!relock_wire_is_quiet(&lane->wire) || has_ended(lane)))
        relock_lane_close(lane);
    if (lane->wire.fd >= 0)
        return RELOCK_OK;

    limit_ms = relock_clock_after(relock_clock_now_ms(), lane->server->connect_timeout_ms);
    if (limit_ms > deadline_ms)
        limit_ms = deadline_ms;
    r = dial(lane, limit_ms, &fd);
    if (r < 0)
        return r;
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    r = relock_wire_open(&lane->wire, fd);
    if (r < 0)
        return fail(lane, r, "out of memory for a connection");
    set_timeout(lane, lane->server->command_timeout_ms);
    r = log_in(lane, limit_ms);
    if (r < 0)
        return r;

    if (lane->connected_once)
        atomic_fetch_add(&lane->lanes->reconnects, 1);
    lane->connected_once = true;
    return RELOCK_OK;
}

int relock_lane_send(struct relock_lane *lane, uint64_t deadline_ms)
{
    int r;

    do {
        lane->touched = lane->wire.sent > 0;
        if (!bound_by(lane, deadline_ms))
            return fail_wire(lane, RELOCK_AGAIN);
        r = relock_wire_flush(&lane->wire);
    } while (r == RELOCK_AGAIN);
    lane->touched = r == RELOCK_OK || lane->wire.sent > 0;
    return r < 0 ? fail_wire(lane, r) : r;
}

/* If it was we who were held up, the answer is there although it is late. */
static bool has_come(const struct relock_lane *lane)
{
    struct pollfd pollfd = {.fd = lane->wire.fd, .events = POLLIN};

    return poll(&pollfd, 1, 0) > 0;
}

int relock_lane_receive(struct relock_lane *lane, uint64_t deadline_ms, struct redisReply **reply)
{
    int r;

    for (;;) {
        r = relock_wire_take(&lane->wire, reply);
        if (r != RELOCK_AGAIN)
            break;
        if (!bound_by(lane, deadline_ms) && !has_come(lane))
            return fail_wire(lane, RELOCK_AGAIN);
        r = relock_wire_fill(&lane->wire);
        if (r < 0)
            break;
    }
    return r < 0 ? fail_wire(lane, r) : r;
}
