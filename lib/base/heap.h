/*
 * Heap - structs ordered by the time at which they are due
 *
 * It is a pairing heap: adding is O(1), removing O(log n) on average. Each struct embeds a link,
 * and is in one heap at most, so nothing is allocated.
 *
 * Threads: any, under a mutex of the owner.
 */
#ifndef RELOCK_HEAP_H
#define RELOCK_HEAP_H

#include <stdbool.h>
#include <stdint.h>

struct relock_heap_link {
    uint64_t due_ms;
    struct relock_heap_link *child; /* the first child; the others follow as its `next` */
    struct relock_heap_link *next;
    struct relock_heap_link *prev; /* the previous sibling; of a first child, the parent */
};

struct relock_heap {
    struct relock_heap_link *root;
};

/* Adds the link, or moves it if the heap has it already. A new link is all 0. */
void relock_heap_set(struct relock_heap *heap, struct relock_heap_link *link, uint64_t due_ms);

bool relock_heap_has(const struct relock_heap *heap, const struct relock_heap_link *link);

/* Does nothing when the heap does not have it. */
void relock_heap_unset(struct relock_heap *heap, struct relock_heap_link *link);

/* When the next one is due; RELOCK_NEVER if there is none. */
uint64_t relock_heap_next_ms(const struct relock_heap *heap);

/* Removes and returns the next one if it is due at `now_ms`; else returns NULL. */
struct relock_heap_link *relock_heap_pop(struct relock_heap *heap, uint64_t now_ms);

#endif
