/*
 * Fair mutex - a mutex that is given in the order in which it was asked for
 *
 * What a lock within one process could cost at best if it must be as fair as ours: a queue under a
 * pthread mutex, each waiter on a condition variable of its own. Who gives it up hands it to the
 * first of the queue, which is woken after the mutex is free again.
 *
 * Threads: any; a waiter belongs to one.
 */
#ifndef RELOCK_BENCH_FAIR_MUTEX_H
#define RELOCK_BENCH_FAIR_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

/* Must live as long as the mutex: it may be signalled when its thread has gone on already. */
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
