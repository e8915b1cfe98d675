#include "redis/lane/lanes.h"
#include "redis/lane/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"
#include "redis/connect/conn_id.h"
#include "redis/lane/lane.h"
#include "redis/server/loop.h"

#include <stdlib.h>
#include <sys/socket.h>

/* ---- the spare connection ------------------------------------------------------------------- */

bool relock_spare_take(struct relock_spare *spare, struct relock_loan *loan)
{
    bool is_there;

    relock_mutex_lock(&spare->mutex);
    is_there = spare->guarded.is_there;
    *loan = spare->guarded.loan;
    spare->guarded.is_there = false;
    relock_mutex_unlock(&spare->mutex);
    return is_there;
}

static void spare_drop(struct relock_spare *spare)
{
    struct relock_loan loan;

    if (!relock_spare_take(spare, &loan))
        return;
    relock_socket_close(loan.socket);
    (void)relock_conn_id_unref(loan.conn_id);
}

static void spare_deinit(struct relock_spare *spare)
{
    spare_drop(spare);
    relock_mutex_deinit(&spare->mutex);
}

void relock_spare_want(struct relock_spare *spare)
{
    struct relock_loop *loop = atomic_load(&spare->loop);

    atomic_store(&spare->is_wanted, true);
    if (loop)
        relock_loop_wake(loop);
}

/* ---- lanes and their users ------------------------------------------------------------------ */

/* So many calls share one lane. README.md has the figures. */
#define ONE_LANE_MAX 32

/* More calls share this many in the end. */
#define SHARED_MIN 2

/* How long calls leave a lane alone whose connection is to be given away. */
#define CLAIM_MS 200

/* A lane and its users. */
struct slot {
    struct relock_lane lane;
    /* guarded by the mutex of the lanes */
    unsigned n_users;
    bool alone;        /* its only user wants no other */
    uint64_t left_nth; /* the value of n_left when a user last left this lane */
};

/* A call that waits for a lane, on its stack. */
struct waiter {
    struct relock_gate gate;
    bool alone;        /* constant */
    struct slot *slot; /* the lane that it has joined; guarded by the mutex of the lanes */
    struct waiter *next, *prev;
};

struct relock_lanes {
    struct relock_mutex mutex;
    struct {
        struct waiter *waiters; /* in order of arrival */
        uint64_t n_left;        /* how often a user has left a lane */
        struct slot *left;      /* that lane; NULL: none yet */
        unsigned n_users;       /* of all lanes */
        struct slot *claimed;   /* left alone, so that its connection can be given away */
        uint64_t claimed_until_ms;
    } guarded;                 /* by mutex */
    struct relock_spare spare; /* from the I/O thread, for the next lane that connects */
    unsigned n;
    struct slot slots[];
};

int relock_lanes_new(const struct relock_server *server, unsigned n, struct relock_lanes **lanes)
{
    struct relock_lanes *new = calloc(1, sizeof(*new) + (n * sizeof(new->slots[0])));

    if (!new)
        return RELOCK_E_NOMEM;
    relock_mutex_init(&new->mutex);
    relock_mutex_init(&new->spare.mutex);
    new->n = n;
    for (unsigned i = 0; i < n; i++) {
        relock_lane_init(&new->slots[i].lane, server);
        new->slots[i].lane.spare = &new->spare;
    }
    *lanes = new;
    return RELOCK_OK;
}

struct relock_lanes *relock_lanes_free(struct relock_lanes *lanes)
{
    if (!lanes)
        return NULL;
    for (unsigned i = 0; i < lanes->n; i++)
        relock_lane_deinit(&lanes->slots[i].lane);
    spare_deinit(&lanes->spare);
    relock_mutex_deinit(&lanes->mutex);
    free(lanes);
    return NULL;
}

