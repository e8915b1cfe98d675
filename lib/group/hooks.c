#include "group/hooks.h"

#include "group/composites.h"
#include "group/life.h"
#include "group/local.h"
#include "group/redlock.h"

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
    relock_composites_let_go(client);
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

int relock_hooks_attach(struct relock_lock *const *locks, size_t n)
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
