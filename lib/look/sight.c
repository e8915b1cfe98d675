#include "look/private.h"

#include "base/clock.h"
#include "base/decimal.h"
#include "base/hash.h"
#include "base/ident.h"
#include "kind/like.h"
#include "lock/state/keys.h"
#include "lock/state/kind.h"
#include "look/nodes.h"
#include "redis/deployment/run.h"
#include "redis/deployment/slot_map.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names of clients ---------------------------------------------------------------------- */

/* Asks all servers for CLIENT LIST, once. Names from a server that refuses or does not answer stay
 * unknown. */
static void ask_for_names(struct relock_sight *sight)
{
    const struct relock_text words[] = {relock_text_of("CLIENT"), relock_text_of("LIST")};
    struct relock_topology *topology = sight->client->topology;
    struct relock_names *names = &sight->names;
    struct relock_node *node = relock_nodes_next(topology, NULL);
    char why[RELOCK_WHY_MAX];

    names->were_asked = true;
    for (; node; node = relock_nodes_next(topology, node)) {
        struct redisReply **lists =
            realloc(names->lists, (names->n_lists + 1) * sizeof(struct redisReply *));
        struct redisReply *list;

        if (!lists)
            break;
        names->lists = lists;
        if (relock_nodes_ask(topology, node, words, 2, RELOCK_REPLY_TEXT,
                             relock_sight_deadline(sight), &list, why) == RELOCK_OK)
            names->lists[names->n_lists++] = list;
    }
    relock_topology_drop(topology, node);
}

static void names_deinit(struct relock_names *names)
{
    for (size_t i = 0; i < names->n_lists; i++)
        relock_reply_free(names->lists[i]);
    free(names->lists);
}

/* A line has `name=<client_name>:<client id> `, and the name of a client has no blanks. */
static bool find_in(struct relock_sight *sight, const char *list, const char *begin_of_id)
{
    const char *end = strstr(list, begin_of_id), *start = end;

    while (start && start > list && start[-1] != ' ' && start[-1] != '\n')
        start--;
    if (!end || strncmp(start, "name=", 5) != 0 || strcspn(end + 1, " ") != RELOCK_UUID_LEN)
        return false;
    start += 5;
    (void)snprintf(sight->peer, sizeof(sight->peer), "%.*s", (int)(end - start), start);
    (void)snprintf(sight->peer_id, sizeof(sight->peer_id), "%s", end + 1);
    return true;
}

/* Finds the client whose id begins so, behind a colon: `sight->peer` and `sight->peer_id`, or "".
 */
static void find_client(struct relock_sight *sight, const char *begin_of_id)
{
    const struct relock_names *names = &sight->names;
    const char *list;
    size_t len;

    sight->peer[0] = '\0';
    sight->peer_id[0] = '\0';
    if (!names->were_asked)
        ask_for_names(sight);
    for (size_t i = 0; i < names->n_lists; i++)
        if (relock_reply_text(names->lists[i], &list, &len) && find_in(sight, list, begin_of_id))
            return;
}

void relock_sight_find_name(struct relock_sight *sight, const char *owner)
{
    char id[RELOCK_UUID_LEN + 2];

    sight->peer[0] = '\0';
    if (strlen(owner) < RELOCK_UUID_LEN)
        return;
    (void)snprintf(id, sizeof(id), ":%.*s", RELOCK_UUID_LEN, owner);
    find_client(sight, id);
}

/* ---- the call ------------------------------------------------------------------------------ */

bool relock_sight_begin(struct relock_sight *sight, struct relock_client *client)
{
    *sight = (struct relock_sight){.client = client, .result = RELOCK_E_INVALID};
    if (!client)
        return false;
    if (!relock_client_enter(client, true, &sight->guard)) {
        sight->result = sight->guard.result;
        return false;
    }
    relock_mutex_unlock(&client->mutex);
    return true;
}