void relock_lanes_close_idle(struct relock_lanes *lanes)
{
    relock_mutex_lock(&lanes->mutex);
    for (unsigned i = 0; i < lanes->n; i++) {
        struct relock_inflight *inflight = &lanes->slots[i].lane.inflight;

        if (lanes->slots[i].n_users == 0 && !inflight->exchanges)
            relock_sync_conn_close(&inflight->conn);
    }
    relock_mutex_unlock(&lanes->mutex);
    spare_drop(&lanes->spare);
}

void relock_lanes_cut(struct relock_lanes *lanes, const struct relock_peer *peer)
{
    for (unsigned i = 0; i < lanes->n; i++)
        relock_lane_cut(&lanes->slots[i].lane, peer);
    spare_drop(&lanes->spare);
}

void relock_lanes_retire(struct relock_lanes *lanes)
{
    for (unsigned i = 0; i < lanes->n; i++)
        relock_lane_retire(&lanes->slots[i].lane);
    spare_drop(&lanes->spare);
}

/* Among idle lanes the one used last is best: few connections stay in use, and they stay warm. */
static bool is_better(const struct slot *slot, const struct slot *than)
{
    if (slot->n_users != than->n_users)
        return slot->n_users < than->n_users;
    return slot->n_users == 0 && slot->left_nth > than->left_nth;
}

/* Of how many lanes a further call may join one. If calls have to share lanes, a few share one. The
 * more calls there are beyond that, the fewer lanes they share, so that batches grow: each call
 * more than there are lanes takes two away. */
static unsigned n_to_share(const struct relock_lanes *lanes) RELOCK_REQUIRES(lanes->mutex)
{
    unsigned n_users = lanes->guarded.n_users + 1;
    bool is_tls = relock_lane_server(&lanes->slots[0].lane)->tls;
    unsigned n_away;

    if (n_users <= lanes->n)
        return lanes->n;
    if (n_users <= ONE_LANE_MAX && !is_tls) /* with TLS, a thread does not send beside another */
        return 1;
    n_away = 2 * (n_users - lanes->n);
    return n_away + SHARED_MIN < lanes->n ? lanes->n - n_away : SHARED_MIN;
}

/* Whether a call joins this lane only if all others are to be avoided, too. */
static bool is_to_avoid(struct relock_lanes *lanes, const struct slot *slot)
    RELOCK_REQUIRES(lanes->mutex)
{
    uint64_t until_ms = atomic_load_explicit(&slot->lane.down_until_ms, memory_order_relaxed);

    if (slot == lanes->guarded.claimed && until_ms < lanes->guarded.claimed_until_ms)
        until_ms = lanes->guarded.claimed_until_ms;
    return until_ms > 0 && relock_clock_now_ms() < until_ms;
}

static bool are_all_to_avoid(struct relock_lanes *lanes) RELOCK_REQUIRES(lanes->mutex)
{
    for (unsigned i = 0; i < lanes->n; i++)
        if (!is_to_avoid(lanes, &lanes->slots[i]))
            return false;
    return true;
}

static struct slot *search(struct relock_lanes *lanes, bool alone) RELOCK_REQUIRES(lanes->mutex)
{
    unsigned n = alone ? lanes->n : n_to_share(lanes);
    bool takes_any = are_all_to_avoid(lanes);
    struct slot *best = NULL;

    for (unsigned i = 0; i < lanes->n && n > 0; i++) {
        struct slot *at = &lanes->slots[i];

        if (at->alone || (alone && at->n_users > 0) || (!takes_any && is_to_avoid(lanes, at)))
            continue;
        n--;
        if (!best || is_better(at, best))
            best = at;
    }
    return best;
}

/* The lane that was left last, if it is idle still. A search mostly ends with it. */
static struct slot *last_left(struct relock_lanes *lanes) RELOCK_REQUIRES(lanes->mutex)
{
    struct slot *left = lanes->guarded.left;
    bool is_first = left && left->n_users == 0 && lanes->guarded.n_users < lanes->n;

