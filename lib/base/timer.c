#include "base/timer.h"

#include "base/clock.h"

#include <stddef.h>

/* Makes the later of two heaps the first child of the earlier one. */
static struct relock_timer *meld(struct relock_timer *a, struct relock_timer *b)
{
    struct relock_timer *first = b->due_ms < a->due_ms ? b : a;
    struct relock_timer *later = first == a ? b : a;

    later->prev = first;
    later->next = first->child;
    if (first->child)
        first->child->prev = later;
    first->child = later;
    first->next = NULL;
    first->prev = NULL;
    return first;
}

/* Melds siblings into one heap: first in pairs from the left, then all pairs from the right. */
static struct relock_timer *meld_siblings(struct relock_timer *sibling)
{
    struct relock_timer *pairs = NULL;
    struct relock_timer *heap = NULL;

    while (sibling) {
        struct relock_timer *a = sibling;
        struct relock_timer *b = a->next;

        sibling = b ? b->next : NULL;
        if (b)
            a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct relock_timer *next = pairs->next;

        pairs->next = NULL;
        pairs->prev = NULL;
        heap = heap ? meld(heap, pairs) : pairs;
        pairs = next;
    }
    return heap;
}

void relock_timer_init(struct relock_timer *timer,
                       void (*fire)(struct relock_timer *timer, uint64_t now_ms))
{
    *timer = (struct relock_timer){.fire = fire};
}

/* Only the root has neither a parent nor a previous sibling. */
bool relock_timer_is_set(const struct relock_timers *timers, const struct relock_timer *timer)
{
    return timer->prev || timer == timers->root;
}

void relock_timer_set(struct relock_timers *timers, struct relock_timer *timer, uint64_t due_ms)
{
    relock_timer_unset(timers, timer);
    timer->due_ms = due_ms;
    timers->root = timers->root ? meld(timers->root, timer) : timer;
}

void relock_timer_unset(struct relock_timers *timers, struct relock_timer *timer)
{
    struct relock_timer *below;

    if (!relock_timer_is_set(timers, timer))
        return;
    below = meld_siblings(timer->child);
    if (timer == timers->root) {
        timers->root = below;
    } else {
        if (timer->prev->child == timer)
            timer->prev->child = timer->next;
        else
            timer->prev->next = timer->next;
        if (timer->next)
            timer->next->prev = timer->prev;
        if (below)
            timers->root = meld(timers->root, below);
    }
    relock_timer_init(timer, timer->fire);
}

uint64_t relock_timers_next_ms(const struct relock_timers *timers)
{
    return timers->root ? timers->root->due_ms : RELOCK_NEVER;
}

struct relock_timer *relock_timers_pop(struct relock_timers *timers, uint64_t now_ms)
{
    struct relock_timer *timer = timers->root;

    if (!timer || timer->due_ms > now_ms)
        return NULL;
    relock_timer_unset(timers, timer);
    return timer;
}
