#include "schedule.h"

/* The longest pause between faults, as a part of the lease. */
#define GAP_PART 5
#define HOT_GAP_PART 1 /* not in a cluster, where faults of masters make others late */

/* The same within a volley, which has three faults on average. */
#define VOLLEY_MS 20
#define VOLLEY_FAULTS 3

/* The longest delay, as a part of the lease: a round trip may last longer than a vote of a red
 * lock. */
#define DELAY_PART 50

/* One of so many faults of workers at hot locks hits the first in line. */
#define AIMED_OF 2

enum { ALONE, AMONG, HOT, CLUSTER, HOT_CLUSTER, N_WEIGHTS };

static const struct {
    const char *name;
    enum fault_place place;
    unsigned weights[N_WEIGHTS];
} kinds[] = {
#define KIND(name, text, place, alone, among, hot, cluster, hot_cluster) \
    {text, PLACE_##place, {alone, among, hot, cluster, hot_cluster}},
    FAULT_MAP(KIND)
#undef KIND
};

const char *fault_name(enum fault_kind kind)
{
    return kinds[kind].name;
}

/* splitmix64: unlike rand(3), the same everywhere. */
uint64_t schedule_dice(uint64_t *seed, uint64_t n)
{
    uint64_t z = *seed += 0x9e3779b97f4a7c15;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return (z ^ (z >> 31)) % n;
}

static bool has_several(const struct schedule *s)
{
    return s->n_servers > 1;
}

static int column_of(const struct schedule *s)
{
    if (s->is_hot)
        return s->is_cluster ? HOT_CLUSTER : HOT;
    if (s->is_cluster)
        return CLUSTER;
    return has_several(s) ? AMONG : ALONE;
}

static enum fault_kind draw_kind(struct schedule *s)
{
    int column = column_of(s);
    unsigned sum = 0;
    uint64_t left;
    int kind = 0;

    for (int i = 0; i < FAULT_N_KINDS; i++)
        sum += kinds[i].weights[column];
    left = schedule_dice(&s->seed, sum);
    while (left >= kinds[kind].weights[column])
        left -= kinds[kind++].weights[column];
    return (enum fault_kind)kind;
}

/* Mostly shorter than the lease, sometimes longer than two leases. */
static uint64_t draw_length(struct schedule *s, enum fault_kind kind)
{
    uint64_t lease_ms = s->lease_ms;

    switch (kind) {
    case FAULT_DEAFEN:
    case FAULT_DEAFEN_ALL:
    case FAULT_SEVER:
    case FAULT_CUT:
    case FAULT_CLIENT_KILL:
    case FAULT_SCRIPT_FLUSH:
    case FAULT_UPHEAVAL:
    case FAULT_MASTER_KILL:
    case FAULT_MASTER_STOP:
    case FAULT_HAND_OVER:
        return 0;
    case FAULT_KILL:
    case FAULT_RESTART:
        return schedule_dice(&s->seed, lease_ms);
    case FAULT_REBIRTH:
        return SCHEDULE_RED_LEASES * lease_ms + lease_ms / 8 +
               schedule_dice(&s->seed, lease_ms / 8);
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

static int draw_slot(struct schedule *s, enum fault_kind kind)
{
    enum fault_place place = kinds[kind].place;

    if (place == PLACE_WORKER || (place == PLACE_NETWORK && !has_several(s) && !s->is_cluster))
        return (int)schedule_dice(&s->seed, (uint64_t)s->n_slots);
    return has_several(s) ? SCHEDULE_SERVER - (int)schedule_dice(&s->seed, (uint64_t)s->n_servers)
                          : SCHEDULE_SERVER;
}

static uint64_t *busy_until(struct schedule *s, int slot)
{
    return &s->busy_until_ms[SCHEDULE_MAX_SERVERS + slot];
}

/* Whether one more broken server would leave no majority. */
static bool are_enough_broken(struct schedule *s)
{
    int n = 0;

    for (int i = 0; i < s->n_servers; i++)
        n += s->at_ms < *busy_until(s, SCHEDULE_SERVER - i);
    return n + 1 > s->n_servers / 2;
}

static uint64_t draw_gap(struct schedule *s)
{
    if (s->is_hot && schedule_dice(&s->seed, VOLLEY_FAULTS) > 0)
        return schedule_dice(&s->seed, VOLLEY_MS);
    return schedule_dice(&s->seed, s->lease_ms / (column_of(s) == HOT ? HOT_GAP_PART : GAP_PART));
}

/* A fault ends with the storm at the latest. */
static bool draw(struct schedule *s, struct fault *fault)
{
    bool is_cut;

    s->at_ms += 1 + draw_gap(s);
    if (s->at_ms >= end_of_storm(s))
        s->at_ms = end_of_storm(s) + s->calm_ms;

    *fault = (struct fault){.kind = draw_kind(s), .at_ms = s->at_ms};
    if (s->no_networks && kinds[fault->kind].place == PLACE_NETWORK)
        return false;
    fault->slot = draw_slot(s, fault->kind);
    fault->for_ms = draw_length(s, fault->kind);
    fault->aims = s->is_hot && kinds[fault->kind].place == PLACE_WORKER &&
                  schedule_dice(&s->seed, AIMED_OF) == 0;
    if (fault->kind == FAULT_DELAY)
        fault->delay_ms = 1 + schedule_dice(&s->seed, s->lease_ms / DELAY_PART);
    is_cut = s->at_ms + fault->for_ms > end_of_storm(s);
    if (is_cut)
        fault->for_ms = end_of_storm(s) - s->at_ms;

    if (s->at_ms < *busy_until(s, fault->slot) || (is_cut && fault->kind == FAULT_REBIRTH))
        return false;
    if (has_several(s) && fault->slot < 0 && are_enough_broken(s))
        return false;
    *busy_until(s, fault->slot) = s->at_ms + fault->for_ms + 1;
    return true;
}

struct fault schedule_next(struct schedule *schedule)
{
    struct fault fault;

    while (!draw(schedule, &fault))
        ;
    return fault;
}
