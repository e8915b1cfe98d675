/*
 * Making multi and red locks. They take part in the life of the clients of their members through
 * a hook, which is attached to a client when the first such lock is made.
 */
#include "group/life.h"
#include "group/local.h"
#include "group/multilock.h"
#include "group/redlock.h"
#include "group/tally.h"
#include "lock/wake/drain.h"

#define MIN_SERVERS 3

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
    relock_redlock_drop_votes(client);
}

static bool is_drained(const struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    return relock_outbox_is_empty(&relock_local_of(client)->votes);
}

static bool turn(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_local *local = relock_local_of(client);

    relock_outbox_send_all(client, &local->votes);
    relock_outbox_send_all(client, &local->inquiries);
    return local->votes.posted != NULL;
}

static void drop_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    struct relock_local *local = relock_local_of(client);

    relock_outbox_drop_all(client, &local->votes);
    relock_outbox_drop_all(client, &local->inquiries);
}

static const struct relock_client_hook_ops ops = {
    .end_waits = end_waits,
    .let_go = let_go,
    .is_drained = is_drained,
    .turn = turn,
    .close = drop_all,
    .reap = relock_group_reap,
    .free = relock_local_free,
};

/* The clients of these locks, which are to be members, take part in the life of composites from now
 * on. Returns RELOCK_OK, RELOCK_E_NOMEM, or that a client cannot be entered. */
static int attach(struct relock_lock *const *locks, size_t n)
{
    int r = RELOCK_OK;

    for (size_t i = 0; i < n && r == RELOCK_OK; i++) {
        struct relock_client *client = locks[i]->client;
        struct relock_guard guard;

        if (!relock_client_enter(client, false, &guard))
            return guard.result;
        r = relock_local_attach(client, &ops);
        relock_client_leave(client, &guard);
    }
    return r;
}

/* ---- constructors -------------------------------------------------------------------------- */

static int make(const struct relock_kind *kind, struct relock_lock *const *locks, size_t n,
                struct relock_lock **lock)
{
    int r = attach(locks, n);

    return r == RELOCK_OK ? relock_group_make(kind, locks, n, lock) : r;
}

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
                     relock_log_name(member->named->name, name), client->server.label);
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
