#include "group/inquiry.h"

#include "base/clock.h"
#include "group/local.h"

#include <stdlib.h>

/* A server that is slower than this is given no further inquiries until it has answered. */
#define HANGS_MS 500

struct inquiry {
    struct relock_outbox_entry entry;
    struct relock_resource *resource;
    uint64_t number;
    relock_inquiry_fn *fn;
    void *arg;
};

static bool write_command(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct inquiry *inquiry = (const struct inquiry *)entry;

    relock_request_inspect(request, inquiry->resource, inquiry->number);
    return true;
}

static void answer(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    struct inquiry *inquiry = (struct inquiry *)entry;

    relock_mutex_unlock(&client->mutex);
    inquiry->fn(inquiry->arg, result, reply);
    free(inquiry);
    relock_mutex_lock(&client->mutex);
}

static void drop(struct relock_client *client, struct relock_outbox_entry *entry)
    RELOCK_REQUIRES(client->mutex)
{
    answer(client, entry, RELOCK_E_CLOSED, NULL);
}

static const struct relock_outbox_ops ops = {
    .write = write_command,
    .answer = answer,
    .drop = drop,
};

int relock_inquiry_post(struct relock_client *client, struct relock_resource *resource,
                        uint64_t number, relock_inquiry_fn *fn, void *arg)
{
    struct relock_outbox *outbox = &relock_local_of(client)->inquiries;
    uint64_t now_ms = relock_clock_now_ms();
    struct inquiry *new;

    if (relock_outbox_hangs(outbox, now_ms, HANGS_MS))
        return RELOCK_E_CONN;
    new = calloc(1, sizeof(*new));
    if (!new)
        return RELOCK_E_NOMEM;
    *new = (struct inquiry){
        .entry = {.ops = &ops, .posted_ms = now_ms},
        .resource = resource,
        .number = number,
        .fn = fn,
        .arg = arg,
    };
    relock_outbox_post(client, outbox, &new->entry);
    return RELOCK_OK;
}
