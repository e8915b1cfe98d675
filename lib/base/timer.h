/*
 * Timer - something to do when a time has come
 *
 * Threads: any, under a mutex of the owner.
 */
#ifndef RELOCK_TIMER_H
#define RELOCK_TIMER_H

#include "base/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_timer {
    struct relock_heap_link link;                              /* first */
    void (*fire)(struct relock_timer *timer, uint64_t now_ms); /* called by the code that pops it */
};

struct relock_timers {
    struct relock_heap heap;
};

static inline void relock_timer_init(struct relock_timer *timer,
                                     void (*fire)(struct relock_timer *timer, uint64_t now_ms))
{
    *timer = (struct relock_timer){.fire = fire};
}

/* Sets the timer, also if it is set already. */
static inline void relock_timer_set(struct relock_timers *timers, struct relock_timer *timer,
                                    uint64_t due_ms)
{
    relock_heap_set(&timers->heap, &timer->link, due_ms);
}

static inline bool relock_timer_is_set(const struct relock_timers *timers,
                                       const struct relock_timer *timer)
{
    return relock_heap_has(&timers->heap, &timer->link);
}

/* Does nothing when it is not set. */
static inline void relock_timer_unset(struct relock_timers *timers, struct relock_timer *timer)
{
    relock_heap_unset(&timers->heap, &timer->link);
}

/* When the next timer is due; RELOCK_NEVER if there is none. */
static inline uint64_t relock_timers_next_ms(const struct relock_timers *timers)
{
    return relock_heap_next_ms(&timers->heap);
}

/* Removes and returns the next timer if it is due at `now_ms`; else returns NULL. */
static inline struct relock_timer *relock_timers_pop(struct relock_timers *timers, uint64_t now_ms)
{
    return (struct relock_timer *)relock_heap_pop(&timers->heap, now_ms);
}

#endif