    return is_first && !is_to_avoid(lanes, left) ? left : NULL;
}

/* Returns NULL if no lane can be joined. */
static struct slot *join(struct relock_lanes *lanes, bool alone) RELOCK_REQUIRES(lanes->mutex)
{
    struct slot *best = last_left(lanes);

    if (!best)
        best = search(lanes, alone);
    if (best) {
        best->n_users++;
        best->alone = alone;
        lanes->guarded.n_users++;
    }
    return best;
}

static struct slot *wait_and_join(struct relock_lanes *lanes, bool alone, uint64_t deadline_ms)
    RELOCK_REQUIRES(lanes->mutex)
{
    struct waiter waiter = {.alone = alone};

    relock_gate_init(&waiter.gate);
    DL_APPEND(lanes->guarded.waiters, &waiter);
    relock_mutex_unlock(&lanes->mutex);
    (void)relock_gate_wait(&waiter.gate, deadline_ms);
    relock_mutex_lock(&lanes->mutex);
    if (!waiter.slot)
        DL_DELETE(lanes->guarded.waiters, &waiter);
    return waiter.slot;
}

/* Lets waiters join, in their order, while there are lanes for them. */
static void admit(struct relock_lanes *lanes) RELOCK_REQUIRES(lanes->mutex)
{
    struct waiter *waiter;

    while ((waiter = lanes->guarded.waiters) && (waiter->slot = join(lanes, waiter->alone))) {
        DL_DELETE(lanes->guarded.waiters, waiter);
        relock_gate_open_under(&waiter->gate, &lanes->mutex);
    }
}

int relock_lanes_join(struct relock_lanes *lanes, bool alone, uint64_t deadline_ms,
                      struct relock_lane **lane)
{
    struct slot *slot = NULL;

    relock_mutex_lock(&lanes->mutex);
    if (!lanes->guarded.waiters)
        slot = join(lanes, alone);
    if (!slot) {
        slot = wait_and_join(lanes, alone, deadline_ms);
        if (!slot)
            admit(lanes); /* the next waiter may not need a lane alone */
    }
    relock_mutex_unlock(&lanes->mutex);
    if (!slot)
        return RELOCK_E_CONN;
    *lane = &slot->lane;
    return RELOCK_OK;
}

void relock_lanes_leave(struct relock_lanes *lanes, struct relock_lane *lane)
{
    struct slot *slot = RELOCK_CONTAINER(struct slot, lane, lane);

    relock_mutex_lock(&lanes->mutex);
    slot->n_users--;
    lanes->guarded.n_users--;
    slot->alone = false;
    slot->left_nth = ++lanes->guarded.n_left;
    lanes->guarded.left = slot;
    admit(lanes);
    relock_mutex_unlock(&lanes->mutex);
}

/* ---- replies that nobody waits for ---------------------------------------------------------- */

/* Only the users of a lane may drive it. This one does not count as one that keeps the lane warm.
 */
static void use(struct relock_lanes *lanes, struct slot *slot) RELOCK_REQUIRES(lanes->mutex)
{
    slot->n_users++;
    lanes->guarded.n_users++;
}

static void end_use(struct relock_lanes *lanes, struct slot *slot)
{
    relock_mutex_lock(&lanes->mutex);
    slot->n_users--;
    lanes->guarded.n_users--;
    admit(lanes);
    relock_mutex_unlock(&lanes->mutex);
}

/* A user drives the lane, or will. */
static bool use_if_unread(struct relock_lanes *lanes, struct slot *slot)
{
    bool is_unread;

    relock_mutex_lock(&lanes->mutex);
    is_unread = slot->n_users == 0 && slot->lane.inflight.exchanges;
    if (is_unread)
        use(lanes, slot);
    relock_mutex_unlock(&lanes->mutex);
    return is_unread;
}

