/*
 *     state       becomes     when
 *     IDLE        KILLING     begin, if the hold has a fence
 *                 RUNNING     begin, else
 *     KILLING     RUNNING     the fence is killed
 *                 PAUSED      the connection broke, or the server refused for now
 *                 FORGOTTEN   the deadline
 *     RUNNING     IDLE        the answer
 *                 PAUSED      the connection broke, or the server refused for now
 *                 ORPHANED    the deadline
 *     PAUSED      as IDLE     the pause is over, or there is a connection
 *                 IDLE        the deadline
 *     FORGOTTEN   IDLE        the answer, or the end of the client; a late kill does no harm
 *     ORPHANED    IDLE        the same; the hold waits for it
 */
#include "lock/async/async.h"
#include "lock/async/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/status.h"
#include "lock/hold/holds.h"
#include "lock/state/keys.h"
#include "redis/connect/conn_id.h"
#include "redis/connect/explain.h"
#include "redis/deployment/topology.h"
#include "redis/server/reply.h"

static const struct relock_outbox_ops entry_ops;

static struct relock_async_command *command_of(const struct relock_outbox_entry *entry)
{
    return RELOCK_CONTAINER(struct relock_async_command, entry, entry);
}

/* ---- attempts ------------------------------------------------------------------------------ */

static void post(struct relock_async_command *command) RELOCK_REQUIRES(command->client->mutex)
{
    command->state =
        command->hold->fence ? RELOCK_ASYNC_COMMAND_KILLING : RELOCK_ASYNC_COMMAND_RUNNING;
    command->entry.ops = &entry_ops;
    command->flight.is_in_flight = false;
    relock_outbox_post(command->client, &command->client->guarded.commands, &command->entry);
    relock_client_set_timer(command->client, &command->timer, command->attempts.deadline_ms);
}

static void resume(struct relock_async_command *command) RELOCK_REQUIRES(command->client->mutex)
{
    DL_DELETE(command->client->guarded.paused, command);
    post(command);
}

static uint64_t serial_of(const struct relock_async_command *command)
{
    return relock_keys_serial(command->hold->number);
}

/* The list is sorted by the serials of the holds, not by when a command was put off. So calls for a
 * fair lock get their places in the order in which they were made. */
static void insert(struct relock_async_command *command) RELOCK_REQUIRES(command->client->mutex)
{
    struct relock_async_command **paused = &command->client->guarded.paused;
    struct relock_async_command *at = *paused;
    uint64_t serial = serial_of(command);

    if (at && serial_of(at->prev) < serial)
        at = NULL; /* behind the last */
    while (at && serial_of(at) < serial)
        at = at->next;
    if (at)
        DL_PREPEND_ELEM(*paused, at, command);
    else
        DL_APPEND(*paused, command);
}

/* Its user may free the command. Unchecked: for clang `client` is another one. */
RELOCK_UNCHECKED static void end(struct relock_async_command *command, int result,
                                 const struct redisReply *reply)
{
    struct relock_client *client = command->client;
    struct relock_hold *hold = command->hold;

    relock_client_unset_timer(client, &command->timer);
    command->flight.conn_id = relock_conn_id_unref(command->flight.conn_id);
    command->hold = NULL;
    command->state = RELOCK_ASYNC_COMMAND_IDLE;
    command->ops->end(command, result, reply);
    relock_holds_unref(client, hold);
}

/* ---- the deadline -------------------------------------------------------------------------- */

static void orphan(struct relock_async_command *command) RELOCK_REQUIRES(command->client->mutex)
{
    if (command->state == RELOCK_ASYNC_COMMAND_KILLING) {
        command->state = RELOCK_ASYNC_COMMAND_FORGOTTEN;
    } else {
        command->state = RELOCK_ASYNC_COMMAND_ORPHANED;
        command->attempts.unanswered = true;
        relock_settle_sent(command->hold, command->flight.conn_id);
    }
    (void)relock_attempts_step(&command->attempts, RELOCK_E_CONN, NULL,
                               "Redis did not answer in time");
    command->ops->end(command, command->attempts.result, NULL);
}

/* Unchecked: the I/O thread calls it with the mutex of the client, which no parameter names. */
RELOCK_UNCHECKED static void fire(struct relock_timer *timer, uint64_t now_ms)
{
    struct relock_async_command *command =
        RELOCK_CONTAINER(struct relock_async_command, timer, timer);
    bool is_late = now_ms >= command->attempts.deadline_ms;

    if (command->state == RELOCK_ASYNC_COMMAND_PAUSED && !is_late) {
        resume(command);
    } else if (command->state == RELOCK_ASYNC_COMMAND_PAUSED) {
        DL_DELETE(command->client->guarded.paused, command);
        end(command, command->attempts.result, NULL);
    } else if (!command->entry.is_sent) {
        relock_client_set_timer(command->client, timer, now_ms + 1); /* it is about to be sent */
    } else {
        orphan(command);
    }
}

/* ---- answers ------------------------------------------------------------------------------- */

