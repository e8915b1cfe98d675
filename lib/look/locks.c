/*
 * relock_locks finds locks by their names: SCAN runs on each server, for hashes, strings and
 * sorted sets, and look.lua tells which of these are locks, 64 in a round trip. Locks that are
 * found are kept until there are 64, whose ages are then read together. relock_waiters names the
 * waiters for one lock.
 */
#include "lock/state/keys.h"
#include "lock/state/lock.h"
#include "look/private.h"
#include "redis/deployment/slot_map.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PERMITS ":timeout" /* ends the key of the permits of a semaphore */

/* Which of the locks that were asked about. */
enum show { SHOW_HELD, SHOW_ANY, SHOW_UNSET };

struct search {
    struct relock_sight sight;
    struct relock_text pattern;
    relock_locks_fn *fn;
    void *arg;
    bool ended;                      /* by fn */
    int refused;                     /* why a key could not be read; RELOCK_OK: all could */
    bool shown;                      /* a key could be read */
    struct relock_sight_lock *found; /* RELOCK_SIGHT_MANY; the first `n_found` are to be shown */
    size_t n_found;
};

/* Keys that belong to a lock of another name. */
static bool is_part(const char *key)
{
    static const char *const begins[] = {"relock_waiters:", "relock_waits:", "redisson_lock_",
                                         "redisson_unlock_latch:"};
    const char *level = strstr(key, ":rwlock_timeout:");

    for (size_t i = 0; i < sizeof(begins) / sizeof(*begins); i++)
        if (strncmp(key, begins[i], strlen(begins[i])) == 0)
            return true;
    level = level ? level + strlen(":rwlock_timeout:") : "";
    return *level && !level[strspn(level, "0123456789")];
}

static bool is_wanted(const struct relock_sight_lock *lock, enum show which)
{
    return which == SHOW_ANY || (lock->is_lock && (which == SHOW_HELD || lock->info.is_unset));
}

static void show(struct search *search)
{
    relock_sight_read_ages(&search->sight, search->n_found);
    for (size_t i = 0; i < search->n_found; i++) {
        struct relock_sight_lock *lock = &search->found[i];

        if (lock->info.permits)
            lock->info.held_ms = lock->info.permits->held_ms;
        if (!search->ended)
            search->ended = !search->fn(&lock->info, search->arg);
        relock_sight_lock_deinit(lock);
    }
    search->n_found = 0;
}

/* Takes an element of the reply of look.lua. `is_there`, if not NULL: the key is. */
static int take(struct search *search, struct relock_text name, const struct redisReply *element,
                enum show which, bool *is_there)
{
    struct relock_sight_lock *lock = &search->found[search->n_found];
    int r = relock_sight_describe(&search->sight, name, element, lock);

    if (is_there)
        *is_there = r == RELOCK_OK && lock->info.kind != RELOCK_KIND_NONE;
    if (r != RELOCK_OK || !is_wanted(lock, which)) {
        relock_sight_lock_deinit(lock);
        return r;
    }
    relock_sight_want_ages(&search->sight, lock);
    if (++search->n_found == RELOCK_SIGHT_MANY)
        show(search);
    return RELOCK_OK;
}

static int look_at_one(struct search *search, struct relock_text name, enum show which)
{
    struct relock_call call;
    int r = relock_sight_ask(&search->sight, &name, 0, &call);
    bool is_for_now = call.is_for_now;

    if (r == RELOCK_OK)
        r = take(search, name, relock_reply_at(call.reply, 0), which, NULL);
    relock_call_end(&call);
    if (r == RELOCK_OK)
        search->shown = true;
    if ((r != RELOCK_E_AUTH && r != RELOCK_E_SERVER) || which == SHOW_ANY || is_for_now)
        return r;
    /* SCAN names all keys. A user may have rights to few of them, and a key may change its type. */
    search->refused = r;
    return RELOCK_OK;
}

/*
 * Takes the reply of a script about these locks, or about the first ones: `n`, and how many. NULL:
 * there is none. Without a right to one of them, the whole script is refused. And a proxy may send
 * it to the server of the first key, which has none of the others. So what is refused or not there
 * is asked for by itself.
 */
static int take_many(struct search *search, const struct relock_text *names, size_t *n,
                     const struct redisReply *reply, enum show which)
{
    int r = RELOCK_OK;
    size_t i = 0;

    for (; r == RELOCK_OK && i < *n && !search->ended; i++) {
        const struct redisReply *element = relock_reply_at(reply, i);
        bool is_there = false;

        if (!element && i > 0 && reply)
            break;
        if (element)
            r = take(search, names[i], element, which, &is_there);
        if (is_there || (element && r == RELOCK_OK && *n == 1))
            search->shown = true;
        else if (r != RELOCK_E_NOMEM)
            r = look_at_one(search, names[i], which);
    }
    *n = i;
    return r;
}

/* Looks at these locks, or at some: `n`, and how many. The names of others are the last ones then.
 */
static int look_at_many(struct search *search, struct relock_text *names, size_t *n,
                        enum show which)
{
    struct relock_call *calls = calloc(RELOCK_SIGHT_MANY, sizeof(*calls));
    size_t n_calls = 0, at = 0, n_left = 0;
    int r = RELOCK_E_NOMEM;

