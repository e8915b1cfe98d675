/*
 * Timer - a set of timers, ordered by the time at which they are due
 *
 * It is a pairing heap: adding is O(1), removing O(log n) on average. A timer is embedded in the
 * object that it belongs to and is in one heap at most, so nothing is allocated.
 *
 * Threads: any, under a mutex of the owner.
 */
#ifndef RELOCK_TIMER_H
#define RELOCK_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct relock_timer {
    void (*fire)(struct relock_timer *timer, uint64_t now_ms); /* called by the code that pops it */
    uint64_t due_ms;
    struct relock_timer *child; /* the first child; the others follow as its `next` */
    struct relock_timer *next;
    struct relock_timer *prev; /* the previous sibling; of a first child, the parent */
};

struct relock_timers {
    struct relock_timer *root;
};

void relock_timer_init(struct relock_timer *timer,
                       void (*fire)(struct relock_timer *timer, uint64_t now_ms));

/* Sets the timer, also if it is set already. */
void relock_timer_set(struct relock_timers *timers, struct relock_timer *timer, uint64_t due_ms);

bool relock_timer_is_set(const struct relock_timers *timers, const struct relock_timer *timer);

/* Does nothing when it is not set. */
void relock_timer_unset(struct relock_timers *timers, struct relock_timer *timer);

/* When the next timer is due; RELOCK_NEVER if there is none. */
uint64_t relock_timers_next_ms(const struct relock_timers *timers);

/* Removes and returns the next timer if it is due at `now_ms`; else returns NULL. */
struct relock_timer *relock_timers_pop(struct relock_timers *timers, uint64_t now_ms);

#endif
