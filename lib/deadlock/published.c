#include "deadlock/published.h"
#include "deadlock/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/holds.h"
#include "lock/wake/outbox.h"
#include "redis/connect/explain.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sending a hash -------------------------------------------------------------------------- */

/*
 * There are three hashes. One has all holds whose owners wait. The others have those of plain locks
 * and of semaphores: tokens and permits do not show the id of the client, but begin with the same
 * bytes. A wait gets its time from the server with the first hash, so it is in the others only
 * after that. A beat has one time: if it was not answered, and is sent again, it brings no other
 * new waits, which would get the time of its first run.
 */

#define LEASE_TEXT "5000" /* ms; of the hash of a client that has died */
#define REFUSED_MS 5000   /* before another attempt of a user without the right */

#define ALL RELOCK_PUBLISHED_ALL

struct send {
    struct relock_outbox_entry entry;
    unsigned which;
    char key[RELOCK_CHAIN_KEY_MAX];
    size_t key_len;
    char beat[RELOCK_DECIMAL_MAX];
    char *client; /* id and name */
    char *text;   /* the fields */
    size_t len, room;
};

static struct send *send_of(const struct relock_outbox_entry *entry)
{
    return RELOCK_CONTAINER(struct send, entry, entry);
}

/* When this hash is to be sent. */
static uint64_t beat_at(const struct relock_published *published, unsigned which)
{
    const struct relock_published_hash *hash = &published->hashes[which];

    if (hash->is_sent)
        return RELOCK_NEVER;
    return hash->is_dirty ? published->refused_until_ms : hash->due_ms;
}

void relock_published_arm(struct relock_client *client)
{
    struct relock_published *published = relock_published_of(client);
    uint64_t due_ms = relock_clock_sooner(published->scan_at_ms, published->look_at_ms);

    for (unsigned i = 0; i < RELOCK_PUBLISHED_HASHES; i++)
        due_ms = relock_clock_sooner(due_ms, beat_at(published, i));
    if (due_ms != RELOCK_NEVER)
        relock_client_set_timer(client, &published->timer, due_ms);
}

static bool append(struct send *send, const char *text, size_t len)
{
    size_t room = 2 * (send->len + len);
    char *new;

    if (!send->text || send->len + len > send->room) {
        new = realloc(send->text, room);
        if (!new)
            return false;
        send->text = new;
        send->room = room;
    }
    memcpy(send->text + send->len, text, len);
    send->len += len;
    return true;
}

/* "<field> <length> <at> <ms> <serial> <form> <lock>"; of permits "<form>:<how many>" */
STEP bool append_hold(struct send *send, const struct relock_published_hold *held, uint64_t now_ms)
{
    const struct relock_waiter *waiter = held->waiter;
    const struct relock_resource *wanted = relock_resource_wanted(waiter);
    char value[128], head[RELOCK_FIELD_MAX + 32], need[32] = "";
    int value_len, head_len;

    if (relock_chain_need(waiter) > 0)
        (void)snprintf(need, sizeof(need), ":%llu", (unsigned long long)relock_chain_need(waiter));
    value_len = snprintf(
        value, sizeof(value), "%llu %llu %llu %s%s ", (unsigned long long)waiter->wait.at_us,
        (unsigned long long)(now_ms - waiter->joined_ms), (unsigned long long)waiter->wait.serial,
        relock_chain_form(wanted->kind), need);
    head_len =
        snprintf(head, sizeof(head), "%s %zu ", held->field, (size_t)value_len + wanted->name_len);
    return append(send, head, (size_t)head_len) && append(send, value, (size_t)value_len) &&
           append(send, wanted->name, wanted->name_len);
}

/* Whether this beat brings the hold. */
static bool is_in(const struct relock_published_hash *hash, const struct send *send,
                  const struct relock_published_hold *held)
{
    const struct relock_published_wait *wait = &held->waiter->wait;

    if (send->which != ALL)
        return relock_chain_hash(held->hold->resource->kind) == send->which && wait->at_us > 0;
    return wait->at_us > 0 || !hash->is_again || wait->sent == hash->beat + 1;
}

STEP bool compose(struct send *send, const struct relock_client *client)
{
    const struct relock_published *published = relock_published_of(client);
    const struct relock_published_hash *hash = &published->hashes[send->which];
    uint64_t now_ms = relock_clock_now_ms();

    for (size_t i = 0; i < published->n_holds; i++) {
        const struct relock_published_hold *held = &published->holds[i];
        struct relock_published_wait *wait = &held->waiter->wait;

        if (!relock_chain_counts(held, now_ms) || !is_in(hash, send, held))
            continue;
        if (!append_hold(send, held, now_ms))
            return false;
        wait->hashes |= 1U << send->which;
        if (wait->at_us == 0)
            wait->sent = hash->beat + 1;
    }
    (void)relock_decimal(send->beat, hash->beat + 1);
    return true;
}