    if (calls)
        r = relock_sight_ask_all(&search->sight, names, *n, calls, &n_calls);
    for (size_t i = 0; i < n_calls; i++) {
        size_t n_asked = 1 + calls[i].n_more_keys, n_taken = n_asked;

        if (r == RELOCK_OK)
            r = take_many(search, names + at, &n_taken, calls[i].reply, which);
        memmove(names + n_left, names + at + n_taken, (n_asked - n_taken) * sizeof(*names));
        n_left += n_asked - n_taken;
        at += n_asked;
        relock_call_end(&calls[i]);
    }
    free(calls);
    *n -= n_left;
    memmove(names + *n, names, n_left * sizeof(*names));
    return r;
}

static int compare_slots(const void *a, const void *b)
{
    unsigned first = relock_slot_of(*(const struct relock_text *)a);
    unsigned second = relock_slot_of(*(const struct relock_text *)b);

    return (first > second) - (first < second);
}

/* Looks at all these locks, in a cluster at those of one slot by one script. Reorders them. */
static int look_at(struct search *search, struct relock_text *names, size_t n, enum show which)
{
    int r = RELOCK_OK;

    if (search->sight.client->topology->is_cluster && n > 1)
        qsort(names, n, sizeof(*names), compare_slots);
    while (n > 0 && r == RELOCK_OK && !search->ended) {
        size_t some = n < RELOCK_SIGHT_MANY ? n : RELOCK_SIGHT_MANY;

        r = look_at_many(search, names, &some, which);
        names += some;
        n -= some;
    }
    return r == RELOCK_OK && search->ended ? RELOCK_SCAN_END : r;
}

/* The name is reported without it. A pattern for the keys of permits also finds `{a}:timeout` of
 * the semaphore `a`, if the prefix is `{a}`. */
static bool has_prefix(const struct relock_client *client, struct relock_text name)
{
    size_t len = client->prefix_len;

    return name.len > len && (len == 0 || memcmp(name.data, client->options.name_prefix, len) == 0);
}

/* Finds the name of a lock in a key. */
typedef bool name_fn(const char *key, size_t len, struct relock_text *name);

static int look_at_page(struct search *search, const struct redisReply *keys, name_fn *find_name,
                        enum show which)
{
    const struct redisReply *element;
    struct relock_text *names;
    const char *key;
    size_t len, n = 0;
    int r;

    while (relock_reply_at(keys, n))
        n++;
    names = calloc(n + 1, sizeof(*names));
    if (!names)
        return RELOCK_E_NOMEM;
    n = 0;
    for (size_t i = 0; (element = relock_reply_at(keys, i)); i++)
        n += relock_reply_text(element, &key, &len) && strlen(key) == len &&
             find_name(key, len, &names[n]) && has_prefix(search->sight.client, names[n]);
    r = look_at(search, names, n, which);
    free(names);
    return r;
}

static bool is_name(const char *key, size_t len, struct relock_text *name)
{
    size_t known;

    *name = (struct relock_text){key, len};
    return relock_keys_name(key, &known) && !is_part(key);
}

static int show_page(void *arg, struct relock_node *node, const struct redisReply *keys)
{
    (void)node;
    return look_at_page(arg, keys, is_name, SHOW_HELD);
}

/* The name of the semaphore whose permits this key has: `{jobs}:timeout`, or `a{jobs}:timeout` if
 * the name has a brace. */
static bool read_semaphore(const char *key, size_t len, struct relock_text *name)
{
    size_t end = len < strlen(PERMITS) ? 0 : len - strlen(PERMITS), start = 0;
    const char *brace;

    if (end == 0 || end > RELOCK_NAME_MAX || strcmp(key + end, PERMITS) != 0)
        return false;
    brace = strchr(key, '{');
    if (brace == key && memchr(key + 1, '{', end - 1) == NULL && key[end - 1] == '}') {
        start++;
        end--;
    }
    *name = (struct relock_text){key + start, end - start};
    return brace && end > start;
}

/* Those whose number is missing, which no other scan finds. */
static int show_unset(void *arg, struct relock_node *node, const struct redisReply *keys)
{
    (void)node;
    return look_at_page(arg, keys, read_semaphore, SHOW_UNSET);
}

/* The keys of permits, whose names have braces if those of their semaphores have none. */
static int search_unset(struct search *search)
{
    static const char *const types[] = {"zset", NULL};
    const char *whole = search->pattern.data;
    bool has_braces = strchr(whole, '{') || strcmp(whole, "*") == 0;
    size_t size = search->pattern.len + sizeof("{}" PERMITS);
    char *pattern = malloc(size);
    int r;

    if (!pattern)
        return RELOCK_E_NOMEM;
    (void)snprintf(pattern, size, has_braces ? "%s" PERMITS : "{%s}" PERMITS, whole);
    r = relock_scan(&search->sight, relock_text_of(pattern), types, show_unset, search);
    free(pattern);
    return r;
}

