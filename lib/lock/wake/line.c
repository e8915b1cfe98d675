/*
 * The standing of this client in the line of a lock: `line.state` of a resource.
 *
 *   state      means                      becomes    when
 *   OUTSIDE    no line, or it is not used BEHIND,    refused: Redis said the place, and whether
 *   LEFT       not in the line            FIRST,     the holder is relock's
 *                                         LISTENING
 *                                         BEHIND,    a release put it into the line again
 *                                         FIRST
 *                                         BEHIND     a command got no answer: it may be in line
 *   BEHIND     others are before it       FIRST      a message: it is first, or it is its turn
 *   FIRST      it will listen to the      LISTENING  LISTEN_MS later; or refused, and the holder
 *              channel of the lock                   is not relock's
 *   LISTENING  it listens                 FIRST      refused: reserved for another client
 *   any        ..                         LEFT       the lock was acquired; nobody waits here
 *   any        ..                         OUTSIDE    refused without a place
 */
#include "lock/wake/wake.h"

#include "base/clock.h"
#include "base/hash.h"
#include "lock/wake/listener.h"
#include "lock/wake/outbox.h"
#include "lock/wake/private.h"
#include "redis/server/reply.h"

#include <stdlib.h>
#include <string.h>

/* After so long, the first client in line listens to the channel of the lock, or leaves the line if
 * nobody waits any more. The client ahead mostly has the lock by then: the scripts reserve it for
 * 100 ms. */
#define LISTEN_MS 100

/* After so long, the client behind the first one asks once: the first one may be silent, too. */
#define SECOND_MS 250

#define LEAVE_AGAIN_MS 100 /* after a server refused it for now, or without memory */

/* ---- standing ------------------------------------------------------------------------------ */

/* The lock has contention. */
static void stand(struct relock_client *client, struct relock_resource *resource,
                  enum relock_line_state state, uint64_t place) RELOCK_REQUIRES(client->mutex)
{
    struct relock_line *line = &resource->contention->line;

    line->state = state;
    line->place = place;
    relock_client_unset_timer(client, &line->timer);
    relock_subscription_idle(client, resource);
}

/* A release may have come before it listened, so it has to ask again. */
static void listen(struct relock_client *client, struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex)
{
    stand(client, resource, RELOCK_LINE_LISTENING, 1);
    if (relock_subscription_is_active(resource))
        relock_line_ask_again(client, resource);
    else
        relock_subscription_want(client, resource);
}

/* Unchecked: the I/O thread calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_contention *contention =
        RELOCK_CONTAINER(struct relock_contention, line.timer, timer);
    struct relock_resource *resource = contention->resource;

    (void)now_ms;
    if (!relock_listeners_await(resource))
        relock_line_give_up(resource->client, resource); /* there was no memory to leave */
    else if (contention->line.state == RELOCK_LINE_FIRST)
        listen(resource->client, resource);
    else
        relock_line_ask_again(resource->client, resource);
}

static void set_timer(struct relock_client *client, struct relock_resource *resource,
                      uint64_t due_ms) RELOCK_REQUIRES(client->mutex)
{
    struct relock_timer *timer = &resource->contention->line.timer;

    timer->fire = fire;
    relock_client_set_timer(client, timer, due_ms);
}

static void be_first(struct relock_client *client, struct relock_resource *resource,
                     uint64_t listen_at_ms) RELOCK_REQUIRES(client->mutex)
{
    stand(client, resource, RELOCK_LINE_FIRST, 1);
    set_timer(client, resource, listen_at_ms);
}

/* A message that came after the command was sent is newer than the place in the reply. */
static bool is_behind(const struct relock_resource *resource, const struct relock_line_view *sent,
                      uint64_t place)
{
    return place > 1 && resource->contention->line.n_heard == sent->n_heard;
}

/* `is_free`: the lock is, and those before this client may both be silent. */
static void be_behind(struct relock_client *client, struct relock_resource *resource,
                      uint64_t place, bool is_free) RELOCK_REQUIRES(client->mutex)
{
    stand(client, resource, RELOCK_LINE_BEHIND, place);
    if (is_free && place == 2)
        set_timer(client, resource, relock_clock_in(SECOND_MS));
}

/* The place in a reply counts, unless a message has said since that the client is second. */
static void be_behind_by_reply(struct relock_client *client, struct relock_resource *resource,
                               const struct relock_line_view *sent, uint64_t place, bool is_free)
    RELOCK_REQUIRES(client->mutex)
{
    if (resource->contention->line.n_seconds == sent->n_seconds)
        be_behind(client, resource, place, is_free);
}

void relock_line_refused(struct relock_client *client, struct relock_resource *resource,
                         const struct relock_line_view *sent, const struct relock_busy *busy)
{
    if (busy->place == 0)
        stand(client, resource, RELOCK_LINE_OUTSIDE, 0);
    else if (is_behind(resource, sent, busy->place))
        be_behind_by_reply(client, resource, sent, busy->place, busy->is_reserved);
    else if (resource->contention->line.state == RELOCK_LINE_LISTENING && !busy->is_reserved)
        return;
    else if (busy->is_foreign)
        listen(client, resource);
    else
        be_first(client, resource, relock_clock_in(LISTEN_MS));
}

