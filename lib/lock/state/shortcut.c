/*
 * A thread looks at the terms, and then takes the lock. If the shortcut was closed and opened
 * meanwhile, it has looked at older terms. These end sooner.
 */
#include "lock/state/shortcut.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/probe.h"
#include "lock/state/client.h"
#include "lock/state/owner.h"
#include "lock/state/resource.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* The word. It is odd while the lock is taken, and then names the owner. */
#define CLOSED UINT64_C(0)
#define FREE UINT64_C(2)

#define NOT_HELD RELOCK_SHORTCUT_HELD_US /* as `held_us`: there is nothing to count */

#define GET(at) atomic_load_explicit(&(at), memory_order_relaxed)
#define SET(at, value) atomic_store_explicit(&(at), value, memory_order_relaxed)

static uint64_t taken_by(uint64_t owner)
{
    return owner << 1 | 1;
}

/* ---- under the mutex ------------------------------------------------------------------------- */

void relock_shortcut_prepare(struct relock_resource *resource)
{
    struct relock_shortcut *new;

    if (GET(resource->shortcut))
        return;
    new = aligned_alloc(_Alignof(struct relock_shortcut), sizeof(*new));
    if (!new)
        return;
    memset(new, 0, sizeof(*new));
    new->generation = resource->client->generation;
    new->resource = resource;
    atomic_store_explicit(&resource->shortcut, new, memory_order_release);
}

void relock_shortcut_free(struct relock_shortcut *shortcut)
{
    free(shortcut);
}

static uint64_t us_of(uint64_t ms)
{
    return ms < RELOCK_NEVER / 1000 ? ms * 1000 : RELOCK_NEVER;
}

void relock_shortcut_open(struct relock_resource *resource,
                          const struct relock_shortcut_terms *terms)
{
    struct relock_shortcut *shortcut = GET(resource->shortcut);

    if (!shortcut)
        return;
    assert(GET(shortcut->word) == CLOSED);
    SET(shortcut->until_us, us_of(terms->until_ms));
    SET(shortcut->valid_until_ms, terms->valid_until_ms);
    SET(shortcut->acked_replicas, terms->acked_replicas);
    SET(shortcut->since_us, 0);
    SET(shortcut->held_us, NOT_HELD);
    shortcut->is_behind = false;
    DL_APPEND(resource->client->guarded.shortcuts, shortcut);
    relock_tsan_release(shortcut);
    atomic_store_explicit(&shortcut->word, FREE, memory_order_release);
}

static void count_held(struct relock_shortcut *shortcut)
{
    uint32_t us = GET(shortcut->held_us);

    SET(shortcut->held[us], GET(shortcut->held[us]) + 1);
}

/* Adds what was counted since the last time. */
static void add_up(struct relock_shortcut *shortcut, struct relock_stats *stats)
{
    for (uint32_t us = 0; us < RELOCK_SHORTCUT_HELD_US; us++) {
        uint32_t n = GET(shortcut->held[us]) - shortcut->counted[us];

        shortcut->counted[us] += n;
        relock_meter_add_many(&stats->wait, 0, n);
        relock_meter_add_many(&stats->hold, us, n);
        stats->reused += n;
        stats->acquires[RELOCK_OK] += n;
        stats->releases[RELOCK_OK] += n;
    }
}

static void hand_over(struct relock_resource *resource, uint64_t owner, uint64_t since_us)
{
    struct relock_stats *stats = &resource->client->guarded.stats;

    relock_meter_end(stats->acquires, RELOCK_OK);
    relock_meter_add(&stats->wait, 0);
    resource->client->take_kept(resource, owner, since_us > 0 ? since_us : relock_clock_now_us());
}