int relock_sight_end(struct relock_sight *sight, int result)
{
    struct relock_client *client = sight->client;

    if (result < 0)
        relock_log_cause(&client->log, ((struct relock_cause){"not read", result}),
                         RELOCK_LOG_WARNING, "locks were not read: %s%s%s", relock_strerror(result),
                         *sight->why ? ": " : "", sight->why);
    names_deinit(&sight->names);
    relock_mutex_lock(&client->mutex);
    relock_client_exit(client, &sight->guard);
    return result;
}

uint64_t relock_sight_deadline(const struct relock_sight *sight)
{
    return relock_clock_in(sight->client->options.command_timeout_ms);
}

int relock_sight_check(struct relock_sight *sight, const struct relock_node *first)
{
    if (first)
        return RELOCK_OK;
    (void)snprintf(sight->why, sizeof(sight->why), "no node of the cluster is known yet");
    return RELOCK_E_CONN;
}

static int run(struct relock_sight *sight, struct relock_call *call)
{
    int r = relock_call_run(call, sight->client->topology, relock_sight_deadline(sight));

    if (r < 0)
        (void)snprintf(sight->why, sizeof(sight->why), "%s", call->why);
    return r;
}

static void write_look(const struct relock_sight *sight, const struct relock_text *names, size_t n,
                       struct relock_text n_waiters, struct relock_call *call)
{
    *call = (struct relock_call){.script = &relock_script_look, .key = names[0], .n_args = 1};
    if (n > 1)
        call->more = names + 1;
    call->n_more_keys = call->n_more = n - 1;
    call->args[0] = n_waiters;
    if (sight->client->topology->is_cluster)
        call->args[call->n_args++] = (struct relock_text){"publish", 7};
}

int relock_sight_ask(struct relock_sight *sight, const struct relock_text *name, unsigned n_waiters,
                     struct relock_call *call)
{
    char number[RELOCK_DECIMAL_MAX];

    write_look(sight, name, 1, (struct relock_text){number, relock_decimal(number, n_waiters)},
               call);
    return run(sight, call);
}

int relock_sight_ask_all(struct relock_sight *sight, const struct relock_text *names, size_t n,
                         struct relock_call calls[RELOCK_SIGHT_MANY], size_t *n_calls)
{
    struct relock_topology *topology = sight->client->topology;
    size_t end;

    *n_calls = 0;
    for (size_t first = 0; first < n; first = end) {
        end = first + 1;
        while (end < n && (!topology->is_cluster ||
                           relock_slot_of(names[end]) == relock_slot_of(names[first])))
            end++;
        write_look(sight, names + first, end - first, relock_text_of("0"), &calls[(*n_calls)++]);
    }
    return relock_call_try_all(calls, *n_calls, topology, relock_sight_deadline(sight), sight->why);
}

/* The details that look.lua returns, in a list, about a lock of this kind. */
enum details { NOTHING, INSPECTION, HOLDER, NUMBER, PERMITS };

static const struct kind {
    const char *name;
    int kind;
    bool is_listed;
    enum details details;
} kinds[] = {
    {"free", RELOCK_KIND_NONE, false, NOTHING},
    {"reentrant", RELOCK_KIND_REENTRANT, true, INSPECTION},
    {"fenced", RELOCK_KIND_FENCED, true, INSPECTION},
    {"fair", RELOCK_KIND_FAIR, true, INSPECTION},
    {"rw", RELOCK_KIND_RW, true, INSPECTION},
    {"plain", RELOCK_KIND_PLAIN, true, INSPECTION},
    {"token", RELOCK_KIND_MAYBE_PLAIN, true, INSPECTION},
    {"string", RELOCK_KIND_MAYBE_PLAIN, false, INSPECTION},
    {"foreign", RELOCK_KIND_FOREIGN, true, HOLDER},
    {"semaphore", RELOCK_KIND_SEMAPHORE, true, PERMITS},
    {"semaphore?", RELOCK_KIND_MAYBE_SEMAPHORE, true, NUMBER},
    {"latch?", RELOCK_KIND_MAYBE_LATCH, true, NUMBER},
    {"number", RELOCK_KIND_NUMBER, false, NUMBER},
    {"other", RELOCK_KIND_OTHER, false, NOTHING},
};

