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
#define VISITS_MOST 1024  /* of holds in one scan, which holds the mutex */
#define STALE_MOST 64     /* fields of ended holds, or as many as those of others */
#define REFUSED_MS 60000  /* before another attempt after a final refusal */

/* Functions of this file that the I/O thread calls with the mutex held, which no parameter names.
 */
#define STEP RELOCK_UNCHECKED static

/* Plain locks show the first bytes of their tokens, other locks the id of the client. */
enum { BY_ID, BY_TOKEN, HASHES };

/* Guarded as the struct that it is in. */
struct hash {
    unsigned n_sent;    /* parts in flight */
    bool may_exist;     /* in Redis */
    bool is_begun;      /* the first part was sent, and no answer says that it is not there */
    size_t n_written;   /* fields since then */
    uint64_t keep_ms;   /* until it expires, as last sent */
    uint64_t resend_ms; /* before that */

    /* of a round */
    bool is_anew;        /* all fields are to be written */
    size_t n;            /* holds that are long */
    uint64_t longest_ms; /* that one of them may last, or the watchdog's time */
};

/* Guarded by the mutex of the client; the timer, rounds and answers run on the I/O thread. */
struct relock_since {
    struct relock_client_hook hook; /* the first field */
    struct relock_client *client;
    struct relock_timer timer;
    uint64_t long_ms;
    uint64_t refused_until_ms;
    uint64_t rests_until_ms; /* after a scan */
    bool is_round;           /* at `to_visit` of the client */
    bool is_late;            /* the round goes on when all parts are answered */
    bool has_short;          /* holds that may become long */
    bool is_soon;            /* the next scan comes soon enough for a hold that begins now */
    bool is_over;            /* the client is being freed */
    struct hash hashes[HASHES];
};

/* A part of a hash. Made under the mutex of the client, and constant once it is posted. */
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

STEP bool has_sent(const struct relock_client *client)
{
    const struct relock_since *since = since_of(client);

    for (unsigned i = 0; i < HASHES; i++)
        if (since->hashes[i].n_sent > 0)
            return true;
    return false;
}

/* Looks at the holds at `due_ms`, or before, but not too often. */
STEP void look_by(struct relock_client *client, uint64_t due_ms)
{
    struct relock_since *since = since_of(client);

    due_ms = relock_clock_later(due_ms, since->rests_until_ms);
    if (!since->is_over && (!relock_timer_is_set(&client->guarded.timers, &since->timer) ||
                            since->timer.link.due_ms > due_ms))
        relock_client_set_timer(client, &since->timer, due_ms);
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
    if ((result == RELOCK_E_AUTH || result == RELOCK_E_SERVER) &&
        !relock_reply_refuses_for_now(reply))
        since->refused_until_ms = relock_clock_in(REFUSED_MS);
    if (is_end)
        hash->may_exist = false;
    else if (result == RELOCK_OK || (result == RELOCK_E_CONN && entry->is_sent))
        hash->may_exist = true;
    if (is_end || result != RELOCK_OK || !relock_reply_integer(reply, &was_there) || was_there == 0)
        hash->is_begun = false;
    if (since->is_late && !has_sent(client))
        look_by(client, 0);
    if (!is_end && !hash->is_begun)
        look_by(client,
                relock_clock_later(relock_clock_in(since->long_ms / 2), since->refused_until_ms));
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
    hash->keep_ms = keep_ms;
    hash->resend_ms = relock_clock_in(keep_ms / 3);
    hash->n_sent++;
    relock_outbox_post(client, &client->guarded.commands, &part->entry);
}

/* ---- rounds -------------------------------------------------------------------------------- */

STEP void begin_round(struct relock_client *client)
{
    struct relock_since *since = since_of(client);

    for (unsigned i = 0; i < HASHES; i++) {
        struct hash *hash = &since->hashes[i];

        hash->is_anew = !hash->is_begun;
        hash->n = 0;
        hash->longest_ms = client->options.watchdog_timeout_ms;
    }
    since->is_round = true;
    since->has_short = false;
    since->is_soon = false;
    client->guarded.to_visit = relock_client_next_hold(client, NULL);
}

/* Adds a hold to a part, which is sent when it is full. */
STEP void add(struct relock_client *client, struct part **part, unsigned which,
              struct relock_hold *hold, uint64_t now_us)
{
    char field[RELOCK_FIELD_MAX];

