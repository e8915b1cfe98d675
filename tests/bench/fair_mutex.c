#include "fair_mutex.h"

#include <stddef.h>

void fair_waiter_init(struct fair_waiter *waiter)
{
    *waiter = (struct fair_waiter){0};
    pthread_cond_init(&waiter->turn, NULL);
}

void fair_waiter_deinit(struct fair_waiter *waiter)
{
    pthread_cond_destroy(&waiter->turn);
}

void fair_mutex_init(struct fair_mutex *fair)
{
    *fair = (struct fair_mutex){.last = &fair->first};
    pthread_mutex_init(&fair->mutex, NULL);
}

void fair_mutex_deinit(struct fair_mutex *fair)
{
    pthread_mutex_destroy(&fair->mutex);
}

void fair_mutex_lock(struct fair_mutex *fair, struct fair_waiter *self)
{
    pthread_mutex_lock(&fair->mutex);
    if (fair->held) {
        self->next = NULL;
        self->granted = false;
        *fair->last = self;
        fair->last = &self->next;
        while (!self->granted)
            pthread_cond_wait(&self->turn, &fair->mutex);
    }
    fair->held = true;
    pthread_mutex_unlock(&fair->mutex);
}

void fair_mutex_unlock(struct fair_mutex *fair)
{
    struct fair_waiter *next;

    pthread_mutex_lock(&fair->mutex);
    next = fair->first;
    if (next) {
        fair->first = next->next;
        if (!fair->first)
            fair->last = &fair->first;
        next->granted = true;
    } else {
        fair->held = false;
    }
    pthread_mutex_unlock(&fair->mutex);
    if (next)
        pthread_cond_signal(&next->turn);
}