static const struct kind *kind_of(const struct redisReply *reply)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (relock_reply_is(reply, kinds[i].name))
            return &kinds[i];
    return NULL;
}

/* Where the client of the holder has recorded since when it is held, and the field there. None, if
 * the holder is none of relock. */
static void find_record(const char *holder, struct relock_sight_age *age)
{
    size_t len = strlen(holder), prefix = (size_t)2 * RELOCK_TOKENS_PREFIX;
    bool is_token = strspn(holder, "0123456789abcdef") == len && len > prefix;

    if (!is_token && (len <= RELOCK_UUID_LEN || holder[RELOCK_UUID_LEN] != ':'))
        return;
    age->field = is_token ? holder : holder + RELOCK_UUID_LEN + 1;
    relock_since_key(age->record, holder, is_token ? prefix : RELOCK_UUID_LEN);
}

static int take_inspection(const struct redisReply *list, struct relock_sight *sight,
                           struct relock_sight_lock *lock)
{
    struct relock_inspection inspection;
    struct relock_holder *holder = &lock->info.holder;

    if (!relock_inspection_read(list, &inspection))
        return RELOCK_E_SERVER;
    *holder = inspection.holder;
    if (lock->info.kind == RELOCK_KIND_PLAIN)
        lock->info.library = relock_like_library(lock->name, holder->id);
    if (holder->n_holders == 0) { /* all readers are dead */
        lock->info.kind = RELOCK_KIND_NONE;
        lock->is_lock = false;
        return RELOCK_OK;
    }
    relock_sight_find_name(sight, holder->id);
    memcpy(lock->client_name, sight->peer, sizeof(lock->client_name));
    find_record(holder->id, &lock->age);
    return RELOCK_OK;
}

static int take_holder(const struct redisReply *list, struct relock_holder *holder)
{
    int64_t n_holders;
    const char *id;
    size_t len;

    if (!relock_reply_text(relock_reply_at(list, 0), &id, &len) ||
        !relock_reply_integer(relock_reply_at(list, 1), &n_holders) ||
        !relock_reply_integer(relock_reply_at(list, 2), &holder->ttl_ms))
        return RELOCK_E_SERVER;
    (void)snprintf(holder->id, sizeof(holder->id), "%s", id);
    holder->hold_count = 1;
    holder->n_holders = (unsigned)n_holders;
    return RELOCK_OK;
}

/* ---- semaphores and other numbers ----------------------------------------------------------- */

static bool read_number(const struct redisReply *reply, int64_t *number)
{
    const char *text;
    size_t len;

    if (!relock_reply_text(reply, &text, &len) || len == 0)
        return false;
    *number = strtoll(text, NULL, 10);
    return true;
}

/* A latch or a semaphore has no holder. Another number may be a plain lock of somebody. Clients may
 * wait for more permits than are free. */
static int take_number(const struct redisReply *list, struct relock_sight_lock *lock)
{
    struct relock_lock_info *info = &lock->info;
    struct relock_holder *holder = &info->holder;

    if (!read_number(relock_reply_at(list, 0), &info->number) ||
        !relock_reply_integer(relock_reply_at(list, 1), &holder->ttl_ms))
        return RELOCK_E_SERVER;
    if (info->kind == RELOCK_KIND_NUMBER) {
        (void)snprintf(holder->id, sizeof(holder->id), "%lld", (long long)info->number);
        holder->hold_count = 1;
        holder->n_holders = 1;
    }
    if (info->kind == RELOCK_KIND_MAYBE_LATCH)
        lock->is_lock = info->number > 0;
    else if (info->number > 0 && info->n_waiting == 0)
        lock->is_lock = false;
    return RELOCK_OK;
}

/* The id of a permit of relock begins with the first digits of its client's, without the dash, and
 * the number of the hold: relock_keys_permits(). */
