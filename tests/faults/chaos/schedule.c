#include "schedule.h"

#include <stdbool.h>

/* The longest pause from one fault to the next, against the lease. */
#define GAP_PART 5

static const struct {
    const char *name;
    bool of_server;
    unsigned weight;
} kinds[] = {
#define KIND(name, text, of_server, weight) {text, of_server, weight},
    FAULT_MAP(KIND)
#undef KIND
};

const char *fault_name(enum fault_kind kind)
{
    return kinds[kind].name;
}

/* splitmix64: the same everywhere, unlike rand(3). */
uint64_t schedule_dice(uint64_t *seed, uint64_t n)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % n;
}

static enum fault_kind draw_kind(struct schedule *s)
{
    unsigned sum = 0;
    uint64_t left;
    int kind = 0;

    for (int i = 0; i < FAULT_N_KINDS; i++)
        sum += kinds[i].weight;
    left = schedule_dice(&s->seed, sum);
    while (left >= kinds[kind].weight)
        left -= kinds[kind++].weight;
    return (enum fault_kind)kind;
}

/* Mostly shorter than the lease, now and then longer than two. */
static uint64_t draw_length(struct schedule *s, enum fault_kind kind)
{
    uint64_t lease_ms = s->lease_ms;

    switch (kind) {
    case FAULT_CUT:
    case FAULT_CLIENT_KILL:
    case FAULT_SCRIPT_FLUSH:
        return 0;
    case FAULT_KILL:
    case FAULT_RESTART:
        return schedule_dice(&s->seed, lease_ms);
    default:
        if (schedule_dice(&s->seed, 3) == 0)
            return lease_ms + schedule_dice(&s->seed, lease_ms);
        return 1 + schedule_dice(&s->seed, lease_ms / 2);
    }
}

static uint64_t end_of_storm(const struct schedule *s)
{
    uint64_t cycle_ms = s->storm_ms + s->calm_ms;

    return s->at_ms / cycle_ms * cycle_ms + s->storm_ms;
}

/* What would last into the calm ends with the storm. */
static bool draw(struct schedule *s, struct fault *fault)
{
    uint64_t *busy_until_ms;

    s->at_ms += 1 + schedule_dice(&s->seed, s->lease_ms / GAP_PART);
    if (s->at_ms >= end_of_storm(s))
        s->at_ms = end_of_storm(s) + s->calm_ms;

    *fault = (struct fault){.kind = draw_kind(s), .slot = SCHEDULE_SERVER, .at_ms = s->at_ms};
    if (!kinds[fault->kind].of_server)
        fault->slot = (int)schedule_dice(&s->seed, (uint64_t)s->n_slots);
    fault->for_ms = draw_length(s, fault->kind);
    if (s->at_ms + fault->for_ms > end_of_storm(s))
        fault->for_ms = end_of_storm(s) - s->at_ms;

    busy_until_ms = &s->busy_until_ms[1 + fault->slot];
    if (s->at_ms < *busy_until_ms)
        return false;
    *busy_until_ms = s->at_ms + fault->for_ms + 1;
    return true;
}

struct fault schedule_next(struct schedule *schedule)
{
    struct fault fault;

    while (!draw(schedule, &fault))
        ;
    return fault;
}
