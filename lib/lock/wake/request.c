#include "lock/wake/outbox.h"
#include "lock/wake/private.h"

#include "base/clock.h"
#include "redis/deployment/topology.h"

#include <string.h>

/* A waiter of a fair lock is removed after so many intervals of silence. */
#define RECHECKS_TO_LIVE 3

/* For how long an ASK counts as a sign of a half moved slot. Meanwhile waiters recheck more often
 * (wait.c), so they get the next ASK within that time. */
#define HALF_MOVED_MS 5000

static void begin(struct relock_request *request, const struct relock_script *script,
                  const struct relock_resource *resource)
{
    struct relock_call *call = &request->call;

    *call = (struct relock_call){.script = script};
    call->key = relock_resource_key(resource);
}

static void add_text(struct relock_request *request, const char *data, size_t len)
{
    request->call.args[request->call.n_args++] = (struct relock_text){data, len};
}

static void add_number(struct relock_request *request, char text[RELOCK_DECIMAL_MAX],
                       uint64_t number)
{
    add_text(request, text, relock_decimal(text, number));
}

/* The field of a hold in Redis, its token, or what the ids of its permits begin with and their
 * number; empty for the number 0. */
static size_t write_field(char field[RELOCK_FIELD_MAX], const struct relock_resource *resource,
                          uint64_t number, uint64_t n_permits)
{
    const struct relock_client *client = resource->client;

    if (number == 0)
        return 0;
    if (resource->kind->has_permits)
        return relock_keys_permits(field, client->id, number, n_permits);
    if (resource->kind->has_token_only)
        return relock_tokens_write(&client->tokens, number, field);
    return relock_keys_field(field, client->id, number, resource->kind->field_suffix);
}

static void add_field(struct relock_request *request, char field[RELOCK_FIELD_MAX],
                      const struct relock_resource *resource, uint64_t number)
{
    add_text(request, field, write_field(field, resource, number, 0));
}

static size_t write_field_of(char field[RELOCK_FIELD_MAX], const struct relock_hold *hold)
{
    return write_field(field, hold->resource, hold->number, relock_hold_n_permits(hold));
}

static void add_field_of(struct relock_request *request, const struct relock_hold *hold)
{
    add_text(request, request->field, write_field_of(request->field, hold));
}

static void add_entry(struct relock_request *request, const struct relock_client *client,
                      const char *side)
{
    add_text(request, request->entry, relock_keys_entry(request->entry, client->id, side));
}

/* Of a fair lock: how long a silent waiter keeps its place. Other locks have what the options say.
 */
static uint64_t patience_of(const struct relock_resource *resource)
{
    unsigned set_ms = 0;

    if (resource->kind->is_queued)
        set_ms = atomic_load_explicit(&resource->primary->set.patience_ms, memory_order_relaxed);
    return set_ms > 0 ? set_ms : resource->client->options.recheck_ms * RECHECKS_TO_LIVE;
}

static bool is_in_cluster(const struct relock_client *client)
{
    return client->topology && client->topology->is_cluster;
}

static bool is_sharded(const struct relock_client *client)
{
    const struct relock_topology *topology = client->topology;

    return topology && atomic_load_explicit(&topology->is_sharded, memory_order_relaxed);
}

bool relock_request_is_half_moved(const struct relock_resource *resource)
{
    struct relock_topology *topology = resource->client->topology;
    uint64_t said_ms = is_sharded(resource->client) ? atomic_load(&topology->half_moved_ms) : 0;

    return said_ms > 0 && relock_clock_now_ms() < said_ms + HALF_MOVED_MS;
}

uint64_t relock_request_recheck_ms(const struct relock_resource *resource)
{
    return relock_clock_sooner(patience_of(resource) / RECHECKS_TO_LIVE,
                               resource->client->options.recheck_ms);
}

static void add_patience(struct relock_request *request, const struct relock_resource *resource)
{
    add_number(request, request->patience, patience_of(resource));
}

/* See scripts/like_tell.lua. The name in the other library begins with the client's prefix. */
static void add_foreign(struct relock_request *request, const struct relock_resource *resource)
{
    const struct relock_announcement *announcement = resource->kind->announcement;
    size_t n_before = resource->prefix_len - resource->client->prefix_len;

    add_text(request, announcement->command, strlen(announcement->command));
    add_text(request, announcement->place, strlen(announcement->place));
    add_text(request, announcement->message, strlen(announcement->message));
    add_text(request, resource->name, n_before);
    add_text(request, resource->name + n_before, resource->name_len - n_before);
}

