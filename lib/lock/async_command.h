/*
 * Async command - runs one script for an asynchronous call, before a deadline
 *
 * As relock_call_run() does for a thread: a script whose connection breaks is repeated over another
 * one, and so is a script that the server refuses for now; what was not answered is a fence of the
 * hold. But the I/O thread sends it over its own connection and goes on. At the deadline a command
 * in flight is abandoned: it ends for the call, and the hold waits for the answer.
 *
 * A fence is killed in a round trip of its own, so at most one connection of a hold can still bring
 * an old command.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */
#ifndef RELOCK_ASYNC_COMMAND_H
#define RELOCK_ASYNC_COMMAND_H

#include "lock/outbox.h"
#include "redis/call.h"

struct relock_async_command;

struct relock_async_command_ops {
    void (*write)(struct relock_async_command *command, struct relock_request *request);

    /* The script was written to the connection, perhaps again. */
    void (*sent)(struct relock_async_command *command);

    /* The result, as that of relock_call_run(), with the reply if it is RELOCK_OK. It may begin
     * another script, unless this one was abandoned. Unlocks the mutex meanwhile. */
    void (*end)(struct relock_async_command *command, int result, const struct redisReply *reply);

    /* An abandoned script was answered, or the client ends: the command may be freed. */
    void (*gone)(struct relock_async_command *command);
};

enum relock_async_command_state {
    RELOCK_ASYNC_COMMAND_IDLE,
    RELOCK_ASYNC_COMMAND_KILLING,   /* the fence of the hold, in the outbox or in flight */
    RELOCK_ASYNC_COMMAND_RUNNING,   /* the script, likewise */
    RELOCK_ASYNC_COMMAND_PAUSED,    /* until the next attempt */
    RELOCK_ASYNC_COMMAND_FORGOTTEN, /* ended, but the kill is in flight */
    RELOCK_ASYNC_COMMAND_ABANDONED, /* ended, but the script is in flight, and the hold counts it */
};

struct relock_async_command {
    struct relock_outbox_entry entry;
    const struct relock_async_command_ops *ops; /* constant */
    struct relock_client *client;               /* constant */
    enum relock_async_command_state state;
    struct relock_hold *hold; /* a reference, unless idle */
    uint64_t deadline_ms;
    uint64_t pause_ms;
    struct relock_timer timer; /* the next attempt, or the deadline */
    struct relock_flight flight;
    bool unanswered;                          /* as in struct relock_call */
    int refusal;                              /* of the last attempt; RELOCK_OK: there was none */
    char why[RELOCK_WHY_MAX];                 /* of a failure */
    struct relock_async_command *next, *prev; /* of the client: those that are paused */
};

/* `ops` and the client are set, the rest is zero. */
void relock_async_command_init(struct relock_async_command *command);

void relock_async_command_begin(struct relock_async_command *command, struct relock_hold *hold,
                                uint64_t deadline_ms);

/* The I/O thread has a connection again: sends what is paused. */
void relock_async_command_up(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
