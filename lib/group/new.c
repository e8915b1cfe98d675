/*
 * Making multi and red locks.
 */
#include "group/hooks.h"
#include "group/life.h"
#include "group/multilock.h"
#include "group/redlock.h"
#include "group/tally.h"

#define MIN_SERVERS 3

static int make(const struct relock_kind *kind, struct relock_lock *const *locks, size_t n,
                struct relock_lock **lock)
{
    int r = relock_hooks_attach(locks, n);

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

int relock_redlock_new(struct relock_lock *const *locks, size_t n, struct relock_lock **lock)
{
    if (!lock || !can_be_members(locks, n))
        return RELOCK_E_INVALID;
    return make(&relock_kind_red, locks, n, lock);
}