static void add_announcement(struct relock_request *request, const struct relock_resource *resource)
{
    const struct relock_kind *kind = resource->kind;
    size_t len = 0;

    if (kind->is_queued) {
        add_patience(request, resource); /* the script finds the next waiter and its channel */
        return;
    }
    if (kind->channel)
        len = relock_keys_channel(request->channel, kind->channel, resource->name,
                                  resource->name_len);
    add_text(request, request->channel, len);
    add_text(request, kind->message, strlen(kind->message));
}

/* The command with which the script publishes. */
static void add_publish(struct relock_request *request)
{
    add_text(request, "", 0);
    request->call.publish_arg = request->call.n_args;
}

/* The same for scripts of locks: only in a cluster. */
static void add_publish_in_cluster(struct relock_request *request,
                                   const struct relock_client *client)
{
    if (is_in_cluster(client))
        add_publish(request);
}

/* The arguments for the line of the lock: see scripts/line_ask.lua. */
static void add_line(struct relock_request *request, const struct relock_resource *resource,
                     enum relock_request_wait wait)
{
    bool is_clustered = is_in_cluster(resource->client);
    bool listens = relock_resource_view_line(resource).is_listening;

    if (wait == RELOCK_REQUEST_WAITS)
        add_text(request, "", 0);
    else if (wait != RELOCK_REQUEST_TRIES)
        add_entry(request, resource->client, resource->kind->side);
    else if (is_clustered)
        add_text(request, "-", 1);
    if (is_clustered || wait > RELOCK_REQUEST_WAITS)
        add_text(request, listens ? "1" : "0", 1);
    add_publish_in_cluster(request, resource->client);
}

static void add_side(struct relock_request *request, const struct relock_resource *resource)
{
    if (resource->kind->side)
        add_text(request, resource->kind->side, strlen(resource->kind->side));
}

static void begin_lease(struct relock_request *request, const struct relock_script *script,
                        const struct relock_hold *hold, uint64_t lease_ms)
{
    begin(request, script, hold->resource);
    add_number(request, request->lease, lease_ms);
    add_field_of(request, hold);
}

void relock_request_lock(struct relock_request *request, const struct relock_hold *hold,
                         unsigned count, uint64_t lease_ms, uint64_t write_number,
                         enum relock_request_wait wait)
{
    const struct relock_resource *resource = hold->resource;

    begin_lease(request, resource->kind->lock, hold, lease_ms);
    add_number(request, request->count, count);
    if (resource->kind->is_queued) {
        add_patience(request, resource);
        add_text(request, (const char *[]){"0", "0", "1", "2"}[wait], 1);
        add_publish_in_cluster(request, resource->client);
        return;
    }
    if (!relock_kind_has_line(resource->kind))
        wait = RELOCK_REQUEST_WAITS;
    if (resource->kind->primary || wait != RELOCK_REQUEST_TRIES || is_in_cluster(resource->client))
        add_field(request, request->beside, resource->primary, write_number);
    add_line(request, resource, wait);
}

void relock_request_unlock(struct relock_request *request, const struct relock_hold *hold,
                           unsigned count, bool joins)
{
    const struct relock_resource *resource = hold->resource;

    begin(request, resource->kind->unlock, resource);
    add_field_of(request, hold);
    add_number(request, request->count, count);
    if (resource->kind->announcement) {
        add_foreign(request, resource);
        return;
    }
    add_announcement(request, resource);
    if (joins)
        add_entry(request, resource->client, resource->kind->side);
    else if (is_in_cluster(resource->client) && !resource->kind->is_queued &&
             !resource->kind->is_shared)
        add_text(request, "", 0); /* in the place of the entry */
    add_publish_in_cluster(request, resource->client);
}

void relock_request_publish(struct relock_request *request, struct relock_text channel,
                            const char *message)
{
    request->call = (struct relock_call){.script = &relock_script_spublish, .key = channel};
    add_text(request, message, strlen(message));
}

void relock_request_leave(struct relock_request *request, const struct relock_client *client,
                          const char *name, size_t len, const char *side)
{
    request->call = (struct relock_call){
        .script = &relock_script_line_leave,
        .key = {name, len},
    };
    add_entry(request, client, side);
    add_publish_in_cluster(request, client);
}

void relock_request_renew(struct relock_request *request, const struct relock_hold *hold)
{
    begin_lease(request, hold->resource->kind->renew, hold, hold->renewal_ms);
}

/* The lease of a check. */
#define NO_LEASE "-1"

