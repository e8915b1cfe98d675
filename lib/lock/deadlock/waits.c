#include "lock/deadlock/waits.h"

#include "base/clock.h"
#include "base/container.h"
#include "lock/deadlock/chain.h"
#include "lock/deadlock/proofs.h"
#include "lock/deadlock/record.h"
#include "lock/hold/holds.h"
#include "lock/wake/outbox.h"

#include <stdlib.h>

#define SCAN_MS 1000    /* an owner that waits may get and lose holds through other threads */
#define SCAN_MIN_MS 20  /* many waits are found at once */
#define HOLDS_MOST 1000 /* that are recorded */

/* The functions of this file are called with the mutex of the client. */
#define STEP RELOCK_UNCHECKED static

STEP void send_soon(struct relock_client *client)
{
    struct relock_waits *waits = &client->guarded.waits;

    for (unsigned i = 0; i < RELOCK_WAITS_RECORDS; i++)
        waits->records[i].is_dirty = true;
    if (waits->beat_at_ms > 0 && !waits->is_refused) {
        waits->beat_at_ms = 0;
        relock_record_arm(client);
    }
}

/* ---- what is recorded ---------------------------------------------------------------------- */

/* When it will have lasted for long. */
static uint64_t long_at(const struct relock_client *client, const struct relock_waiter *waiter)
{
    return relock_clock_after(waiter->joined_ms, client->options.deadlock_ms);
}

STEP bool is_long(const struct relock_client *client, const struct relock_waiter *waiter,
                  uint64_t now_ms)
{
    return now_ms >= long_at(client, waiter);
}

/* The wait of this owner that has lasted for long, or NULL. */
STEP struct relock_waiter *wait_of(const struct relock_client *client, uint64_t owner,
                                   uint64_t now_ms)
{
    struct relock_waiter *at;

    DL_FOREACH2(client->guarded.asleep[owner % RELOCK_ASLEEP_PARTS], at, asleep_next)
    {
        if (at->owner == owner && at->wait.serial > 0 && is_long(client, at, now_ms))
            return at;
    }
    return NULL;
}

STEP bool has_room(struct relock_waits *waits)
{
    size_t room = waits->n_room == 0 ? 16 : 2 * waits->n_room;
    struct relock_recorded_hold *new;

    if (waits->n_holds < waits->n_room)
        return true;
    if (waits->n_holds >= HOLDS_MOST)
        return false;
    new = realloc(waits->holds, room * sizeof(*new));
    if (!new)
        return false;
    waits->holds = new;
    waits->n_room = room;
    return true;
}

STEP void forget_holds(struct relock_client *client)
{
    struct relock_waits *waits = &client->guarded.waits;

    while (waits->n_holds > 0) {
        const struct relock_recorded_hold *last = &waits->holds[--waits->n_holds];

        last->waiter->wait.is_recorded = false;
        relock_holds_unref(client, last->hold);
    }
}

/* Finds the holds whose owners have waited for long. */
STEP void scan(struct relock_client *client, uint64_t now_ms)
{
    struct relock_waits *waits = &client->guarded.waits;
    struct relock_recorded_hold held;

    forget_holds(client);
    DL_FOREACH2(client->guarded.holds, held.hold, client_next)
    {
        if (held.hold->count == 0 || held.hold->detached || held.hold->resource->kind->is_composite)
            continue;
        held.waiter = wait_of(client, held.hold->owner, now_ms);
        if (!held.waiter || !relock_chain_counts(&held, now_ms) || !has_room(waits))
            continue;
        (void)relock_holds_ref(held.hold);
        held.waiter->wait.is_recorded = true;
        waits->holds[waits->n_holds++] = held;
    }
}

/* When the next wait will have lasted for long. */
STEP uint64_t next_scan(const struct relock_client *client, uint64_t now_ms)
{
    uint64_t next_ms = client->guarded.waits.asleep ? now_ms + SCAN_MS : RELOCK_NEVER;
    const struct relock_waiter *at;

    for (at = client->guarded.waits.asleep; at; at = at->wait.next) {
        if (!is_long(client, at, now_ms))
            return relock_clock_sooner(
                next_ms, relock_clock_later(long_at(client, at), now_ms + SCAN_MIN_MS));
    }
    return next_ms;
}

