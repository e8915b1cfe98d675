/*
 * How multi and red locks are made.
 *
 * They take part in the life of the clients of their members through a hook, which is attached to a
 * client when the first such lock is made.
 */
#include "group/private.h"
#include "lock/state/resource.h"
#include "lock/wake/wake.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- the hook ------------------------------------------------------------------------------ */

static void end_waits(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_local *local = relock_local_of(client);
    const struct relock_local_call *call;
    const struct relock_group *group;

    DL_FOREACH(local->calls, call)
    {
        if (!relock_drain_admits(client, call->owner, false))
            relock_cancel_fire(call->stop);
    }
    for (group = local->groups; group; group = group->hh.next)
        relock_resource_wake_all(group->resource);
}

/* Locks of this client first, whose votes may be here, too; then votes for red locks elsewhere. */
static void let_go(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    relock_local_let_go(client);
    relock_votes_drop(client);
}

static bool is_drained(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    return relock_outbox_is_empty(&relock_local_of(client)->votes);
}

static void drop_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_local *local = relock_local_of(client);

    relock_outbox_drop_all(client, &local->votes);
    relock_outbox_drop_all(client, &local->inquiries);
}

const struct relock_client_hook_ops relock_local_ops = {
    .needs_messages = true,
    .end_waits = end_waits,
    .let_go = let_go,
    .is_drained = is_drained,
    .close = drop_all,
    .reap = relock_group_reap,
};

/* ---- members in order ---------------------------------------------------------------------- */

/* A member and its sort key, copied because its client may be freed at any time. */
struct candidate {
    struct relock_lock *lock;              /* a handle of the group's own */
    const struct relock_resource *primary; /* the two sides of a read/write lock have the same */
    char *address;
    unsigned db;
};

static int order(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;
    int r = strcmp(a->lock->resource->name, b->lock->resource->name);

    if (r == 0)
        r = strcmp(a->address, b->address);
    if (r == 0)
        r = (a->db > b->db) - (a->db < b->db);
    if (r == 0)
        r = (a->lock->client->nth > b->lock->client->nth) -
            (a->lock->client->nth < b->lock->client->nth);
    if (r == 0)
        r = (a->lock->resource > b->lock->resource) - (a->lock->resource < b->lock->resource);
    return r;
}

/* From now on, the client of the member takes part in the life of composites. */
static int adopt(struct candidate *candidate, struct relock_lock *lock)
{
    struct relock_client *client = lock->client;
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard))
        return guard.result;
    candidate->db = client->server.url.db;
    candidate->primary = lock->resource->primary;
    if (relock_local_attach(client) == RELOCK_OK)
        candidate->address = strdup(client->server.label);
    if (candidate->address)
        candidate->lock = relock_lock_for(client, lock->resource, lock->resource);
    if (candidate->lock)
        lock->resource->refs++;
    relock_client_exit(client, &guard);
    return candidate->lock ? RELOCK_OK : RELOCK_E_NOMEM;
}

static void disown(struct candidate *candidates, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (candidates[i].lock)
            relock_lock_drop(candidates[i].lock);
        free(candidates[i].address);
    }
    free(candidates);
}

/* A multi lock stands for its members: taken as one member it could break the order of all. */
static bool is_transparent(const struct relock_lock *lock)
{
    return relock_group_of(lock->resource) && lock->resource->kind->is_collection;
}

static size_t count_members(struct relock_lock *const *locks, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += is_transparent(locks[i]) ? relock_group_of(locks[i]->resource)->n : 1;
    return sum;
}

static int adopt_all(struct candidate *candidates, struct relock_lock *const *locks, size_t n)
{
    size_t n_adopted = 0;
    int r = RELOCK_OK;

    for (size_t i = 0; i < n && r == RELOCK_OK; i++) {
        const struct relock_group *group = relock_group_of(locks[i]->resource);

        if (!is_transparent(locks[i])) {
            r = adopt(&candidates[n_adopted++], locks[i]);
            continue;
        }
        for (size_t j = 0; j < group->n && r == RELOCK_OK; j++)
            r = adopt(&candidates[n_adopted++], group->members[j]);
    }
    return r;
}

