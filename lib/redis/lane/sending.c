/*
 * One thread at a time sends over a lane: its sender, which alone touches the output buffer of the
 * connection, or ends the connection.
 *
 *     sender    next      when
 *     NONE      DRIVER    the driver has something to send, or to look at the connection
 *               OTHER     a thread comes while the driver waits for replies
 *     DRIVER    NONE      it waits for replies, or stops to drive
 *     OTHER     NONE      it has sent; a driver that waits for the turn is woken, and takes it
 *
 * A thread adds exchanges to those in flight before it sends them, so that these are in the order
 * in which the server gets the commands. So the driver knows of each reply which command it
 * answers. The driver sleeps until a reply comes, or until the first of those in flight has to
 * leave. An exchange that would have to leave before that waits in the queue, for the driver.
 */
#include "redis/lane/lane.h"
#include "redis/lane/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"

/* ---- the turn to send ----------------------------------------------------------------------- */

void relock_sending_claim(struct relock_lane *lane)
{
    lane->guarded.beside_until_ms = 0;
    if (lane->guarded.sender == RELOCK_SENDER_OTHER) {
        struct relock_gate gate;

        relock_gate_init(&gate);
        lane->guarded.claim = &gate;
        relock_mutex_unlock(&lane->mutex);
        (void)relock_gate_wait(&gate, RELOCK_NEVER);
        relock_mutex_lock(&lane->mutex);
    }
    lane->guarded.sender = RELOCK_SENDER_DRIVER;
}

void relock_sending_end(struct relock_lane *lane)
{
    if (lane->guarded.sender == RELOCK_SENDER_DRIVER)
        lane->guarded.sender = RELOCK_SENDER_NONE;
}

uint64_t relock_sending_allow(struct relock_lane *lane, const struct relock_exchange *own,
                              uint64_t now_ms)
{
    uint64_t until_ms = relock_inflight_due_ms(&lane->inflight);
    const struct relock_exchange *at;

    /* In time for those in the queue, too: so the sender may take them. */
    DL_FOREACH(lane->guarded.queue, at)
    until_ms = relock_clock_sooner(until_ms, at == own ? own->deadline_ms
                                                       : relock_inflight_leaves_ms(at, now_ms));
    relock_sending_end(lane);
    lane->guarded.beside_until_ms = lane->inflight.conn.wire.tls ? 0 : until_ms;
    return until_ms;
}

/* A thread that does not drive has sent. */
static void end_beside(struct relock_lane *lane) RELOCK_REQUIRES(lane->mutex)
{
    struct relock_gate *claim = lane->guarded.claim;

    lane->guarded.claim = NULL;
    lane->guarded.sender = RELOCK_SENDER_NONE;
    if (claim)
        relock_gate_open_under(claim, &lane->mutex);
}

/* ---- what is sent ---------------------------------------------------------------------------- */

/* Whether it is too late to send it: its own thread ends it. */
static bool is_late(const struct relock_exchange *exchange, uint64_t now_ms)
{
    return !exchange->is_posted && now_ms >= exchange->deadline_ms;
}

static bool may_go_beside(const struct relock_lane *lane, const struct relock_exchange *exchange,
                          uint64_t now_ms) RELOCK_REQUIRES(lane->mutex)
{
    uint64_t until_ms = lane->guarded.beside_until_ms;

    return now_ms < until_ms && !is_late(exchange, now_ms) && !atomic_load(&lane->retired) &&
           relock_inflight_fits_beside(&lane->inflight, exchange, now_ms, until_ms);
}

static void take(struct relock_lane *lane, struct relock_exchange *exchange, uint64_t now_ms)
    RELOCK_REQUIRES(lane->mutex)
{
    /* The analyzer takes the last element for a head that is not alone. */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    DL_DELETE(lane->guarded.queue, exchange);
    exchange->queued = false;
    relock_inflight_add(&lane->inflight, exchange, now_ms);
}

