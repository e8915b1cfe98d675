#include "lock/group.h"

#include "base/clock.h"
#include "base/fork.h"
#include "lock/holds.h"
#include "lock/sites.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------- */

static _Atomic(struct relock_group *) dead;

struct relock_group *relock_group_ref(struct relock_group *group)
{
    atomic_fetch_add(&group->refs, 1);
    return group;
}

void relock_group_unref(struct relock_group *group)
{
    if (!group || atomic_fetch_sub(&group->refs, 1) > 1)
        return;
    group->next_dead = atomic_load(&dead);
    while (!atomic_compare_exchange_weak(&dead, &group->next_dead, group))
        continue;
}

RELOCK_UNCHECKED static void destroy(struct relock_group *group)
{
    relock_group_remove_ears(group);
    for (size_t i = 0; i < group->n; i++)
        relock_lock_drop(group->members[i]);
    if (group->home && group->home->generation == relock_fork_generation()) {
        relock_mutex_lock(&group->home->mutex);
        relock_client_unref(group->home);
    }
    free(group->key);
    free(group);
}

void relock_group_bury(void)
{
    struct relock_group *group;

    /* The last member of one may be the end of another. */
    while (atomic_load_explicit(&dead, memory_order_relaxed)) {
        group = atomic_exchange(&dead, NULL);
        while (group) {
            struct relock_group *next = group->next_dead;

            destroy(group);
            group = next;
        }
    }
}

/* ---- members in order ---------------------------------------------------------------------- */

/* A member, and what it is sorted by: its client may be freed at any time. */
struct candidate {
    struct relock_lock *lock;       /* a handle of the group's own */
    const struct relock_site *home; /* what makes two sides of a read/write lock one lock */
    char *address;
    unsigned db;
};

static int order(const void *left, const void *right)
{
    const struct candidate *a = left;
    const struct candidate *b = right;
    int r = strcmp(a->lock->site->name, b->lock->site->name);

    if (r == 0)
        r = strcmp(a->address, b->address);
    if (r == 0)
        r = (a->db > b->db) - (a->db < b->db);
    if (r == 0)
        r = (a->lock->client->nth > b->lock->client->nth) -
            (a->lock->client->nth < b->lock->client->nth);
    if (r == 0)
        r = (a->lock->site > b->lock->site) - (a->lock->site < b->lock->site);
    return r;
}

RELOCK_UNCHECKED static int adopt(struct candidate *candidate, struct relock_lock *lock)
{
    struct relock_client *client = lock->client;
    struct relock_visit visit;
    int r;

    r = relock_client_enter(client, false, &visit);
    if (r < 0)
        return r;
    candidate->address = strdup(client->server.label);
    candidate->db = client->server.url.db;
    candidate->home = relock_site_home(lock->site);
    if (candidate->address)
        candidate->lock = relock_lock_for(client, lock->site, lock->site->name);
    if (candidate->lock)
        lock->site->refs++;
    relock_client_leave(client, &visit);
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
    return lock->site->group && lock->site->kind->calls;
}

static size_t count_members(struct relock_lock *const *locks, size_t n)
{
    size_t sum = 0;

    for (size_t i = 0; i < n; i++)
        sum += is_transparent(locks[i]) ? locks[i]->site->group->n : 1;
    return sum;
}

