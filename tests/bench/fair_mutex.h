/*
 * Fair mutex - a mutex that is granted in the order of the requests
 *
 * The least cost of a lock within one process that is as fair as ours: a queue under a pthread
 * mutex, and a condition variable per waiter. A release hands it to the head of the queue, which is
 * woken after the unlock of the mutex.
 *
 * Threads: any; a waiter belongs to one.
 */
#ifndef RELOCK_BENCH_FAIR_MUTEX_H
#define RELOCK_BENCH_FAIR_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

/* Must live as long as the mutex, which may signal it after its thread has gone on. */
struct fair_waiter {
    struct fair_waiter *next;
    pthread_cond_t turn;
    bool granted;
};

struct fair_mutex {
    pthread_mutex_t mutex;
    bool held;
    struct fair_waiter *first, **last;
};

void fair_waiter_init(struct fair_waiter *waiter);
void fair_waiter_deinit(struct fair_waiter *waiter);

void fair_mutex_init(struct fair_mutex *fair);
void fair_mutex_deinit(struct fair_mutex *fair);
void fair_mutex_lock(struct fair_mutex *fair, struct fair_waiter *self);
void fair_mutex_unlock(struct fair_mutex *fair);

#endif