bool relock_sending_take(struct relock_lane *lane, const struct relock_exchange *own,
                         uint64_t now_ms)
{
    struct relock_exchange *at, *next;
    bool takes = false;

    DL_FOREACH_SAFE(lane->guarded.queue, at, next)
    {
        if (at != own && is_late(at, now_ms))
            continue;
        take(lane, at, now_ms);
        takes = true;
    }
    return takes;
}

/* Returns whether there is something to send. */
static bool take_beside(struct relock_lane *lane, uint64_t now_ms) RELOCK_REQUIRES(lane->mutex)
{
    bool takes = false;

    while (lane->guarded.queue && may_go_beside(lane, lane->guarded.queue, now_ms)) {
        take(lane, lane->guarded.queue, now_ms);
        takes = true;
    }
    return takes;
}

/* ---- beside the driver ----------------------------------------------------------------------- */

void relock_sending_beside(struct relock_lane *lane)
{
    bool is_first = true, goes_on;

    do {
        size_t n;
        int r = relock_wire_send_beside(&lane->inflight.conn.wire, &n);

        relock_mutex_lock(&lane->mutex);
        relock_inflight_note_sent(&lane->inflight, r, n);
        if (r != RELOCK_OK)
            lane->guarded.beside_until_ms = 0;
        goes_on = is_first && r == RELOCK_OK && take_beside(lane, relock_clock_now_ms());
        is_first = false;
        if (!goes_on)
            end_beside(lane);
        relock_mutex_unlock(&lane->mutex);
    } while (goes_on);
}

/* ---- coming ---------------------------------------------------------------------------------- */

/* If the connection has to be looked at first, the exchange waits in the queue for that. */
static bool may_go_first(const struct relock_lane *lane, const struct relock_exchange *exchange,
                         uint64_t now_ms) RELOCK_REQUIRES(lane->mutex)
{
    const struct relock_inflight *inflight = &lane->inflight;

    if (exchange->is_posted || is_late(exchange, now_ms) || atomic_load(&lane->retired))
        return false;
    return inflight->exchanges ? now_ms < relock_inflight_due_ms(inflight)
                               : relock_sync_conn_is_warm(&inflight->conn, now_ms);
}

static enum relock_part choose(const struct relock_lane *lane,
                               const struct relock_exchange *exchange, uint64_t now_ms)
    RELOCK_REQUIRES(lane->mutex)
{
    bool can_send = lane->guarded.sender == RELOCK_SENDER_NONE;

    if (exchange->is_posted && lane->guarded.only_takes)
        return RELOCK_PART_NONE;
    if (lane->guarded.driven)
        return can_send && may_go_beside(lane, exchange, now_ms) ? RELOCK_PART_SEND
                                                                 : RELOCK_PART_WAIT;
    return can_send && may_go_first(lane, exchange, now_ms) ? RELOCK_PART_SEND_AND_DRIVE
                                                            : RELOCK_PART_DRIVE;
}

enum relock_part relock_sending_enter(struct relock_lane *lane, struct relock_exchange *exchange,
                                      uint64_t now_ms)
{
    enum relock_part part;

    relock_gate_init(&exchange->gate);
    relock_mutex_lock(&lane->mutex);
    part = choose(lane, exchange, now_ms);
    switch (part) {
    case RELOCK_PART_SEND:
        lane->guarded.sender = RELOCK_SENDER_OTHER;
        relock_inflight_add(&lane->inflight, exchange, now_ms);
        break;
    case RELOCK_PART_SEND_AND_DRIVE:
        lane->guarded.sender = RELOCK_SENDER_DRIVER;
        lane->guarded.driven = true;
        relock_inflight_add(&lane->inflight, exchange, now_ms);
        break;
    case RELOCK_PART_WAIT:
    case RELOCK_PART_DRIVE:
        lane->guarded.driven = true;
        exchange->queued = true;
        DL_APPEND(lane->guarded.queue, exchange);
        break;
    case RELOCK_PART_NONE:
        break;
    }
    relock_mutex_unlock(&lane->mutex);
    return part;
}
