/*
 * Private - what the files of lib/lock/async share, and nobody else
 */
#ifndef RELOCK_ASYNC_PRIVATE_H
#define RELOCK_ASYNC_PRIVATE_H

#include "base/timer.h"
#include "lock/async/async.h"
#include "lock/state/events.h"
#include "lock/state/lock.h"
#include "lock/state/step.h"
#include "lock/wake/outbox.h"
#include "redis/deployment/run.h"
#include "redis/lane/call.h"

#include <relock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;
struct relock_async;
struct relock_async_command;

/* ---- async command --------------------------------------------------------------------------- */

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

/* ---- async ----------------------------------------------------------------------------------- */

/*
 * Async - an asynchronous call: no thread waits in it
 *
 * The I/O thread takes the steps of a blocking call, with the mutex of the client held. Where a
 * blocking call would sleep, the step sets a timer and returns. A hand-off, a cancel or a message
 * posts the step of the call, which is then the next one. The call counts as in progress, so its
 * client is not freed before it has ended. When it has ended, it becomes an event of its queue.
 *
 * Threads: with the mutex of the client held; the I/O thread, unless a function says otherwise.
 */

struct relock_async_ops {
    /* The step was posted, or the timer fired. */
    void (*step)(struct relock_async *call);

    /* For its script: as in struct relock_async_command_ops. */
    void (*write)(struct relock_async *call, struct relock_request *request);
    void (*sent)(struct relock_async *call);
    void (*answered)(struct relock_async *call, int result, const struct redisReply *reply);

    /* Runs the callback, under no mutex. */
    void (*deliver)(struct relock_async *call);

    /* The queue of the call was closed, so the program may free what it gave to the call: from now
     * on the call does not use this. NULL: it was given nothing of that sort. */
    void (*forget)(struct relock_async *call);

    /* The call succeeded, but its queue is closed: releases what it acquired. */
    void (*undo)(struct relock_async *call);
};

struct relock_async {
    struct relock_step step;
    struct relock_event event;
    struct relock_async_command command;
    const struct relock_async_ops *ops; /* constant */
    struct relock_timer timer;
    struct relock_events *events; /* constant; a reference */
    /* A handle of its own, as the program may free that of the call. */
    struct relock_lock lock;
    unsigned refs;   /* of the event, and of an orphaned command */
    bool is_unheard; /* its queue was closed */
    int result;
};

/* Whether such a call can be made. Any thread; without the mutex. Returns RELOCK_OK;
 * RELOCK_E_INVALID, and logs why; RELOCK_E_UNSUPPORTED. */
int relock_async_check(const struct relock_lock *lock, const struct relock_events *events);

/* Zeroed memory for a call; NULL when out of memory. Leaves errno alone. */
void *relock_async_alloc(size_t size);

/*
 * Begins the call. Its memory is zero, except for the fields that its user has added. Returns
 * RELOCK_OK, or a failure if the client or the queue is closed: then it frees the memory. Any
 * thread; without the mutex, which it locks.
 */
int relock_async_begin(struct relock_async *call, const struct relock_async_ops *ops,
                       const struct relock_lock *lock, struct relock_events *events);

/* The next step comes when the step is posted, or at `until_ms`. */
void relock_async_sleep(struct relock_async *call, uint64_t until_ms);

/* The next step comes when no other command of the hold runs, or at `until_ms`. */
void relock_async_follow(struct relock_async *call, struct relock_hold *hold, uint64_t until_ms);

/* Ends the call with this result: no more steps follow. */
void relock_async_end(struct relock_async *call, int result);

/* The script has ended with this result. Sets what the answer has without the reply: whether an
 * attempt is unanswered, and a failure. */
void relock_async_fill_answer(const struct relock_async *call, int result,
                              struct relock_answer *answer);

#endif