static int sort_members(struct candidate *candidates, size_t n)
{
    qsort(candidates, n, sizeof(*candidates), order);
    for (size_t i = 1; i < n; i++)
        if (candidates[i - 1].primary == candidates[i].primary)
            return relock_lock_refuse(candidates[i].lock,
                                      "relock_multilock_new: two members are this lock");
    return RELOCK_OK;
}

/* ---- making -------------------------------------------------------------------------------- */

static uint64_t shortest_lease(const struct relock_group *group)
{
    uint64_t shortest_ms = RELOCK_NEVER;

    for (size_t i = 0; i < group->n; i++)
        shortest_ms = relock_clock_sooner(shortest_ms,
                                          group->members[i]->client->options.watchdog_timeout_ms);
    return shortest_ms;
}

/* Takes the members over. NULL when out of memory. */
static struct relock_group *new_group(const struct relock_kind *kind, struct candidate *candidates,
                                      size_t n)
{
    struct relock_group *group = calloc(1, sizeof(*group) + (n * sizeof(struct relock_lock *)));
    const void **key = calloc(n + 1, sizeof(*key));

    if (!group || !key) {
        free(group);
        free(key);
        return NULL;
    }
    atomic_init(&group->refs, 1);
    group->kind = kind;
    group->n = n;
    group->key = key;
    group->key_size = (n + 1) * sizeof(*key);
    key[0] = kind;
    for (size_t i = 0; i < n; i++) {
        group->members[i] = candidates[i].lock;
        key[i + 1] = candidates[i].lock->resource;
        candidates[i].lock = NULL;
    }
    group->lease_ms = shortest_lease(group);
    return group;
}

static int gather(const struct relock_kind *kind, struct relock_lock *const *locks, size_t n,
                  struct relock_group **group)
{
    struct relock_group *new = NULL;
    size_t n_members = count_members(locks, n);
    struct candidate *candidates;
    int r;

    assert(n_members > 0);
    candidates = calloc(n_members, sizeof(*candidates));
    if (!candidates)
        return RELOCK_E_NOMEM;
    r = adopt_all(candidates, locks, n);
    if (r == RELOCK_OK)
        r = sort_members(candidates, n_members);
    if (r == RELOCK_OK)
        new = new_group(kind, candidates, n_members);
    disown(candidates, n_members);
    if (r == RELOCK_OK && !new)
        return RELOCK_E_NOMEM;
    *group = new;
    return r;
}

/*
 * The member that the caller's first lock is named after: it lives as long as the handle. A multi
 * lock has the name of one of its members, which are now among these.
 */
static const struct relock_resource *named_in(const struct relock_group *group,
                                              const struct relock_lock *first)
{
    for (size_t i = 0; i < group->n; i++) {
        const struct relock_resource *resource = group->members[i]->resource;

        if (resource == first->resource || resource == relock_lock_named(first))
            return resource;
    }
    return group->members[0]->resource;
}

/* The client of the caller's first lock. */
static int set_coordinator(struct relock_group *group, struct relock_client *client)
{
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard))
        return guard.result;
    group->coordinator = client;
    client->guarded.refs++;
    relock_client_exit(client, &guard);
    return RELOCK_OK;
}

static int make_handle(struct relock_group *group, const struct relock_lock *first,
                       struct relock_lock **lock)
{
    struct relock_client *coordinator = group->coordinator;
    struct relock_lock *made = NULL;
    struct relock_resource *resource;
    struct relock_guard guard;
    int r;

    if (!relock_client_enter(coordinator, false, &guard))
        return guard.result;
    r = relock_local_get(coordinator, group, named_in(group, first), &resource);
    if (r == RELOCK_OK) {
        made = relock_lock_for(coordinator, resource, named_in(relock_group_of(resource), first));
        if (!made) {
            relock_resources_unref(coordinator, resource);
            r = RELOCK_E_NOMEM;
        }
    }
    relock_client_exit(coordinator, &guard);
    if (r == RELOCK_OK)
        *lock = made;
    return r;
}