static void describe_permits(struct relock_sight *sight, struct relock_sight_permits *permits)
{
    char client[16], number[17];
    unsigned long long bits;

    if (strlen(permits->id) != RELOCK_PERMIT_HEX)
        return; /* none of relock */
    (void)snprintf(client, sizeof(client), ":%.8s-%.4s-", permits->id, permits->id + 8);
    find_client(sight, client);
    if (*sight->peer_id) {
        (void)snprintf(number, sizeof(number), "%.16s", permits->id + 12);
        bits = strtoull(number, NULL, 16);
        (void)relock_decimal(permits->hold, (bits >> RELOCK_SERIAL_BITS) * RELOCK_SERIALS +
                                                (bits & ((UINT64_C(1) << RELOCK_SERIAL_BITS) - 1)));
        permits->age.field = permits->hold;
        relock_since_key(permits->age.record, sight->peer_id, RELOCK_UUID_LEN);
    }
    memcpy(permits->client_name, sight->peer, sizeof(permits->client_name));
}

static bool take_permits(struct relock_sight_permits *permits, const struct redisReply *reply,
                         size_t at)
{
    const char *id;
    size_t len;
    int64_t n;

    if (!relock_reply_text(relock_reply_at(reply, at), &id, &len) || len > RELOCK_PERMIT_HEX_MAX ||
        !relock_reply_integer(relock_reply_at(reply, at + 1), &n) || n < 0 ||
        !relock_reply_integer(relock_reply_at(reply, at + 2), &permits->info.ttl_ms))
        return false;
    memcpy(permits->id, id, len + 1);
    permits->info.id = permits->id;
    permits->info.client_name = permits->client_name;
    permits->info.n_permits = (uint64_t)n;
    permits->info.held_ms = -1;
    return true;
}

#define FIRST_PERMITS 2 /* in the list */

static int take_semaphore(const struct redisReply *list, struct relock_sight *sight,
                          struct relock_sight_lock *lock)
{
    struct relock_lock_info *info = &lock->info;
    struct relock_sight_permits *permits;
    int64_t n_out;
    size_t n = 0;

    info->is_unset = relock_reply_is(relock_reply_at(list, 0), "");
    if ((!info->is_unset && !read_number(relock_reply_at(list, 0), &info->number)) ||
        !relock_reply_integer(relock_reply_at(list, 1), &n_out) || n_out < 0)
        return RELOCK_E_SERVER;
    while (relock_reply_at(list, FIRST_PERMITS + 3 * n))
        n++;
    lock->permits = permits = calloc(n + 1, sizeof(*permits));
    if (!permits)
        return RELOCK_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        if (!take_permits(&permits[i], list, FIRST_PERMITS + 3 * i))
            return RELOCK_E_SERVER;
        describe_permits(sight, &permits[i]);
        permits[i].info.next = i + 1 < n ? &permits[i + 1].info : NULL;
    }
    info->n_out = (uint64_t)n_out;
    lock->is_lock = n_out > 0 || info->n_waiting > 0;
    if (n == 0)
        return RELOCK_OK;
    info->permits = &permits->info;
    info->client_name = permits->client_name;
    (void)snprintf(info->holder.id, sizeof(info->holder.id), "%.63s", permits->id);
    info->holder.ttl_ms = permits->info.ttl_ms;
    info->holder.hold_count = (unsigned)permits->info.n_permits;
    info->holder.n_holders = (unsigned)n_out;
    return RELOCK_OK;
}

/* ---- a lock --------------------------------------------------------------------------------- */

static int take_details(const struct redisReply *list, enum details details,
                        struct relock_sight *sight, struct relock_sight_lock *lock)
{
    switch (details) {
    case INSPECTION:
        return take_inspection(list, sight, lock);
    case HOLDER:
        return take_holder(list, &lock->info.holder);
    case NUMBER:
        return take_number(list, lock);
    case PERMITS:
        return take_semaphore(list, sight, lock);
    case NOTHING:
        break;
    }
    return RELOCK_OK;
}

