#include "lock/wake/outbox.h"

#include "base/clock.h"
#include "base/hash.h"
#include "redis/io/io.h"

bool relock_outbox_hangs(const struct relock_outbox *outbox, uint64_t now_ms, uint64_t patience_ms)
{
    const struct relock_outbox_entry *oldest = outbox->unanswered;

    return oldest && now_ms > relock_clock_after(oldest->posted_ms, patience_ms);
}

bool relock_outbox_is_empty(const struct relock_outbox *outbox)
{
    return !outbox->posted && !outbox->unanswered;
}

/* The entry is in no list any more. */
static void finish(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_outbox *outbox = entry->outbox;

    entry->ops->answer(client, entry, result, reply);
    if (relock_outbox_is_empty(outbox))
        relock_cond_broadcast(&client->changed); /* relock_client_free may wait for it */
}

static void on_answer(void *arg, int result, const struct redisReply *reply)
{
    struct relock_outbox_entry *entry = arg;
    struct relock_client *client = entry->client;

    relock_mutex_lock(&client->mutex);
    DL_DELETE(entry->outbox->unanswered, entry);
    finish(client, entry, result, reply);
    relock_mutex_unlock(&client->mutex);
}

static void send_entry(struct relock_client *client, struct relock_outbox_entry *entry)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_pipeline *pipeline = NULL;
    struct relock_request request;
    int r = RELOCK_E_CLOSED;

    if (entry->ops->write(entry, &request)) {
        pipeline = relock_node_io_pipeline(client->topology, request.call.key);
        r = relock_pipeline_call(pipeline, &request.call, on_answer, entry);
    }
    if (r < 0) {
        finish(client, entry, r, NULL);
        return;
    }
    entry->is_sent = true;
    DL_APPEND(entry->outbox->unanswered, entry);
    if (entry->ops->sent)
        entry->ops->sent(entry, relock_pipeline_conn_id(pipeline));
}

static void send_all(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_outbox *outbox = RELOCK_CONTAINER(struct relock_outbox, task, task);
    struct relock_outbox_entry *entry;

    while ((entry = outbox->posted)) {
        DL_DELETE(outbox->posted, entry);
        send_entry(client, entry);
    }
}

void relock_outbox_post(struct relock_client *client, struct relock_outbox *outbox,
                        struct relock_outbox_entry *entry)
{
    entry->client = client;
    entry->outbox = outbox;
    entry->posted_ms = relock_clock_now_ms();
    entry->is_sent = false;
    DL_APPEND(outbox->posted, entry);
    outbox->task.run = send_all;
    relock_client_post(client, &outbox->task);
}

static void drop_all(struct relock_client *client, struct relock_outbox_entry **list)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_outbox_entry *entry;

    while ((entry = *list)) {
        DL_DELETE(*list, entry);
        entry->ops->drop(client, entry);
    }
}

void relock_outbox_drop_all(struct relock_client *client, struct relock_outbox *outbox)
{
    drop_all(client, &outbox->posted);
    drop_all(client, &outbox->unanswered);
}
