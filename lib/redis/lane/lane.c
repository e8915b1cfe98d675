/*
 * The connection of a lane has one owner at any time: the driver, which is the thread of one of the
 * exchanges on it. An exchange is in one of two places:
 *
 *     queue        not taken by the driver yet; guarded by the mutex
 *     in flight    written, or about to be; the driver's alone, and handed over with the driving
 *
 * A thread that finds no driver drives. It takes the queue, sends it in one piece and reads replies
 * until its own exchange has ended. It then sends the queue for the next driver, which may be slow
 * to wake up, if the socket takes that at once. Then one critical section decides whether an
 * exchange is left, and makes the first of these the next driver: there is a driver as long as
 * there is an exchange. The driver alone opens gates, both for exchanges that have ended and for
 * the next driver.
 *
 * Other threads do only one thing to a lane: at its deadline, they end an exchange of theirs that
 * is still in the queue. It was never sent.
 *
 * An orphan has no thread to drive for it. So when the last exchange ends and the queue is empty,
 * the driver closes the connection, which ends the orphans too: none is ever left without a driver.
 *
 * A posted exchange has no thread either. A driver sends those in the queue before it stops to
 * drive, so none is left there. Its replies may come when nobody drives: the next driver reads them
 * first, and the I/O thread drives now and then for lanes that no call uses.
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

/* So many bytes a socket takes at once if nothing else is in flight over it. */
#define AHEAD_MAX 8192

/* With more replies to read, a call waits for its own, and so reads them. */
#define POSTED_MAX 32

/* How often a lane that cannot connect looks for a connection that the I/O thread gave away. */
#define CONNECT_MS 100

void relock_lane_init(struct relock_lane *lane, const struct relock_server *server)
{
    *lane = (struct relock_lane){0};
    relock_mutex_init(&lane->mutex);
    relock_sync_conn_init(&lane->inflight.conn, server);
    atomic_init(&lane->retired, false);
    atomic_init(&lane->n_posted, 0);
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

/* As enter(), for an exchange without a thread: `*drives`. Returns false if it is not in the queue,
 * because the driver is the I/O thread, which may not wait for a socket to take it. */
static bool enter_posted(struct relock_lane *lane, struct relock_exchange *exchange, bool *drives)
{
    bool enters;

    relock_mutex_lock(&lane->mutex);
    *drives = !lane->guarded.driven;
    enters = *drives || !lane->guarded.only_takes;
    if (enters) {
        lane->guarded.driven = true;
        exchange->queued = true;
        DL_APPEND(lane->guarded.queue, exchange);
    }
    relock_mutex_unlock(&lane->mutex);
    return enters;
}

/* Returns whether the caller drives. Then it is not in the queue, which is empty. */
static bool enter(struct relock_lane *lane, struct relock_exchange *exchange)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = !lane->guarded.driven;
    lane->guarded.driven = true;
    exchange->queued = !drives;
    if (!drives) {
        relock_gate_init(&exchange->gate);
        DL_APPEND(lane->guarded.queue, exchange);
    }
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
        if (at != own && !at->is_posted && now_ms >= at->deadline_ms)
            continue;
        DL_DELETE(lane->guarded.queue, at);
        DL_APPEND(taken, at);
        at->queued = false;
    }
    relock_mutex_unlock(&lane->mutex);
    return taken;
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

/* Whether any reply counts that is still to come: that of an orphan does not. */
static bool awaits_replies(const struct relock_inflight *inflight)
{
    return relock_inflight_first(inflight) || relock_inflight_has_posted(inflight);
}

