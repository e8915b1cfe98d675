/*
 * How a wait is ended by another thread: `end` of a waiter, changed by relock_resource_end_wait
 * and, when its own thread goes on waiting, by relock_resource_wait_on.
 *
 *   end         becomes      when
 *   WAITS       GRANTED      a hold is handed off to it: relock_cache_hand_off (cache.c); or a
 *                            number lets it through: let_all_through (number.c), also from
 *                            UNREACHED
 *               UNREACHED    Redis is silent: end_waits (silence.c), or an attempt of the head
 *                            got no answer: relock_resource_end_unreached
 *               STARTS_ANEW  another thread has acquired the lock for the same owner: start_anew
 *               REFUSED      it is the victim of a cycle: refuse (chain.c)
 *   UNREACHED   STARTS_ANEW  the same
 *               WAITS        Redis answers an attempt of its own: take_answer (ask.c)
 *   STARTS_ANEW WAITS        the call begins again: relock_take_join (take.c)
 *
 * A waiter with GRANTED has left the queue, so it keeps that.
 */
#include "lock/state/resource.h"

#include "lock/state/keys.h"
#include "lock/state/step.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/*
 * Without a signal, this client asks so much later for each client before it in the line. So when a
 * lease ends, the first asks alone. Even 200 clients with holds of 200 ms get their turn before
 * they would ask.
 */
#define LEASE_STEP_MS 100
#define RECHECK_STEP_MS 250

/* Waiters that poll, or hear releases alone, can compete for so long as if nothing were cached. */
#define REST_MS 1000

/* ---- waiters ------------------------------------------------------------------------------- */

/* Unchecked: the callers of this file hold the mutex, but its functions are not annotated. */
RELOCK_UNCHECKED static void wake(struct relock_waiter *waiter, struct relock_mutex *mutex)
{
    if (waiter->step)
        relock_step_post(waiter->step);
    else
        relock_gate_open_under(&waiter->gate, mutex);
}

void relock_resource_end_wait(struct relock_waiter *waiter, enum relock_waiter_end end,
                              struct relock_mutex *mutex)
{
    waiter->end = end;
    wake(waiter, mutex);
}

void relock_resource_wait_on(struct relock_waiter *waiter)
{
    waiter->end = RELOCK_WAITER_WAITS;
}

/* ---- signals ------------------------------------------------------------------------------- */

static void wake_head(const struct relock_resource *resource)
{
    if (resource->queue)
        wake(resource->queue, &resource->client->mutex);
}

void relock_resource_signal(struct relock_resource *resource, bool is_message)
{
    if (is_message)
        resource->retry = RELOCK_RETRY_FOR_MESSAGE;
    else if (resource->retry == RELOCK_RETRY_NONE)
        resource->retry = RELOCK_RETRY_PENDING;
    if (!resource->holder)
        wake_head(resource);
}

/* Makes a retry pending at each resource of the lock. */
static void signal_all(struct relock_resource *resource)
{
    struct relock_resource *at;

    relock_resource_signal(resource->primary, false);
    DL_FOREACH2(relock_resource_secondaries(resource->primary), at, as.secondary.next)
    relock_resource_signal(at, false);
}

/* ---- the queue ----------------------------------------------------------------------------- */

void relock_resource_enqueue(struct relock_resource *resource, struct relock_waiter *waiter)
{
    bool is_first = resource->queue == NULL;

    waiter->queues_on = resource;
    DL_APPEND(resource->queue, waiter);
    if (waiter->explicit_owner)
        resource->primary->n_explicit_owners++;
    if (is_first && !resource->holder)
        relock_resource_signal(resource, false);
}

void relock_resource_dequeue(struct relock_resource *resource, struct relock_waiter *waiter)
{
    bool was_head = resource->queue == waiter;

    DL_DELETE(resource->queue, waiter);
    if (waiter->explicit_owner)
        resource->primary->n_explicit_owners--;
    if (was_head && !resource->holder)
        wake_head(resource);
}

/* They get permits in order. A new head asks at once, as it may want others than the last one. */
static bool may_ask_for_permits(const struct relock_resource *resource,
                                const struct relock_waiter *waiter)
{
    bool is_next = resource->queue == waiter || waiter->tries;

    return is_next && (!waiter->has_asked || resource->retry != RELOCK_RETRY_NONE);
}