void relock_line_unanswered(struct relock_client *client, struct relock_hold *hold)
{
    struct relock_resource *resource = hold->resource;

    hold->may_stand = true;
    if (!relock_resource_contend(resource))
        (void)relock_line_leave(client, resource->name, resource->name_len, resource->kind->side);
    else if (resource->contention->line.place == 0)
        stand(client, resource, RELOCK_LINE_BEHIND, 1);
}

void relock_line_granted(struct relock_client *client, struct relock_resource *resource,
                         bool has_left)
{
    if (!has_left && relock_resource_contention(resource)->line.place > 0)
        (void)relock_line_leave(client, resource->name, resource->name_len, resource->kind->side);
    relock_line_granted_to(client, resource, NULL);
}

void relock_line_granted_to(struct relock_client *client, struct relock_resource *resource,
                            const struct relock_listener *listener)
{
    if (relock_resource_contention(resource)->line.state == RELOCK_LINE_OUTSIDE)
        return;
    stand(client, resource, RELOCK_LINE_LEFT, 0);
    /* The others stood there with the same entry. */
    relock_listeners_tell(client, resource, RELOCK_HEARD_STANDING, listener);
    if (listener && resource->queue)
        relock_resource_signal(resource, false);
}

void relock_line_released(struct relock_client *client, struct relock_resource *resource,
                          const struct relock_line_view *sent, uint64_t place)
{
    if (place == 0)
        return;
    if (!relock_resource_contend(resource)) {
        relock_resource_signal(resource, false);
        return;
    }
    if (!is_behind(resource, sent, place - 1)) {
        be_first(client, resource, relock_clock_in(LISTEN_MS));
        return;
    }
    be_behind_by_reply(client, resource, sent, place - 1, true);
}

void relock_line_hear(struct relock_client *client, struct relock_resource *resource,
                      struct relock_text verb)
{
    struct relock_contention *contention = relock_resource_contend(resource);
    bool is_later = relock_text_is(verb, "later");

    if (!contention) { /* its first attempt is in flight: it asks again, and learns its place */
        relock_resource_signal(resource, true);
        return;
    }
    if (relock_text_is(verb, "second")) {
        contention->line.n_seconds++;
        be_behind(client, resource, 2, true);
        return;
    }
    contention->line.n_heard++;
    if (contention->line.state != RELOCK_LINE_FIRST &&
        contention->line.state != RELOCK_LINE_LISTENING)
        be_first(client, resource, relock_clock_in(LISTEN_MS));
    if (relock_text_is(verb, "first"))
        return;
    if (is_later) /* clients outside of the line go first */
        contention->yields_until_ms = relock_clock_in(RELOCK_YIELD_MS);
    relock_listeners_tell(client, resource, RELOCK_HEARD_TURN, NULL);
    if (is_later)
        relock_listeners_tell(client, resource, RELOCK_HEARD_LATER, NULL);
    if (resource->queue)
        relock_resource_signal(resource, true);
}

/* The text before the name in "<verb> <name>" or "<verb>:<side> <name>"; empty if the message is
 * about a lock of another name. */
static struct relock_text head_of(const struct relock_resource *resource, const char *text,
                                  size_t len)
{
    size_t name_len = resource->name_len;
    const char *end = text ? memchr(text, ' ', len) : NULL;

    if (!end || len - (size_t)(end + 1 - text) != name_len ||
        memcmp(end + 1, resource->name, name_len) != 0)
        return (struct relock_text){NULL, 0};
    return (struct relock_text){text, (size_t)(end - text)};
}

void relock_line_hear_text(struct relock_client *client, struct relock_resource *primary,
                           const char *text, size_t len)
{
    struct relock_text verb = head_of(primary, text, len), side = {NULL, 0};
    const char *colon = verb.len > 0 ? memchr(verb.data, ':', verb.len) : NULL;
    struct relock_resource *resource = primary;

    if (verb.len == 0 || !colon != !primary->kind->side)
        return;
    if (colon) {
        side = (struct relock_text){colon + 1, verb.len - (size_t)(colon + 1 - verb.data)};
        verb.len = (size_t)(colon - verb.data);
    }
    if (relock_text_is(side, RELOCK_SIDE_READ))
        resource = relock_resource_readers(primary);
    if (resource && relock_listeners_await(resource))
        relock_line_hear(client, resource, verb);
    else
        (void)relock_line_leave(client, primary->name, primary->name_len,
                                resource ? resource->kind->side : RELOCK_SIDE_READ);
}

void relock_line_log_missing(struct relock_client *client, const struct relock_lock *lock)
{
    if (client->guarded.has_no_line)
        return;
    client->guarded.has_no_line = true;
    relock_lock_log_under(
        client, lock, 0,
        "each release of this lock wakes this process, even if it is not its turn: this "
        "Redis user lacks the right to the keys relock_waiters: or to a command that "
        "they need; grant it, see docs/wire.md#rights",
        0, "");
}

