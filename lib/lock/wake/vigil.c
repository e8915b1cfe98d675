/*
 *   state     becomes   when
 *   OFF       WANTED    the head was refused; or there is one when the node begins to track
 *   WANTED    SENT      the I/O thread reads the lock
 *             OFF       the node does not track yet, or there was no memory
 *   SENT      ON        the lock is held; or it is free, and this client leaves it to others
 *             OFF       it is free, or the command failed
 *             OUTDATED  Redis reports a change before the answer: that may be the older one
 *   OUTDATED  OFF       the answer comes
 *   ON        OFF       Redis reports a change, or no longer tracks
 *             OFF       this client changes the lock: Redis has forgotten the key without a report.
 *                       (SENT stays: the read comes after that change.)
 *
 * Each end of ON or SENT but a failure is a signal to the head, and so is a lock that is free.
 * During a room (room.c), the head follows no signal before the end. After a report, the lock is
 * read again at once: to see who uses the room.
 */
#include "lock/wake/wake.h"

#include "base/clock.h"
#include "lock/wake/outbox.h"
#include "redis/io/io.h"
#include "redis/server/reply.h"

/* If changes are reported again and again while the same owner holds the lock, waiters poll. */
#define MAX_PAUSE_MS 10000

/* ---- changes ------------------------------------------------------------------------------- */

/* While an owner of this process holds the lock, its release is the signal. */
static void wake(struct relock_resource *resource, bool is_report)
{
    if (!resource->holder && resource->contention->line.state != RELOCK_LINE_BEHIND)
        relock_resource_signal(resource, is_report);
}

/* Reads the lock again if nobody here asks for it now. */
static void watch_room(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    if (relock_room_is_on(resource, relock_clock_now_ms()))
        relock_vigil_want(client, resource);
}

static void hear(struct relock_client *client, struct relock_resource *resource, bool is_report)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_vigil *vigil;

    if (!resource->contention)
        return;
    vigil = &resource->contention->vigil;
    if (vigil->state != RELOCK_VIGIL_ON && vigil->state != RELOCK_VIGIL_SENT)
        return;
    vigil->state = vigil->state == RELOCK_VIGIL_ON ? RELOCK_VIGIL_OFF : RELOCK_VIGIL_OUTDATED;
    if (is_report)
        vigil->not_before_ms =
            relock_pace_next(&vigil->pause_ms, vigil->sent_ms, relock_clock_now_ms(), MAX_PAUSE_MS);
    wake(resource, is_report);
    watch_room(client, resource);
}

void relock_vigil_hear(struct relock_client *client, const char *key, size_t len)
{
    struct relock_resource *resource = key ? relock_resources_find_key(client, key, len) : NULL;

    if (resource)
        hear(client, resource, true);
    if (key)
        return;
    while ((resource = relock_resources_next(client, resource)))
        hear(client, resource, true);
}

void relock_vigil_spend(struct relock_client *client, struct relock_resource *resource)
{
    if (relock_vigil_is_on(resource))
        hear(client, resource, false);
}

void relock_vigil_tracking(struct relock_client *client, const struct relock_node *node, bool is_on)
{
    struct relock_resource *at = NULL;

    while ((at = relock_resources_next(client, at))) {
        if (!at->contention)
            continue;
        if (is_on && at->queue && !at->holder)
            relock_vigil_want(client, at);
        else if (!is_on && at->contention->vigil.node == node)
            hear(client, at, false);
    }
}

void relock_vigil_follow(struct relock_client *client)
{
    struct relock_resource *at = NULL;

    while ((at = relock_resources_next(client, at))) {
        if (relock_vigil_is_on(at) &&
            relock_topology_find(client->topology, relock_resource_key(at)) !=
                at->contention->vigil.node)
            hear(client, at, false);
    }
}

/* ---- reading ------------------------------------------------------------------------------- */

/* FNV-1a. */
static uint64_t hash_of(const char *text, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325;

    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3;
    return hash;
}

