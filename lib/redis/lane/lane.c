/*
 * The connection of a lane has one owner at any time: the driver, which is the thread of one of the
 * exchanges on it. An exchange is in one of two places:
 *
 *     queue        not taken by the driver yet; guarded by the mutex
 *     in flight    written, or about to be; the driver's alone, and handed over with the driving
 *
 * A thread that finds no driver drives. It takes the queue, sends it in one piece and reads replies
 * until its own exchange has ended. Then one critical section decides whether an exchange is left,
 * and makes the first of these the next driver: there is a driver as long as there is an exchange.
 * The driver alone opens gates, both for exchanges that have ended and for the next driver.
 *
 * Other threads do only one thing to a lane: at its deadline, they end an exchange of theirs that
 * is still in the queue. It was never sent.
 *
 * An orphan has no thread to drive for it. So when the last exchange ends and the queue is empty,
 * the driver closes the connection, which ends the orphans too: none is ever left without a driver.
 */
#include "redis/lane/lane.h"
#include "redis/lane/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/lanes.h"

#include <relock.h>
#include <stdio.h>

/* How long calls avoid a lane that could not connect. */
#define DOWN_MS 500

/* How often a lane that cannot connect looks for a connection that the I/O thread gave away. */
#define CONNECT_MS 100

void relock_lane_init(struct relock_lane *lane, const struct relock_server *server)
{
    *lane = (struct relock_lane){0};
    relock_mutex_init(&lane->mutex);
    relock_sync_conn_init(&lane->inflight.conn, server);
    atomic_init(&lane->retired, false);
    atomic_init(&lane->is_up, false);
    atomic_init(&lane->down_until_ms, 0);
}

void relock_lane_deinit(struct relock_lane *lane)
{
    relock_sync_conn_deinit(&lane->inflight.conn);
    relock_mutex_deinit(&lane->mutex);
}

uint64_t relock_lane_connects(const struct relock_lane *lane)
{
    return lane->inflight.conn.n_ready;
}

void relock_lane_retire(struct relock_lane *lane)
{
    atomic_store(&lane->retired, true);
}

void relock_lane_cut(struct relock_lane *lane, const struct relock_peer *peer)
{
    relock_sync_conn_cut(&lane->inflight.conn, peer);
}

bool relock_lane_still_works(struct relock_lane *lane)
{
    struct relock_sync_conn *conn = &lane->inflight.conn;

    return conn->state == RELOCK_SYNC_CONN_READY && !relock_wire_has_ended(&conn->wire);
}

bool relock_lane_lend(struct relock_lane *lane, struct relock_loan *loan)
{
    if (atomic_load(&lane->retired) || lane->inflight.exchanges ||
        !relock_sync_conn_lend(&lane->inflight.conn, loan))
        return false;
    atomic_store(&lane->is_up, false);
    return true;
}

const struct relock_server *relock_lane_server(const struct relock_lane *lane)
{
    return lane->inflight.conn.server;
}

/* ---- the queue ----------------------------------------------------------------------------- */

/* Returns whether the caller drives. */
static bool enter(struct relock_lane *lane, struct relock_exchange *exchange)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = !lane->guarded.driven;
    lane->guarded.driven = true;
    if (!drives)
        relock_gate_init(&exchange->gate);
    DL_APPEND(lane->guarded.queue, exchange);
    relock_mutex_unlock(&lane->mutex);
    return drives;
}

/* Ends an exchange that is still in the queue at its deadline. Its own thread. */
static void end_unsent(struct relock_lane *lane, struct relock_exchange *exchange)
    RELOCK_REQUIRES(lane->mutex)
{
    /* The analyzer takes the last element for a head that is not alone. */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    DL_DELETE(lane->guarded.queue, exchange);
    exchange->queued = false;
    exchange->result = RELOCK_E_CONN;
    exchange->ended = true;
    (void)snprintf(exchange->why, sizeof(exchange->why), "%s: no answer in time",
                   relock_lane_server(lane)->label);
}

/* At its deadline. Returns whether it was still in the queue. */
static bool leave_queue(struct relock_lane *lane, struct relock_exchange *exchange)
{
    bool leaves;

    relock_mutex_lock(&lane->mutex);
    leaves = exchange->queued && !exchange->drives;
    if (leaves)
        end_unsent(lane, exchange);
    relock_mutex_unlock(&lane->mutex);
    return leaves;
}

/* The driver ends an exchange in flight. Only the open gate says that the driver no longer touches
 * it. */
