/*
 * Async - a call that no thread waits in
 *
 * It makes the steps of a blocking call, each on the I/O thread with the mutex of the client held.
 * Where that call would sleep, this one sets a timer and returns; its task is posted when there is
 * something to look at. It counts as a call in progress, so a client is not freed before it has
 * ended. Then it becomes an event of its queue.
 *
 * Threads: with the mutex of the client held; the I/O thread, unless a function says otherwise.
 */
#ifndef RELOCK_ASYNC_H
#define RELOCK_ASYNC_H

#include "lock/async_command.h"
#include "lock/events.h"
#include "lock/lock.h"
#include "lock/task.h"

struct relock_async;

struct relock_async_ops {
    /* The task was posted, or the timer fired. */
    void (*step)(struct relock_async *call);

    /* Of its script: as in async_command.h. */
    void (*write)(struct relock_async *call, struct relock_request *request);
    void (*sent)(struct relock_async *call);
    void (*answered)(struct relock_async *call, int result, const struct redisReply *reply);

    /* Runs the callback, under no mutex. */
    void (*deliver)(struct relock_async *call);

    /* Its queue was closed: what the program may free now is not used any more. NULL: nothing. */
    void (*forget)(struct relock_async *call);

    /* It succeeded, and nobody will hear of it. */
    void (*undo)(struct relock_async *call);
};

struct relock_async {
    struct relock_task task; /* first: a call is found by it */
    struct relock_event event;
    struct relock_async_command command;
    const struct relock_async_ops *ops; /* constant */
    struct relock_timer timer;
    struct relock_events *events; /* constant; a reference */
    /* A handle of its own, as the program may free that of the call. */
    struct relock_lock lock;
    unsigned refs;   /* of the event, and of a command that was abandoned */
    bool is_unheard; /* its queue was closed */
    int result;
};

/* Whether such a call can be made. Any thread; without the mutex. Returns RELOCK_OK,
 * RELOCK_E_INVALID, RELOCK_E_UNSUPPORTED. */
int relock_async_check(const struct relock_lock *lock, const struct relock_events *events);

/* Zeroed memory for a call; NULL when out of memory. Leaves errno alone. */
void *relock_async_alloc(size_t size);

/*
 * Begins the call, whose memory is zero but for what its user has added, unless the client or the
 * queue is closed: then it returns why, and the memory is the caller's. Any thread; without the
 * mutex, which it locks.
 */
int relock_async_begin(struct relock_async *call, const struct relock_async_ops *ops,
                       const struct relock_lock *lock, struct relock_events *events);

/* Until it is posted, or until then. */
void relock_async_sleep(struct relock_async *call, uint64_t until_ms);

/* Until the hold is free for it, or until then. */
void relock_async_follow(struct relock_async *call, struct relock_hold *hold, uint64_t until_ms);

/* It has this result, and makes no more steps. */
void relock_async_end(struct relock_async *call, int result);

/* Fills an answer after a failure of the script. */
void relock_async_fail(const struct relock_async *call, int result, struct relock_answer *answer);

#endif
