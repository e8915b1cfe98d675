#include "support/transit.h"

#include <stdlib.h>
#include <string.h>

struct transit_chunk {
    struct transit_chunk *next;
    uint64_t due_ms;
    size_t n;
    char data[];
};

void transit_send(struct transit *transit, const char *data, size_t n, uint64_t due_ms)
{
    struct transit_chunk *chunk = malloc(sizeof(*chunk) + n);

    if (!chunk)
        abort();
    chunk->next = NULL;
    chunk->due_ms = due_ms;
    chunk->n = n;
    memcpy(chunk->data, data, n);
    if (transit->last)
        transit->last->next = chunk;
    else
        transit->first = chunk;
    transit->last = chunk;
}

bool transit_peek(const struct transit *transit, uint64_t now_ms, const char **data, size_t *n)
{
    if (transit_due_ms(transit) > now_ms)
        return false;
    *data = transit->first->data;
    *n = transit->first->n;
    return true;
}

void transit_take(struct transit *transit)
{
    struct transit_chunk *chunk = transit->first;

    transit->first = chunk->next;
    if (!transit->first)
        transit->last = NULL;
    free(chunk);
}

uint64_t transit_due_ms(const struct transit *transit)
{
    return transit->first ? transit->first->due_ms : UINT64_MAX;
}

void transit_deinit(struct transit *transit)
{
    while (transit->first)
        transit_take(transit);
}
