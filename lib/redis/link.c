#include "redis/link.h"

#include "base/clock.h"
#include "base/status.h"
#include "redis/dial.h"
#include "redis/login.h"
#include "redis/origin.h"
#include "redis/reply.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

/* After this long without use a link is looked at before it is trusted. */
#define STALE_MS 1000

/* A socket's timeout may overrun a deadline by this much, to save a system call per command. */
#define TIMEOUT_SLACK_MS 50

void relock_link_init(struct relock_link *link, const struct relock_server *server)
{
    *link = (struct relock_link){.server = server};
    relock_dial_init(&link->dial, server);
    relock_wire_init(&link->wire);
    atomic_init(&link->reconnects, 0);
}

void relock_link_deinit(struct relock_link *link)
{
    relock_link_close(link);
    relock_wire_deinit(&link->wire);
}

void relock_link_close(struct relock_link *link)
{
    relock_dial_end(&link->dial);
    if (link->state == RELOCK_LINK_LOGGING_IN)
        relock_login_end(&link->login);
    relock_wire_close(&link->wire);
    link->origin = relock_origin_unref(link->origin);
    link->state = RELOCK_LINK_CLOSED;
}

void relock_link_abandon(struct relock_link *link)
{
    if (link->wire.fd >= 0)
        close(link->wire.fd);
    if (link->dial.connecting)
        close(link->dial.fd);
}

static int fail(struct relock_link *link, int result, const char *why)
{
    (void)snprintf(link->wire.why, sizeof(link->wire.why), "%s", why);
    return result;
}

/* A failure of the wire, which has said why, as a result of the link. */
static int fail_wire(struct relock_link *link, int result)
{
    char why[RELOCK_WHY_MAX];

    (void)snprintf(why, sizeof(why), "%s: %.180s", link->server->label,
                   result == RELOCK_AGAIN ? "no answer in time" : link->wire.why);
    return fail(link, result == RELOCK_AGAIN ? RELOCK_E_CONN : result, why);
}

/* Says that the deadline came first. */
static int be_late(struct relock_link *link, const char *what)
{
    (void)snprintf(link->wire.why, sizeof(link->wire.why), "%s: %s", link->server->label, what);
    return RELOCK_AGAIN;
}

/* Returns RELOCK_AGAIN at the deadline. */
static int dial(struct relock_link *link, uint64_t deadline_ms, int *fd)
{
    struct relock_dial *dial = &link->dial;

    for (;;) {
        uint64_t now_ms = relock_clock_now_ms();
        uint64_t until_ms;
        struct pollfd pollfd;
        int r;

        r = relock_dial_step(dial, now_ms, fd);
        if (r != RELOCK_AGAIN)
            return r < 0 ? fail(link, r, dial->why) : r;
        if (now_ms >= deadline_ms)
            return *dial->why ? fail(link, RELOCK_AGAIN, dial->why)
                              : be_late(link, "no connection in time");
        until_ms = dial->deadline_ms < deadline_ms ? dial->deadline_ms : deadline_ms;
        pollfd = (struct pollfd){.fd = dial->fd, .events = dial->for_writing ? POLLOUT : POLLIN};
        (void)poll(&pollfd, 1, relock_clock_poll_ms(now_ms, until_ms));
    }
}