static void take_failure(struct relock_async_command *command, int result,
                         const struct redisReply *reply) RELOCK_REQUIRES(command->client->mutex)
{
    const char *error = reply && result != RELOCK_E_NOMEM ? relock_reply_error(reply) : NULL;
    const char *why = result == RELOCK_AGAIN ? "the server refused CLIENT KILL for now"
                      : result == RELOCK_E_CONN
                          ? "there was no connection to Redis until the deadline"
                          : "out of memory";
    char explained[RELOCK_WHY_MAX];

    if (command->flight.is_in_flight && result == RELOCK_E_CONN) {
        command->attempts.unanswered = true;
        command->hold->fence = command->flight.conn_id;
        command->flight.conn_id = NULL;
    }
    command->flight.is_in_flight = false;
    if (error) {
        relock_explain(explained, command->script, error);
        why = explained;
    }
    if (relock_attempts_step(&command->attempts, result, error, why) == RELOCK_ATTEMPTS_END) {
        end(command, command->attempts.result, NULL);
        return;
    }
    command->state = RELOCK_ASYNC_COMMAND_PAUSED;
    insert(command);
    relock_client_set_timer(command->client, &command->timer, command->attempts.until_ms);
}

/* An error in place of the answer is that of the script behind the kill. */
static void take_kill(struct relock_async_command *command, int result,
                      const struct redisReply *reply) RELOCK_REQUIRES(command->client->mutex)
{
    bool is_refused = result == RELOCK_E_SERVER || result == RELOCK_E_AUTH;

    if (!reply) {
        take_failure(command, is_refused ? RELOCK_AGAIN : result, NULL);
        return;
    }
    command->hold->fence = relock_conn_id_unref(command->hold->fence);
    post(command);
}

static void finish_late(struct relock_client *client, struct relock_async_command *command,
                        bool is_answered) RELOCK_REQUIRES(client->mutex)
{
    bool is_script = command->state == RELOCK_ASYNC_COMMAND_ORPHANED;
    struct relock_hold *hold = command->hold;
    struct relock_conn_id *conn_id = command->flight.conn_id;

    command->flight.conn_id = NULL;
    command->hold = NULL;
    command->state = RELOCK_ASYNC_COMMAND_IDLE;
    /* If the script is no longer in flight, a server has redirected it without running it. */
    if (is_script)
        relock_settle_ended(client, hold, conn_id, is_answered || !command->flight.is_in_flight);
    (void)relock_conn_id_unref(conn_id);
    relock_holds_unref(client, hold);
    command->ops->gone(command);
}

/* Unchecked: clang cannot know that the client is that of the command. */
RELOCK_UNCHECKED static void answer(struct relock_client *client, struct relock_outbox_entry *entry,
                                    int result, const struct redisReply *reply)
{
    struct relock_async_command *command = command_of(entry);

    switch (command->state) {
    case RELOCK_ASYNC_COMMAND_KILLING:
        take_kill(command, result, reply);
        break;
    case RELOCK_ASYNC_COMMAND_RUNNING:
        if (result == RELOCK_OK)
            end(command, result, reply);
        else
            take_failure(command, result, reply);
        break;
    case RELOCK_ASYNC_COMMAND_FORGOTTEN:
    case RELOCK_ASYNC_COMMAND_ORPHANED:
        finish_late(client, command, result != RELOCK_E_CONN);
        break;
    case RELOCK_ASYNC_COMMAND_IDLE:
    case RELOCK_ASYNC_COMMAND_PAUSED:
        break; /* nothing is in flight */
    }
}

static void drop(struct relock_client *client, struct relock_outbox_entry *entry)
    RELOCK_REQUIRES(client->mutex)
{
    /* No call is in progress any more. */
    finish_late(client, command_of(entry), false);
}

/* ---- sending ------------------------------------------------------------------------------- */

/* A fence is killed with a script that changes nothing. */
static bool write_command(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    struct relock_async_command *command = command_of(entry);

    if (command->state == RELOCK_ASYNC_COMMAND_KILLING) {
        relock_request_inspect(request, command->hold->resource, 0);
        request->call.fence = &command->hold->fence;
        return true;
    }
    command->ops->write(command, request);
    command->script = request->call.script;
    request->call.flight = &command->flight;
    return true;
}

static void sent(struct relock_outbox_entry *entry, struct relock_conn_id *conn_id)
{
    struct relock_async_command *command = command_of(entry);

    (void)conn_id; /* the flight has it */
    if (command->state == RELOCK_ASYNC_COMMAND_RUNNING)
        command->ops->sent(command);
}

static const struct relock_outbox_ops entry_ops = {
    .write = write_command,
    .sent = sent,
    .answer = answer,
    .drop = drop,
};

void relock_async_command_init(struct relock_async_command *command)
{
    relock_timer_init(&command->timer, fire);
}

/* Unchecked: the caller holds the mutex of the client. */
RELOCK_UNCHECKED void relock_async_command_begin(struct relock_async_command *command,
                                                 struct relock_hold *hold, uint64_t deadline_ms)
{
    command->hold = relock_holds_ref(hold);
    relock_attempts_begin(&command->attempts, command->client->topology->is_cluster, deadline_ms,
                          RELOCK_ATTEMPTS_PAUSE_MS);
    post(command);
}

/* Unchecked: for clang, the client of a paused command is another one. */
RELOCK_UNCHECKED void relock_async_command_up(struct relock_client *client)
{
    while (client->guarded.paused)
        resume(client->guarded.paused);
}
