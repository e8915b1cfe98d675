#include "lock/wake/wake.h"

#include "base/hash.h"
#include "lock/state/keys.h"
#include "lock/wake/outbox.h"
#include "lock/wake/private.h"

#include <stdlib.h>

struct echo {
    struct relock_outbox_entry entry;
    const struct relock_kind *kind;
    size_t len;
    char channel[RELOCK_CHANNEL_MAX];
};

static struct echo *echo_of(const struct relock_outbox_entry *entry)
{
    return RELOCK_CONTAINER(struct echo, entry, entry);
}

static bool write_echo(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct echo *echo = echo_of(entry);

    relock_request_publish(request, (struct relock_text){echo->channel, echo->len},
                           echo->kind->message);
    return true;
}

/* If the right is missing, the release has logged that. Often it is the first command for that node
 * on the connection of the I/O thread: then it is sent when there is one. Later, a latch
 * may have been closed again, and the message would open it in Redisson's waiters. */
static void on_answer(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                      const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    bool may_be_outdated = echo_of(entry)->kind->is_number && entry->is_sent;

    if (may_be_outdated || !relock_line_put_off(client, entry, result, reply))
        free(echo_of(entry));
}

static void drop(struct relock_client *client, struct relock_outbox_entry *entry)
{
    (void)client;
    free(echo_of(entry));
}

static const struct relock_outbox_ops ops = {
    .write = write_echo,
    .answer = on_answer,
    .drop = drop,
};

void relock_echo_release(struct relock_client *client, const struct relock_resource *resource)
{
    struct echo *new;

    if (!relock_request_is_half_moved(resource) || !resource->kind->channel ||
        !relock_script_has_one_key(resource->kind->unlock))
        return;
    new = malloc(sizeof(*new));
    if (!new)
        return; /* waiters recheck */
    new->entry = (struct relock_outbox_entry){.ops = &ops};
    new->kind = resource->kind;
    new->len = relock_keys_channel(new->channel, resource->kind->channel, resource->name,
                                   resource->name_len);
    relock_outbox_post(client, &client->guarded.leaving, &new->entry);
}
