/*
 * There are two records. One has all holds whose owners wait. The other has those of plain locks:
 * their tokens do not show the id of the client, but begin with the same bytes. A wait gets its
 * time from the server with the first record, so it is in the second one only after that.
 */
#include "lock/deadlock/record.h"

#include "base/clock.h"
#include "base/container.h"
#include "lock/deadlock/chain.h"
#include "lock/wake/outbox.h"
#include "lock/wake/request.h"
#include "redis/connect/explain.h"
#include "redis/server/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LEASE_TEXT "5000" /* ms; of the record of a client that has died */
#define REFUSED_MS 60000  /* before another attempt of a user without the right */

#define ALL 0    /* the record by client id */
#define TOKENS 1 /* that of plain locks */

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

/* The functions of this file are called with the mutex of the client. */
#define STEP RELOCK_UNCHECKED static

static struct send *send_of(const struct relock_outbox_entry *entry)
{
    return RELOCK_CONTAINER(struct send, entry, entry);
}

void relock_record_arm(struct relock_client *client)
{
    struct relock_waits *waits = &client->guarded.waits;
    uint64_t due_ms = relock_clock_sooner(
        waits->scan_at_ms, relock_clock_sooner(waits->beat_at_ms, waits->look_at_ms));

    if (due_ms != RELOCK_NEVER)
        relock_client_set_timer(client, &waits->timer, due_ms);
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

/* "<field> <length> <at> <ms> <serial> <form> <lock>" */
STEP bool append_hold(struct send *send, const struct relock_client *client,
                      const struct relock_recorded_hold *held, uint64_t now_ms)
{
    const struct relock_waiter *waiter = held->waiter;
    const struct relock_resource *wanted = relock_resource_wanted(waiter);
    char field[RELOCK_FIELD_MAX], value[128], head[RELOCK_FIELD_MAX + 32];
    int value_len, head_len;

    if (held->hold->resource->kind->has_token_only)
        (void)relock_tokens_write(&client->tokens, held->hold->number, field);
    else
        (void)relock_decimal(field, held->hold->number);
    value_len =
        snprintf(value, sizeof(value), "%llu %llu %llu %s ", (unsigned long long)waiter->wait.at_us,
                 (unsigned long long)(now_ms - waiter->joined_ms),
                 (unsigned long long)waiter->wait.serial, relock_chain_form(wanted->kind));
    head_len = snprintf(head, sizeof(head), "%s %zu ", field, (size_t)value_len + wanted->name_len);
    return append(send, head, (size_t)head_len) && append(send, value, (size_t)value_len) &&
           append(send, wanted->name, wanted->name_len);
}

STEP bool compose(struct send *send, const struct relock_client *client)
{
    const struct relock_waits *waits = &client->guarded.waits;
    uint64_t beat = waits->records[send->which].beat + 1;
    uint64_t now_ms = relock_clock_now_ms();

    for (size_t i = 0; i < waits->n_holds; i++) {
        const struct relock_recorded_hold *held = &waits->holds[i];
        bool has_token = held->hold->resource->kind->has_token_only;

        if (!relock_chain_counts(held, now_ms) ||
            (send->which == TOKENS && (!has_token || held->waiter->wait.at_us == 0)))
            continue;
        if (!append_hold(send, client, held, now_ms))
            return false;
        if (send->which == ALL && held->waiter->wait.at_us == 0)
            held->waiter->wait.sent = beat;
    }
    (void)relock_decimal(send->beat, beat);
    return true;
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

    *call = (struct relock_call){.script = &relock_script_waits_record, .n_args = 4};
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

    for (at = client->guarded.waits.asleep; at; at = at->wait.next) {
        if (at->wait.at_us > 0 || at->wait.sent != beat)
            continue;
        at->wait.at_us = at_us;
        has_new = true;
    }
    return has_new;
}

STEP void take_answer(struct relock_client *client, const struct send *send,
                      const struct redisReply *reply)
{
    struct relock_waits *waits = &client->guarded.waits;
    struct relock_waits_record *record = &waits->records[send->which];
    uint64_t now_ms = relock_clock_now_ms();
    int64_t at_us = 0, looked = 0;

    if (!relock_reply_integer(relock_reply_at(reply, 0), &at_us) ||
        !relock_reply_integer(relock_reply_at(reply, 1), &looked))
        looked = 1; /* a beat of this client is there that was never answered */
    record->beat++;
    record->may_exist = send->len > 0;
    if (send->which == ALL && at_us > 0 && learn_time(client, record->beat, (uint64_t)at_us)) {
        waits->look_at_ms = now_ms;
        waits->look_pause_ms = 0;
        waits->records[TOKENS].is_dirty = true;
    }
    if (looked > 0)
        record->is_dirty = record->is_dirty || record->may_exist;
    if (!record->may_exist && !record->is_dirty)
        return;
    if (record->is_dirty || waits->records[TOKENS].is_dirty)
        waits->beat_at_ms = now_ms;
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
    char why[RELOCK_WHY_MAX];

    if (client->guarded.waits.is_refused)
        return;
    client->guarded.waits.is_refused = true;
    relock_explain(why, &relock_script_waits_record, relock_reply_error(reply));
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
    struct relock_waits *waits = &client->guarded.waits;
    struct send *send = send_of(entry);
    struct relock_waits_record *record = &waits->records[send->which];

    record->is_sent = false;
    waits->beat_at_ms = relock_clock_in(RELOCK_RECORD_BEAT_MS);
    if (result == RELOCK_OK) {
        waits->is_refused = false;
        take_answer(client, send, reply);
    } else if (is_impossible(result, reply)) {
        record->may_exist = false;
        waits->beat_at_ms = relock_clock_in(REFUSED_MS);
        log_refusal(client, result, reply);
    } else if (entry->is_sent) {
        record->may_exist = true;
    }
    free_send(send);
    relock_record_arm(client);
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

bool relock_record_send(struct relock_client *client, unsigned which)
{
    struct relock_waits_record *record = &client->guarded.waits.records[which];
    struct send *new = calloc(1, sizeof(*new));
    char token[RELOCK_FIELD_MAX];

    if (!new)
        return false;
    new->entry.ops = &send_ops;
    new->which = which;
    new->client = describe(client);
    if (!new->client || !compose(new, client)) {
        free_send(new);
        return false;
    }
    record->is_dirty = false;
    if (new->len == 0 && !record->may_exist) {
        free_send(new);
        return true;
    }
    (void)relock_tokens_write(&client->tokens, 0, token);
    new->key_len = which == TOKENS
                       ? relock_chain_key(new->key, token, (size_t)2 * RELOCK_TOKENS_PREFIX)
                       : relock_chain_key(new->key, client->id, RELOCK_UUID_LEN);
    record->is_sent = true;
    relock_outbox_post(client, &client->guarded.recording, &new->entry);
    return true;
}
