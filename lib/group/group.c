#include "group/private.h"

#include <stdlib.h>

static _Atomic(struct relock_group *) unreferenced;

struct relock_group *relock_group_ref(struct relock_group *group)
{
    atomic_fetch_add(&group->refs, 1);
    return group;
}

bool relock_group_try_ref(struct relock_group *group)
{
    unsigned refs = atomic_load(&group->refs);

    while (refs > 0 && !atomic_compare_exchange_weak(&group->refs, &refs, refs + 1))
        continue;
    return refs > 0;
}

void relock_group_unref(struct relock_group *group)
{
    if (!group || atomic_fetch_sub(&group->refs, 1) > 1)
        return;
    group->next_to_reap = atomic_load(&unreferenced);
    while (!atomic_compare_exchange_weak(&unreferenced, &group->next_to_reap, group))
        continue;
}

static void destroy(struct relock_group *group)
{
    relock_group_remove_listeners(group);
    for (size_t i = 0; i < group->n; i++)
        relock_lock_drop(group->members[i]);
    if (group->coordinator)
        relock_client_unref(group->coordinator);
    free(group->key);
    free(group);
}

void relock_group_reap(void)
{
    /* The last member of one group may be the end of another. */
    while (atomic_load_explicit(&unreferenced, memory_order_relaxed)) {
        struct relock_group *group = atomic_exchange(&unreferenced, NULL);

        while (group) {
            struct relock_group *next = group->next_to_reap;

            destroy(group);
            group = next;
        }
    }
}

bool relock_group_has_semaphore(struct relock_lock *const *locks, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (locks[i]->resource->kind->has_permits)
            return true;
    return false;
}