int relock_sight_describe(struct relock_sight *sight, struct relock_text name,
                          const struct redisReply *element, struct relock_sight_lock *lock)
{
    const struct kind *kind = kind_of(relock_reply_at(element, 0));
    int64_t n_waiting;
    int r = RELOCK_E_SERVER;

    *lock = (struct relock_sight_lock){.name = strndup(name.data, name.len)};
    if (!lock->name)
        return RELOCK_E_NOMEM;
    if (kind && relock_reply_integer(relock_reply_at(element, 1), &n_waiting)) {
        lock->info = (struct relock_lock_info){
            .name = lock->name + sight->client->prefix_len,
            .kind = kind->kind,
            .client_name = lock->client_name,
            .n_waiting = (unsigned)n_waiting,
            .library = "",
        };
        lock->info.holder.ttl_ms = -2;
        lock->info.held_ms = -1;
        lock->is_lock = kind->is_listed;
        r = take_details(relock_reply_at(element, 3), kind->details, sight, lock);
    }
    if (r == RELOCK_E_SERVER)
        (void)snprintf(sight->why, sizeof(sight->why), RELOCK_VERDICT_UNREADABLE);
    return r;
}

void relock_sight_lock_deinit(struct relock_sight_lock *lock)
{
    free(lock->name);
    free(lock->permits);
}

/* ---- ages ---------------------------------------------------------------------------------- */

/* Scripts that read ages, beside one for each lock: in a cluster, the record of each client is on a
 * node of its own. */
#define AGES_MOST 32

/* Locks come before permits. */
static void want_age(struct relock_sight *sight, struct relock_sight_age *age, int64_t *held_ms,
                     char *client_name, bool is_first)
{
    if (!*age->record)
        return;
    age->held_ms = held_ms;
    age->client_name = client_name;
    if (is_first)
        DL_PREPEND(sight->ages, age);
    else
        DL_APPEND(sight->ages, age);
}

void relock_sight_want_ages(struct relock_sight *sight, struct relock_sight_lock *lock)
{
    struct relock_sight_permits *permits = lock->info.permits ? lock->permits : NULL;

    want_age(sight, &lock->age, &lock->info.held_ms, lock->client_name, true);
    for (; permits; permits = permits->info.next ? permits + 1 : NULL)
        want_age(sight, &permits->age, &permits->info.held_ms, permits->client_name, false);
}

/* The record also has the name of a client that has ended. */
static void take_age(const struct relock_sight_age *age, const struct redisReply *reply, size_t at)
{
    const char *client;
    size_t len;

    if (relock_reply_integer(relock_reply_at(reply, at), age->held_ms) &&
        relock_reply_text(relock_reply_at(reply, at + 1), &client, &len) && !*age->client_name &&
        len > RELOCK_UUID_LEN)
        (void)snprintf(age->client_name, RELOCK_PEER_NAME_MAX, "%s", client + RELOCK_UUID_LEN + 1);
}

/* Moves the first ages to `asked`, in a cluster those of the first record, up to RELOCK_SIGHT_MANY
 * in all. Returns how many there are then. */
static size_t choose_ages(struct relock_sight *sight, struct relock_sight_age **asked, size_t n)
{
    bool is_cluster = sight->client->topology->is_cluster;
    const char *record = sight->ages->record;
    struct relock_sight_age *age, *next;

    DL_FOREACH_SAFE(sight->ages, age, next)
    {
        if (n == RELOCK_SIGHT_MANY)
            break;
        if (is_cluster && strcmp(age->record, record) != 0)
            continue;
        DL_DELETE(sight->ages, age);
        asked[n++] = age;
    }
    return n;
}

/* `words` has room for two of each. */
static void write_since(struct relock_sight_age *const *ages, size_t n, struct relock_text *words,
                        struct relock_call *call)
{
    for (size_t i = 0; i < n; i++) {
        words[i] = relock_text_of(ages[i]->record);
        words[n + i] = relock_text_of(ages[i]->field);
    }
    *call = (struct relock_call){.script = &relock_script_since_read, .key = words[0]};
    call->more = words + 1;
    call->n_more_keys = n - 1;
    call->n_more = 2 * n - 1;
}