void relock_lanes_read(struct relock_lanes *lanes)
{
    for (unsigned i = 0; i < lanes->n; i++) {
        struct slot *slot = &lanes->slots[i];

        if (!use_if_unread(lanes, slot))
            continue;
        (void)relock_lane_read(&slot->lane, 0);
        end_use(lanes, slot);
    }
}

bool relock_lanes_await(struct relock_lanes *lanes, struct relock_lane *lane, uint64_t deadline_ms)
{
    struct slot *slot = RELOCK_CONTAINER(struct slot, lane, lane);
    bool reads;

    relock_mutex_lock(&lanes->mutex);
    use(lanes, slot);
    relock_mutex_unlock(&lanes->mutex);
    reads = relock_lane_read(lane, deadline_ms);
    end_use(lanes, slot);
    return reads;
}

void relock_lanes_end_posted(struct relock_lanes *lanes)
{
    for (unsigned i = 0; i < lanes->n; i++)
        relock_lane_end_posted(&lanes->slots[i].lane);
}

/* ---- giving connections away --------------------------------------------------------------- */

/* The connection of an idle lane may have ended unnoticed, unless there are replies to read. Under
 * the mutex of the lanes. */
static bool is_up(struct slot *slot)
{
    return slot->n_users > 0 || slot->lane.inflight.exchanges
               ? atomic_load(&slot->lane.is_up)
               : relock_lane_still_works(&slot->lane);
}

/* Has calls avoid one lane that works, the same one until the claim ends. */
static void claim(struct relock_lanes *lanes) RELOCK_REQUIRES(lanes->mutex)
{
    uint64_t now_ms = relock_clock_now_ms();

    if (lanes->guarded.claimed &&
        (now_ms >= lanes->guarded.claimed_until_ms || !is_up(lanes->guarded.claimed)))
        lanes->guarded.claimed = NULL;
    for (unsigned i = 0; i < lanes->n && !lanes->guarded.claimed; i++)
        if (!lanes->slots[i].alone && is_up(&lanes->slots[i]))
            lanes->guarded.claimed = &lanes->slots[i];
    lanes->guarded.claimed_until_ms = now_ms + CLAIM_MS;
}

static bool lend(struct relock_lanes *lanes, struct relock_loan *loan) RELOCK_REQUIRES(lanes->mutex)
{
    for (unsigned i = 0; i < lanes->n; i++)
        if (lanes->slots[i].n_users == 0 && relock_lane_lend(&lanes->slots[i].lane, loan))
            return true;
    return false;
}

bool relock_lanes_lend(struct relock_lanes *lanes, struct relock_loan *loan)
{
    bool is_lent;

    if (relock_spare_take(&lanes->spare, loan))
        return true;
    relock_mutex_lock(&lanes->mutex);
    is_lent = lend(lanes, loan);
    if (is_lent) {
        lanes->guarded.claimed = NULL;
        admit(lanes); /* calls may have waited because of the claim */
    } else {
        claim(lanes);
    }
    relock_mutex_unlock(&lanes->mutex);
    return is_lent;
}

void relock_lanes_serve(struct relock_lanes *lanes, struct relock_loop *loop)
{
    atomic_store(&lanes->spare.loop, loop);
}

bool relock_lanes_want(struct relock_lanes *lanes)
{
    bool has_one = false;

    if (!atomic_exchange(&lanes->spare.is_wanted, false))
        return false;
    relock_mutex_lock(&lanes->mutex);
    for (unsigned i = 0; i < lanes->n && !has_one; i++)
        has_one = is_up(&lanes->slots[i]);
    relock_mutex_unlock(&lanes->mutex);
    return !has_one;
}

void relock_lanes_give(struct relock_lanes *lanes, const struct relock_loan *loan)
{
    struct relock_spare *spare = &lanes->spare;

    spare_drop(spare);
    relock_mutex_lock(&spare->mutex);
    spare->guarded.loan = *loan;
    spare->guarded.is_there = true;
    relock_mutex_unlock(&spare->mutex);
}