static int search_all(struct search *search)
{
    static const char *const types[] = {"hash", "string", "zset", NULL};
    int r = relock_scan(&search->sight, search->pattern, types, show_page, search);

    if (r == RELOCK_OK && !search->ended)
        r = search_unset(search);
    return r == RELOCK_OK && !search->shown ? search->refused : r;
}

/* The name that a pattern without a special character stands for: without its backslashes. Its
 * length, or 0 if there is a special character. */
static size_t read_name(const char *pattern, char name[RELOCK_NAME_MAX + 1])
{
    size_t len = 0;

    for (; *pattern && len < RELOCK_NAME_MAX; pattern++) {
        if (strchr("*?[", *pattern))
            return 0;
        if (*pattern == '\\' && pattern[1])
            pattern++;
        name[len++] = *pattern;
    }
    name[len] = '\0';
    return *pattern ? 0 : len;
}

/* The pattern after the client's prefix, whose special characters are ordinary. The caller frees
 * it; NULL when out of memory. */
static char *with_prefix(const struct relock_client *client, const char *pattern)
{
    char *new = malloc(2 * client->prefix_len + strlen(pattern) + 1);
    char *at = new;

    if (!new)
        return NULL;
    for (size_t i = 0; i < client->prefix_len; i++) {
        if (strchr("*?[\\", client->options.name_prefix[i]))
            *at++ = '\\';
        *at++ = client->options.name_prefix[i];
    }
    memcpy(at, pattern, strlen(pattern) + 1);
    return new;
}

static int find(struct search *search, const char *pattern)
{
    char *whole = with_prefix(search->sight.client, pattern);
    char name[RELOCK_NAME_MAX + 1];
    size_t len;
    int r;

    if (!whole)
        return RELOCK_E_NOMEM;
    search->pattern = relock_text_of(whole);
    len = read_name(whole, name);
    r = len > 0 ? look_at_one(search, (struct relock_text){name, len}, SHOW_ANY)
                : search_all(search);
    if (r < 0)
        search->sight.ages = NULL; /* the server would not answer this in time either */
    show(search);
    free(whole);
    return r;
}

int relock_locks(struct relock_client *client, const char *pattern, relock_locks_fn *fn, void *arg)
{
    struct search search = {.fn = fn, .arg = arg};
    int r = RELOCK_E_NOMEM;

    if (!pattern || !*pattern)
        return relock_client_refuse(client,
                                    "relock_locks: `pattern` is NULL or empty: * finds all locks");
    if (!fn)
        return relock_client_refuse(client, "relock_locks: `fn` is NULL");
    if (!relock_sight_begin(&search.sight, client))
        return search.sight.result;
    search.found = calloc(RELOCK_SIGHT_MANY, sizeof(*search.found));
    if (search.found)
        r = find(&search, pattern);
    free(search.found);
    return relock_sight_end(&search.sight, r);
}

/* ---- waiters -------------------------------------------------------------------------------- */

#define MOST 500 /* entries that are read: a reply has at most 1024 elements */

/* An entry of the line ends with the side of a read/write lock. */
static int side_of(const char *id)
{
    const char *side = strrchr(id, ':');

    if (side && strcmp(side + 1, RELOCK_SIDE_READ) == 0)
        return RELOCK_SIDE_OF_READERS;
    return side && strcmp(side + 1, RELOCK_SIDE_WRITE) == 0 ? RELOCK_SIDE_OF_WRITERS : 0;
}

static bool show_waiters(struct relock_sight *sight, const struct redisReply *element, size_t at,
                         relock_waiters_fn *fn, void *arg)
{
    const struct redisReply *list = relock_reply_at(element, 3);
    const struct redisReply *entry = relock_reply_at(list, at);
    struct relock_waiter_info info = {.client_name = sight->peer, .place = (unsigned)at / 2 + 1};
    const char *id;
    size_t len;

    if (!entry || !relock_reply_text(entry, &id, &len) ||
        !relock_reply_integer(relock_reply_at(list, at + 1), &info.gone_in_ms))
        return false;
    info.id = id;
    info.side = side_of(id);
    info.is_told = relock_reply_is(relock_reply_at(element, 2), id);
    relock_sight_find_name(sight, id);
    return fn(&info, arg);
}

int relock_waiters(struct relock_client *client, const char *name, relock_waiters_fn *fn, void *arg)
{
    struct relock_sight sight;
    struct relock_call call;
    char key[RELOCK_NAME_MAX + 1];
    struct relock_text text = {.data = key};
    int r;

    if (!client || !fn)
        return relock_client_refuse(client, "relock_waiters: `fn` is NULL");
    if (!relock_keys_join(key, client->options.name_prefix, client->prefix_len, name, &text.len))
        return relock_client_refuse(client, relock_keys_invalid(name));
    if (!relock_sight_begin(&sight, client))
        return sight.result;
    r = relock_sight_ask(&sight, &text, MOST, &call);
    for (size_t at = 0;
         r == RELOCK_OK && show_waiters(&sight, relock_reply_at(call.reply, 0), at, fn, arg);
         at += 2)
        ;
    relock_call_end(&call);
    return relock_sight_end(&sight, r);
}
