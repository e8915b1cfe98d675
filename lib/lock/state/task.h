/*
 * Task - something that the I/O thread is to do in its next iteration
 *
 * It is part of the struct that it concerns, and in one list at most, so nothing is allocated. A
 * task that is posted twice runs once. Posting carries no data: like a thread that wakes up, the
 * task looks at the state of that moment. client.h posts and runs tasks.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_TASK_H
#define RELOCK_TASK_H

#include "base/hash.h"

#include <stddef.h>

struct relock_client;

struct relock_task {
    /* Set before the task is posted. Runs it, when it is in no list any more. May unlock the mutex
     * meanwhile, post the task again, or free the struct. */
    void (*run)(struct relock_client *client, struct relock_task *task);
    struct relock_task *next, *prev; /* `prev` is NULL while it is in no list */
};

static inline void relock_task_add(struct relock_task **list, struct relock_task *task)
{
    DL_APPEND(*list, task);
}

static inline void relock_task_remove(struct relock_task **list, struct relock_task *task)
{
    DL_DELETE(*list, task);
    task->prev = NULL;
}

#endif