/*
 * Makes a handle for the lock of this kind that is made of `locks`; members of multi locks among
 * them become members.
 *
 * Returns as relock_multilock_new.
 */
static int make(const struct relock_kind *kind, struct relock_lock *const *locks, size_t n,
                struct relock_lock **lock)
{
    struct relock_thread_state thread;
    struct relock_group *group;
    int r;

    relock_thread_enter(&thread);
    r = gather(kind, locks, n, &group);
    if (r == RELOCK_OK) {
        r = set_coordinator(group, locks[0]->client); /* before a listener needs it */
        if (r == RELOCK_OK && !kind->is_collection)
            r = relock_group_add_listeners(group);
        if (r == RELOCK_OK)
            r = make_handle(group, locks[0], lock);
        relock_group_unref(group);
        relock_group_reap();
    }
    relock_thread_restore(&thread);
    return r;
}

/* ---- constructors -------------------------------------------------------------------------- */

#define MIN_SERVERS 3

/* Logs the reason by the client of the first member that is not NULL, if there is one. */
static int refuse(struct relock_lock *const *locks, size_t n, const char *what)
{
    for (size_t i = 0; locks && i < n; i++)
        if (locks[i])
            return relock_lock_refuse(locks[i], what);
    return RELOCK_E_INVALID;
}

static bool has_null(struct relock_lock *const *locks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!locks[i])
            return true;
    return false;
}

int relock_multilock_new(struct relock_lock *const *locks, size_t n, struct relock_lock **lock)
{
    if (!locks || n == 0)
        return RELOCK_E_INVALID; /* no client has a log for it */
    if (!lock)
        return refuse(locks, n, "relock_multilock_new: `lock` is NULL");
    if (has_null(locks, n))
        return refuse(locks, n, "relock_multilock_new: a member is NULL");
    return make(&relock_kind_multi, locks, n, lock);
}

/* Returns why not; NULL: they can. */
static const char *why_no_members(struct relock_lock *const *locks, size_t n)
{
    if (n < MIN_SERVERS || n > RELOCK_TALLY_MAX || n % 2 == 0)
        return "relock_redlock_new: `n` is not 3, 5, 7 or 9";
    if (has_null(locks, n))
        return "relock_redlock_new: a member is NULL";
    if (relock_group_has_semaphore(locks, n))
        return "relock_redlock_new: a member is a semaphore";
    for (size_t i = 0; i < n; i++) {
        if (relock_group_of(locks[i]->resource))
            return "relock_redlock_new: a member is a multi or red lock";
        for (size_t j = 0; j < i; j++)
            if (locks[j]->client == locks[i]->client)
                return "relock_redlock_new: two members have the same client: each needs a client "
                       "and a server of its own";
    }
    return NULL;
}

/* A quorum means nothing if one failover can take several votes. */
static bool is_on_cluster(const struct relock_lock *member)
{
    const struct relock_client *client = member->client;
    char name[RELOCK_LOG_NAME_MAX];

    if (!client->server.url.cluster)
        return false;
    relock_log_write(&client->log, RELOCK_LOG_ERROR,
                     "%s: no red lock was made: a member is in the cluster %s, and each needs a "
                     "server of its own: in a cluster, use the lock itself",
                     relock_log_name(relock_lock_named(member)->name, name), client->server.label);
    return true;
}

int relock_redlock_new(struct relock_lock *const *locks, size_t n, struct relock_lock **lock)
{
    const char *why = lock ? NULL : "relock_redlock_new: `lock` is NULL";

    if (!locks)
        return RELOCK_E_INVALID;
    if (!why)
        why = why_no_members(locks, n);
    if (why)
        return refuse(locks, n, why);
    for (size_t i = 0; i < n; i++)
        if (is_on_cluster(locks[i]))
            return RELOCK_E_UNSUPPORTED;
    return make(&relock_kind_red, locks, n, lock);
}
