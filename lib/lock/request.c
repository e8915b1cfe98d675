#include "lock/request.h"

#include "base/clock.h"
#include "redis/reply.h"

#include <string.h>

/* A waiter in a fair queue asks each `recheck_ms`; after so many without it is taken for dead. */
#define RECHECKS_TO_LIVE 3

static void begin(struct relock_request *request, const struct relock_script *script,
                  const struct relock_site *site)
{
    struct relock_call *call = &request->call;

    *call = (struct relock_call){.script = script};
    call->key = (struct relock_text){site->name, site->name_len};
}

static void add_text(struct relock_request *request, const char *data, size_t len)
{
    request->call.args[request->call.n_args++] = (struct relock_text){data, len};
}

/* What stands in Redis for the hold. */
static void add_field(struct relock_request *request, const struct relock_site *site,
                      uint64_t number)
{
    const struct relock_client *client = site->client;
    size_t len;

    if (site->kind->has_token_only)
        len = relock_tokens_write(&client->tokens, number, request->field);
    else
        len = relock_keys_field(request->field, client->id, number, site->kind->field_suffix);
    add_text(request, request->field, len);
}

static void add_number(struct relock_request *request, char text[RELOCK_DECIMAL_MAX],
                       uint64_t number)
{
    add_text(request, text, relock_decimal(text, number));
}

static void add_announcement(struct relock_request *request, const struct relock_site *site)
{
    const struct relock_kind *kind = site->kind;
    size_t len = 0;

    if (kind->channel)
        len = relock_keys_channel(request->channel, kind->channel, site->name, site->name_len);
    add_text(request, request->channel, len);
    add_text(request, kind->message, strlen(kind->message));
}

/* How long the place of a waiter is kept that does not ask any more. */
static uint64_t patience_ms(const struct relock_site *site)
{
    return site->client->options.recheck_ms * RECHECKS_TO_LIVE;
}

static void add_side(struct relock_request *request, const struct relock_site *site)
{
    if (site->kind->side)
        add_text(request, site->kind->side, strlen(site->kind->side));
}

void relock_request_lock(struct relock_request *request, const struct relock_site *site,
                         uint64_t number, unsigned count, uint64_t lease_ms)
{
    begin(request, site->kind->lock, site);
    add_number(request, request->lease, lease_ms);
    add_field(request, site, number);
    add_number(request, request->count, count);
}

void relock_request_beside(struct relock_request *request, const struct relock_site *home,
                           uint64_t number)
{
    size_t len = 0;

    if (number > 0)
        len =
            relock_keys_field(request->beside, home->client->id, number, home->kind->field_suffix);
    add_text(request, request->beside, len);
}

void relock_request_queue(struct relock_request *request, const struct relock_site *site,
                          bool waits)
{
    add_number(request, request->patience, waits ? patience_ms(site) : 0);
}

void relock_request_unlock(struct relock_request *request, const struct relock_site *site,
                           uint64_t number, unsigned count)
{
    begin(request, site->kind->unlock, site);
    add_field(request, site, number);
    add_number(request, request->count, count);
    if (!site->kind->is_queued)
        add_announcement(request, site);
}

void relock_request_renew(struct relock_request *request, const struct relock_site *site,
                          uint64_t number, uint64_t lease_ms)
{
    begin(request, site->kind->renew, site);
    add_number(request, request->lease, lease_ms);
    add_field(request, site, number);
}

void relock_request_extend(struct relock_request *request, const struct relock_site *site,
                           uint64_t number, unsigned count, uint64_t lease_ms)
{
    begin(request, site->kind->extend, site);
    add_number(request, request->lease, lease_ms);
    add_field(request, site, number);
    add_number(request, request->count, count);
}

void relock_request_inspect(struct relock_request *request, const struct relock_site *site,
                            uint64_t number)
{
    begin(request, site->kind->inspect, site);
    if (number > 0)
        add_field(request, site, number);
    else
        add_text(request, "", 0);
    add_side(request, site);
}

void relock_request_force_unlock(struct relock_request *request, const struct relock_site *site,
                                 const char *field, size_t len)
{
    begin(request, site->kind->force_unlock, site);
    add_text(request, field, len);
    if (!site->kind->is_queued)
        add_announcement(request, site);
    add_side(request, site);
}

int relock_request_run(struct relock_request *request, struct relock_client *client)
{
    uint64_t deadline_ms =
        relock_clock_after(relock_clock_now_ms(), client->options.command_timeout_ms);

    return relock_request_run_until(request, client, deadline_ms);
}

int relock_request_run_until(struct relock_request *request, struct relock_client *client,
                             uint64_t deadline_ms)
{
    return relock_call_run(&request->call, client->lanes, deadline_ms);
}

bool relock_request_is_granted(const struct relock_request *request, uint64_t *fencing_token)
{
    int64_t token;

    if (relock_reply_is_nil(request->call.reply))
        return true;
    if (!relock_reply_integer(relock_reply_at(request->call.reply, 0), &token))
        return false;
    *fencing_token = (uint64_t)token;
    return true;
}

bool relock_request_answer(const struct relock_request *request, int64_t *answer)
{
    return relock_reply_integer(request->call.reply, answer);
}