/* ---- leaving ------------------------------------------------------------------------------- */

struct leave {
    struct relock_outbox_entry entry;
    const char *side;
    size_t len;
    char name[];
};

static struct leave *leave_of(const struct relock_outbox_entry *entry)
{
    return RELOCK_CONTAINER(struct leave, entry, entry);
}

static bool write_leave(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct leave *leave = leave_of(entry);

    relock_request_leave(request, entry->client, leave->name, leave->len, leave->side);
    return true;
}

/* When a departure that was not taken is repeated: RELOCK_NEVER: with the next connection; 0: not
 * at all. */
static uint64_t leave_again_ms(int result, const struct redisReply *reply)
{
    if (result == RELOCK_E_CONN)
        return RELOCK_NEVER;
    if (result == RELOCK_E_NOMEM || relock_reply_refuses_for_now(reply))
        return relock_clock_in(LEAVE_AGAIN_MS);
    return 0;
}

/* Unchecked: the I/O thread calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void leave_again(struct relock_timer *timer, uint64_t now_ms)
{
    (void)now_ms;
    relock_line_leave_again(RELOCK_CONTAINER(struct relock_client, guarded.leave_retry, timer));
}

bool relock_line_put_off(struct relock_client *client, struct relock_outbox_entry *entry,
                         int result, const struct redisReply *reply)
{
    uint64_t due_ms = leave_again_ms(result, reply);

    if (due_ms == 0)
        return false;
    DL_APPEND(client->guarded.leaving_later, entry);
    client->guarded.leave_retry.fire = leave_again;
    /* Later refusals do not put it off further. */
    if (due_ms != RELOCK_NEVER &&
        !relock_timer_is_set(&client->guarded.timers, &client->guarded.leave_retry))
        relock_client_set_timer(client, &client->guarded.leave_retry, due_ms);
    return true;
}

static void on_left(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                    const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    struct leave *leave = leave_of(entry);
    struct relock_resource *resource =
        relock_resources_find(client, leave->name, leave->len, leave->side);

    if (relock_line_put_off(client, entry, result, reply))
        return;
    /* If somebody waits again, the client may have left for the wrong wait. */
    if (resource && relock_listeners_await(resource))
        relock_line_ask_again(client, resource);
    free(leave);
}

static void drop_leave(struct relock_client *client, struct relock_outbox_entry *entry)
{
    (void)client;
    free(leave_of(entry));
}

static const struct relock_outbox_ops leave_ops = {
    .write = write_leave,
    .answer = on_left,
    .drop = drop_leave,
};

bool relock_line_leave(struct relock_client *client, const char *name, size_t len, const char *side)
{
    struct leave *new = malloc(sizeof(*new) + len);

    if (!new)
        return false;
    *new = (struct leave){
        .entry = {.ops = &leave_ops},
        .side = side,
        .len = len,
    };
    memcpy(new->name, name, len);
    relock_outbox_post(client, &client->guarded.leaving, &new->entry);
    return true;
}

void relock_line_leave_again(struct relock_client *client)
{
    struct relock_outbox_entry *entry;

    while ((entry = client->guarded.leaving_later)) {
        DL_DELETE(client->guarded.leaving_later, entry);
        relock_outbox_post(client, &client->guarded.leaving, entry);
    }
}

void relock_line_close(struct relock_client *client)
{
    struct relock_outbox_entry *entry;

    relock_outbox_drop_all(client, &client->guarded.leaving);
    while ((entry = client->guarded.leaving_later)) {
        DL_DELETE(client->guarded.leaving_later, entry);
        entry->ops->drop(client, entry);
    }
}

void relock_line_ask_again(struct relock_client *client, struct relock_resource *resource)
{
    if (resource->queue)
        relock_resource_signal(resource, false);
    relock_listeners_tell(client, resource, RELOCK_HEARD_STANDING, NULL);
}

void relock_line_ask_again_both(struct relock_client *client, struct relock_resource *primary)
{
    struct relock_resource *readers = relock_resource_readers(primary);

    relock_line_ask_again(client, primary);
    if (readers)
        relock_line_ask_again(client, readers);
}

void relock_line_ask_all_again(struct relock_client *client)
{
    struct relock_resource *at = NULL;

    while ((at = relock_resources_next(client, at)))
        if (relock_kind_has_line(at->kind))
            relock_line_ask_again_both(client, at);
}

void relock_line_give_up(struct relock_client *client, struct relock_resource *resource)
{
    if (relock_resource_contention(resource)->line.place == 0 || relock_listeners_await(resource))
        return;
    if (relock_line_leave(client, resource->name, resource->name_len, resource->kind->side))
        stand(client, resource, RELOCK_LINE_LEFT, 0);
    else
        be_first(client, resource, relock_clock_in(LISTEN_MS)); /* to leave then */
}
