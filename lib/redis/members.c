#include "redis/members.h"

#include "base/hash.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for host:port. */
#define NAME_MAX_LEN (RELOCK_HOST_MAX + 8)

struct relock_member {
    struct relock_node node;
    struct relock_server server;
    UT_hash_handle hh;
    char name[NAME_MAX_LEN]; /* host:port */
};

void relock_members_init(struct relock_members *members, const struct relock_server *cluster,
                         unsigned n_lanes, _Atomic(struct relock_node *) *list)
{
    members->cluster = cluster;
    members->n_lanes = n_lanes;
    members->list = list;
    members->guarded.by_address = NULL;
    relock_mutex_init(&members->mutex);
    for (unsigned i = 0; i < RELOCK_SLOTS; i++)
        atomic_init(&members->slots[i], NULL);
}

static struct relock_member *destroy(struct relock_member *member)
{
    relock_node_deinit(&member->node);
    relock_server_deinit_node(&member->server);
    free(member);
    return NULL;
}

void relock_members_deinit(struct relock_members *members)
{
    struct relock_member *at = members->guarded.by_address;

    HASH_CLEAR(hh, members->guarded.by_address);
    while (at) {
        struct relock_member *next = at->hh.next;

        (void)destroy(at);
        at = next;
    }
    relock_mutex_deinit(&members->mutex);
}

static struct relock_member *make(const struct relock_members *members,
                                  const struct relock_address *address)
{
    struct relock_member *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    if (relock_server_init_node(&new->server, members->cluster, address->host, address->port) < 0) {
        free(new);
        return NULL;
    }
    if (relock_node_init(&new->node, &new->server, members->n_lanes) < 0)
        return destroy(new);
    return new;
}

/* Threads may be walking along the list. */
static void publish(_Atomic(struct relock_node *) *list, struct relock_node *node)
{
    node->next = atomic_load(list);
    atomic_store(list, node);
}

static struct relock_member *add(struct relock_members *members, const char *name,
                                 const struct relock_address *address)
    RELOCK_REQUIRES(members->mutex)
{
    struct relock_member *new = make(members, address);

    if (!new)
        return NULL;
    (void)snprintf(new->name, sizeof(new->name), "%s", name);
    HASH_ADD_STR(members->guarded.by_address, name, new);
    if (!new->hh.tbl)
        return destroy(new);
    publish(members->list, &new->node);
    return new;
}

struct relock_node *relock_members_at(struct relock_members *members,
                                      const struct relock_address *address)
{
    struct relock_member *member;
    char name[NAME_MAX_LEN];

    (void)snprintf(name, sizeof(name), "%s:%u", address->host, address->port);
    relock_mutex_lock(&members->mutex);
    HASH_FIND_STR(members->guarded.by_address, name, member);
    if (!member)
        member = add(members, name, address);
    relock_mutex_unlock(&members->mutex);
    return member ? &member->node : NULL;
}

bool relock_members_assign(struct relock_members *members, unsigned first, unsigned last,
                           struct relock_node *node)
{
    bool has_changed = false;

    for (unsigned i = first; i <= last; i++)
        has_changed |= atomic_exchange(&members->slots[i], node) != node;
    return has_changed;
}

bool relock_members_has_slot(struct relock_members *members, const struct relock_node *node)
{
    for (unsigned i = 0; i < RELOCK_SLOTS; i++)
        if (relock_members_of_slot(members, i) == node)
            return true;
    return false;
}
