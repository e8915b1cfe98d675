#include "lock/request.h"

#include "base/clock.h"
#include "redis/reply.h"

#include <string.h>

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

static void add_field(struct relock_request *request, const struct relock_site *site,
                      uint64_t number)
{
    add_text(request, request->field, relock_keys_field(request->field, site->client->id, number));
}

static void add_number(struct relock_request *request, char text[RELOCK_DECIMAL_MAX],
                       uint64_t number)
{
    add_text(request, text, relock_decimal(text, number));
}

static void add_announcement(struct relock_request *request, const struct relock_site *site)
{
    add_text(request, request->channel,
             relock_keys_channel(request->channel, site->name, site->name_len));
    add_text(request, RELOCK_MESSAGE_FREE, strlen(RELOCK_MESSAGE_FREE));
}

void relock_request_lock(struct relock_request *request, const struct relock_site *site,
                         uint64_t number, unsigned count, uint64_t lease_ms)
{
    begin(request, &relock_script_lock, site);
    add_number(request, request->lease, lease_ms);
    add_field(request, site, number);
    add_number(request, request->count, count);
}

void relock_request_unlock(struct relock_request *request, const struct relock_site *site,
                           uint64_t number, unsigned count)
{
    begin(request, &relock_script_unlock, site);
    add_field(request, site, number);
    add_number(request, request->count, count);
    add_announcement(request, site);
}

void relock_request_renew(struct relock_request *request, const struct relock_site *site,
                          uint64_t number, uint64_t lease_ms)
{
    begin(request, &relock_script_renew, site);
    add_number(request, request->lease, lease_ms);
    add_field(request, site, number);
}

void relock_request_extend(struct relock_request *request, const struct relock_site *site,
                           uint64_t number, unsigned count, uint64_t lease_ms)
{
    begin(request, &relock_script_extend, site);
    add_number(request, request->lease, lease_ms);
    add_field(request, site, number);
    add_number(request, request->count, count);
}

void relock_request_inspect(struct relock_request *request, const struct relock_site *site,
                            uint64_t number)
{
    begin(request, &relock_script_inspect, site);
    if (number > 0)
        add_field(request, site, number);
    else
        add_text(request, "", 0);
}

void relock_request_force_unlock(struct relock_request *request, const struct relock_site *site,
                                 const char *field, size_t len)
{
    begin(request, &relock_script_force_unlock, site);
    add_text(request, field, len);
    add_announcement(request, site);
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

bool relock_request_answer(const struct relock_request *request, int64_t *answer)
{
    return relock_reply_integer(request->call.reply, answer);
}