/* Redis will have no such hash, and no beat, so a late hash may be the next one there. Waits that
 * were in it and go on are published as new ones then: their time tells other clients that this
 * hash is another one. */
STEP void renew_waits(struct relock_client *client, unsigned which)
{
    struct relock_waiter *at;

    for (at = relock_published_of(client)->asleep; at; at = at->wait.next) {
        if (!(at->wait.hashes & 1U << which))
            continue;
        at->wait.hashes = 0;
        at->wait.sent = 0;
        at->wait.at_us = 0;
    }
}

static void free_send(struct send *send)
{
    free(send->client);
    free(send->text);
    free(send);
}

static void drop_send(struct relock_client *client, struct relock_outbox_entry *entry)
{
    (void)client;
    free_send(send_of(entry));
}

static bool write_send(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct send *send = send_of(entry);
    struct relock_call *call = &request->call;

    *call = (struct relock_call){.script = &relock_script_publish_waits, .n_args = 4};
    call->key = (struct relock_text){send->key, send->key_len};
    call->args[0] = relock_text_of(LEASE_TEXT);
    call->args[1] = relock_text_of(send->beat);
    call->args[2] = relock_text_of(send->client);
    call->args[3] = (struct relock_text){send->text ? send->text : "", send->len};
    return true;
}

/* The waits that were sent for the first time have this time. Returns whether there are some. */
STEP bool learn_time(struct relock_client *client, uint64_t beat, uint64_t at_us)
{
    struct relock_waiter *at;
    bool has_new = false;

    for (at = relock_published_of(client)->asleep; at; at = at->wait.next) {
        if (at->wait.at_us > 0 || at->wait.sent != beat)
            continue;
        at->wait.at_us = at_us;
        has_new = true;
    }
    return has_new;
}

/* The hashes beside the first one are sent again: all, or those that are not sent by themselves. */
static void touch_others(struct relock_published *published, bool all)
{
    for (unsigned i = ALL + 1; i < RELOCK_PUBLISHED_HASHES; i++) {
        struct relock_published_hash *hash = &published->hashes[i];

        if (all || (!hash->is_sent && hash->due_ms == RELOCK_NEVER))
            hash->is_dirty = true;
    }
}

/* Redis has waits, but no look is to come: the last one found that they were over, say. */
static bool has_no_look(const struct relock_published *published)
{
    return published->hashes[ALL].may_exist && published->n_asked == 0 &&
           published->look_at_ms == RELOCK_NEVER;
}

STEP void take_answer(struct relock_client *client, const struct send *send,
                      const struct redisReply *reply)
{
    struct relock_published *published = relock_published_of(client);
    struct relock_published_hash *hash = &published->hashes[send->which];
    int64_t at_us = 0, looked = 0;

    if (!relock_reply_integer(relock_reply_at(reply, 0), &at_us) ||
        !relock_reply_integer(relock_reply_at(reply, 1), &looked))
        looked = 1; /* a beat of this client is there that was never answered */
    hash->beat++;
    hash->is_dirty |= hash->is_again; /* some waits may have been left out */
    hash->is_again = false;
    hash->may_exist = send->len > 0;
    if (send->which == ALL && at_us > 0 &&
        (learn_time(client, hash->beat, (uint64_t)at_us) || has_no_look(published))) {
        published->look_at_ms = relock_clock_now_ms();
        published->look_pause_ms = 0;
        touch_others(published, true);
    }
    touch_others(published, false); /* the owner of a wait may have acquired a plain lock, say */
    if (looked > 1)                 /* and the message may not have come */
        relock_published_alert(client);
    if (looked > 0)
        hash->is_dirty = hash->is_dirty || hash->may_exist;
    if (!hash->may_exist)
        hash->due_ms = RELOCK_NEVER;
}

/* Without the right, or the command TIME, there is no detection between processes. */
STEP bool is_impossible(int result, const struct redisReply *reply)
{
    const char *error = reply ? relock_reply_error(reply) : NULL;

    return result == RELOCK_E_AUTH || (error && relock_explain_is_missing(error));
}