static void set_timeout(struct relock_link *link, uint64_t timeout_ms)
{
    struct timeval tv = {
        .tv_sec = (time_t)(timeout_ms / 1000),
        .tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000,
    };

    (void)setsockopt(link->wire.fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
    (void)setsockopt(link->wire.fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
    link->timeout_ms = timeout_ms;
}

/* Lets the socket give up at about the deadline. Returns false when that has passed. */
static bool bound_by(struct relock_link *link, uint64_t deadline_ms)
{
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t left = relock_clock_left(now_ms, deadline_ms);

    if (left == 0)
        return false;
    link->used_ms = now_ms;
    if (link->timeout_ms > left + TIMEOUT_SLACK_MS || link->timeout_ms < left / 2)
        set_timeout(link, left);
    return true;
}

/* Takes over the socket and says the first words. */
static int begin_login(struct relock_link *link, int fd, uint64_t deadline_ms)
{
    int r;

    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    r = relock_wire_open(&link->wire, fd);
    if (r < 0)
        return fail(link, r, "out of memory for a connection");
    set_timeout(link, link->server->command_timeout_ms);
    link->state = RELOCK_LINK_LOGGING_IN;
    relock_login_begin(&link->login, link->server, &link->wire.out);
    return relock_link_send(link, deadline_ms);
}

/* Returns RELOCK_AGAIN at the deadline. */
static int log_in(struct relock_link *link, uint64_t deadline_ms)
{
    int r;

    do {
        struct redisReply *reply;

        r = relock_link_receive(link, deadline_ms, &reply);
        if (r != RELOCK_OK)
            return r;
        r = relock_login_take(&link->login, reply);
        relock_reply_free(reply);
    } while (r == RELOCK_AGAIN);
    if (r != RELOCK_OK)
        return fail(link, r, link->login.why);
    link->origin = link->login.origin;
    link->login.origin = NULL;
    return r;
}

/* The server may have closed an idle connection: better found out before a command is on it. */
static bool has_ended(struct relock_link *link)
{
    char byte;
    ssize_t n;

    if (relock_clock_now_ms() - link->used_ms < STALE_MS)
        return false;
    n = recv(link->wire.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    return n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* Goes on from where it is. Returns RELOCK_AGAIN at the deadline. */
static int connect_until(struct relock_link *link, uint64_t deadline_ms)
{
    int fd;
    int r = RELOCK_OK;

    if (link->state == RELOCK_LINK_DIALING) {
        r = dial(link, deadline_ms, &fd);
        if (r == RELOCK_OK)
            r = begin_login(link, fd, link->connect_by_ms);
    }
    return r == RELOCK_OK ? log_in(link, deadline_ms) : r;
}

static void begin_to_connect(struct relock_link *link)
{
    link->connect_by_ms =
        relock_clock_after(relock_clock_now_ms(), link->server->connect_timeout_ms);
    link->state = RELOCK_LINK_DIALING;
}

int relock_link_connect(struct relock_link *link, uint64_t deadline_ms)
{
    int r;

    if (link->state == RELOCK_LINK_READY && (!relock_wire_is_quiet(&link->wire) || has_ended(link)))
        relock_link_close(link);
    if (link->state == RELOCK_LINK_READY)
        return RELOCK_OK;
    if (link->state == RELOCK_LINK_CLOSED)
        begin_to_connect(link);
    r = connect_until(link, deadline_ms < link->connect_by_ms ? deadline_ms : link->connect_by_ms);
    if (r == RELOCK_AGAIN && deadline_ms < link->connect_by_ms)
        return r;
    if (r == RELOCK_AGAIN)
        r = RELOCK_E_CONN;
    if (r != RELOCK_OK) {
        relock_link_close(link);
        return r;
    }
    link->state = RELOCK_LINK_READY;
    if (link->connected_once)
        atomic_fetch_add(&link->reconnects, 1);
    link->connected_once = true;
    return RELOCK_OK;
}

int relock_link_send(struct relock_link *link, uint64_t deadline_ms)
{
    size_t len = link->wire.out.len;
    int r;

    do {
        link->n_sent = link->wire.sent;
        if (!bound_by(link, deadline_ms))
            return fail_wire(link, RELOCK_AGAIN);
        r = relock_wire_flush(&link->wire);
    } while (r == RELOCK_AGAIN);
    link->n_sent = r == RELOCK_OK ? len : link->wire.sent;
    return r < 0 ? fail_wire(link, r) : r;
}

static bool has_come(const struct relock_link *link)
{
    struct pollfd pollfd = {.fd = link->wire.fd, .events = POLLIN};

    return poll(&pollfd, 1, 0) > 0;
}

int relock_link_receive(struct relock_link *link, uint64_t deadline_ms, struct redisReply **reply)
{
    int r;

    for (;;) {
        r = relock_wire_take(&link->wire, reply);
        if (r != RELOCK_AGAIN)
            break;
        /* If it was we who were held up, the answer is there although it is late. */
        if (!bound_by(link, deadline_ms) && !has_come(link))
            return be_late(link, "no answer in time");
        r = relock_wire_fill(&link->wire);
        if (r < 0)
            break;
    }
    return r < 0 ? fail_wire(link, r) : r;
}

int relock_link_next(struct relock_link *link, struct redisReply **reply)
{
    int r = relock_wire_take(&link->wire, reply);

    return r < 0 ? fail_wire(link, r) : r;
}