/* By up to `most` of these scripts, in one round trip to each node. Returns how many it took. */
static size_t read_some_ages(struct relock_sight *sight, struct relock_call *calls, size_t most)
{
    struct relock_sight_age *asked[RELOCK_SIGHT_MANY];
    struct relock_text words[2 * RELOCK_SIGHT_MANY];
    size_t n = 0, n_calls = 0, at = 0;
    bool is_over;

    while (sight->ages && n < RELOCK_SIGHT_MANY && n_calls < most) {
        size_t end = choose_ages(sight, asked, n);

        write_since(asked + n, end - n, words + 2 * n, &calls[n_calls++]);
        n = end;
    }
    is_over = relock_call_try_all(calls, n_calls, sight->client->topology,
                                  relock_sight_deadline(sight), sight->why) == RELOCK_E_CONN;
    for (size_t i = 0; i < n_calls; i++) {
        size_t first = at;

        if (!calls[i].reply && !is_over)
            is_over = run(sight, &calls[i]) == RELOCK_E_CONN || calls[i].is_for_now;
        for (; at < n && at - first <= calls[i].n_more_keys; at++)
            take_age(asked[at], calls[i].reply, 2 * (at - first));
        relock_call_end(&calls[i]);
    }
    if (is_over) /* the next ones would take as long */
        sight->ages = NULL;
    return n_calls;
}

void relock_sight_read_ages(struct relock_sight *sight, size_t n)
{
    struct relock_call *calls = sight->ages ? calloc(RELOCK_SIGHT_MANY, sizeof(*calls)) : NULL;
    size_t most = n + AGES_MOST;
    char why[RELOCK_WHY_MAX];

    memcpy(why, sight->why, sizeof(why));
    while (calls && sight->ages && most > 0)
        most -= read_some_ages(sight, calls, most);
    memcpy(sight->why, why, sizeof(why));
    sight->ages = NULL;
    free(calls);
}

/* ---- scanning ------------------------------------------------------------------------------ */

#define PAGE "1000" /* keys that Redis visits for one SCAN */
/* All keys of this type at the node. */
static int scan(struct relock_sight *sight, struct relock_node *node, struct relock_text pattern,
                const char *type, relock_scan_fn *fn, void *arg)
{
    struct relock_text words[] = {relock_text_of("SCAN"),  relock_text_of("0"),
                                  relock_text_of("MATCH"), pattern,
                                  relock_text_of("COUNT"), relock_text_of(PAGE),
                                  relock_text_of("TYPE"),  relock_text_of(type)};
    char cursor[RELOCK_DECIMAL_MAX] = "0";

    do {
        struct redisReply *reply;
        const char *next;
        size_t len;
        int r = relock_nodes_ask(sight->client->topology, node, words, 8, RELOCK_REPLY_ARRAY_OF(2),
                                 relock_sight_deadline(sight), &reply, sight->why);

        if (r != RELOCK_OK)
            return r;
        if (!relock_reply_text(relock_reply_at(reply, 0), &next, &len) || len >= sizeof(cursor))
            r = RELOCK_E_SERVER;
        else
            memcpy(cursor, next, len + 1);
        words[1] = relock_text_of(cursor);
        if (r == RELOCK_OK)
            r = fn(arg, node, relock_reply_at(reply, 1));
        relock_reply_free(reply);
        if (r != RELOCK_OK)
            return r;
    } while (strcmp(cursor, "0") != 0);
    return RELOCK_OK;
}

int relock_scan(struct relock_sight *sight, struct relock_text pattern, const char *const *types,
                relock_scan_fn *fn, void *arg)
{
    struct relock_topology *topology = sight->client->topology;
    struct relock_node *node = relock_nodes_next(topology, NULL);
    int r = relock_sight_check(sight, node);

    for (; node && r == RELOCK_OK; node = relock_nodes_next(topology, node)) {
        for (const char *const *type = types; *type && r == RELOCK_OK; type++)
            r = scan(sight, node, pattern, *type, fn, arg);
        if (r != RELOCK_OK)
            break;
    }
    relock_topology_drop(topology, node);
    return r == RELOCK_SCAN_END ? RELOCK_OK : r;
}
