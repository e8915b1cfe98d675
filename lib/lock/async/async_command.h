/*
 * Async command - runs one script for an asynchronous call, before a deadline
 *
 * The I/O thread sends the script over its own connection and goes on. After each answer and
 * failure it takes the step that attempts.h decides, as relock_call_run() does. A connection that
 * owes the answer becomes the fence of the hold. At the deadline a command in flight is orphaned:
 * the call ends, and the hold waits for the answer.
 *
 * A fence is killed in a round trip of its own before the script is sent again. So at most one
 * connection of a hold can still bring an old command.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */
#ifndef RELOCK_ASYNC_COMMAND_H
#define RELOCK_ASYNC_COMMAND_H

#include "lock/wake/outbox.h"
#include "redis/deployment/attempts.h"
#include "redis/lane/call.h"

struct relock_async_command;

struct relock_async_command_ops {
    void (*write)(struct relock_async_command *command, struct relock_request *request);

    /* The script was written to the connection, perhaps again. */
    void (*sent)(struct relock_async_command *command);

    /* The script has ended, with a result of relock_call_run(), and the reply if that is RELOCK_OK.
     * May begin another script, unless this one is orphaned. May unlock the mutex meanwhile. */
    void (*end)(struct relock_async_command *command, int result, const struct redisReply *reply);

    /* The server has answered an orphaned command, or the client ends: it may be freed. */
    void (*gone)(struct relock_async_command *command);
};

enum relock_async_command_state {
    RELOCK_ASYNC_COMMAND_IDLE,
    RELOCK_ASYNC_COMMAND_KILLING, /* the kill of the hold's fence is in the outbox, or in flight */
    RELOCK_ASYNC_COMMAND_RUNNING, /* the script is there */
    RELOCK_ASYNC_COMMAND_PAUSED,  /* until the next attempt */
    RELOCK_ASYNC_COMMAND_FORGOTTEN, /* ended, but the kill is in flight */
    RELOCK_ASYNC_COMMAND_ORPHANED,  /* ended, but the script is in flight, and the hold counts it */
};

struct relock_async_command {
    struct relock_outbox_entry entry;
    const struct relock_async_command_ops *ops; /* constant */
    struct relock_client *client;               /* constant */
    enum relock_async_command_state state;
    struct relock_hold *hold;           /* a reference, unless idle */
    const struct relock_script *script; /* that was sent last, but for that of a kill */
    struct relock_attempts attempts;
    struct relock_timer timer; /* the next attempt, or the deadline */
    struct relock_flight flight;
    struct relock_async_command *next, *prev; /* of the client: those that are paused */
};

/* `ops` and the client are set, the rest is zero. */
void relock_async_command_init(struct relock_async_command *command);

void relock_async_command_begin(struct relock_async_command *command, struct relock_hold *hold,
                                uint64_t deadline_ms);

/* The I/O thread has a connection again: sends what is paused. */
void relock_async_command_up(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