static void wait_for_gate(struct relock_lane *lane, struct relock_exchange *exchange)
{
    if (!relock_gate_wait(&exchange->gate, exchange->deadline_ms) && !leave_queue(lane, exchange))
        (void)relock_gate_wait(&exchange->gate, RELOCK_NEVER);
}

/* Takes the queue, except exchanges whose deadline has passed: their own threads end them. */
static struct relock_exchange *take_queue(struct relock_lane *lane,
                                          const struct relock_exchange *own, uint64_t now_ms)
{
    struct relock_exchange *taken = NULL, *at, *next;

    relock_mutex_lock(&lane->mutex);
    DL_FOREACH_SAFE(lane->guarded.queue, at, next)
    {
        if (at != own && now_ms >= at->deadline_ms)
            continue;
        DL_DELETE(lane->guarded.queue, at);
        DL_APPEND(taken, at);
        at->queued = false;
    }
    relock_mutex_unlock(&lane->mutex);
    return taken;
}

/* ---- handing the driving over -------------------------------------------------------------- */

/* Returns the exchange whose thread drives from now on; NULL when there is none. */
static struct relock_exchange *hand_over(struct relock_lane *lane)
{
    struct relock_exchange *driver;

    relock_mutex_lock(&lane->mutex);
    driver = relock_inflight_first(&lane->inflight);
    if (!driver && !lane->guarded.queue && lane->inflight.exchanges) {
        relock_mutex_unlock(&lane->mutex);
        relock_inflight_close(&lane->inflight);
        relock_mutex_lock(&lane->mutex);
    }
    if (!driver)
        driver = lane->guarded.queue;
    lane->guarded.driven = driver != NULL;
    if (driver)
        driver->drives = true;
    relock_mutex_unlock(&lane->mutex);
    return driver;
}

/* Wakes the callers of these. If the driver's own is among them, it hands the driving over. */
static void end_all(struct relock_lane *lane, struct relock_exchange *own,
                    struct relock_exchange *ended)
{
    struct relock_exchange *driver = NULL, *at, *next;

    if (own->ended)
        driver = hand_over(lane);

    DL_FOREACH_SAFE(ended, at, next)
    if (at != own)
        relock_gate_open(&at->gate);
    if (driver)
        relock_gate_open(&driver->gate);
}

/* ---- driving ------------------------------------------------------------------------------- */

/* Remembers how an attempt to connect ended. */
static void note(struct relock_lane *lane, int result)
{
    bool is_up = result == RELOCK_OK;

    if (is_up == atomic_load_explicit(&lane->is_up, memory_order_relaxed) && is_up)
        return;
    atomic_store(&lane->is_up, is_up);
    atomic_store(&lane->down_until_ms, result == RELOCK_E_CONN ? relock_clock_in(DOWN_MS) : 0);
    if (lane->spare && (result == RELOCK_E_CONN || result == RELOCK_AGAIN))
        relock_spare_want(lane->spare);
}

/* Returns RELOCK_AGAIN when the caller is to look at its deadline and call again. */
static int connect_or_adopt(struct relock_lane *lane, uint64_t deadline_ms)
{
    struct relock_sync_conn *conn = &lane->inflight.conn;
    struct relock_loan loan;
    int r;

    if (conn->state != RELOCK_SYNC_CONN_READY && lane->spare &&
        relock_spare_take(lane->spare, &loan))
        relock_sync_conn_adopt(conn, &loan);
    if (conn->state != RELOCK_SYNC_CONN_READY)
        deadline_ms = relock_clock_sooner(deadline_ms, relock_clock_in(CONNECT_MS));
    r = relock_sync_conn_connect(conn, deadline_ms);
    note(lane, r);
    return r;
}

static int open_conn(struct relock_lane *lane, const struct relock_exchange *own)
{
    struct relock_inflight *inflight = &lane->inflight;

    if (atomic_load(&lane->retired) && !relock_inflight_first(inflight))
        relock_inflight_close(inflight);
    if (inflight->exchanges)
        return RELOCK_OK;
    if (atomic_exchange(&lane->retired, false))
        relock_sync_conn_close(&inflight->conn);
    return own->stays ? relock_sync_conn_keep(&inflight->conn)
                      : connect_or_adopt(lane, own->deadline_ms);
}

/*
 * Whether the driver sends nothing and only reads: on a retired connection, and when it was held up
 * until a deadline had passed. The next driver then sends the pending exchanges.
 */
static bool only_reads(struct relock_lane *lane, uint64_t now_ms)
{
    return lane->inflight.exchanges &&
           (atomic_load(&lane->retired) || now_ms >= relock_inflight_due_ms(&lane->inflight));
}