bool relock_resource_may_ask(const struct relock_resource *resource,
                             const struct relock_waiter *waiter)
{
    if (resource->kind->has_permits)
        return may_ask_for_permits(resource, waiter);
    if (!waiter->has_asked && (resource->kind->is_shared || waiter->tries))
        return !resource->holder;
    return resource->queue == waiter && !resource->holder && resource->retry != RELOCK_RETRY_NONE;
}

static uint64_t n_before(uint64_t place)
{
    return place > 0 ? place - 1 : 0;
}

uint64_t relock_resource_after_lease(uint64_t lease_end_ms, uint64_t place)
{
    return relock_clock_after(lease_end_ms, LEASE_STEP_MS * n_before(place));
}

uint64_t relock_resource_recheck_at(const struct relock_resource *resource, uint64_t recheck_ms)
{
    const struct relock_contention *contention = relock_resource_contention(resource);
    uint64_t place = contention->line.place;
    uint64_t n_intervals = contention->n_intervals > 0 ? contention->n_intervals : 1;
    uint64_t pause_ms = recheck_ms * n_intervals + RECHECK_STEP_MS * n_before(place);
    uint64_t at_ms =
        relock_clock_sooner(relock_clock_after(contention->asked_ms, pause_ms),
                            relock_resource_after_lease(contention->lease_end_ms, place));

    return relock_clock_later(at_ms, relock_resource_yields_until(resource));
}

void relock_resource_hear_lease(struct relock_resource *resource, uint64_t lease_end_ms)
{
    struct relock_contention *contention = relock_resource_contend(resource);

    if (!resource->queue || resource->queue->is_asking || !contention) {
        relock_resource_signal(resource, true);
        return;
    }
    if (lease_end_ms < contention->lease_end_ms)
        wake_head(resource);
    contention->lease_end_ms = lease_end_ms;
}

static void start_anew(const struct relock_resource *resource, uint64_t owner)
{
    struct relock_waiter *at;

    DL_FOREACH(resource->queue, at)
    {
        if (at->owner == owner)
            relock_resource_end_wait(at, RELOCK_WAITER_STARTS_ANEW, &resource->client->mutex);
    }
}

/*
 * Two threads can wait for one owner only if a caller has named it, so mostly there is nothing to
 * do. On the other side of a read/write lock the owner may now go first, or would wait for itself.
 */
static void start_all_anew(const struct relock_resource *resource, uint64_t owner,
                           bool explicit_owner)
{
    const struct relock_resource *primary = resource->primary;
    const struct relock_resource *at;

    if (resource->kind->has_permits || (!explicit_owner && primary->n_explicit_owners == 0))
        return;
    start_anew(primary, owner);
    DL_FOREACH2(relock_resource_secondaries(primary), at, as.secondary.next)
    start_anew(at, owner);
}

void relock_resource_acquired(struct relock_resource *resource, struct relock_waiter *waiter,
                              struct relock_hold *hold)
{
    struct relock_resource *queued_on = waiter->queues_on;

    if (!resource->kind->is_shared) {
        resource->holder = hold;
        relock_resource_learn(resource);
    }
    if (queued_on)
        relock_resource_dequeue(queued_on, waiter);
    if (resource->contention)
        resource->contention->lease_end_ms = RELOCK_NEVER;
    start_all_anew(resource, waiter->owner, waiter->explicit_owner);
    /* If one of several that may share it got the lock, the next may get it, too. */
    if (resource->kind->is_shared && queued_on && queued_on->queue)
        relock_resource_signal(resource, false);
}

void relock_resource_yield_until(struct relock_resource *resource, uint64_t until_ms)
{
    struct relock_contention *contention = relock_resource_contend(resource);

    if (contention)
        contention->yields_until_ms = until_ms;
}

void relock_resource_yield(struct relock_resource *resource, uint64_t turn_ms, uint64_t now_ms)
{
    if (resource->queue && now_ms - resource->taken_ms >= turn_ms)
        relock_resource_yield_until(resource, now_ms + RELOCK_YIELD_MS);
}

void relock_resource_released(struct relock_resource *resource, bool is_announced, uint64_t now_ms)
{
    /* Waiters for a fair lock ask while it is being released: one may hold it by now. */
    if (resource->holder && !relock_hold_is_held(resource->holder))
        resource->holder = NULL;
    if (!resource->holder)
        relock_resource_doubt(resource);
    if (resource->contention && !resource->kind->has_permits) { /* others keep their permits */
        resource->contention->asked_ms = now_ms;
        resource->contention->lease_end_ms = RELOCK_NEVER;
    }
    if (!is_announced)
        signal_all(resource);
    wake_head(resource);
}

