#include "base/heap.h"

#include "base/clock.h"

#include <stddef.h>

/* Makes the later of two heaps the first child of the earlier one. */
static struct relock_heap_link *meld(struct relock_heap_link *a, struct relock_heap_link *b)
{
    struct relock_heap_link *first = b->due_ms < a->due_ms ? b : a;
    struct relock_heap_link *later = first == a ? b : a;

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
static struct relock_heap_link *meld_siblings(struct relock_heap_link *sibling)
{
    struct relock_heap_link *pairs = NULL;
    struct relock_heap_link *heap = NULL;

    while (sibling) {
        struct relock_heap_link *a = sibling;
        struct relock_heap_link *b = a->next;

        sibling = b ? b->next : NULL;
        if (b)
            a = meld(a, b);
        a->next = pairs;
        pairs = a;
    }
    while (pairs) {
        struct relock_heap_link *next = pairs->next;

        pairs->next = NULL;
        pairs->prev = NULL;
        heap = heap ? meld(heap, pairs) : pairs;
        pairs = next;
    }
    return heap;
}

/* Only the root has neither a parent nor a previous sibling. */
bool relock_heap_has(const struct relock_heap *heap, const struct relock_heap_link *link)
{
    return link->prev || link == heap->root;
}

void relock_heap_set(struct relock_heap *heap, struct relock_heap_link *link, uint64_t due_ms)
{
    relock_heap_unset(heap, link);
    link->due_ms = due_ms;
    heap->root = heap->root ? meld(heap->root, link) : link;
}

void relock_heap_unset(struct relock_heap *heap, struct relock_heap_link *link)
{
    struct relock_heap_link *below;

    if (!relock_heap_has(heap, link))
        return;
    below = meld_siblings(link->child);
    if (link == heap->root) {
        heap->root = below;
    } else {
        if (link->prev->child == link)
            link->prev->child = link->next;
        else
            link->prev->next = link->next;
        if (link->next)
            link->next->prev = link->prev;
        if (below)
            heap->root = meld(heap->root, below);
    }
    *link = (struct relock_heap_link){0};
}

uint64_t relock_heap_next_ms(const struct relock_heap *heap)
{
    return heap->root ? heap->root->due_ms : RELOCK_NEVER;
}

struct relock_heap_link *relock_heap_pop(struct relock_heap *heap, uint64_t now_ms)
{
    struct relock_heap_link *link = heap->root;

    if (!link || link->due_ms > now_ms)
        return NULL;
    relock_heap_unset(heap, link);
    return link;
}
