#include "group/opinion.h"

#include "group/group.h"

#include <string.h>

#define FREE_MS (-2)
#define NO_LEASE_MS (-1)

/* When a lock with that lease becomes free, for comparisons. */
static int64_t free_in(int64_t ttl_ms)
{
    return ttl_ms == NO_LEASE_MS ? INT64_MAX : ttl_ms;
}

/* ---- multi locks --------------------------------------------------------------------------- */

void relock_opinion_add(struct relock_inspection *composite, const struct relock_inspection *member,
                        const char *name, bool is_first)
{
    int64_t ttl_ms = composite->holder.ttl_ms;

    if (is_first || free_in(member->holder.ttl_ms) > free_in(ttl_ms))
        ttl_ms = member->holder.ttl_ms;
    if (composite->holder.n_holders == 0 && member->holder.n_holders > 0) {
        composite->holder = member->holder;
        composite->holder.member = name;
    }
    composite->holder.ttl_ms = ttl_ms;
    composite->is_locked = composite->is_locked || member->is_locked;
    if (is_first || member->own_count < composite->own_count)
        composite->own_count = member->own_count;
}

void relock_opinion_end(struct relock_inspection *composite, unsigned count)
{
    if (count < composite->own_count)
        composite->own_count = count;
}

/* ---- red locks ----------------------------------------------------------------------------- */

/* The least time in which so many of the servers that answered are free. */
static int64_t quorum_is_free_in(const struct relock_opinion *opinions, size_t n, unsigned quorum)
{
    int64_t soonest_ms = NO_LEASE_MS;

    for (size_t i = 0; i < n; i++) {
        int64_t ttl_ms = opinions[i].inspection.holder.ttl_ms;
        unsigned n_free = 0;

        for (size_t j = 0; j < n; j++)
            n_free += opinions[j].is_known &&
                      free_in(opinions[j].inspection.holder.ttl_ms) <= free_in(ttl_ms);
        if (opinions[i].is_known && n_free >= quorum && free_in(ttl_ms) < free_in(soonest_ms))
            soonest_ms = ttl_ms;
    }
    return soonest_ms;
}

/* The holder that most servers name; of several the first. */
static const struct relock_holder *most_named(const struct relock_opinion *opinions, size_t n)
{
    const struct relock_holder *found = NULL;
    unsigned n_most = 0;

    for (size_t i = 0; i < n; i++) {
        const struct relock_holder *holder = &opinions[i].inspection.holder;
        unsigned n_votes = 0;

        if (!opinions[i].is_known || holder->n_holders == 0)
            continue;
        /* Each of our votes has its own id. */
        for (size_t j = 0; j < n; j++)
            n_votes +=
                opinions[j].is_known && ((opinions[i].is_ours && opinions[j].is_ours) ||
                                         strcmp(opinions[j].inspection.holder.id, holder->id) == 0);
        if (n_votes > n_most) {
            n_most = n_votes;
            found = holder;
        }
    }
    return found;
}

struct relock_inspection relock_opinion_of_red(const struct relock_opinion *opinions, size_t n,
                                               unsigned count)
{
    unsigned quorum = relock_group_quorum(n);
    struct relock_inspection composite = {.holder = {.ttl_ms = FREE_MS}};
    const struct relock_holder *holder = most_named(opinions, n);
    unsigned n_ours = 0;
    unsigned n_unlocked = 0;
    int64_t ttl_ms = quorum_is_free_in(opinions, n, quorum);

    for (size_t i = 0; i < n; i++) {
        n_ours += opinions[i].is_ours;
        n_unlocked += opinions[i].is_known && !opinions[i].inspection.is_locked;
    }
    composite.is_locked = n_unlocked < quorum;
    composite.own_count = n_ours >= quorum ? count : 0;
    if (holder && ttl_ms != FREE_MS) {
        composite.holder = *holder;
        composite.holder.ttl_ms = ttl_ms;
        if (composite.own_count > 0 && holder->n_holders == 1)
            composite.holder.hold_count = composite.own_count;
    }
    return composite;
}