void relock_shortcut_close(struct relock_resource *resource)
{
    struct relock_shortcut *shortcut = GET(resource->shortcut);
    uint64_t word;

    if (!shortcut)
        return;
    if (GET(shortcut->word) == CLOSED) {
        if (shortcut->is_behind)
            add_up(shortcut, &resource->client->guarded.stats);
        return;
    }
    word = atomic_exchange_explicit(&shortcut->word, CLOSED, memory_order_acq_rel);
    relock_tsan_acquire(shortcut);
    if (word == FREE)
        count_held(shortcut);
    add_up(shortcut, &resource->client->guarded.stats);
    DL_DELETE(resource->client->guarded.shortcuts, shortcut);
    shortcut->is_behind = word != FREE;
    if (shortcut->is_behind)
        hand_over(resource, word >> 1, GET(shortcut->since_us));
}

void relock_shortcut_close_all(struct relock_client *client)
{
    while (client->guarded.shortcuts)
        relock_shortcut_close(client->guarded.shortcuts->resource);
}

bool relock_shortcut_is_open(const struct relock_resource *resource)
{
    const struct relock_shortcut *shortcut = GET(resource->shortcut);

    return shortcut && GET(shortcut->word) != CLOSED;
}

/* ---- without it ------------------------------------------------------------------------------ */

/* A forked child, and a callback, go through the mutex, which refuses them. */
static struct relock_shortcut *shortcut_of(struct relock_resource *resource)
{
    struct relock_shortcut *shortcut =
        atomic_load_explicit(&resource->shortcut, memory_order_acquire);

    if (!shortcut || shortcut->generation != relock_fork_generation() ||
        relock_callback_is_inside())
        return NULL;
    return shortcut;
}

static void report(const struct relock_shortcut *shortcut, uint64_t owner, uint64_t now_us,
                   struct relock_grant *grant)
{
    *grant = (struct relock_grant){
        .owner = owner,
        .valid_ms = relock_clock_left(now_us / 1000, GET(shortcut->valid_until_ms)),
        .hold_count = 1,
        .acked_replicas = GET(shortcut->acked_replicas),
    };
}

bool relock_shortcut_take(struct relock_resource *resource, struct relock_grant *grant)
{
    struct relock_shortcut *shortcut = shortcut_of(resource);
    struct relock_self *self = shortcut ? relock_owner_here() : NULL;
    uint64_t word, now_us;

    if (!self || !self->is_watched)
        return false;
    word = atomic_load_explicit(&shortcut->word, memory_order_acquire);
    now_us = relock_clock_now_us();
    if (word != FREE || now_us >= GET(shortcut->until_us))
        return false;
    if (!atomic_compare_exchange_strong_explicit(&shortcut->word, &word, taken_by(self->number),
                                                 memory_order_acquire, memory_order_relaxed))
        return false;
    relock_tsan_acquire(shortcut);
    self->n_holds++;
    SET(shortcut->since_us, now_us);
    count_held(shortcut);
    RELOCK_PROBE(grant, resource->name, self->number, 0);
    if (grant)
        report(shortcut, self->number, now_us, grant);
    return true;
}

bool relock_shortcut_give(struct relock_resource *resource)
{
    struct relock_shortcut *shortcut = shortcut_of(resource);
    struct relock_self *self = shortcut ? relock_owner_here() : NULL;
    uint64_t word, now_us, held_us;

    if (!self)
        return false;
    word = taken_by(self->number);
    if (GET(shortcut->word) != word)
        return false;
    now_us = relock_clock_now_us();
    held_us = now_us - GET(shortcut->since_us);
    if (held_us >= RELOCK_SHORTCUT_HELD_US || now_us >= GET(shortcut->until_us))
        return false;
    SET(shortcut->since_us, 0);
    SET(shortcut->held_us, (uint32_t)held_us);
    relock_tsan_release(shortcut);
    if (!atomic_compare_exchange_strong_explicit(&shortcut->word, &word, FREE, memory_order_release,
                                                 memory_order_relaxed))
        return false;
    self->n_holds--;
    RELOCK_PROBE(release, resource->name, self->number, held_us);
    return true;
}
