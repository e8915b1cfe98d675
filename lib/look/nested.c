/* relock_nested_waits: which owners wait for long while they hold other locks. */
#include "lock/state/lock.h"
#include "look/nodes.h"
#include "look/private.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <string.h>

struct search {
    struct relock_sight sight;
    relock_nested_waits_fn *fn;
    void *arg;
};

/* Splits "<at> <ms> <serial> <form> <lock>". Returns whether it is that, and of this client's
 * names. */
static bool read_value(const struct relock_client *client, const char *value,
                       struct relock_nested_wait *wait)
{
    unsigned long long waited_ms;
    int at = 0;

    if (sscanf(value, "%*u %llu %*u %*s %n", &waited_ms, &at) != 1 || at == 0 || !value[at] ||
        (client->prefix_len > 0 &&
         strncmp(value + at, client->options.name_prefix, client->prefix_len) != 0))
        return false;
    wait->waited_ms = waited_ms;
    wait->name = value + at + client->prefix_len;
    return true;
}

/* The texts of a hash, in pairs. */
static const char *text_at(const struct redisReply *hash, size_t i)
{
    const char *text;
    size_t len;

    return relock_reply_text(relock_reply_at(hash, i), &text, &len) ? text : NULL;
}

static int show(struct search *search, const struct redisReply *hash)
{
    struct relock_nested_wait wait = {.client_name = ""};
    char id[RELOCK_UUID_LEN + 1] = "";
    const char *field, *value;

    for (size_t i = 0; (field = text_at(hash, i)) && (value = text_at(hash, i + 1)); i += 2) {
        if (strcmp(field, "client") != 0 || strlen(value) <= RELOCK_UUID_LEN)
            continue;
        (void)snprintf(id, sizeof(id), "%.*s", RELOCK_UUID_LEN, value);
        wait.client_name = value + RELOCK_UUID_LEN + 1;
    }
    wait.id = id;
    for (size_t i = 0; (field = text_at(hash, i)) && (value = text_at(hash, i + 1)); i += 2) {
        wait.hold = field;
        if (read_value(search->sight.client, value, &wait) && !search->fn(&wait, search->arg))
            return RELOCK_SCAN_END;
    }
    return RELOCK_OK;
}

/* The hash of plain locks, which has no id in its name, repeats a part of the other. */
static bool repeats_plain(size_t key_len)
{
    return key_len == strlen("relock_waits:{}") + RELOCK_UUID_LEN;
}

static int show_page(void *arg, struct relock_node *node, const struct redisReply *keys)
{
    struct search *search = arg;
    int r = RELOCK_OK;
    const char *key;
    size_t len;

    for (size_t i = 0; r == RELOCK_OK && relock_reply_text(relock_reply_at(keys, i), &key, &len);
         i++) {
        struct relock_text words[] = {relock_text_of("HGETALL"), {key, len}};
        struct redisReply *hash;

        if (!repeats_plain(len))
            continue;
        r = relock_nodes_ask(search->sight.client->topology, node, words, 2, RELOCK_REPLY_ARRAY,
                             relock_sight_deadline(&search->sight), &hash, search->sight.why);
        if (r != RELOCK_OK)
            break;
        r = show(search, hash);
        relock_reply_free(hash);
    }
    return r;
}

int relock_nested_waits(struct relock_client *client, relock_nested_waits_fn *fn, void *arg)
{
    static const char *const types[] = {"hash", NULL};
    struct search search = {.fn = fn, .arg = arg};
    int r;

    if (!client || !fn)
        return relock_client_refuse(client, "relock_nested_waits: `fn` is NULL");
    if (!relock_sight_begin(&search.sight, client))
        return search.sight.result;
    r = relock_scan(&search.sight, relock_text_of("relock_waits:{*"), types, show_page, &search);
    return relock_sight_end(&search.sight, r);
}
