#include "look/since.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/holds.h"
#include "lock/state/keys.h"
#include "lock/state/kind.h"
#include "lock/wake/outbox.h"
#include "look/private.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_MS 100      /* is long, unless the program has set `deadlock_ms` */
#define PAUSE_LEAST_MS 20 /* between two scans */
#define SCAN_SHARE 50     /* at most a fiftieth of the time goes into scans */
#define HOLDS_MOST 64     /* of one part: a script runs for less than 0.5 ms */
#define PARTS_MOST 16     /* of one scan */
#define STALE_MOST 64     /* fields of ended holds, or as many as those of others */
#define REFUSED_MS 60000  /* before another attempt of a user without the right */

/* Functions of this file that the I/O thread calls with the mutex held, which no parameter names.
 */
#define STEP RELOCK_UNCHECKED static

/* Plain locks show the first bytes of their tokens, other locks the id of the client. */
enum { BY_ID, BY_TOKEN, HASHES };

struct hash {
    unsigned n_sent;    /* parts in flight */
    bool may_exist;     /* in Redis */
    bool is_begun;      /* the first part was sent, and no answer says that it is not there */
    size_t n_written;   /* fields since then */
    uint64_t resend_ms; /* before it expires */
};

struct relock_since {
    struct relock_client_hook hook; /* the first field */
    struct relock_client *client;
    struct relock_timer timer;
    uint64_t long_ms;
    uint64_t refused_until_ms;
    bool is_over; /* the client is being freed */
    struct hash hashes[HASHES];
};

/* A part of a hash. */
struct part {
    struct relock_outbox_entry entry;
    unsigned which;
    bool is_first;
    size_t n; /* holds */
    char key[RELOCK_SINCE_KEY_MAX];
    char keep[RELOCK_DECIMAL_MAX];
    char *client; /* id and name */
    char *text;
    size_t len;
};

static const struct relock_client_hook_ops ops;

static struct relock_since *since_of(const struct relock_client *client)
{
    return RELOCK_CONTAINER(struct relock_since, hook, relock_client_hook_of(client, &ops));
}

static struct part *part_of(const struct relock_outbox_entry *entry)
{
    return RELOCK_CONTAINER(struct part, entry, entry);
}

void relock_since_key(char out[RELOCK_SINCE_KEY_MAX], const char *id, size_t len)
{
    (void)snprintf(out, RELOCK_SINCE_KEY_MAX, "relock_waits:{%.*s}:since", (int)len, id);
}

/* ---- a part -------------------------------------------------------------------------------- */

static void free_part(struct part *part)
{
    free(part->client);
    free(part->text);
    free(part);
}

STEP void drop_part(struct relock_client *client, struct relock_outbox_entry *entry)
{
    (void)client;
    free_part(part_of(entry));
}

static bool write_part(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct part *part = part_of(entry);
    struct relock_call *call = &request->call;

    *call = (struct relock_call){.script = &relock_script_since_write, .n_args = 4};
    call->key = relock_text_of(part->key);
    call->args[0] = relock_text_of(part->keep);
    call->args[1] = relock_text_of(part->is_first ? "1" : "0");
    call->args[2] = relock_text_of(part->client);
    call->args[3] = (struct relock_text){part->text, part->len};
    return true;
}

/* Without an answer, or if Redis has lost it, the hash is written anew. */
STEP void on_written(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                     const struct redisReply *reply)
{
    struct part *part = part_of(entry);
    struct relock_since *since = since_of(client);
    struct hash *hash = &since->hashes[part->which];
    bool is_end = strcmp(part->keep, "0") == 0;
    int64_t was_there = 0;

    hash->n_sent--;
    if (result == RELOCK_E_AUTH || result == RELOCK_E_SERVER)
        since->refused_until_ms = relock_clock_in(REFUSED_MS);
    hash->may_exist =
        !is_end && (result == RELOCK_OK || (result == RELOCK_E_CONN && entry->is_sent));
    if (is_end || result != RELOCK_OK || !relock_reply_integer(reply, &was_there) || was_there == 0)
        hash->is_begun = false;
    free_part(part);
    relock_cond_broadcast(&client->changed); /* relock_client_free may wait for it */
}

