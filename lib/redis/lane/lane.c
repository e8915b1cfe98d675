/*
 * The connection of a lane has one reader at any time: the driver, which is the thread of one of
 * the exchanges on it. An exchange is in one of two places, both guarded by the mutex:
 *
 *     queue        not sent yet
 *     in flight    sent, or about to be sent by the present sender
 *
 * The driver alone takes exchanges out of those in flight, or puts an orphan in the place of one.
 * Only the sender adds to them. While the driver is the sender, too, it uses the connection and all
 * that is in flight without the mutex.
 *
 * A thread that finds no driver drives. It sends the queue in one piece and reads replies until its
 * own exchange has ended. Meanwhile other threads may send (sending.c). It then sends the queue for
 * the next driver, which may be slow to wake up, if the socket takes that at once. Then one
 * critical section decides whether an exchange is left, and makes the first of these the next
 * driver: there is a driver as long as there is an exchange. The driver alone opens gates, both for
 * exchanges that have ended and for the next driver.
 *
 * At its deadline, a thread ends an exchange of its own that is still in the queue. It was never
 * sent.
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

/* ---- leaving the queue ---------------------------------------------------------------------- */

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

/* Whether the next exchange needs another connection, or a look at this one. */
static bool needs_conn(const struct relock_lane *lane)
{
    const struct relock_inflight *inflight = &lane->inflight;

    return !inflight->exchanges || (atomic_load(&lane->retired) && !awaits_replies(inflight));
}