    if (!*part)
        *part = make_part(client, which, HOLDS_MOST);
    if (!*part) {
        since_of(client)->has_short = true; /* and another attempt */
        return;
    }
    write_field(client, hold, field);
    (*part)->len += (size_t)sprintf((*part)->text + (*part)->len, "%s %llu ", field,
                                    (unsigned long long)(now_us - hold->since_us) / 1000);
    hold->is_recorded = true;
    if (++(*part)->n < HOLDS_MOST)
        return;
    post(client, *part, since_of(client)->hashes[which].longest_ms);
    *part = NULL;
}

STEP void visit(struct relock_client *client, struct part *parts[HASHES], struct relock_hold *hold,
                uint64_t now_us)
{
    struct relock_since *since = since_of(client);
    unsigned which = hold->resource->kind->has_token_only ? BY_TOKEN : BY_ID;
    struct hash *hash = &since->hashes[which];
    uint64_t now_ms = now_us / 1000;

    if (hold->count == 0 || hold->detached || !relock_hold_is_held(hold) ||
        hold->resource->kind->is_composite)
        return;
    if (now_us - hold->since_us < since->long_ms * 1000 / 2) {
        since->has_short = true;
        return;
    }
    hash->n++;
    hash->longest_ms =
        relock_clock_later(hash->longest_ms, relock_clock_left(now_ms, hold->valid_until_ms));
    if (hash->is_anew || !hold->is_recorded)
        add(client, &parts[which], which, hold, now_us);
}

STEP void visit_some(struct relock_client *client)
{
    struct part *parts[HASHES] = {NULL};
    uint64_t now_us = relock_clock_now_us();
    struct relock_hold *hold;

    for (unsigned n = 0; n < VISITS_MOST && (hold = client->guarded.to_visit); n++) {
        client->guarded.to_visit = relock_client_next_hold(client, hold);
        visit(client, parts, hold, now_us);
    }
    for (unsigned i = 0; i < HASHES; i++)
        if (parts[i])
            post(client, parts[i], since_of(client)->hashes[i].longest_ms);
}

/* Returns when to look again; RELOCK_NEVER: when a hold begins or ends. */
STEP uint64_t end_round(struct relock_client *client, uint64_t now_ms)
{
    struct relock_since *since = since_of(client);
    uint64_t again_ms = RELOCK_NEVER;

    since->is_round = false;
    if (since->has_short || since->is_soon)
        again_ms = relock_clock_after(now_ms, since->long_ms / 2);
    for (unsigned i = 0; i < HASHES; i++) {
        struct hash *hash = &since->hashes[i];
        bool is_due = hash->resend_ms <= now_ms || hash->longest_ms > hash->keep_ms;
        struct part *part =
            (hash->n > 0 ? is_due : hash->may_exist) ? make_part(client, i, 0) : NULL;

        if (part)
            post(client, part, hash->n > 0 ? hash->longest_ms : 0);
        if (hash->n > 0)
            again_ms = relock_clock_sooner(again_ms, hash->resend_ms);
        if (!hash->is_begun || hash->n_written <= 2 * hash->n + STALE_MOST)
            continue;
        hash->is_begun = false;
        again_ms = now_ms;
    }
    return again_ms;
}

STEP void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_since *since = RELOCK_CONTAINER(struct relock_since, timer, timer);
    struct relock_client *client = since->client;
    uint64_t from_us = relock_clock_now_us(), again_ms = 0;

    if (since->refused_until_ms > now_ms) {
        since->is_round = false;
        since->is_soon = false;
        if (relock_client_next_hold(client, NULL))
            look_by(client, since->refused_until_ms);
        return;
    }
    since->is_late = has_sent(client); /* on_written goes on */
    if (since->is_late)
        return;
    if (!since->is_round)
        begin_round(client);
    visit_some(client);
    if (!client->guarded.to_visit)
        again_ms = end_round(client, now_ms);
    since->rests_until_ms = relock_clock_in(
        relock_clock_later(PAUSE_LEAST_MS, SCAN_SHARE * (relock_clock_now_us() - from_us) / 1000));
    if (again_ms != RELOCK_NEVER)
        look_by(client, again_ms);
}

/* ---- the life of the client ---------------------------------------------------------------- */

/* A client without holds does not wake up for this. */
STEP void holds_change(struct relock_client *client)
{
    struct relock_since *since = since_of(client);

    if (since->is_soon)
        return;
    since->is_soon = true;
    look_by(client, relock_clock_in(since->long_ms / 2));
}

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
    return !has_sent(client);
}

STEP void close_since(struct relock_client *client)
{
    relock_client_unset_timer(client, &since_of(client)->timer);
}

static const struct relock_client_hook_ops ops = {
    .holds_change = holds_change,
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
    return RELOCK_OK;
}
