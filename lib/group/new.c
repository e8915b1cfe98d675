/*
 * Making multi and red locks. They take part in the life of the clients of their members through
 * a hook, which is attached to a client when the first such lock is made.
 */
#include "group/life.h"
#include "group/local.h"
#include "group/multilock.h"
#include "group/redlock.h"
#include "group/tally.h"

#define MIN_SERVERS 3

/* ---- the hook ------------------------------------------------------------------------------ */

static void shut_down(struct relock_client *client) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_local *local = relock_local_of(client);
    const struct relock_local_call *call;
    const struct relock_group *group;

    DL_FOREACH(local->calls, call)
    relock_cancel_fire(call->stop);
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
    .shut_down = shut_down,
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

int relock_multilock_new(struct relock_lock *const *locks, size_t n, struct relock_lock **lock)
{
    if (!locks || n == 0 || !lock)
        return RELOCK_E_INVALID;
    for (size_t i = 0; i < n; i++)
        if (!locks[i])
            return RELOCK_E_INVALID;
    return make(&relock_kind_multi, locks, n, lock);
}

static bool can_be_members(struct relock_lock *const *locks, size_t n)
{
    if (!locks || n < MIN_SERVERS || n > RELOCK_TALLY_MAX || n % 2 == 0)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!locks[i] || relock_group_of(locks[i]->resource))
            return false;
        for (size_t j = 0; j < i; j++)
            if (locks[j]->client == locks[i]->client)
                return false;
    }
    return true;
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
    if (!lock || !can_be_members(locks, n))
        return RELOCK_E_INVALID;
    for (size_t i = 0; i < n; i++)
        if (is_on_cluster(locks[i]))
            return RELOCK_E_UNSUPPORTED;
    return make(&relock_kind_red, locks, n, lock);
}