void relock_resource_rest(struct relock_resource *resource, uint64_t now_ms)
{
    struct relock_contention *contention = relock_resource_contend(resource);

    if (contention)
        contention->rests_until_ms = now_ms + REST_MS;
}

void relock_resource_end_unreached(struct relock_resource *resource, uint64_t since_ms)
{
    struct relock_waiter *at;

    DL_FOREACH(resource->queue, at)
    {
        if (at->joined_ms <= since_ms && at->end == RELOCK_WAITER_WAITS)
            relock_resource_end_wait(at, RELOCK_WAITER_UNREACHED, &resource->client->mutex);
    }
}

static void wake_queue(const struct relock_resource *resource)
{
    struct relock_waiter *at;

    DL_FOREACH(resource->queue, at)
    wake(at, &resource->client->mutex);
}

void relock_resource_wake_all(struct relock_resource *resource)
{
    const struct relock_resource *at;

    wake_queue(resource->primary);
    DL_FOREACH2(relock_resource_secondaries(resource->primary), at, as.secondary.next)
    wake_queue(at);
}

/* ---- the holds of an owner ----------------------------------------------------------------- */

/*
 * Which hold a release is for. One whose loss the owner has heard of goes first: that of the
 * running on_lost before others, and both before holds that are in use. So work that goes on keeps
 * its permits. Of the others, the newest.
 */
static unsigned rank(const struct relock_hold *hold)
{
    if (hold->state != RELOCK_HOLD_LOST)
        return 0;
    if (hold->notice == RELOCK_HOLD_TELLING)
        return 2;
    return hold->notice == RELOCK_HOLD_NO_NOTICE || !hold->told;
}

struct relock_hold *relock_resource_find_number(struct relock_resource *resource, uint64_t owner,
                                                uint64_t number)
{
    struct relock_hold *hold;

    if (number == 0)
        return relock_resource_find(resource, owner);
    relock_shortcut_close(resource);
    LL_FOREACH(resource->holds, hold)
    {
        if (hold->has_owner && hold->owner == owner && hold->number == number)
            return hold;
    }
    return NULL;
}

struct relock_hold *relock_resource_find_released(struct relock_resource *resource, uint64_t owner,
                                                  uint64_t number)
{
    struct relock_hold *found = relock_resource_find_number(resource, owner, number);
    struct relock_hold *hold;

    if (!found || number > 0 || !resource->kind->has_permits)
        return found;
    LL_FOREACH(found->next, hold)
    {
        if (relock_hold_is_of(hold, owner) &&
            (rank(hold) > rank(found) ||
             (rank(hold) == rank(found) && relock_hold_order(hold) > relock_hold_order(found))))
            found = hold;
    }
    return found;
}

static uint64_t certain_until_ms(const struct relock_hold *hold)
{
    return hold->state == RELOCK_HOLD_LOST ? 0 : hold->valid_until_ms;
}

struct relock_hold *relock_resource_find_weakest(struct relock_resource *resource, uint64_t owner,
                                                 uint64_t number)
{
    struct relock_hold *found = relock_resource_find_number(resource, owner, number);
    struct relock_hold *hold;

    if (!found || number > 0 || !resource->kind->has_permits)
        return found;
    LL_FOREACH(found->next, hold)
    {
        if (relock_hold_is_of(hold, owner) && certain_until_ms(hold) < certain_until_ms(found))
            found = hold;
    }
    return found;
}

struct relock_hold *relock_resource_find_younger(struct relock_resource *resource, uint64_t owner,
                                                 uint64_t number, uint64_t order)
{
    struct relock_hold *found = NULL;
    struct relock_hold *hold;

    if (number > 0)
        return relock_resource_find_number(resource, owner, number);
    relock_shortcut_close(resource);
    LL_FOREACH(resource->holds, hold)
    {
        if (relock_hold_is_of(hold, owner) && relock_hold_order(hold) > order &&
            (!found || relock_hold_order(hold) < relock_hold_order(found)))
            found = hold;
    }
    return found;
}

/* ---- contention ---------------------------------------------------------------------------- */

const struct relock_contention relock_no_contention = {.lease_end_ms = RELOCK_NEVER};

static bool contend(struct relock_resource *resource)
{
    if (resource->contention)
        return true;
    resource->contention = malloc(sizeof(*resource->contention));
    if (!resource->contention)
        return false;
    *resource->contention = relock_no_contention;
    resource->contention->resource = resource;
    return true;
}

