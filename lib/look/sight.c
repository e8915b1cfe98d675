#include "look/sight.h"

#include "base/clock.h"
#include "base/decimal.h"
#include "lock/state/inspection.h"
#include "lock/state/keys.h"
#include "lock/state/verdict.h"
#include "redis/deployment/run.h"
#include "redis/server/reply.h"

#include <stdio.h>

bool relock_sight_begin(struct relock_sight *sight, struct relock_client *client)
{
    *sight = (struct relock_sight){.client = client, .result = RELOCK_E_INVALID};
    if (!client)
        return false;
    if (!relock_client_enter(client, true, &sight->guard)) {
        sight->result = sight->guard.result;
        return false;
    }
    relock_mutex_unlock(&client->mutex);
    relock_names_init(&sight->names, client->topology, client->options.command_timeout_ms);
    return true;
}

int relock_sight_end(struct relock_sight *sight, int result)
{
    struct relock_client *client = sight->client;

    if (result < 0)
        relock_log_cause(&client->log, ((struct relock_cause){"not read", result}),
                         RELOCK_LOG_WARNING, "locks were not read: %s%s%s", relock_strerror(result),
                         *sight->why ? ": " : "", sight->why);
    relock_names_deinit(&sight->names);
    relock_mutex_lock(&client->mutex);
    relock_client_leave(client, &sight->guard);
    return result;
}

uint64_t relock_sight_deadline(const struct relock_sight *sight)
{
    return relock_clock_in(sight->client->options.command_timeout_ms);
}

static int run(struct relock_sight *sight, struct relock_call *call)
{
    int r = relock_call_run(call, sight->client->topology, relock_sight_deadline(sight));

    if (r < 0)
        (void)snprintf(sight->why, sizeof(sight->why), "%s", call->why);
    return r;
}

int relock_sight_ask(struct relock_sight *sight, struct relock_text name, unsigned n,
                     struct relock_call *call)
{
    char number[RELOCK_DECIMAL_MAX];

    *call = (struct relock_call){.script = &relock_script_look, .key = name, .n_args = 1};
    call->args[0] = (struct relock_text){number, relock_decimal(number, n)};
    return run(sight, call);
}

static const struct kind {
    const char *name;
    int kind;
    const struct relock_script *inspect; /* NULL: it has no holder */
} kinds[] = {
    {"free", RELOCK_KIND_NONE, NULL},
    {"reentrant", RELOCK_KIND_REENTRANT, &relock_script_inspect},
    {"fenced", RELOCK_KIND_FENCED, &relock_script_inspect},
    {"fair", RELOCK_KIND_FAIR, &relock_script_inspect},
    {"rw", RELOCK_KIND_RW, &relock_script_rw_inspect},
    {"plain", RELOCK_KIND_PLAIN, &relock_script_plain_inspect},
    {"string", RELOCK_KIND_MAYBE_PLAIN, &relock_script_plain_inspect},
    {"other", RELOCK_KIND_OTHER, NULL},
};

static const struct kind *kind_of(const struct redisReply *reply)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
        if (relock_reply_is(reply, kinds[i].name))
            return &kinds[i];
    return NULL;
}

/* The holder may have changed since the first script ran: this reply counts. */
static int ask_for_holder(struct relock_sight *sight, const struct relock_call *looked,
                          const struct kind *kind, struct relock_lock_info *info)
{
    struct relock_call call = {.script = kind->inspect, .key = looked->key, .n_args = 2};
    struct relock_inspection inspection;
    int r;

    call.args[1] = relock_text_of(RELOCK_SIDE_WRITE);
    r = run(sight, &call);
    if (r == RELOCK_OK && !relock_inspection_read(call.reply, &inspection)) {
        (void)snprintf(sight->why, sizeof(sight->why), RELOCK_VERDICT_UNREADABLE);
        r = RELOCK_E_SERVER;
    }
    relock_call_end(&call);
    if (r != RELOCK_OK)
        return r;
    info->holder = inspection.holder;
    if (inspection.holder.n_holders == 0)
        info->kind = RELOCK_KIND_NONE;
    relock_names_find(&sight->names, info->holder.id, sight->peer);
    return RELOCK_OK;
}

int relock_sight_describe(struct relock_sight *sight, const struct relock_call *looked,
                          struct relock_lock_info *info)
{
    const struct kind *kind = kind_of(relock_reply_at(looked->reply, 0));
    int64_t n_waiting;

    sight->peer[0] = '\0';
    if (!kind || !relock_reply_integer(relock_reply_at(looked->reply, 1), &n_waiting)) {
        (void)snprintf(sight->why, sizeof(sight->why), RELOCK_VERDICT_UNREADABLE);
        return RELOCK_E_SERVER;
    }
    *info = (struct relock_lock_info){
        .name = looked->key.data + sight->client->prefix_len,
        .kind = kind->kind,
        .client_name = sight->peer,
        .n_waiting = (unsigned)n_waiting,
    };
    info->holder.ttl_ms = -2;
    return kind->inspect ? ask_for_holder(sight, looked, kind, info) : RELOCK_OK;
}
