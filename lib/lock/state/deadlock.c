/*
 * A search in breadth: from the lock that is waited for to its holders, from each holder to the
 * locks that it waits for. Each lock is visited once, so a search takes as many steps as there are
 * holds and waits, however many paths there are. Mostly the holder waits for nothing, and one look
 * into a table of waits is all.
 */
#include "lock/state/resource.h"

#include "base/clock.h"

#include <stdio.h>
#include <string.h>

/* Locks that the log names; a longer cycle is cut short there. */
#define NAMED_MAX 3

struct search {
    struct relock_client *client;
    uint64_t owner;  /* that must not be found */
    uint64_t number; /* of this search */
    uint64_t now_ms;
    struct relock_resource *first; /* for which that owner waits */
    struct relock_resource *last;  /* to be visited */
    struct relock_resource *found; /* held by that owner: the cycle is closed */
};

/* The functions of this file are called with the mutex of the client, which clang cannot know to be
 * that of the search. */
#define STEP RELOCK_UNCHECKED static

STEP struct relock_waiter **waits_of(struct relock_client *client, uint64_t owner)
{
    return &client->guarded.asleep[owner % RELOCK_ASLEEP_PARTS];
}

/* The search has come to a lock: `owner`, which holds `from`, waits for it. */
STEP void reach(struct search *search, struct relock_resource *resource,
                struct relock_resource *from, uint64_t owner)
{
    struct relock_search *met = &resource->contention->search;

    if (met->number == search->number)
        return;
    *met = (struct relock_search){
        .number = search->number,
        .held_before = from,
        .owner = owner,
    };
    if (search->last)
        search->last->contention->search.next = resource;
    search->last = resource;
}

/* The owner stands in the way of those that wait for `resource`. But a wait for permits may end
 * when any of their owners gives some back. Only Redis knows these, so lib/deadlock searches there.
 */
STEP void follow(struct search *search, struct relock_resource *resource, uint64_t owner)
{
    const struct relock_waiter *at;

    if (resource->kind->has_permits)
        return;
    if (owner == search->owner) {
        if (resource != search->first)
            search->found = resource;
        return;
    }
    DL_FOREACH2(*waits_of(search->client, owner), at, asleep_next)
    {
        if (at->owner == owner && at->end == RELOCK_WAITER_WAITS)
            reach(search, relock_resource_wanted(at), resource, owner);
    }
}

/* A fixed lease ends by itself, so a wait for such a hold does not depend on its owner. */
STEP void follow_holders(struct search *search, struct relock_resource *resource,
                         const struct relock_hold *holds)
{
    const struct relock_hold *hold;

    LL_FOREACH(holds, hold)
    {
        if (!hold->detached && hold->keeping != RELOCK_HOLD_FIXED &&
            relock_hold_is_certain(hold, search->now_ms))
            follow(search, resource, hold->owner);
    }
}

/* A reader waits for the writer alone; a writer waits for both sides. */
STEP void visit(struct search *search, struct relock_resource *resource)
{
    const struct relock_resource *readers = relock_resource_readers(resource->primary);

    follow_holders(search, resource, resource->primary->holds);
    if (readers && resource != readers)
        follow_holders(search, resource, readers->holds);
}

STEP bool is_deadlock(struct search *search)
{
    struct relock_resource *at;

    search->number = ++search->client->guarded.n_searches;
    reach(search, search->first, NULL, search->owner);
    for (at = search->first; at && !search->found; at = at->contention->search.next)
        visit(search, at);
    return search->found != NULL;
}

/* "this owner holds a, for which owner 4 waits, who holds b": backwards, as the search came. */
STEP void explain(const struct search *search, char why[RELOCK_WHY_MAX])
{
    const struct relock_resource *at = search->found;
    char name[RELOCK_LOG_NAME_MAX];
    size_t len = (size_t)snprintf(why, RELOCK_WHY_MAX, "this owner holds ");

    for (int n = 0; at && n < NAMED_MAX && len < RELOCK_WHY_MAX; n++) {
        len += (size_t)snprintf(why + len, RELOCK_WHY_MAX - len, "%.60s",
                                relock_log_name(relock_resource_given(at), name));
        const struct relock_search *met = &at->contention->search;

        if (met->held_before && len < RELOCK_WHY_MAX)
            len += (size_t)snprintf(why + len, RELOCK_WHY_MAX - len,
                                    ", for which owner %llu waits, who holds ",
                                    (unsigned long long)met->owner);
        at = met->held_before;
    }
    if (len < RELOCK_WHY_MAX)
        (void)snprintf(why + len, RELOCK_WHY_MAX - len,
                       "%s; release this owner's locks and start again",
                       at ? "another lock of this cycle" : "");
}

bool relock_deadlock_wait_begins(struct relock_client *client, struct relock_waiter *waiter,
                                 char why[RELOCK_WHY_MAX])
{
    const struct relock_client_hook *hook;
    struct search search = {
        .client = client,
        .owner = waiter->owner,
        .now_ms = relock_clock_now_ms(),
        .first = relock_resource_wanted(waiter),
    };

    if (waiter->tries || waiter->is_asleep)
        return true;
    if (is_deadlock(&search)) {
        explain(&search, why);
        client->guarded.stats.deadlocks++;
        return false;
    }
    waiter->is_asleep = true;
    DL_APPEND2(*waits_of(client, waiter->owner), waiter, asleep_prev, asleep_next);
    RELOCK_HOOKS_FOREACH(client, hook, wait_begins)
    {
        hook->ops->wait_begins(client, waiter);
    }
    return true;
}

void relock_deadlock_wait_ends(struct relock_client *client, struct relock_waiter *waiter)
{
    const struct relock_client_hook *hook;

    if (!waiter->is_asleep)
        return;
    waiter->is_asleep = false;
    RELOCK_HOOKS_FOREACH(client, hook, wait_ends)
    {
        hook->ops->wait_ends(client, waiter);
    }
    DL_DELETE2(*waits_of(client, waiter->owner), waiter, asleep_prev, asleep_next);
}
