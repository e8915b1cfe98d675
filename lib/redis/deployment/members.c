#include "redis/deployment/private.h"

#include "base/hash.h"
#include "base/status.h"
#include "redis/server/peer.h"
#include "redis/server/resolve.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for host:port. */
#define NAME_MAX_LEN (RELOCK_HOST_MAX + 8)

struct relock_member {
    struct relock_node node;
    struct relock_server server;
    UT_hash_handle hh;
    char name[NAME_MAX_LEN];     /* host:port */
    char ip[RELOCK_PEER_IP_MAX]; /* another name of the host; or "" */
    atomic_uint n_slots;         /* changed under the mutex */
};

static struct relock_member *member_of(const struct relock_node *node)
{
    return (struct relock_member *)node;
}

void relock_members_init(struct relock_members *members, const struct relock_server *cluster,
                         unsigned n_lanes, _Atomic(struct relock_node *) *list)
{
    members->cluster = cluster;
    members->n_lanes = n_lanes;
    members->list = list;
    members->guarded.by_address = NULL;
    members->guarded.n = 0;
    members->guarded.is_full = false;
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

static struct relock_member *make(const struct relock_members *members, const char *host,
                                  uint16_t port)
{
    struct relock_member *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    if (relock_server_init_node(&new->server, members->cluster, host, port) < 0) {
        free(new);
        return NULL;
    }
    if (relock_node_init(&new->node, &new->server, members->n_lanes) < 0)
        return destroy(new);
    new->server.node = &new->node;
    new->server.node_refs = &new->node.refs;
    return new;
}

/* The I/O thread may be walking along the list. */
static void publish(_Atomic(struct relock_node *) *list, struct relock_node *node)
{
    node->next = atomic_load(list);
    atomic_store(list, node);
}

static void unlink_node(_Atomic(struct relock_node *) *list, struct relock_node *node)
{
    struct relock_node *at = atomic_load(list);

    if (at == node) {
        atomic_store(list, node->next);
        return;
    }
    while (at->next != node)
        at = at->next;
    at->next = node->next;
}

/* ---- references ---------------------------------------------------------------------------- */

/* A caller is about to use the node: the I/O thread does not free it for a while. */
static struct relock_node *take(struct relock_node *node)
{
    atomic_fetch_add(&node->refs, 1);
    atomic_store(&node->was_used, true);
    return node;
}

struct relock_node *relock_members_take(struct relock_members *members, unsigned slot)
{
    struct relock_node *node;

    relock_mutex_lock(&members->mutex);
    node = atomic_load(&members->slots[slot]);
    if (node)
        (void)take(node);
    relock_mutex_unlock(&members->mutex);
    return node;
}

struct relock_node *relock_members_next(struct relock_members *members,
                                        const struct relock_node *node)
{
    struct relock_node *next;

    relock_mutex_lock(&members->mutex);
    next = node ? node->next : atomic_load(members->list);
    if (next)
        atomic_fetch_add(&next->refs, 1);
    relock_mutex_unlock(&members->mutex);
    return next;
}

unsigned relock_members_with_slots(struct relock_members *members,
                                   struct relock_node *nodes[RELOCK_MEMBERS_MAX])
{
    struct relock_node *at;
    unsigned n = 0;

    relock_mutex_lock(&members->mutex);
    for (at = atomic_load(members->list); at; at = at->next)
        if (relock_members_has_slot(at))
            nodes[n++] = take(at);
    relock_mutex_unlock(&members->mutex);
    return n;
}

bool relock_members_remove(struct relock_members *members, struct relock_node *node)
{
    struct relock_member *member = member_of(node);
    bool is_unused;

    relock_mutex_lock(&members->mutex);
    is_unused = atomic_load(&node->refs) == 0 && !relock_members_has_slot(node);
    if (is_unused) {
        HASH_DEL(members->guarded.by_address, member);
        unlink_node(members->list, node);
        members->guarded.n--;
        members->guarded.is_full = false;
    }
    relock_mutex_unlock(&members->mutex);
    if (!is_unused)
        return false;
    relock_log_write(members->cluster->log, RELOCK_LOG_DEBUG,
                     "%s: %s has no slots any more, and nothing uses it: forgotten until the "
                     "cluster names it again",
                     members->cluster->label, member->server.label);
    (void)destroy(member);
    return true;
}

/* ---- addresses ----------------------------------------------------------------------------- */

static void write_name(char name[NAME_MAX_LEN], const char *host, uint16_t port)
{
    (void)snprintf(name, NAME_MAX_LEN, "%s:%u", host, port);
}

static struct relock_member *find(struct relock_members *members, const char *host, uint16_t port)
    RELOCK_REQUIRES(members->mutex)
{
    struct relock_member *member;
    char name[NAME_MAX_LEN];

    write_name(name, host, port);
    HASH_FIND_STR(members->guarded.by_address, name, member);
    return member;
}

static struct relock_member *find_by_ip(struct relock_members *members, const char *ip,
                                        uint16_t port) RELOCK_REQUIRES(members->mutex)
{
    struct relock_member *at = members->guarded.by_address;

    while (at && (at->server.url.port != port || strcmp(at->ip, ip) != 0))
        at = at->hh.next;
    return at;
}

static int add(struct relock_members *members, const char *host, const char *ip, uint16_t port,
               struct relock_member **member) RELOCK_REQUIRES(members->mutex)
{
    struct relock_member *new;

    if (members->guarded.n == RELOCK_MEMBERS_MAX)
        return RELOCK_E_SERVER;
    new = make(members, host, port);
    if (!new)
        return RELOCK_E_NOMEM;
    write_name(new->name, host, port);
    (void)snprintf(new->ip, sizeof(new->ip), "%s", ip);
    HASH_ADD_STR(members->guarded.by_address, name, new);
    if (!new->hh.tbl) {
        (void)destroy(new);
        return RELOCK_E_NOMEM;
    }
    members->guarded.n++;
    publish(members->list, &new->node);
    *member = new;
    return RELOCK_OK;
}

/* A node that does not know its own host is at the host that was asked. Other nodes may name it by
 * its address in digits. */
static int find_or_add(struct relock_members *members, const struct relock_address *address,
                       const struct relock_origin *origin, struct relock_member **member)
    RELOCK_REQUIRES(members->mutex)
{
    bool is_there = *address->host == '\0';
    const char *host = is_there ? origin->host : address->host;

    *member = find(members, host, address->port);
    if (!*member && is_there)
        *member = find(members, origin->ip, address->port);
    else if (!*member)
        *member = find_by_ip(members, host, address->port);
    return *member ? RELOCK_OK
                   : add(members, host, is_there ? origin->ip : "", address->port, member);
}

static bool is_to_be_said(struct relock_members *members, int result)
    RELOCK_REQUIRES(members->mutex)
{
    bool is_new = result == RELOCK_E_SERVER && !members->guarded.is_full;

    members->guarded.is_full |= is_new;
    return is_new;
}

static void say_full(const struct relock_members *members, const struct relock_address *address)
{
    relock_log_write(members->cluster->log, RELOCK_LOG_WARNING,
                     "%s: the cluster names more than %d masters; %s:%u and further ones are not "
                     "used, and locks of their slots fail; check that the url leads to a cluster "
                     "you trust",
                     members->cluster->label, RELOCK_MEMBERS_MAX, address->host, address->port);
}

struct relock_origin relock_members_origin(const struct relock_node *node)
{
    return (struct relock_origin){.host = node->server->url.host, .ip = member_of(node)->ip};
}

/* ---- slots --------------------------------------------------------------------------------- */

static void assign(struct relock_members *members, const struct relock_slot_range *range,
                   struct relock_member *member) RELOCK_REQUIRES(members->mutex)
{
    for (unsigned i = range->first; i <= range->last; i++) {
        struct relock_node *old = atomic_load(&members->slots[i]);

        if (old == &member->node)
            continue;
        if (old)
            atomic_fetch_sub(&member_of(old)->n_slots, 1);
        atomic_fetch_add(&member->n_slots, 1);
        atomic_store(&members->slots[i], &member->node);
    }
}

/* `range`: the slots that the node gets; NULL: none. */
static int look_up(struct relock_members *members, const struct relock_address *address,
                   const struct relock_origin *origin, const struct relock_slot_range *range,
                   struct relock_node **node)
{
    struct relock_member *member;
    bool is_to_say;
    int r;

    relock_mutex_lock(&members->mutex);
    r = find_or_add(members, address, origin, &member);
    if (r == RELOCK_OK && range)
        assign(members, range, member);
    if (r == RELOCK_OK)
        *node = take(&member->node);
    is_to_say = is_to_be_said(members, r);
    relock_mutex_unlock(&members->mutex);
    if (is_to_say)
        say_full(members, address);
    if (r == RELOCK_E_NOMEM)
        relock_log_write(members->cluster->log, RELOCK_LOG_WARNING,
                         "%s: the node %s:%u cannot be used: " RELOCK_RESOLVER_WHY,
                         members->cluster->label, address->host, address->port);
    return r;
}

int relock_members_at(struct relock_members *members, const struct relock_address *address,
                      const struct relock_origin *origin, struct relock_node **node)
{
    return look_up(members, address, origin, NULL, node);
}

int relock_members_assign(struct relock_members *members, const struct relock_slot_range *range,
                          const struct relock_origin *origin, struct relock_node **node)
{
    return look_up(members, &range->master, origin, range, node);
}

bool relock_members_has_slot(const struct relock_node *node)
{
    return atomic_load(&member_of(node)->n_slots) > 0;
}