/* The mutex is unlocked meanwhile. */
STEP void log_refusal(struct relock_client *client, int result, const struct redisReply *reply)
{
    struct relock_published *published = relock_published_of(client);
    char why[RELOCK_WHY_MAX];
    bool is_logged = published->refused_until_ms > 0;

    published->refused_until_ms = relock_clock_in(REFUSED_MS);
    if (is_logged)
        return;
    relock_explain(why, &relock_script_publish_waits, relock_reply_error(reply));
    relock_mutex_unlock(&client->mutex);
    relock_log_cause(&client->log, (struct relock_cause){"waits not recorded", result},
                     RELOCK_LOG_WARNING,
                     "waits are not recorded, so deadlocks with other processes are not found: %s; "
                     "see docs/wire.md#rights",
                     why);
    relock_mutex_lock(&client->mutex);
}

STEP void on_sent(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                  const struct redisReply *reply)
{
    struct relock_published *published = relock_published_of(client);
    struct send *send = send_of(entry);
    struct relock_published_hash *hash = &published->hashes[send->which];

    hash->is_sent = false;
    hash->due_ms = relock_clock_in(RELOCK_PUBLISHED_BEAT_MS);
    if (result == RELOCK_OK) {
        published->refused_until_ms = 0;
        take_answer(client, send, reply);
    } else if (is_impossible(result, reply)) {
        hash->is_again = false;
        hash->may_exist = false;
        hash->is_dirty = true;
        log_refusal(client, result, reply);
    } else if (entry->is_sent) {
        hash->is_again = true;
        hash->may_exist = true;
    }
    free_send(send);
    relock_published_arm(client);
    relock_cond_broadcast(&client->changed); /* relock_client_free may wait for it */
}

static const struct relock_outbox_ops send_ops = {
    .write = write_send,
    .answer = on_sent,
    .drop = drop_send,
};

/* "<id> <name>": connections have the name "<name>:<id>". */
static char *describe(const struct relock_client *client)
{
    const char *name = client->server.name ? client->server.name : "";
    size_t len = strlen(name);
    size_t size = len + RELOCK_UUID_LEN + 2;
    char *text = malloc(size);

    len = len > RELOCK_UUID_LEN ? len - RELOCK_UUID_LEN - 1 : 0;
    if (text)
        (void)snprintf(text, size, "%s %.*s", client->id, (int)len, name);
    return text;
}

/* Sends a hash, or nothing if it is empty and Redis has none. One at a time of each. Returns
 * false if there is no memory. The I/O thread. */
static bool publish(struct relock_client *client, unsigned which) RELOCK_REQUIRES(client->mutex)
{
    struct relock_published_hash *hash = &relock_published_of(client)->hashes[which];
    struct send *new = calloc(1, sizeof(*new));
    char id[RELOCK_FIELD_MAX];

    if (!new)
        return false;
    new->entry.ops = &send_ops;
    new->which = which;
    new->client = describe(client);
    if (!new->client || !compose(new, client)) {
        free_send(new);
        return false;
    }
    hash->is_dirty = false;
    hash->due_ms = RELOCK_NEVER;
    if (new->len == 0 && (which == ALL || hash->may_exist))
        renew_waits(client, which);
    if (new->len == 0 && !hash->may_exist) {
        free_send(new);
        return true;
    }
    new->key_len = relock_chain_key(new->key, id, relock_chain_id(id, client, which));
    hash->is_sent = true;
    relock_outbox_post(client, &client->guarded.commands, &new->entry);
    return true;
}

/* ---- when to publish ------------------------------------------------------------------------- */

#define LONG_MS 100     /* if the program does not set `deadlock_ms` */
#define ALERT_LONG_MS 1 /* and while the client is alert */
#define ALERT_MS 10000  /* for so long after the last cycle */
#define SCAN_MS 1000    /* an owner that waits may get and lose holds through other threads */
#define SCAN_MIN_MS 20  /* many waits are found at once */
#define SCAN_SHARE 50   /* at most a fiftieth of the time goes into scans of many holds */
#define HOLDS_MOST 1000 /* that are published */

STEP void send_soon(struct relock_client *client)
{
    struct relock_published *published = relock_published_of(client);

    for (unsigned i = 0; i < RELOCK_PUBLISHED_HASHES; i++)
        published->hashes[i].is_dirty = true;
    relock_published_arm(client);
}

/* ---- what is published ----------------------------------------------------------------------- */

/* When it will have lasted for long. One that was published stays so. */
static uint64_t long_at(const struct relock_published *published,
                        const struct relock_waiter *waiter)
{
    return relock_clock_after(waiter->joined_ms, waiter->wait.sent > 0 ? 0 : published->long_ms);
}