static int adopt_all(struct candidate *candidates, struct relock_lock *const *locks, size_t n)
{
    size_t n_adopted = 0;
    int r = RELOCK_OK;

    for (size_t i = 0; i < n && r == RELOCK_OK; i++) {
        const struct relock_group *group = locks[i]->site->group;

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
        if (candidates[i - 1].home == candidates[i].home)
            return RELOCK_E_INVALID;
    return RELOCK_OK;
}

/* ---- making -------------------------------------------------------------------------------- */

static uint64_t shortest_lease(const struct relock_group *group)
{
    uint64_t shortest_ms = UINT64_MAX;

    for (size_t i = 0; i < group->n; i++) {
        uint64_t ms = group->members[i]->client->options.watchdog_timeout_ms;

        if (ms < shortest_ms)
            shortest_ms = ms;
    }
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
        key[i + 1] = candidates[i].lock->site;
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
 * The name of the caller's first, as the group has it: that lives as long as the handle. A multi
 * lock has the name of one of its members, which are now among these.
 */
static const char *name_in(const struct relock_group *group, const struct relock_lock *first)
{
    for (size_t i = 0; i < group->n; i++) {
        const struct relock_site *site = group->members[i]->site;

        if (site == first->site || site->name == first->name)
            return site->name;
    }
    return group->members[0]->site->name;
}

/* Of the client of the caller's first, which is its home. */
RELOCK_UNCHECKED static int make_handle(struct relock_group *group, const struct relock_lock *first,
                                        struct relock_lock **lock)
{
    struct relock_client *home = first->client;
    struct relock_lock *made = NULL;
    struct relock_site *site;
    struct relock_visit visit;
    int r;

    r = relock_client_enter(home, false, &visit);
    if (r < 0)
        return r;
    group->home = home;
    home->guarded.refs++;
    r = relock_sites_get_group(home, group, name_in(group, first), &site);
    if (r == RELOCK_OK) {
        made = relock_lock_for(home, site, name_in(site->group, first));
        if (!made) {
            relock_sites_unref(home, site);
            r = RELOCK_E_NOMEM;
        }
    }
    relock_client_leave(home, &visit);
    if (r == RELOCK_OK)
        *lock = made;
    return r;
}

int relock_group_make(const struct relock_kind *kind, struct relock_lock *const *locks, size_t n,
                      struct relock_lock **lock)
{
    struct relock_group *group;
    int saved_errno = errno;
    int r;

    r = gather(kind, locks, n, &group);
    if (r == RELOCK_OK) {
        r = kind->calls ? RELOCK_OK : relock_group_lend_ears(group);
        if (r == RELOCK_OK)
            r = make_handle(group, locks[0], lock);
        relock_group_unref(group);
        relock_group_bury();
    }
    /* Compilers believe of calloc that it leaves errno alone, and so of this that it is idle. */
    *(volatile int *)&errno = saved_errno;
    return r;
}

/* ---- holds --------------------------------------------------------------------------------- */

struct relock_hold *relock_group_find(struct relock_group *group, uint64_t number)
{
    struct relock_site *site = relock_sites_find_group(group->home, group);
    struct relock_hold *hold;

    if (!site)
        return NULL;
    DL_FOREACH(site->holds, hold)
    if (hold->number == number)
        return hold;
    return NULL;
}

bool relock_group_lose(struct relock_group *group, uint64_t whole, size_t member, int reason)
{
    struct relock_hold *hold;

    relock_mutex_lock(&group->home->mutex);
    hold = relock_group_find(group, whole);
    if (hold && relock_hold_is_held(hold)) {
        hold->lost_member = (unsigned)member;
        relock_holds_lose(group->home, hold, reason, relock_clock_now_ms());
    }
    relock_mutex_unlock(&group->home->mutex);
    return hold != NULL;
}

RELOCK_UNCHECKED static int why_lost(const struct relock_lock *member, uint64_t owner)
{
    struct relock_visit visit;
    struct relock_hold *hold;
    int reason = RELOCK_LOST_GONE;

    if (relock_client_enter(member->client, false, &visit) < 0)
        return reason;
    hold = relock_site_find(member->site, owner);
    if (hold && hold->state == RELOCK_HOLD_LOST)
        reason = hold->lost_reason;
    relock_client_leave(member->client, &visit);
    return reason;
}

bool relock_group_miss(struct relock_group *group, uint64_t whole, size_t member, uint64_t owner)
{
    return relock_group_lose(group, whole, member, why_lost(group->members[member], owner));
}

RELOCK_UNCHECKED bool relock_group_join(struct relock_part *part, uint64_t owner)
{
    struct relock_lock *member = part->group->members[part->member];
    struct relock_visit visit;
    struct relock_hold *hold;
    bool joins;

    if (relock_client_enter(member->client, false, &visit) < 0)
        return false;
    hold = relock_site_find(member->site, owner);
    joins = hold && relock_hold_is_held(hold);
    if (joins)
        DL_APPEND(hold->parts, part);
    relock_client_leave(member->client, &visit);
    return joins;
}

RELOCK_UNCHECKED static struct relock_part *take_part(const struct relock_group *group,
                                                      const struct relock_lock *member,
                                                      uint64_t whole, uint64_t owner)
{
    struct relock_part *part = NULL;
    struct relock_visit visit;
    struct relock_hold *hold;

    if (relock_client_enter(member->client, false, &visit) < 0)
        return NULL;
    hold = relock_site_find(member->site, owner);
    if (hold) {
        DL_FOREACH(hold->parts, part)
        if (part->group == group && part->whole == whole)
            break;
        if (part)
            DL_DELETE(hold->parts, part);
    }
    relock_client_leave(member->client, &visit);
    return part;
}

void relock_group_part(struct relock_group *group, uint64_t whole, uint64_t owner)
{
    for (size_t i = 0; i < group->n; i++) {
        struct relock_part *part = take_part(group, group->members[i], whole, owner);

        if (part)
            relock_group_unref(part->group);
        free(part);
    }
}