/* ---- the timer ----------------------------------------------------------------------------- */

STEP void send_records(struct relock_client *client, uint64_t now_ms)
{
    struct relock_waits *waits = &client->guarded.waits;

    waits->beat_at_ms = RELOCK_NEVER;
    for (unsigned i = 0; i < RELOCK_WAITS_RECORDS; i++) {
        if (waits->records[i].is_sent)
            continue;
        if (!relock_record_send(client, i)) /* out of memory */
            waits->beat_at_ms = now_ms + RELOCK_RECORD_BEAT_MS;
    }
}

STEP void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_client *client =
        RELOCK_CONTAINER(struct relock_client, guarded.waits.timer, timer);
    struct relock_waits *waits = &client->guarded.waits;

    if (waits->scan_at_ms <= now_ms) {
        scan(client, now_ms);
        waits->scan_at_ms = next_scan(client, now_ms);
        if (waits->n_holds > 0 && !waits->is_refused)
            waits->beat_at_ms = now_ms;
    }
    if (waits->beat_at_ms <= now_ms)
        send_records(client, now_ms);
    if (waits->look_at_ms <= now_ms)
        relock_chain_look(client);
    relock_record_arm(client);
}

/* ---- the life of a wait -------------------------------------------------------------------- */

RELOCK_UNCHECKED void relock_waits_init(struct relock_client *client)
{
    struct relock_waits *waits = &client->guarded.waits;

    relock_timer_init(&waits->timer, fire);
    waits->scan_at_ms = RELOCK_NEVER;
    waits->beat_at_ms = RELOCK_NEVER;
    waits->look_at_ms = RELOCK_NEVER;
}

/* The lock of a wait for several servers is none in Redis. */
void relock_waits_enter(struct relock_client *client, struct relock_waiter *waiter)
{
    struct relock_waits *waits = &client->guarded.waits;

    if (client->options.deadlock_ms == RELOCK_FOREVER || waiter->queues_on->kind->is_composite)
        return;
    waiter->wait = (struct relock_wait){.serial = ++waits->serial};
    DL_APPEND2(waits->asleep, waiter, wait.prev, wait.next);
    if (long_at(client, waiter) >= waits->scan_at_ms)
        return;
    waits->scan_at_ms = long_at(client, waiter);
    relock_record_arm(client);
}

void relock_waits_leave(struct relock_client *client, struct relock_waiter *waiter)
{
    struct relock_waits *waits = &client->guarded.waits;
    size_t n = 0;

    if (waiter->wait.serial == 0)
        return;
    DL_DELETE2(waits->asleep, waiter, wait.prev, wait.next);
    waiter->wait.serial = 0;
    relock_proofs_drop(waiter);
    if (!waiter->wait.is_recorded)
        return;
    for (size_t i = 0; i < waits->n_holds; i++) {
        if (waits->holds[i].waiter == waiter)
            relock_holds_unref(client, waits->holds[i].hold);
        else
            waits->holds[n++] = waits->holds[i];
    }
    waits->n_holds = n;
    send_soon(client);
}

bool relock_waits_are_drained(const struct relock_client *client)
{
    const struct relock_waits *waits = &client->guarded.waits;

    for (unsigned i = 0; i < RELOCK_WAITS_RECORDS; i++)
        if (waits->records[i].is_sent || waits->records[i].may_exist)
            return false;
    return relock_chain_is_idle(client);
}

void relock_waits_close(struct relock_client *client)
{
    struct relock_waits *waits = &client->guarded.waits;

    relock_client_unset_timer(client, &waits->timer);
    relock_outbox_drop_all(client, &client->guarded.recording);
    forget_holds(client);
    free(waits->holds);
    waits->holds = NULL;
    waits->n_room = 0;
    relock_chain_free(client);
}