/* See plain_watch.lua. */
static void take_reply(struct relock_resource *resource, const struct redisReply *reply)
{
    struct relock_vigil *vigil = &resource->contention->vigil;
    const struct redisReply *first = relock_reply_at(reply, 0);
    const char *token;
    uint64_t holder = 0;
    size_t len;

    if (relock_reply_text(first ? first : reply, &token, &len))
        holder = hash_of(token, len);
    else if (!relock_reply_is_nil(reply))
        return;
    if (holder == 0)
        wake(resource, false); /* in a room, too: a waiter may have asked at its deadline */
    if (holder == 0 && !relock_room_is_on(resource, relock_clock_now_ms()))
        return;
    if (holder != vigil->holder)
        vigil->pause_ms = 0; /* the last report was not for nothing */
    vigil->holder = holder;
    vigil->state = RELOCK_VIGIL_ON;
}

/* Also from an answer that is outdated: another library held the lock a moment ago. */
static void look_for_neighbours(struct relock_resource *resource, const struct redisReply *reply)
{
    const char *token;
    int64_t server_ms;
    size_t len;

    if (relock_reply_integer(relock_reply_at(reply, 1), &server_ms))
        relock_room_see(resource, (uint64_t)server_ms, resource->contention->vigil.sent_ms,
                        relock_clock_now_ms());
    else if (relock_reply_text(reply, &token, &len))
        relock_room_see_ours(resource);
}

static void on_read(void *arg, int result, const struct redisReply *reply)
{
    struct relock_resource *resource = arg;
    struct relock_client *client = resource->client;
    struct relock_vigil *vigil = &resource->contention->vigil;
    bool is_tracked, counts;

    relock_mutex_lock(&client->mutex);
    is_tracked = result == RELOCK_OK && vigil->tracker;
    counts = vigil->state == RELOCK_VIGIL_SENT && is_tracked;
    vigil->state = RELOCK_VIGIL_OFF;
    vigil->node = vigil->tracker;
    if (result == RELOCK_OK)
        look_for_neighbours(resource, reply);
    if (counts)
        take_reply(resource, reply);
    else if (is_tracked)
        watch_room(client, resource);
    relock_resources_unref(client, resource);
    relock_mutex_unlock(&client->mutex);
}

/* Returns whether it was sent: then the reference of WANTED is that of the command. */
static bool begin(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_vigil *vigil = &resource->contention->vigil;
    struct relock_request request;
    struct relock_node *node;

    relock_request_watch(&request, resource);
    request.call.tracker = &vigil->tracker;
    node = relock_node_io_open(client->topology, request.call.key);
    vigil->state = RELOCK_VIGIL_OFF;
    if (!node)
        return false;
    if (!relock_tracking_is_on(node)) {
        relock_tracking_want(node); /* the waiter polls meanwhile */
        return false;
    }
    if (relock_pipeline_call(node->pipeline, &request.call, on_read, resource) < 0)
        return false;
    vigil->state = RELOCK_VIGIL_SENT;
    vigil->node = node;
    vigil->sent_ms = relock_clock_now_ms();
    return true;
}

static void watch(struct relock_client *client, struct relock_task *task)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource =
        RELOCK_CONTAINER(struct relock_contention, vigil.task, task)->resource;

    if (!begin(client, resource))
        relock_resources_unref(client, resource);
}

void relock_vigil_want(struct relock_client *client, struct relock_resource *resource)
{
    struct relock_vigil *vigil = &resource->contention->vigil;

    if (resource->taken_ms >= vigil->sent_ms) { /* the last report was not for nothing */
        vigil->pause_ms = 0;
        vigil->not_before_ms = 0;
    }
    if (!resource->kind->is_watched || (client->options.flags & RELOCK_NO_TRACKING) ||
        vigil->state != RELOCK_VIGIL_OFF ||
        resource->contention->line.state == RELOCK_LINE_BEHIND ||
        relock_clock_now_ms() < vigil->not_before_ms)
        return;
    vigil->state = RELOCK_VIGIL_WANTED;
    resource->refs++;
    vigil->task.run = watch;
    relock_client_post(client, &vigil->task);
}