static int send_queue(struct relock_lane *lane, const struct relock_exchange *own)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_exchange *taken;

    if (only_reads(lane, now_ms))
        return RELOCK_OK;
    taken = take_queue(lane, own, now_ms);
    return taken ? relock_inflight_send(&lane->inflight, taken, now_ms) : RELOCK_OK;
}

static int read_replies(struct relock_lane *lane, const struct relock_exchange *own,
                        struct relock_exchange **ended)
{
    uint64_t until_ms = relock_inflight_due_ms(&lane->inflight);

    if (own->queued && own->deadline_ms < until_ms)
        until_ms = own->deadline_ms;
    return relock_inflight_receive(&lane->inflight, until_ms, ended);
}

/* The connection has failed, so the exchanges in the queue fail too. */
static void fail_all(struct relock_lane *lane, int result, struct relock_exchange **ended)
{
    struct relock_exchange *unsent, *at;

    relock_mutex_lock(&lane->mutex);
    unsent = lane->guarded.queue;
    lane->guarded.queue = NULL;
    DL_FOREACH(unsent, at)
    at->queued = false;
    relock_mutex_unlock(&lane->mutex);
    relock_inflight_fail(&lane->inflight, result, unsent, ended);
    atomic_store(&lane->is_up, false);
}

static void drive_on(struct relock_lane *lane, struct relock_exchange *own)
{
    struct relock_exchange *ended = NULL;
    int r = open_conn(lane, own);

    if (r == RELOCK_OK)
        r = send_queue(lane, own);
    if (r == RELOCK_OK)
        r = read_replies(lane, own, &ended);
    if (r < 0 || r == RELOCK_REPLICA)
        fail_all(lane, r, &ended);
    if (ended)
        end_all(lane, own, ended);
}

/* The driver's own exchange is too late to be sent, which must not make the others fail. */
static void pass_by(struct relock_lane *lane, struct relock_exchange *own)
{
    const struct relock_sync_conn *conn = &lane->inflight.conn;

    if (!own->queued || relock_clock_now_ms() < own->deadline_ms)
        return;
    relock_mutex_lock(&lane->mutex);
    end_unsent(lane, own);
    relock_mutex_unlock(&lane->mutex);
    if (conn->state == RELOCK_SYNC_CONN_DIALING || conn->state == RELOCK_SYNC_CONN_LOGGING_IN)
        (void)snprintf(own->why, sizeof(own->why), "%s", conn->wire.why); /* what it waits for */
    end_all(lane, own, NULL);
}

/* Drives until the thread's own exchange has ended, and hands the driving over. */
static void drive(struct relock_lane *lane, struct relock_exchange *own)
{
    while (!own->ended) {
        pass_by(lane, own);
        if (!own->ended)
            drive_on(lane, own);
    }
}

int relock_lane_ask(struct relock_lane *lane, struct relock_exchange *exchange,
                    uint64_t deadline_ms)
{
    exchange->deadline_ms = deadline_ms;
    exchange->n_left = exchange->n_replies;
    exchange->queued = true;

    if (!enter(lane, exchange))
        wait_for_gate(lane, exchange);
    drive(lane, exchange);
    return exchange->result;
}

/* ---- round trips --------------------------------------------------------------------------- */

void relock_round_trip_begin(struct relock_round_trip *round_trip)
{
    relock_buffer_lend(&round_trip->commands, round_trip->room, sizeof(round_trip->room));
    round_trip->exchange = (struct relock_exchange){0};
}

int relock_round_trip_ask(struct relock_round_trip *round_trip, struct relock_lane *lane,
                          uint64_t deadline_ms)
{
    struct relock_exchange *exchange = &round_trip->exchange;
    int r = RELOCK_E_NOMEM;

    if (round_trip->commands.failed) {
        (void)snprintf(exchange->why, sizeof(exchange->why), "out of memory for a command");
    } else {
        exchange->commands.data = round_trip->commands.data;
        exchange->commands.len = round_trip->commands.len;
        r = relock_lane_ask(lane, exchange, deadline_ms);
    }
    relock_buffer_deinit(&round_trip->commands);
    return r;
}

int relock_round_trip_ask_harmless(struct relock_round_trip *round_trip, struct relock_lane *lane,
                                   uint64_t deadline_ms)
{
    int r = relock_round_trip_ask(round_trip, lane, deadline_ms);

    if (r < 0 && round_trip->exchange.sent) {
        relock_conn_id_unref(round_trip->exchange.conn_id);
        relock_orphan_drop(round_trip->exchange.orphan);
    }
    return r;
}