struct relock_contention *relock_resource_contend(struct relock_resource *resource)
{
    return contend(resource->primary) && contend(resource) ? resource->contention : NULL;
}

/* ---- life ---------------------------------------------------------------------------------- */

/* The name begins in what would be padding at the end of the struct. */
static size_t size_with(size_t name_len)
{
    size_t size = offsetof(struct relock_resource, name) + name_len + 1;

    return size > sizeof(struct relock_resource) ? size : sizeof(struct relock_resource);
}

/* A primary, until it is made a secondary. Returns NULL when out of memory. */
static struct relock_resource *new_resource(struct relock_client *client,
                                            const struct relock_kind *kind, const char *name,
                                            size_t len, enum relock_resource_role role)
{
    struct relock_resource *new = calloc(1, size_with(len));

    if (!new)
        return NULL;
    new->first = (struct relock_lock){.client = client, .resource = new};
    new->kind = kind;
    new->role = (uint8_t)role;
    new->primary = new;
    new->refs = 1;
    atomic_init(&new->shortcut, NULL);
    new->name_len = (uint16_t)len;
    memcpy(new->name, name, len);
    return new;
}

static struct relock_resource *
new_secondary(struct relock_client *client, const struct relock_kind *kind,
              struct relock_resource *primary, enum relock_resource_role role)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *new =
        new_resource(client, kind, primary->name, primary->name_len, role);

    assert(primary->role == RELOCK_RESOURCE_NAMED);
    if (!new)
        return NULL;
    new->primary = primary;
    new->prefix_len = primary->prefix_len;
    primary->refs++;
    DL_APPEND2(primary->as.named.secondaries, new, as.secondary.prev, as.secondary.next);
    return new;
}

/* ---- by name ------------------------------------------------------------------------------- */

static uint32_t hash_of(const char *name, size_t len)
{
    uint32_t hash;

    HASH_VALUE(name, len, hash);
    return hash;
}

static struct relock_resource *of_link(struct relock_table_link *link)
{
    return link ? RELOCK_CONTAINER(struct relock_resource, as.named.link, link) : NULL;
}

static struct relock_resource *find(const struct relock_client *client, const char *name,
                                    size_t len) RELOCK_REQUIRES(client->mutex)
{
    struct relock_table_link *at;

    at = relock_table_find(&client->guarded.resources, hash_of(name, len));
    while (at && (of_link(at)->name_len != len || memcmp(of_link(at)->name, name, len) != 0))
        at = relock_table_find_next(at);
    return of_link(at);
}

struct relock_resource *relock_resources_next(const struct relock_client *client,
                                              const struct relock_resource *resource)
{
    return of_link(
        relock_table_next(&client->guarded.resources, resource ? &resource->as.named.link : NULL));
}

/* Two fair locks whose waiters would stand in one queue, and be in each other's way. */
static bool shares_its_queue(const struct relock_client *client, const struct relock_kind *kind,
                             const char *name, size_t len) RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *found;
    char twin[RELOCK_TWIN_MAX];

    if (!kind->is_queued)
        return false;
    len = relock_keys_twin(twin, name, len);
    found = find(client, twin, len);
    return found && found->kind->is_queued;
}

static struct relock_resource *get_primary(struct relock_client *client,
                                           const struct relock_kind *kind, const char *name,
                                           size_t len, size_t prefix_len, const char **why)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *found = find(client, name, len);

    if (found && found->kind != kind) {
        *why = "this client uses the name for a lock of another kind";
        return NULL;
    }
    if (found && found->prefix_len != prefix_len) {
        *why = "this client has a lock with this key under another name";
        return NULL;
    }
    if (found) {
        found->refs++;
        return found;
    }
    if (shares_its_queue(client, kind, name, len)) {
        *why = "this client has a fair lock whose name differs from it only in braces, and "
               "in Redis both would share one queue";
        return NULL;
    }
    found = new_resource(client, kind, name, len, RELOCK_RESOURCE_NAMED);
    if (!found)
        return NULL;
    found->prefix_len = (uint16_t)prefix_len;
    if (relock_table_add(&client->guarded.resources, &found->as.named.link, hash_of(name, len)))
        return found;
    free(found);
    return NULL;
}

