/*
 * Timer - many points in time of which only the next is asked for
 *
 * A pairing heap: adding is O(1), taking out O(log n) in the mean, and no timer needs memory of
 * its own. A timer is part of what it is for and stands in one heap at most.
 *
 * Threads: whoever may touch the heap; it locks nothing.
 */
#ifndef RELOCK_TIMER_H
#define RELOCK_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct relock_timer {
    void (*fire)(struct relock_timer *timer, uint64_t now_ms); /* for whoever pops it */
    uint64_t due_ms;
    struct relock_timer *child; /* the first; its siblings follow as next */
    struct relock_timer *next;
    struct relock_timer *prev; /* the sibling before, or the parent of a first child */
};

struct relock_timers {
    struct relock_timer *root;
};

void relock_timer_init(struct relock_timer *timer,
                       void (*fire)(struct relock_timer *timer, uint64_t now_ms));

/* Sets the timer, or sets it anew. */
void relock_timer_set(struct relock_timers *timers, struct relock_timer *timer, uint64_t due_ms);

bool relock_timer_is_set(const struct relock_timers *timers, const struct relock_timer *timer);

/* Does nothing when it is not set. */
void relock_timer_unset(struct relock_timers *timers, struct relock_timer *timer);

/* The time of the next, RELOCK_NEVER when there is none. */
uint64_t relock_timers_next_ms(const struct relock_timers *timers);

/* Takes out the next timer if it is due at `now_ms`, else NULL. */
struct relock_timer *relock_timers_pop(struct relock_timers *timers, uint64_t now_ms);

#endif