static int open_conn(struct relock_lane *lane, const struct relock_exchange *own)
{
    struct relock_inflight *inflight = &lane->inflight;

    if (inflight->exchanges)
        relock_inflight_close(inflight);
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

/* Returns whether there is something to send. */
static bool take_queue(struct relock_lane *lane, const struct relock_exchange *own, uint64_t now_ms)
    RELOCK_REQUIRES(lane->mutex)
{
    relock_sending_claim(lane);
    return !only_reads(lane, now_ms) && relock_sending_take(lane, own, now_ms);
}

static int send_queue(struct relock_lane *lane, uint64_t now_ms)
{
    bool takes;

    relock_mutex_lock(&lane->mutex);
    takes = take_queue(lane, NULL, now_ms);
    relock_mutex_unlock(&lane->mutex);
    return takes ? relock_inflight_send(&lane->inflight, now_ms) : RELOCK_OK;
}

static uint64_t allow(struct relock_lane *lane, const struct relock_exchange *own, uint64_t now_ms)
{
    uint64_t until_ms;

    relock_mutex_lock(&lane->mutex);
    until_ms = relock_sending_allow(lane, own, now_ms);
    relock_mutex_unlock(&lane->mutex);
    return until_ms;
}

static int take_replies(struct relock_lane *lane, struct redisReply *reply,
                        struct relock_exchange **ended)
{
    const char *doubt;
    int r;

    relock_mutex_lock(&lane->mutex);
    r = relock_inflight_take(&lane->inflight, reply, ended, &doubt);
    relock_mutex_unlock(&lane->mutex);
    return doubt ? relock_sync_conn_distrust(&lane->inflight.conn, doubt) : r;
}

static int read_replies(struct relock_lane *lane, uint64_t now_ms, uint64_t until_ms,
                        struct relock_exchange **ended)
{
    struct redisReply *reply;
    int r = relock_inflight_wait(&lane->inflight, now_ms, until_ms, &reply);

    return r < 0 ? r : take_replies(lane, reply, ended);
}

/* The connection has failed, so the exchanges in the queue fail too. */
static void fail_all(struct relock_lane *lane, int result, struct relock_exchange **ended)
{
    struct relock_exchange *unsent, *at;

    relock_mutex_lock(&lane->mutex);
    relock_sending_claim(lane);
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
static struct relock_exchange *take_unawaited(struct relock_exchange **ended)
{
    struct relock_exchange *taken = NULL, *at, *next;

    DL_FOREACH_SAFE(*ended, at, next)
    {
        if (!at->is_posted && !at->is_orphan)
            continue;
        DL_DELETE(*ended, at);
        DL_APPEND(taken, at);
    }
    return taken;
}

static void end_unawaited(struct relock_lane *lane, struct relock_exchange *ended)
{
    struct relock_exchange *at, *next;

    DL_FOREACH_SAFE(ended, at, next)
    {
        struct relock_posted *posted = RELOCK_CONTAINER(struct relock_posted, exchange, at);

        if (at->is_orphan) {
            relock_orphan_end(at);
            continue;
        }
        (void)atomic_fetch_sub(&lane->n_posted, 1);
        posted->fn(posted);
    }
}

/* Wakes the callers of these, except that of `own`. */
static void end_others(struct relock_lane *lane, const struct relock_exchange *own,
                       struct relock_exchange *ended)
{
    struct relock_exchange *unawaited = take_unawaited(&ended), *at, *next;

    DL_FOREACH_SAFE(ended, at, next)
    if (at != own)
        relock_gate_open(&at->gate);
    end_unawaited(lane, unawaited);
}

/* Sends the queue, in which there is no exchange of this thread. */
static void send_for_others(struct relock_lane *lane, uint64_t now_ms)
{
    struct relock_exchange *ended = NULL;
    int r = send_queue(lane, now_ms);

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
    end_unawaited(lane, ended);
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

/* `driver` drives from now on; NULL: nobody. */
static void end_driving(struct relock_lane *lane, struct relock_exchange *driver)
    RELOCK_REQUIRES(lane->mutex)
{
    lane->guarded.driven = driver != NULL;
    lane->guarded.only_takes = false;
    relock_sending_end(lane);
    if (!driver || !lane->inflight.exchanges)
        lane->guarded.beside_until_ms = 0; /* the next driver looks at the connection first */
    if (driver)
        driver->drives = true;
}

/* The caller stops to drive. Returns the exchange whose thread drives from now on; NULL when there
 * is none: then the queue is empty, and nothing is in flight but what was posted. */
static struct relock_exchange *hand_over(struct relock_lane *lane)
{
    bool may_send = true;

    for (;;) {
        struct relock_exchange *driver;
        bool is_empty, is_over, has_to_wait;

        relock_mutex_lock(&lane->mutex);
        driver = next_driver(lane);
        is_empty = !lane->guarded.queue;
        has_to_wait = lane->guarded.sender == RELOCK_SENDER_OTHER;
        may_send = may_send && driver && !has_to_wait && can_send_ahead(lane);
        is_over =
            !may_send && (driver || (is_empty && !relock_inflight_has_orphan(&lane->inflight)));
        if (is_over)
            end_driving(lane, driver);
        else
            relock_sending_claim(lane);
        relock_mutex_unlock(&lane->mutex);
        if (is_over)
            return driver;
        if (has_to_wait)
            continue;
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
    struct relock_exchange *unawaited = take_unawaited(&ended);
    struct relock_exchange *driver = NULL;

    if (own->ended)
        driver = hand_over(lane);
    end_others(lane, own, ended);
    if (driver)
        relock_gate_open(&driver->gate);
    end_unawaited(lane, unawaited);
}

/* ---- the thread of an exchange -------------------------------------------------------------- */

/* Waits for replies from `now_ms` on, if what had to be sent before was sent: `result`. */
static void receive(struct relock_lane *lane, struct relock_exchange *own, int result,
                    uint64_t now_ms)
{
    struct relock_exchange *ended = NULL;
    int r = result;

    if (r == RELOCK_OK)
        r = read_replies(lane, now_ms, allow(lane, own, now_ms), &ended);
    if (r < 0 || r == RELOCK_REPLICA)
        fail_all(lane, r, &ended);
    if (ended)
        end_all(lane, own, ended);
}

/* Whether the driver sends the queue now. While another thread sends, the driver leaves the queue
 * to that one, but not its own exchange, and not twice in a row: that thread may be past its look
 * at the queue, or may not send what is there. */
static bool has_to_send(struct relock_lane *lane, const struct relock_exchange *own)
    RELOCK_REQUIRES(lane->mutex)
{
    bool may_leave = lane->guarded.sender == RELOCK_SENDER_OTHER && !own->queued;

    lane->guarded.is_left = lane->guarded.queue && may_leave && !lane->guarded.is_left;
    return lane->guarded.queue && !lane->guarded.is_left;
}

/* Connects, if it has to, and sends the queue. */
static int send_all(struct relock_lane *lane, const struct relock_exchange *own, uint64_t *now_ms)
{
    int r = RELOCK_OK;
    bool takes = false;

    relock_mutex_lock(&lane->mutex);
    if (needs_conn(lane)) {
        relock_sending_claim(lane);
        relock_mutex_unlock(&lane->mutex);
        r = open_conn(lane, own);
        *now_ms = relock_clock_now_ms();
        relock_mutex_lock(&lane->mutex);
    }
    if (r == RELOCK_OK && has_to_send(lane, own))
        takes = take_queue(lane, own, *now_ms);
    relock_mutex_unlock(&lane->mutex);
    return takes ? relock_inflight_send(&lane->inflight, *now_ms) : r;
}

static void drive_on(struct relock_lane *lane, struct relock_exchange *own, uint64_t now_ms)
{
    int r = send_all(lane, own, &now_ms);

    receive(lane, own, r, now_ms);
}

/* The driver's own exchange is too late to be sent, which must not make the others fail. Returns
 * false if it was sent before. */
static bool pass_by(struct relock_lane *lane, struct relock_exchange *own)
{
    const struct relock_sync_conn *conn = &lane->inflight.conn;
    bool is_late;

    relock_mutex_lock(&lane->mutex);
    is_late = own->queued;
    if (is_late)
        end_unsent(lane, own);
    relock_mutex_unlock(&lane->mutex);
    if (!is_late)
        return false;
    if (conn->state == RELOCK_SYNC_CONN_DIALING || conn->state == RELOCK_SYNC_CONN_LOGGING_IN)
        (void)snprintf(own->why, sizeof(own->why), "%s", conn->wire.why); /* what it waits for */
    end_all(lane, own, NULL);
    return true;
}

/* Drives until the thread's own exchange has ended, and hands the driving over. */
static void drive(struct relock_lane *lane, struct relock_exchange *own)
{
    while (!own->ended) {
        uint64_t now_ms = relock_clock_now_ms();

        if (now_ms < own->deadline_ms || !pass_by(lane, own))
            drive_on(lane, own, now_ms);
    }
}

int relock_lane_ask(struct relock_lane *lane, struct relock_exchange *exchange,
                    uint64_t deadline_ms)
{
    uint64_t now_ms = relock_clock_now_ms();

    exchange->deadline_ms = deadline_ms;
    exchange->n_left = exchange->n_replies;
    switch (relock_sending_enter(lane, exchange, now_ms)) {
    case RELOCK_PART_SEND:
        relock_sending_beside(lane);
        wait_for_gate(lane, exchange);
        break;
    case RELOCK_PART_WAIT:
        wait_for_gate(lane, exchange);
        break;
    case RELOCK_PART_SEND_AND_DRIVE:
        receive(lane, exchange, relock_inflight_send(&lane->inflight, now_ms), now_ms);
        break;
    case RELOCK_PART_DRIVE:
    case RELOCK_PART_NONE:
        break;
    }
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

/* The caller drives, to send it. Returns RELOCK_AGAIN if there is no connection. */
static int send_post(struct relock_lane *lane, struct relock_exchange *exchange,
                     uint64_t deadline_ms)
{
    int r = RELOCK_OK;

    relock_mutex_lock(&lane->mutex);
    relock_sending_claim(lane);
    exchange->deadline_ms = deadline_ms;
    relock_mutex_unlock(&lane->mutex);
    if (!lane->inflight.exchanges && relock_sync_conn_keep(&lane->inflight.conn) != RELOCK_OK) {
        take_back(lane, exchange);
        close_ready(lane);
        r = RELOCK_AGAIN;
    }
    stop_driving(lane);
    return r;
}

int relock_lane_post(struct relock_lane *lane, struct relock_posted *posted, uint64_t deadline_ms)
{
    struct relock_exchange *exchange = &posted->exchange;

    if (!atomic_load(&lane->is_up) || atomic_load(&lane->retired) ||
        atomic_load(&lane->n_posted) >= POSTED_MAX)
        return RELOCK_AGAIN;
    (void)atomic_fetch_add(&lane->n_posted, 1);
    exchange->is_posted = true;
    exchange->deadline_ms = 0; /* it holds up no other call for longer than any command may */
    exchange->n_left = exchange->n_replies;
    switch (relock_sending_enter(lane, exchange, relock_clock_now_ms())) {
    case RELOCK_PART_SEND:
        relock_sending_beside(lane);
        return RELOCK_OK; /* it may have ended */
    case RELOCK_PART_DRIVE:
        return send_post(lane, exchange, deadline_ms);
    case RELOCK_PART_NONE:
        (void)atomic_fetch_sub(&lane->n_posted, 1);
        return RELOCK_AGAIN;
    case RELOCK_PART_WAIT:
    case RELOCK_PART_SEND_AND_DRIVE:
        break;
    }
    return RELOCK_OK; /* the driver sends it; it may have ended */
}

static bool has_queue(struct relock_lane *lane)
{
    bool has;

    relock_mutex_lock(&lane->mutex);
    has = lane->guarded.queue != NULL;
    relock_mutex_unlock(&lane->mutex);
    return has;
}

/* It need not wait for another sender, if the caller is the only user of the lane. */
static bool begin_to_drive(struct relock_lane *lane, bool only_takes)
{
    bool drives;

    relock_mutex_lock(&lane->mutex);
    drives = !lane->guarded.driven;
    if (drives) {
        lane->guarded.driven = true;
        lane->guarded.only_takes = only_takes;
        relock_sending_claim(lane);
    }
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
        int r = read_replies(lane, relock_clock_now_ms(), due_ms, &ended);

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
