#include "base/ages.h"

#include "base/clock.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#define SPAN_US 1000
#define FINEST_PART 64 /* of the age: the length of a span, if there is room */

/* The last span that begins then or before; NULL: none does. Most often it is the newest. */
static struct relock_span *find(struct relock_ages *ages, uint64_t since_us)
{
    unsigned from = 0, to = ages->n;

    if (to > 0 && ages->spans[to - 1].from_us <= since_us)
        return &ages->spans[to - 1];
    while (from < to) {
        unsigned middle = (from + to) / 2;

        if (ages->spans[middle].from_us <= since_us)
            from = middle + 1;
        else
            to = middle;
    }
    return from > 0 ? &ages->spans[from - 1] : NULL;
}

/* Drops empty spans, and joins spans that together are at most this part of their age long. */
static void join(struct relock_ages *ages, unsigned part)
{
    uint64_t now_us = ages->spans[ages->n - 1].to_us;
    unsigned n = 0;

    for (unsigned i = 0; i < ages->n; i++) {
        struct relock_span span = ages->spans[i], *last = n > 0 ? &ages->spans[n - 1] : NULL;

        if (span.n == 0)
            continue;
        if (last && (span.to_us - last->from_us) * part <= now_us - span.to_us) {
            last->to_us = span.to_us;
            last->n += span.n;
        } else {
            ages->spans[n++] = span;
        }
    }
    ages->n = n;
}

/* Makes room for a quarter of the spans, so that this is seldom needed. */
static void make_room(struct relock_ages *ages)
{
    for (unsigned part = FINEST_PART; ages->n > RELOCK_AGES_SPANS / 4 * 3; part /= 2)
        join(ages, part);
}

void relock_ages_add(struct relock_ages *ages, uint64_t since_us)
{
    struct relock_span *span;
    size_t at;

    while (ages->n > 0 && ages->spans[ages->n - 1].n == 0) /* things that came and went */
        ages->n--;
    if (ages->n == RELOCK_AGES_SPANS)
        make_room(ages);
    span = find(ages, since_us);
    if (span && (since_us <= span->to_us || since_us - span->from_us < SPAN_US)) {
        span->to_us = relock_clock_later(span->to_us, since_us);
        span->n++;
        return;
    }
    at = span ? (size_t)(span - ages->spans) + 1 : 0;
    span = &ages->spans[at];
    if (at < ages->n)
        memmove(span + 1, span, (ages->n - at) * sizeof(*span));
    *span = (struct relock_span){.from_us = since_us, .to_us = since_us, .n = 1};
    ages->n++;
}

void relock_ages_remove(struct relock_ages *ages, uint64_t since_us)
{
    struct relock_span *span = find(ages, since_us);

    assert(span && span->n > 0 && since_us <= span->to_us);
    span->n--;
}

uint64_t relock_ages_since_us(const struct relock_ages *ages)
{
    for (unsigned i = 0; i < ages->n; i++)
        if (ages->spans[i].n > 0)
            return ages->spans[i].from_us;
    return RELOCK_NEVER;
}