struct relock_resource *relock_resources_get(struct relock_client *client,
                                             const struct relock_kind *kind, const char *name,
                                             size_t len, size_t prefix_len, const char **why)
{
    struct relock_resource *primary, *readers;

    *why = NULL;
    if (!kind->primary)
        return get_primary(client, kind, name, len, prefix_len, why);
    primary = get_primary(client, kind->primary, name, len, prefix_len, why);
    if (!primary)
        return NULL;
    readers = relock_resource_readers(primary);
    if (readers)
        readers->refs++;
    else
        readers = new_secondary(client, kind, primary, RELOCK_RESOURCE_READERS);
    relock_resources_unref(client, primary); /* a secondary has a reference of its own */
    return readers;
}

struct relock_resource *relock_resources_find(struct relock_client *client, const char *name,
                                              size_t len, const char *side)
{
    struct relock_resource *found = find(client, name, len);

    if (!found || (side == NULL) != (found->kind->side == NULL))
        return NULL;
    if (side && strcmp(side, found->kind->side) != 0)
        return relock_resource_readers(found);
    return found;
}

struct relock_resource *relock_resources_find_key(struct relock_client *client, const char *key,
                                                  size_t len)
{
    return find(client, key, len);
}

/* ---- not by name --------------------------------------------------------------------------- */

struct relock_resource *relock_resources_new_unlisted(struct relock_client *client,
                                                      const struct relock_kind *kind,
                                                      const struct relock_resource *named,
                                                      uint64_t lease_ms, void *data,
                                                      relock_resource_free_fn *free_data)
{
    struct relock_resource *new =
        new_resource(client, kind, named->name, named->name_len, RELOCK_RESOURCE_UNLISTED);

    if (!new)
        return NULL;
    new->prefix_len = named->prefix_len;
    new->as.unlisted.lease_ms = lease_ms;
    new->as.unlisted.data = data;
    new->as.unlisted.free_data = free_data;
    return new;
}

struct relock_resource *relock_resources_new_fair_waiter(struct relock_client *client,
                                                         struct relock_resource *primary)
{
    return new_secondary(client, primary->kind, primary, RELOCK_RESOURCE_FAIR_WAITER);
}

/* ---- ending -------------------------------------------------------------------------------- */

static void unset_timers(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_contention *contention = resource->contention;

    if (!contention)
        return;
    relock_client_unset_timer(client, &contention->subscription.timer);
    relock_client_unset_timer(client, &contention->inbox.timer);
    relock_client_unset_timer(client, &contention->line.timer);
}

static void destroy(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    unset_timers(client, resource);
    switch ((enum relock_resource_role)resource->role) {
    case RELOCK_RESOURCE_NAMED:
        relock_table_remove(&client->guarded.resources, &resource->as.named.link);
        break;
    case RELOCK_RESOURCE_UNLISTED:
        resource->as.unlisted.free_data(client, resource->as.unlisted.data);
        break;
    case RELOCK_RESOURCE_READERS:
    case RELOCK_RESOURCE_FAIR_WAITER:
        DL_DELETE2(resource->primary->as.named.secondaries, resource, as.secondary.prev,
                   as.secondary.next);
        break;
    }
    relock_shortcut_free(resource->shortcut);
    free(resource->contention);
    free(resource);
}

/* Not inlined: most callers drop another reference than the last one. */
__attribute__((noinline)) static void end(struct relock_client *client,
                                          struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    do {
        struct relock_resource *primary = resource->primary;

        if (primary == resource)
            primary = NULL;
        destroy(client, resource);
        resource = primary; /* loses the reference of its secondary */
    } while (resource && --resource->refs == 0);
}

void relock_resources_unref(struct relock_client *client, struct relock_resource *resource)
{
    if (resource && --resource->refs == 0)
        end(client, resource);
}

/* Of the references to it, `n_kept` stay. */
static void drop(struct relock_client *client, struct relock_resource *resource, unsigned n_kept)
    RELOCK_REQUIRES(client->mutex)
{
    unset_timers(client, resource);
    resource->refs = n_kept + 1;
    relock_resources_unref(client, resource);
}

void relock_resources_drop(struct relock_client *client, struct relock_resource *primary)
{
    struct relock_resource *at, *next;
    unsigned n_secondaries = 0;

    primary->refs++; /* the secondaries may have the only others */
    DL_FOREACH_SAFE2(relock_resource_secondaries(primary), at, next, as.secondary.next)
    {
        n_secondaries += at->n_handles > 0; /* it stays */
        drop(client, at, at->n_handles);
    }
    drop(client, primary, primary->n_handles + n_secondaries);
}