static const struct relock_outbox_ops part_ops = {
    .write = write_part,
    .answer = on_written,
    .drop = drop_part,
};

/* "<id> <name>": connections have the name "<name>:<id>". */
static struct part *make_part(const struct relock_client *client, unsigned which, size_t n_most)
{
    const char *name = client->server.name ? client->server.name : "";
    size_t len = strlen(name), room = n_most * (RELOCK_FIELD_MAX + RELOCK_DECIMAL_MAX + 2) + 1;
    struct part *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    *new = (struct part){.entry.ops = &part_ops, .which = which};
    new->client = malloc(RELOCK_UUID_LEN + len + 2);
    new->text = malloc(room);
    if (!new->client || !new->text) {
        free_part(new);
        return NULL;
    }
    len = len > RELOCK_UUID_LEN ? len - RELOCK_UUID_LEN - 1 : 0;
    (void)sprintf(new->client, "%s %.*s", client->id, (int)len, name);
    return new;
}

static void write_field(const struct relock_client *client, const struct relock_hold *hold,
                        char field[RELOCK_FIELD_MAX])
{
    if (hold->resource->kind->has_token_only)
        (void)relock_tokens_write(&client->tokens, hold->number, field);
    else
        (void)relock_decimal(field, hold->number);
}

static void post(struct relock_client *client, struct part *part, uint64_t keep_ms)
    RELOCK_REQUIRES(client->mutex)
{
    struct hash *hash = &since_of(client)->hashes[part->which];
    char token[RELOCK_FIELD_MAX];

    if (part->which == BY_ID) {
        relock_since_key(part->key, client->id, RELOCK_UUID_LEN);
    } else {
        (void)relock_tokens_write(&client->tokens, 0, token);
        relock_since_key(part->key, token, (size_t)2 * RELOCK_TOKENS_PREFIX);
    }
    (void)relock_decimal(part->keep, keep_ms);
    part->is_first = !hash->is_begun;
    hash->is_begun = true;
    hash->n_written = (part->is_first ? 0 : hash->n_written) + part->n;
    hash->resend_ms = relock_clock_in(keep_ms / 3);
    hash->n_sent++;
    relock_outbox_post(client, &client->guarded.commands, &part->entry);
}

/* ---- scans --------------------------------------------------------------------------------- */

/* What a scan finds of one hash. */
struct found {
    size_t n, n_new;
    uint64_t keep_ms;
};

static bool is_long(const struct relock_since *since, const struct relock_hold *hold,
                    uint64_t now_us)
{
    return hold->count > 0 && !hold->detached && !hold->resource->kind->is_composite &&
           relock_hold_is_held(hold) && now_us - hold->since_us >= since->long_ms * 1000 / 2;
}

STEP struct found count(struct relock_client *client, unsigned which, uint64_t now_us)
{
    const struct relock_since *since = since_of(client);
    struct found found = {.keep_ms = client->options.watchdog_timeout_ms};
    struct relock_hold *hold;

    RELOCK_HOLDS_FOREACH(client, hold)
    {
        if ((hold->resource->kind->has_token_only ? BY_TOKEN : BY_ID) != which ||
            !is_long(since, hold, now_us))
            continue;
        if (!since->hashes[which].is_begun)
            hold->is_recorded = false;
        found.n++;
        found.n_new += !hold->is_recorded;
        if (hold->valid_until_ms > now_us / 1000)
            found.keep_ms = relock_clock_later(found.keep_ms, hold->valid_until_ms - now_us / 1000);
    }
    return found;
}

/* Adds holds that are not recorded, from `at` on. Returns where to go on. */
STEP struct relock_hold *fill(struct relock_client *client, struct part *part, size_t n_most,
                              struct relock_hold *at, uint64_t now_us)
{
    const struct relock_since *since = since_of(client);