/* The wait of this owner that has lasted for long, or NULL. */
STEP struct relock_waiter *wait_of(const struct relock_client *client, uint64_t owner,
                                   uint64_t now_ms)
{
    struct relock_waiter *at;

    DL_FOREACH2(client->guarded.asleep[owner % RELOCK_ASLEEP_PARTS], at, asleep_next)
    {
        if (at->owner == owner && at->wait.serial > 0 &&
            long_at(relock_published_of(client), at) <= now_ms)
            return at;
    }
    return NULL;
}

STEP void forget_holds(struct relock_client *client)
{
    struct relock_published *published = relock_published_of(client);

    while (published->n_holds > 0) {
        const struct relock_published_hold *last = &published->holds[--published->n_holds];

        last->waiter->wait.is_published = false;
        relock_holds_unref(client, last->hold);
    }
}

/* A scan needs memory only for more holds than any before it: those that are published stay so. */
static bool has_room(struct relock_published *published)
{
    if (published->n_holds < published->room)
        return true;
    if (published->n_holds >= HOLDS_MOST ||
        !relock_graph_has_room((void **)&published->holds, published->n_holds,
                               sizeof(*published->holds)))
        return false;
    published->room++;
    return true;
}

/* Finds the holds whose owners have waited for long. Returns whether one of these waits is new. */
STEP bool find_holds(struct relock_client *client, uint64_t now_ms)
{
    struct relock_published *published = relock_published_of(client);
    struct relock_published_hold held;
    bool has_new = false;

    forget_holds(client);
    RELOCK_HOLDS_FOREACH(client, held.hold)
    {
        if (held.hold->count == 0 || held.hold->detached || held.hold->resource->kind->is_composite)
            continue;
        held.waiter = wait_of(client, held.hold->owner, now_ms);
        if (!held.waiter || !relock_chain_counts(&held, now_ms) || !has_room(published))
            continue;
        (void)relock_chain_field(held.field, client, held.hold);
        (void)relock_holds_ref(held.hold);
        held.waiter->wait.is_published = true;
        published->holds[published->n_holds++] = held;
        has_new |= held.waiter->wait.sent == 0;
    }
    return has_new;
}

STEP void scan(struct relock_client *client, uint64_t now_ms)
{
    struct relock_published *published = relock_published_of(client);
    uint64_t from_us = relock_clock_now_us();
    uint64_t pause_ms = relock_clock_sooner(SCAN_MIN_MS, published->long_ms / 2);

    if (find_holds(client, now_ms)) {
        relock_inbox_want_recalls(client); /* for `hear` */
        send_soon(client);
    }
    pause_ms = relock_clock_later(pause_ms, SCAN_SHARE * (relock_clock_now_us() - from_us) / 1000);
    published->scan_from_ms = now_ms + pause_ms;
}

/* When the next wait will have lasted for long. */
static uint64_t next_scan(const struct relock_published *published, uint64_t now_ms)
{
    uint64_t next_ms = published->asleep ? now_ms + SCAN_MS : RELOCK_NEVER;
    const struct relock_waiter *at;

    for (at = published->asleep; at; at = at->wait.next) {
        if (long_at(published, at) > now_ms) {
            next_ms = relock_clock_sooner(next_ms, long_at(published, at));
            break;
        }
    }
    return relock_clock_later(next_ms, published->scan_from_ms);
}

/* ---- alert ----------------------------------------------------------------------------------- */

/* `long_ms` has become shorter, and some waits may have lasted for long now. */
void relock_published_alert(struct relock_client *client)
{
    struct relock_published *published = relock_published_of(client);
    uint64_t now_ms = relock_clock_now_ms();

    if (client->options.deadlock_ms > 0)
        return;
    published->alert_until_ms = now_ms + ALERT_MS;
    if (published->long_ms == ALERT_LONG_MS)
        return;
    published->long_ms = ALERT_LONG_MS;
    published->scan_at_ms = next_scan(published, now_ms);
    relock_published_arm(client);
}

/* Another client has found a cycle and asks for beats, or those for which this client asked are
 * there. */
STEP bool hear(struct relock_client *client, struct relock_text message)
{
    struct relock_published *published = relock_published_of(client);

    if (relock_text_is(message, "beats")) {
        if (published->has_proof) {
            published->look_at_ms = 0;
            published->has_beats = true;
        }
        relock_published_arm(client);
        return true;
    }
    if (!relock_text_is(message, "waits"))
        return false;
    relock_published_alert(client);
    if (published->n_holds > 0)
        send_soon(client);
    return true;
}

/* ---- the timer ------------------------------------------------------------------------------- */

