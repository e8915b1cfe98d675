#include "lock/state/hold.h"

#include "lock/state/keys.h"

#include "base/clock.h"
#include "lock/state/resource.h"

/* A clock may run faster here than there, and Redis counts in whole milliseconds. */
#define DRIFT_PART 100
#define DRIFT_MS 2

/*
 * A little before a third is over. So a hold that is renewed stays certain for two thirds of its
 * lease, in spite of the drift, a round trip and a timer that fires late.
 */
#define RENEWAL_TENTHS 3

/* A renewal may come forward by this part of the interval, to meet others. */
#define EARLY_PART 10

/* Many holds have shorter cells. Else a server would be busy with renewals alone for long, as they
 * are due at the start of a cell. Enough for full scripts of several kinds of lock and nodes. */
#define HOLDS_IN_A_CELL 256

/* Many turns fit into this time, also on a busy machine. It makes renewals more frequent by a part
 * that is small. Below the least, it would not differ from the few milliseconds after which a
 * hand-off is verified. */
#define AHEAD_PART 40
#define AHEAD_MIN_MS 10
#define AHEAD_MAX_MS 100

#define SPREAD_BITS 20

#define RETRY_PART 20
#define RETRY_MIN_MS 10
#define RETRY_MAX_MS 500

uint64_t relock_hold_valid_until(uint64_t sent_ms, uint64_t lease_ms)
{
    uint64_t drift_ms = (lease_ms / DRIFT_PART) + DRIFT_MS;

    return lease_ms > drift_ms ? relock_clock_after(sent_ms, lease_ms - drift_ms) : sent_ms;
}

uint64_t relock_hold_renewal_ms(uint64_t lease_ms)
{
    return lease_ms * RENEWAL_TENTHS / 10;
}

uint64_t relock_hold_meeting_ms(uint64_t due_ms, uint64_t interval_ms, uint64_t n_holds,
                                unsigned phase)
{
    uint64_t early_ms = interval_ms / EARLY_PART;
    uint64_t cell_ms;

    if (n_holds > (uint64_t)HOLDS_IN_A_CELL * EARLY_PART)
        early_ms = interval_ms * HOLDS_IN_A_CELL / n_holds;
    if (early_ms < 2 || due_ms == RELOCK_NEVER)
        return due_ms;
    /* A power of two, so that the cells of all intervals begin together. */
    cell_ms = UINT64_C(1) << (63 - __builtin_clzll(early_ms));
    return due_ms - ((due_ms + phase) & (cell_ms - 1));
}

uint64_t relock_hold_ahead_ms(uint64_t interval_ms)
{
    uint64_t ahead_ms = relock_clock_sooner(interval_ms / AHEAD_PART, AHEAD_MAX_MS);

    return ahead_ms < AHEAD_MIN_MS ? 0 : ahead_ms;
}

/* Multiples of the golden ratio divide the interval about evenly, however many there are. */
uint64_t relock_hold_spread_ms(uint64_t serial, uint64_t interval_ms)
{
    uint64_t part = serial * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SPREAD_BITS);

    return interval_ms * part >> SPREAD_BITS;
}

#define ORDER_BITS 10 /* tell holds of the same microsecond apart */

uint64_t relock_hold_order(const struct relock_hold *hold)
{
    return hold->since_us << ORDER_BITS |
           (relock_keys_serial(hold->number) & ((1U << ORDER_BITS) - 1));
}

uint64_t relock_hold_retry_ms(uint64_t lease_ms)
{
    return relock_clock_later(RETRY_MIN_MS,
                              relock_clock_sooner(lease_ms / RETRY_PART, RETRY_MAX_MS));
}

bool relock_hold_is_renewed(const struct relock_hold *hold, uint64_t now_ms)
{
    return hold->keeping != RELOCK_HOLD_FIXED && now_ms < hold->cap_ms;
}

bool relock_hold_is_certain(const struct relock_hold *hold, uint64_t now_ms)
{
    return relock_hold_is_held(hold) && now_ms < hold->valid_until_ms;
}

/*
 * While a renewal is in flight, the next one is already due at `renew_at_ms`. So its answer mostly
 * leaves the timer as it is. If there is no answer by then, only the end of the time is due.
 */
static uint64_t held_due_ms(const struct relock_hold *hold, uint64_t now_ms)
{
    uint64_t due_ms = hold->tracked.due_ms;

    if (relock_hold_is_renewed(hold, now_ms) && hold->renew_at_ms < due_ms)
        due_ms = hold->renew_at_ms;
    if ((hold->command != RELOCK_HOLD_NOTHING_SENT && due_ms <= now_ms) ||
        due_ms > hold->valid_until_ms)
        return hold->valid_until_ms;
    return due_ms;
}

bool relock_hold_is_in_use(const struct relock_hold *hold)
{
    return hold->command != RELOCK_HOLD_NOTHING_SENT || hold->busy || hold->n_unanswered > 0;
}

static uint64_t cached_due_ms(const struct relock_hold *hold, uint64_t now_ms)
{
    return relock_clock_sooner(held_due_ms(hold, now_ms), hold->cache_until_ms);
}

uint64_t relock_hold_due_ms(const struct relock_hold *hold, uint64_t now_ms)
{
    switch (hold->state) {
    case RELOCK_HOLD_HELD:
    case RELOCK_HOLD_SUSPECT:
        return held_due_ms(hold, now_ms);
    case RELOCK_HOLD_CACHED:
        return cached_due_ms(hold, now_ms);
    case RELOCK_HOLD_SETTLING:
        return relock_hold_is_in_use(hold) ? RELOCK_NEVER : hold->renew_at_ms;
    case RELOCK_HOLD_LOST:
        return !hold->is_left || relock_hold_is_in_use(hold) ? RELOCK_NEVER : hold->renew_at_ms;
    case RELOCK_HOLD_ASKED:
    case RELOCK_HOLD_RELEASING:
    case RELOCK_HOLD_ENDED:
        break;
    }
    return RELOCK_NEVER;
}

int relock_hold_expiry_reason(const struct relock_hold *hold)
{
    if (hold->keeping == RELOCK_HOLD_RENEWED && hold->cap_ms <= hold->valid_until_ms)
        return RELOCK_LOST_CAPPED;
    return hold->confirms && hold->confirm->granted_until_ms > hold->valid_until_ms
               ? RELOCK_LOST_REPLICAS
               : RELOCK_LOST_EXPIRED;
}

uint64_t relock_hold_n_permits(const struct relock_hold *hold)
{
    return hold->resource->kind->has_permits ? hold->n_permits : 0;
}

void relock_hold_report(const struct relock_hold *hold, uint64_t now_ms, struct relock_grant *grant)
{
    bool certain = relock_hold_is_certain(hold, now_ms);
    uint64_t n_permits = relock_hold_n_permits(hold);

    *grant = (struct relock_grant){
        .owner = hold->owner,
        .fencing_token = n_permits > 0 ? 0 : hold->fencing_token,
        .permits = n_permits,
        .valid_ms = certain ? hold->valid_until_ms - now_ms : 0,
        .hold_count = hold->count,
        .acked_replicas = hold->acked_replicas,
    };
}