    for (; at && part->n < n_most; at = relock_client_next_hold(client, at)) {
        char field[RELOCK_FIELD_MAX];

        if ((at->resource->kind->has_token_only ? BY_TOKEN : BY_ID) != part->which ||
            at->is_recorded || !is_long(since, at, now_us))
            continue;
        write_field(client, at, field);
        part->len += (size_t)sprintf(part->text + part->len, "%s %llu ", field,
                                     (unsigned long long)(now_us - at->since_us) / 1000);
        part->n++;
        at->is_recorded = true;
    }
    return at;
}

/* Returns whether more is to be sent soon. */
STEP bool record(struct relock_client *client, unsigned which, uint64_t now_ms)
{
    struct hash *hash = &since_of(client)->hashes[which];
    uint64_t now_us = relock_clock_now_us();
    struct found found = count(client, which, now_us);
    struct relock_hold *at = relock_client_next_hold(client, NULL);
    unsigned n_parts = 0;

    if (found.n_new == 0 && (found.n > 0 ? hash->resend_ms > now_ms : !hash->may_exist)) {
        if (hash->n_written > 2 * found.n + STALE_MOST)
            hash->is_begun = false;
        return false;
    }
    do {
        size_t n = found.n_new < HOLDS_MOST ? found.n_new : HOLDS_MOST;
        struct part *part = make_part(client, which, n);

        if (!part)
            return false;
        at = fill(client, part, n, at, now_us);
        found.n_new -= n;
        post(client, part, found.n > 0 ? found.keep_ms : 0);
    } while (found.n_new > 0 && ++n_parts < PARTS_MOST);
    return found.n_new > 0;
}

STEP void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_since *since = RELOCK_CONTAINER(struct relock_since, timer, timer);
    struct relock_client *client = since->client;
    uint64_t from_us = relock_clock_now_us(), pause_ms = since->long_ms / 2;

    for (unsigned i = 0; i < HASHES && !since->is_over && since->refused_until_ms <= now_ms; i++)
        if (since->hashes[i].n_sent == 0 && record(client, i, now_ms))
            pause_ms = PAUSE_LEAST_MS;
    pause_ms = relock_clock_later(pause_ms, PAUSE_LEAST_MS);
    pause_ms = relock_clock_later(pause_ms, SCAN_SHARE * (relock_clock_now_us() - from_us) / 1000);
    if (!since->is_over)
        relock_client_set_timer(client, &since->timer, relock_clock_in(pause_ms));
}

/* ---- the life of the client ---------------------------------------------------------------- */

STEP void let_go(struct relock_client *client)
{
    struct relock_since *since = since_of(client);

    since->is_over = true;
    for (unsigned i = 0; i < HASHES; i++) {
        struct hash *hash = &since->hashes[i];
        struct part *part = hash->may_exist || hash->n_sent > 0 ? make_part(client, i, 0) : NULL;

        if (part)
            post(client, part, 0);
    }
}

STEP bool is_drained(const struct relock_client *client)
{
    const struct relock_since *since = since_of(client);

    for (unsigned i = 0; i < HASHES; i++)
        if (since->hashes[i].n_sent > 0)
            return false;
    return true;
}

STEP void close_since(struct relock_client *client)
{
    relock_client_unset_timer(client, &since_of(client)->timer);
}

static const struct relock_client_hook_ops ops = {
    .let_go = let_go,
    .is_drained = is_drained,
    .close = close_since,
};

int relock_since_attach(struct relock_client *client)
{
    const struct relock_options *options = &client->options;
    struct relock_since *since;

    if (!relock_client_attach(client, &ops, sizeof(*since)))
        return RELOCK_E_NOMEM;
    since = since_of(client);
    since->client = client;
    since->long_ms =
        relock_clock_later(LEAST_MS, relock_hold_renewal_ms(options->watchdog_timeout_ms));
    if (options->deadlock_ms > 0 && options->deadlock_ms != RELOCK_FOREVER)
        since->long_ms = options->deadlock_ms;
    relock_timer_init(&since->timer, fire);
    /* There is no loop to be woken yet. */
    relock_timer_set(&client->guarded.timers, &since->timer, relock_clock_in(since->long_ms / 2));
    return RELOCK_OK;
}
