#include "group/group.h"

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

struct relock_group *relock_group_take_unreferenced(void)
{
    if (!atomic_load_explicit(&unreferenced, memory_order_relaxed))
        return NULL;
    return atomic_exchange(&unreferenced, NULL);
}