STEP void publish_all(struct relock_client *client, uint64_t now_ms)
{
    struct relock_published *published = relock_published_of(client);

    for (unsigned i = 0; i < RELOCK_PUBLISHED_HASHES; i++) {
        if (beat_at(published, i) > now_ms || publish(client, i))
            continue;
        published->hashes[i].is_dirty = false; /* out of memory */
        published->hashes[i].due_ms = now_ms + RELOCK_PUBLISHED_BEAT_MS;
    }
}

STEP void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_published *published = RELOCK_CONTAINER(struct relock_published, timer, timer);
    struct relock_client *client = published->client;

    if (client->options.deadlock_ms == 0 && published->alert_until_ms <= now_ms)
        published->long_ms = LONG_MS;
    if (published->scan_at_ms <= now_ms) {
        if (published->asleep && long_at(published, published->asleep) <= now_ms)
            scan(client, now_ms);
        published->scan_at_ms = next_scan(published, now_ms);
    }
    publish_all(client, now_ms);
    if (published->look_at_ms <= now_ms)
        relock_chain_follow(client);
    relock_published_arm(client);
}

/* ---- the life of a wait ---------------------------------------------------------------------- */

/* The lock of a wait for several servers is none in Redis. */
STEP void wait_begins(struct relock_client *client, struct relock_waiter *waiter)
{
    struct relock_published *published = relock_published_of(client);
    uint64_t scan_at_ms;

    if (waiter->queues_on->kind->is_composite || waiter->queues_on->kind->is_number)
        return;
    waiter->wait = (struct relock_published_wait){.serial = ++published->serial};
    DL_APPEND2(published->asleep, waiter, wait.prev, wait.next);
    scan_at_ms = relock_clock_later(long_at(published, waiter), published->scan_from_ms);
    if (scan_at_ms >= published->scan_at_ms)
        return;
    published->scan_at_ms = scan_at_ms;
    relock_published_arm(client);
}

STEP void wait_ends(struct relock_client *client, struct relock_waiter *waiter)
{
    struct relock_published *published = relock_published_of(client);
    size_t n = 0;

    if (waiter->wait.serial == 0)
        return;
    DL_DELETE2(published->asleep, waiter, wait.prev, wait.next);
    waiter->wait.serial = 0;
    free(waiter->wait.proof);
    waiter->wait.proof = NULL;
    if (!waiter->wait.is_published)
        return;
    for (size_t i = 0; i < published->n_holds; i++) {
        if (published->holds[i].waiter == waiter)
            relock_holds_unref(client, published->holds[i].hold);
        else
            published->holds[n++] = published->holds[i];
    }
    published->n_holds = n;
    send_soon(client);
}

/* Whether Redis has nothing of this client, and owes no answer. */
STEP bool is_drained(const struct relock_client *client)
{
    const struct relock_published *published = relock_published_of(client);

    for (unsigned i = 0; i < RELOCK_PUBLISHED_HASHES; i++)
        if (published->hashes[i].is_sent || published->hashes[i].may_exist)
            return false;
    return published->n_asked == 0;
}

STEP void close_published(struct relock_client *client)
{
    struct relock_published *published = relock_published_of(client);

    relock_client_unset_timer(client, &published->timer);
    forget_holds(client);
    free(published->holds);
    relock_graph_clear(&published->graph);
}

static const struct relock_client_hook_ops ops = {
    .wait_begins = wait_begins,
    .wait_ends = wait_ends,
    .hear = hear,
    .is_drained = is_drained,
    .close = close_published,
};

RELOCK_UNCHECKED int relock_published_attach(struct relock_client *client)
{
    struct relock_published *published;

    if (client->options.deadlock_ms == RELOCK_FOREVER)
        return RELOCK_OK;
    if (!relock_client_attach(client, &ops, sizeof(*published)))
        return RELOCK_E_NOMEM;
    published = relock_published_of(client);
    published->client = client;
    relock_timer_init(&published->timer, fire);
    published->long_ms = client->options.deadlock_ms > 0 ? client->options.deadlock_ms : LONG_MS;
    published->scan_at_ms = RELOCK_NEVER;
    published->look_at_ms = RELOCK_NEVER;
    for (unsigned i = 0; i < RELOCK_PUBLISHED_HASHES; i++)
        published->hashes[i].due_ms = RELOCK_NEVER;
    return RELOCK_OK;
}

struct relock_published *relock_published_of(const struct relock_client *client)
{
    return RELOCK_CONTAINER(struct relock_published, hook, relock_client_hook_of(client, &ops));
}
