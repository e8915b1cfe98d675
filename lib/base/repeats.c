#include "base/repeats.h"

#include "base/clock.h"
#include "base/sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relock_repeated {
    struct relock_repeated *next;
    struct relock_cause cause;
    uint64_t since_ms;          /* when the current period began */
    unsigned n_admitted;        /* lines written in the current period */
    unsigned n_held_back;       /* lines held back in the current period */
    int level;                  /* of the latest line held back */
    char line[RELOCK_LINE_MAX]; /* the latest line held back */
};

static uint64_t end_ms(const struct relock_repeated *at)
{
    return relock_clock_after(at->since_ms, RELOCK_REPEATS_PERIOD_MS);
}

static struct relock_repeated *get(struct relock_repeats *repeats, struct relock_cause cause,
                                   uint64_t now_ms)
{
    struct relock_repeated *at;

    for (at = repeats->causes; at; at = at->next)
        if (at->cause.what == cause.what && at->cause.which == cause.which)
            return at;
    at = calloc(1, sizeof(*at));
    if (!at)
        return NULL;
    at->cause = cause;
    at->since_ms = now_ms;
    at->next = repeats->causes;
    repeats->causes = at;
    return at;
}

bool relock_repeats_admit(struct relock_repeats *repeats, struct relock_cause cause, int level,
                          const char *line, uint64_t now_ms)
{
    struct relock_repeated *at = get(repeats, cause, now_ms);

    if (!at)
        return true;
    if (at->n_held_back == 0 && now_ms >= end_ms(at)) {
        at->since_ms = now_ms;
        at->n_admitted = 0;
    }
    if (at->n_admitted < RELOCK_REPEATS_AT_ONCE) {
        at->n_admitted++;
        return true;
    }
    at->n_held_back++;
    at->level = level;
    (void)snprintf(at->line, sizeof(at->line), "%s", line);
    return false;
}

static void tell(const struct relock_repeated *at, uint64_t now_ms, char *line, size_t size)
{
    unsigned long long s = (now_ms - at->since_ms + 999) / 1000;

    if (at->n_held_back == 1)
        (void)snprintf(line, size, "%s", at->line);
    else
        (void)snprintf(line, size, "%s ... and %u more in the last %llu s", at->line,
                       at->n_held_back - 1, s > 0 ? s : 1);
}

bool relock_repeats_take(struct relock_repeats *repeats, uint64_t now_ms, bool end, int *level,
                         char *line, size_t size)
{
    for (struct relock_repeated *at = repeats->causes; at; at = at->next) {
        if (at->n_held_back == 0 || (now_ms < end_ms(at) && !end))
            continue;
        tell(at, now_ms, line, size);
        *level = at->level;
        at->n_held_back = 0;
        at->since_ms = now_ms; /* n_admitted stays: this new period admits no line */
        return true;
    }
    return false;
}

uint64_t relock_repeats_next_ms(const struct relock_repeats *repeats)
{
    uint64_t next_ms = RELOCK_NEVER;

    for (const struct relock_repeated *at = repeats->causes; at; at = at->next)
        if (at->n_held_back > 0 && end_ms(at) < next_ms)
            next_ms = end_ms(at);
    return next_ms;
}

void relock_repeats_deinit(struct relock_repeats *repeats)
{
    struct relock_repeated *at = repeats->causes;

    while (at) {
        struct relock_repeated *next = at->next;

        free(at);
        at = next;
    }
    repeats->causes = NULL;
}
