/*
 * relock_locks finds locks by their names: SCAN runs on each server, for hashes, strings and
 * sorted sets, and look.lua tells which of these are locks. relock_waiters names the waiters for
 * one lock.
 */
#include "lock/state/keys.h"
#include "lock/state/lock.h"
#include "look/private.h"
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
    bool ended;  /* by fn */
    int refused; /* why a key could not be read; RELOCK_OK: all could */
    bool shown;  /* a key could be read */
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

static bool is_wanted(const struct search *search, const struct relock_lock_info *info,
                      enum show which)
{
    return which == SHOW_ANY || (search->sight.is_lock && (which == SHOW_HELD || info->is_unset));
}

static int show(struct search *search, struct relock_text name, enum show which)
{
    struct relock_lock_info info;
    struct relock_call call;
    int r = relock_sight_ask(&search->sight, name, 0, &call);

    if (r == RELOCK_OK)
        r = relock_sight_describe(&search->sight, &call, &info);
    if (r == RELOCK_OK && is_wanted(search, &info, which))
        search->ended = !search->fn(&info, search->arg);
    relock_call_end(&call);
    if (r == RELOCK_OK)
        search->shown = true;
    if ((r != RELOCK_E_AUTH && r != RELOCK_E_SERVER) || which == SHOW_ANY)
        return r;
    /* SCAN names all keys. A user may have rights to few of them, and a key may change its type. */
    search->refused = r;
    return RELOCK_OK;
}

static int show_page(void *arg, struct relock_node *node, const struct redisReply *keys)
{
    struct search *search = arg;
    const struct redisReply *element;
    const char *key;
    size_t len, known;
    int r = RELOCK_OK;

    (void)node;
    for (size_t i = 0; r == RELOCK_OK && (element = relock_reply_at(keys, i)); i++)
        if (!search->ended && relock_reply_text(element, &key, &len) &&
            relock_keys_name(key, &known) && known == len && !is_part(key))
            r = show(search, (struct relock_text){key, len}, SHOW_HELD);
    return r == RELOCK_OK && search->ended ? RELOCK_SCAN_END : r;
}

/* The name of the semaphore whose permits this key has: `{jobs}:timeout`, or `a{jobs}:timeout` if
 * the name has a brace. */
static bool read_semaphore(const char *key, size_t len, char name[RELOCK_NAME_MAX + 1])
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
    memcpy(name, key + start, end - start);
    name[end - start] = '\0';
    return brace && end > start;
}

/* Those whose number is missing, which no other scan finds. */
static int show_unset(void *arg, struct relock_node *node, const struct redisReply *keys)
{
    struct search *search = arg;
    const struct redisReply *element;
    char name[RELOCK_NAME_MAX + 1];
    const char *key;
    size_t len, known;
    int r = RELOCK_OK;

    (void)node;
    for (size_t i = 0; r == RELOCK_OK && (element = relock_reply_at(keys, i)); i++)
        if (!search->ended && relock_reply_text(element, &key, &len) && strlen(key) == len &&
            read_semaphore(key, len, name) && relock_keys_name(name, &known))
            r = show(search, (struct relock_text){name, known}, SHOW_UNSET);
    return r == RELOCK_OK && search->ended ? RELOCK_SCAN_END : r;
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
    r = len > 0 ? show(search, (struct relock_text){name, len}, SHOW_ANY) : search_all(search);
    free(whole);
    return r;
}

int relock_locks(struct relock_client *client, const char *pattern, relock_locks_fn *fn, void *arg)
{
    struct search search = {.fn = fn, .arg = arg};

    if (!pattern || !*pattern)
        return relock_client_refuse(client,
                                    "relock_locks: `pattern` is NULL or empty: * finds all locks");
    if (!fn)
        return relock_client_refuse(client, "relock_locks: `fn` is NULL");
    if (!relock_sight_begin(&search.sight, client))
        return search.sight.result;
    return relock_sight_end(&search.sight, find(&search, pattern));
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

static bool show_waiters(struct relock_sight *sight, const struct redisReply *reply, size_t at,
                         relock_waiters_fn *fn, void *arg)
{
    const struct redisReply *entry = relock_reply_at(reply, at);
    struct relock_waiter_info info = {.client_name = sight->peer, .place = (unsigned)(at - 1) / 2};
    const char *id;
    size_t len;

    if (!entry || !relock_reply_text(entry, &id, &len) ||
        !relock_reply_integer(relock_reply_at(reply, at + 1), &info.gone_in_ms))
        return false;
    info.id = id;
    info.side = side_of(id);
    info.is_told = relock_reply_is(relock_reply_at(reply, 2), id);
    relock_sight_find_name(sight, id);
    return fn(&info, arg);
}

int relock_waiters(struct relock_client *client, const char *name, relock_waiters_fn *fn, void *arg)
{
    struct relock_sight sight;
    struct relock_call call;
    char key[RELOCK_NAME_MAX + 1];
    size_t len;
    int r;

    if (!client || !fn)
        return relock_client_refuse(client, "relock_waiters: `fn` is NULL");
    if (!relock_keys_join(key, client->options.name_prefix, client->prefix_len, name, &len))
        return relock_client_refuse(client, relock_keys_invalid(name));
    if (!relock_sight_begin(&sight, client))
        return sight.result;
    r = relock_sight_ask(&sight, (struct relock_text){key, len}, MOST, &call);
    for (size_t at = 3; r == RELOCK_OK && show_waiters(&sight, call.reply, at, fn, arg); at += 2)
        ;
    relock_call_end(&call);
    return relock_sight_end(&sight, r);
}