static int open_conn(struct relock_lane *lane, const struct relock_exchange *own)
{
    struct relock_inflight *inflight = &lane->inflight;

    if (atomic_load(&lane->retired) && !awaits_replies(inflight))
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

static int send_queue(struct relock_lane *lane, const struct relock_exchange *own, uint64_t now_ms)
{
    struct relock_exchange *taken;

    if (only_reads(lane, now_ms))
        return RELOCK_OK;
    taken = take_queue(lane, own, now_ms);
    return taken ? relock_inflight_send(&lane->inflight, taken, now_ms) : RELOCK_OK;
}

static int read_replies(struct relock_lane *lane, const struct relock_exchange *own,
                        uint64_t now_ms, struct relock_exchange **ended)
{
    uint64_t until_ms = relock_inflight_due_ms(&lane->inflight);

    if (own->queued && own->deadline_ms < until_ms)
        until_ms = own->deadline_ms;
    return relock_inflight_receive(&lane->inflight, now_ms, until_ms, ended);
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

/* ---- handing the driving over -------------------------------------------------------------- */

/* Takes those that nobody waits for out of `ended`. */
static struct relock_exchange *take_posted(struct relock_exchange **ended)
{
    struct relock_exchange *posted = NULL, *at, *next;

    DL_FOREACH_SAFE(*ended, at, next)
    {
        if (!at->is_posted)
            continue;
        DL_DELETE(*ended, at);
        DL_APPEND(posted, at);
    }
    return posted;
}

static void end_posted(struct relock_lane *lane, struct relock_exchange *ended)
{
    struct relock_exchange *at, *next;

    DL_FOREACH_SAFE(ended, at, next)
    {
        struct relock_posted *posted = RELOCK_CONTAINER(struct relock_posted, exchange, at);

        (void)atomic_fetch_sub(&lane->n_posted, 1);
        posted->fn(posted);
    }
}

/* Wakes the callers of these, except that of `own`. */
static void end_others(struct relock_lane *lane, const struct relock_exchange *own,
                       struct relock_exchange *ended)
{
    struct relock_exchange *posted = take_posted(&ended), *at, *next;

    DL_FOREACH_SAFE(ended, at, next)
    if (at != own)
        relock_gate_open(&at->gate);
    end_posted(lane, posted);
}

/* Sends the queue, in which there is no exchange of this thread. */
static void send_for_others(struct relock_lane *lane, uint64_t now_ms)
{
    struct relock_exchange *ended = NULL;
    int r = send_queue(lane, NULL, now_ms);

    if (r < 0)
        fail_all(lane, r, &ended);
    end_others(lane, NULL, ended);
}

/* Sends the queue, in which nobody waits. On a connection that only reads, nothing can be sent
 * before somebody waits. */
static void send_posted(struct relock_lane *lane)
{
    struct relock_sync_conn *conn = &lane->inflight.conn;
    struct relock_exchange *ended = NULL;
    uint64_t now_ms = relock_clock_now_ms();

    if (conn->state == RELOCK_SYNC_CONN_READY && !only_reads(lane, now_ms)) {
        send_for_others(lane, now_ms);
        return;
    }
    (void)relock_wire_fail(&conn->wire, "the connection has ended");
    fail_all(lane, RELOCK_E_CONN, &ended);
    end_others(lane, NULL, ended);
}

/* Whether this thread, which stops to drive, can send the queue without being blocked: the next
 * driver has to wake up first. */
static bool can_send_ahead(struct relock_lane *lane) RELOCK_REQUIRES(lane->mutex)
{
    const struct relock_exchange *at;
    size_t len = 0;

    if (lane->guarded.only_takes || lane->inflight.exchanges || atomic_load(&lane->retired))
        return false;
    DL_FOREACH(lane->guarded.queue, at)
    len += at->commands.len;
    return len > 0 && len <= AHEAD_MAX;
}

/* If the connection does not work, the next driver makes another. If none is made yet, the next
 * driver goes on with it, and may have to tell why. */
static void send_ahead(struct relock_lane *lane)
{
    struct relock_sync_conn *conn = &lane->inflight.conn;

    if (conn->state == RELOCK_SYNC_CONN_READY && relock_sync_conn_keep(conn) == RELOCK_OK)
        send_for_others(lane, relock_clock_now_ms());
}

/* Nobody waits for the orphans, nor for what was posted. */
static void close_with_orphans(struct relock_lane *lane)
{
    struct relock_exchange *ended = NULL;

    (void)relock_wire_fail(&lane->inflight.conn.wire, "another command got no answer in time");
    relock_inflight_fail(&lane->inflight, RELOCK_E_CONN, NULL, &ended);
    end_posted(lane, ended);
}

/* The exchange whose thread can drive; NULL: there is none. */
static struct relock_exchange *next_driver(struct relock_lane *lane) RELOCK_REQUIRES(lane->mutex)
{
    struct relock_exchange *at = relock_inflight_first(&lane->inflight);

    if (at)
        return at;
    DL_FOREACH(lane->guarded.queue, at)
    if (!at->is_posted)
        return at;
    return NULL;
}

/* The caller stops to drive. Returns the exchange whose thread drives from now on; NULL when there
 * is none: then the queue is empty, and nothing is in flight but what was posted. */
static struct relock_exchange *hand_over(struct relock_lane *lane)
{
    bool may_send = true;

    for (;;) {
        struct relock_exchange *driver;
        bool is_empty, is_over;

        relock_mutex_lock(&lane->mutex);
        driver = next_driver(lane);
        is_empty = !lane->guarded.queue;
        may_send = may_send && driver && can_send_ahead(lane);
        is_over =
            !may_send && (driver || (is_empty && !relock_inflight_has_orphan(&lane->inflight)));
        if (is_over) {
            lane->guarded.driven = driver != NULL;
            lane->guarded.only_takes = false;
        }
        if (is_over && driver)
            driver->drives = true;
        relock_mutex_unlock(&lane->mutex);
        if (is_over)
            return driver;
        if (may_send)
            send_ahead(lane);
        else if (is_empty)
            close_with_orphans(lane);
        else
            send_posted(lane);
        may_send = false;
    }
}

static void stop_driving(struct relock_lane *lane)
{
    struct relock_exchange *driver = hand_over(lane);

    if (driver)
        relock_gate_open(&driver->gate);
}

/* Ends these. If the driver's own is among them, it hands the driving over. */
static void end_all(struct relock_lane *lane, struct relock_exchange *own,
                    struct relock_exchange *ended)
{
    struct relock_exchange *posted = take_posted(&ended);
    struct relock_exchange *driver = NULL;

    if (own->ended)
        driver = hand_over(lane);
    end_others(lane, own, ended);
    if (driver)
        relock_gate_open(&driver->gate);
    end_posted(lane, posted);
}

/* ---- the thread of an exchange -------------------------------------------------------------- */

/* `sent`: the result of sending, at `now_ms`. */
static void receive(struct relock_lane *lane, struct relock_exchange *own, int sent,
                    uint64_t now_ms)
{
    struct relock_exchange *ended = NULL;
    int r = sent;

    if (r == RELOCK_OK)
        r = read_replies(lane, own, now_ms, &ended);
    if (r < 0 || r == RELOCK_REPLICA)
        fail_all(lane, r, &ended);
    if (ended)
        end_all(lane, own, ended);
}

static void drive_on(struct relock_lane *lane, struct relock_exchange *own)
{
    int r = open_conn(lane, own);
    uint64_t now_ms = relock_clock_now_ms();

    if (r == RELOCK_OK)
        r = send_queue(lane, own, now_ms);
    receive(lane, own, r, now_ms);
}

static bool can_send_at_once(const struct relock_lane *lane, const struct relock_exchange *own,
                             uint64_t now_ms)
{
    const struct relock_inflight *inflight = &lane->inflight;

    if (now_ms >= own->deadline_ms || atomic_load(&lane->retired))
        return false;
    return inflight->exchanges ? now_ms < relock_inflight_due_ms(inflight)
                               : relock_sync_conn_is_warm(&inflight->conn, now_ms);
}

/* The usual way of a thread that finds no driver: sends its own exchange, without a look at the
 * queue, which was empty. If the connection has to be looked at first, the exchange enters the
 * queue. */
static void begin(struct relock_lane *lane, struct relock_exchange *own)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_exchange *exchanges = NULL;

    if (can_send_at_once(lane, own, now_ms)) {
        DL_APPEND(exchanges, own);
        receive(lane, own, relock_inflight_send(&lane->inflight, exchanges, now_ms), now_ms);
        return;
    }
    relock_mutex_lock(&lane->mutex);
    own->queued = true;
    DL_PREPEND(lane->guarded.queue, own);
    relock_mutex_unlock(&lane->mutex);
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

    if (enter(lane, exchange))
        begin(lane, exchange);
    else
        wait_for_gate(lane, exchange);
    drive(lane, exchange);
    return exchange->result;
}

/* ---- commands whose caller does not wait ---------------------------------------------------- */

static void take_back(struct relock_lane *lane, struct relock_exchange *exchange)
{
    relock_mutex_lock(&lane->mutex);
    /* The analyzer takes the last element for a head that is not alone. */
    /* NOLINTNEXTLINE(clang-analyzer-core.NullDereference) */
    DL_DELETE(lane->guarded.queue, exchange);
    relock_mutex_unlock(&lane->mutex);
    (void)atomic_fetch_sub(&lane->n_posted, 1);
}

/* It cannot be kept, so that nothing in the queue goes out over it. */
static void close_ready(struct relock_lane *lane)
{
    if (lane->inflight.conn.state != RELOCK_SYNC_CONN_READY)
        return;
    relock_inflight_close(&lane->inflight);
    atomic_store(&lane->is_up, false);
}

int relock_lane_post(struct relock_lane *lane, struct relock_posted *posted, uint64_t deadline_ms)
{
    struct relock_exchange *exchange = &posted->exchange;
    int r = RELOCK_OK;
    bool drives;

    if (!atomic_load(&lane->is_up) || atomic_load(&lane->retired) ||
        atomic_load(&lane->n_posted) >= POSTED_MAX)
        return RELOCK_AGAIN;
    (void)atomic_fetch_add(&lane->n_posted, 1);
    exchange->is_posted = true;
    exchange->deadline_ms = 0; /* it holds up no other call for longer than any command may */
    exchange->n_left = exchange->n_replies;
    if (!enter_posted(lane, exchange, &drives)) {
        (void)atomic_fetch_sub(&lane->n_posted, 1);
        return RELOCK_AGAIN;
    }
    if (!drives)
        return RELOCK_OK; /* it may have ended */
    exchange->deadline_ms = deadline_ms;
    if (!lane->inflight.exchanges && relock_sync_conn_keep(&lane->inflight.conn) != RELOCK_OK) {
        take_back(lane, exchange);
        close_ready(lane);
        r = RELOCK_AGAIN;
    }
    stop_driving(lane);
    return r;
}

static bool has_queue(struct relock_lane *lane)
{
    bool has;

    relock_mutex_lock(&lane->mutex);
    has = lane->guarded.queue != NULL;
    relock_mutex_unlock(&lane->mutex);
    return has;
}

static bool begin_to_drive(struct relock_lane *lane, bool only_takes)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = !lane->guarded.driven;
    if (drives)
        lane->guarded.only_takes = only_takes;
    lane->guarded.driven = true;
    relock_mutex_unlock(&lane->mutex);
    return drives;
}

bool relock_lane_read(struct relock_lane *lane, uint64_t until_ms)
{
    struct relock_inflight *inflight = &lane->inflight;
    bool reads, has_ended;

    if (!begin_to_drive(lane, until_ms == 0))
        return false;
    reads = inflight->exchanges;
    while (inflight->exchanges) {
        uint64_t due_ms = relock_clock_sooner(until_ms, relock_inflight_due_ms(inflight));
        struct relock_exchange *ended = NULL;
        int r = relock_inflight_receive(inflight, relock_clock_now_ms(), due_ms, &ended);

        if (r < 0)
            fail_all(lane, r, &ended);
        has_ended = ended;
        end_others(lane, NULL, ended);
        if (has_ended || until_ms == 0 || relock_clock_now_ms() >= until_ms || has_queue(lane))
            break;
    }
    stop_driving(lane);
    return reads;
}

void relock_lane_end_posted(struct relock_lane *lane)
{
    if (lane->inflight.exchanges)
        close_with_orphans(lane);
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