void relock_request_check(struct relock_request *request, const struct relock_hold *hold)
{
    begin(request, hold->resource->kind->renew, hold->resource);
    add_text(request, NO_LEASE, strlen(NO_LEASE));
    add_field_of(request, hold);
}

void relock_request_many(struct relock_request_many *many, const struct relock_kind *kind,
                         unsigned n)
{
    many->call = (struct relock_call){
        .script = kind->renew_many,
        .more = many->more,
        .n_more_keys = n - 1,
        .n_more = n - 1 + n + 1, /* one lease for all */
    };
    many->n = n;
    many->n_keys = 0;
}

void relock_request_many_add(struct relock_request_many *many, const struct relock_hold *hold,
                             bool renews)
{
    unsigned i = many->n_keys++;
    struct relock_text key = relock_resource_key(hold->resource);
    struct relock_text *fields = &many->more[many->n - 1];
    struct relock_text *leases = fields + many->n;

    if (i == 0)
        many->call.key = key;
    else
        many->more[i - 1] = key;
    fields[i] = (struct relock_text){many->fields[i], write_field_of(many->fields[i], hold)};
    leases[i] = relock_text_of(NO_LEASE);
    if (renews)
        leases[i] = (struct relock_text){many->leases[i],
                                         relock_decimal(many->leases[i], hold->renewal_ms)};
    if (leases[i].len != leases[0].len ||
        memcmp(leases[i].data, leases[0].data, leases[i].len) != 0)
        many->call.n_more = many->n - 1 + 2 * many->n;
}

void relock_request_look(struct relock_request *request, const struct relock_hold *hold)
{
    static const char first[] = "0", last[] = "64"; /* a token is shorter, other data may be long */
    const struct relock_kind *kind = hold->resource->kind;

    begin(request, kind->look, hold->resource);
    if (kind->has_token_only) { /* the reply is the token */
        add_text(request, first, strlen(first));
        add_text(request, last, strlen(last));
    } else {
        add_field_of(request, hold);
    }
}

void relock_request_extend(struct relock_request *request, const struct relock_hold *hold,
                           unsigned count, uint64_t lease_ms)
{
    begin_lease(request, hold->resource->kind->extend, hold, lease_ms);
    add_number(request, request->count, count);
}

void relock_request_inspect(struct relock_request *request, const struct relock_resource *resource,
                            uint64_t number)
{
    begin(request, resource->kind->inspect, resource);
    add_field(request, request->field, resource, number);
    add_side(request, resource);
}

void relock_request_inspect_hold(struct relock_request *request,
                                 const struct relock_resource *resource, uint64_t number)
{
    relock_request_inspect(request, resource, number);
    if (resource->kind->has_permits)
        add_text(request, "hold", 4);
}

void relock_request_watch(struct relock_request *request, const struct relock_resource *resource)
{
    begin(request, &relock_script_plain_watch, resource);
}

void relock_request_force_unlock(struct relock_request *request,
                                 const struct relock_resource *resource, const char *field,
                                 size_t len)
{
    begin(request, resource->kind->force_unlock, resource);
    add_text(request, field, len);
    if (resource->kind->announcement) {
        add_foreign(request, resource);
        return;
    }
    add_announcement(request, resource);
    add_side(request, resource);
    add_publish_in_cluster(request, resource->client);
}

void relock_request_get(struct relock_request *request, const struct relock_resource *resource)
{
    begin(request, &relock_script_get, resource);
}

static void add_signed(struct relock_request *request, char text[RELOCK_DECIMAL_MAX], int64_t n)
{
    bool is_negative = n < 0;

    text[0] = '-';
    add_text(request, text,
             relock_decimal(text + is_negative, is_negative ? -(uint64_t)n : (uint64_t)n) +
                 is_negative);
}

void relock_request_number(struct relock_request *request, const struct relock_resource *resource,
                           const struct relock_script *script, const char *message,
                           const int64_t *n)
{
    begin(request, script, resource);
    if (message) {
        add_text(request, message, strlen(message));
        add_text(request, request->channel,
                 relock_keys_channel(request->channel, resource->kind->channel, resource->name,
                                     resource->name_len));
        add_publish(request);
    }
    if (n)
        add_signed(request, request->count, *n);
}

void relock_request_permits(struct relock_request *request, const struct relock_resource *resource,
                            const struct relock_script *script, const char *verb, uint64_t n)
{
    begin(request, script, resource);
    add_text(request, verb, strlen(verb));
    add_number(request, request->count, n);
    add_text(request, request->channel,
             relock_keys_channel(request->channel, resource->kind->channel, resource->name,
                                 resource->name_len));
    add_publish_in_cluster(request, resource->client);
}
