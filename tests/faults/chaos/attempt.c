#include "attempt.h"

#include <relock.h>
#include <stdlib.h>

#define NS_PER_MS 1000000

bool attempt_is_hold(const struct attempt *attempt)
{
    return attempt->take && attempt->take->result == RELOCK_OK;
}

uint64_t attempt_promise_ns(const struct history_record *claim)
{
    return (claim->from_ns / NS_PER_MS + (uint64_t)claim->value) * NS_PER_MS;
}

uint64_t attempt_certain_until_ns(const struct attempt *attempt)
{
    uint64_t until_ns = attempt->last ? attempt_promise_ns(attempt->last) : 0;

    return attempt->leave && attempt->leave->from_ns < until_ns ? attempt->leave->from_ns
                                                                : until_ns;
}

bool attempt_is_certain(const struct attempt *attempt)
{
    return attempt_is_hold(attempt) && attempt_certain_until_ns(attempt) > attempt->take->to_ns;
}

uint64_t attempt_end_ns(const struct attempt *attempt)
{
    if (attempt->take)
        return attempt->take->to_ns;
    return attempt->killed ? attempt->killed->from_ns : UINT64_MAX;
}

bool attempt_excludes(const struct attempt *attempt, const struct attempt *other)
{
    const struct history_record *a = attempt->ask, *b = other->ask;
    bool is_same_owner = a->slot == b->slot && a->life == b->life && a->thread == b->thread;

    if (a->sort == HISTORY_SEMAPHORE)
        return false;
    if (a->sort != HISTORY_READ && b->sort != HISTORY_READ)
        return true;
    return a->sort != b->sort && !is_same_owner;
}

static void add_claim(struct attempt *attempt, const struct history_record *claim)
{
    if (claim->value <= 0)
        return;
    if (!attempt->first)
        attempt->first = claim;
    if (!attempt->last || attempt_promise_ns(claim) > attempt_promise_ns(attempt->last))
        attempt->last = claim;
}

static void add_result(struct attempt *attempt, const struct history_record *record)
{
    bool was_certain = attempt->last && record->to_ns < attempt_promise_ns(attempt->last);

    if (record->result == RELOCK_LOST && was_certain && !attempt->lost)
        attempt->lost = record;
}

static void add_level(struct attempt *attempt, const struct history_record *record)
{
    if (record->result == RELOCK_OK && record->token != attempt->take->token && !attempt->other)
        attempt->other = record;
}

static void add(struct attempt *attempt, const struct history_record *record)
{
    switch (record->kind) {
    case HISTORY_ASK:
        attempt->ask = record;
        break;
    case HISTORY_TAKE:
        attempt->take = record;
        break;
    case HISTORY_CLAIM:
        add_claim(attempt, record);
        break;
    case HISTORY_NEST:
        add_level(attempt, record);
        add_result(attempt, record);
        break;
    case HISTORY_EXTEND:
    case HISTORY_UNNEST:
        add_result(attempt, record);
        break;
    case HISTORY_LEAVE:
        attempt->leave = record;
        break;
    case HISTORY_LEFT:
        add_result(attempt, record);
        attempt->left = record;
        break;
    default:
        break;
    }
}

static const struct history_record *find_killed(const struct history_records *records, int slot,
                                                int life)
{
    for (size_t i = 0; i < records->n; i++) {
        const struct history_record *r = &records->at[i];

        if (r->kind == HISTORY_KILLED && r->slot == slot && r->life == life)
            return r;
    }
    return NULL;
}

/* ---- all of them --------------------------------------------------------------------------- */

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* By attempt; the records of one in the order of writing. */
static int compare_records(const void *one, const void *other)
{
    const struct history_record *a = *(const struct history_record *const *)one;
    const struct history_record *b = *(const struct history_record *const *)other;

    if (a->slot != b->slot)
        return a->slot < b->slot ? -1 : 1;
    if (a->life != b->life)
        return a->life < b->life ? -1 : 1;
    if (a->hold != b->hold)
        return a->hold < b->hold ? -1 : 1;
    return (a > b) - (a < b);
}

static uint64_t taken_ns(const struct attempt *attempt)
{
    return attempt_is_hold(attempt) ? attempt->take->to_ns : UINT64_MAX;
}

static int compare_attempts(const void *one, const void *other)
{
    const struct attempt *a = one, *b = other;

    if (a->ask->lock != b->ask->lock)
        return a->ask->lock < b->ask->lock ? -1 : 1;
    if (taken_ns(a) != taken_ns(b))
        return compare_numbers(taken_ns(a), taken_ns(b));
    return compare_numbers(a->ask->from_ns, b->ask->from_ns);
}

static const struct history_record **sort_records(const struct history_records *records, size_t *n)
{
    const struct history_record **sorted = malloc((records->n + 1) * sizeof(*sorted));

    if (!sorted)
        abort();
    *n = 0;
    for (size_t i = 0; i < records->n; i++)
        if (records->at[i].hold > 0)
            sorted[(*n)++] = &records->at[i];
    qsort(sorted, *n, sizeof(*sorted), compare_records);
    return sorted;
}

void attempts_make(struct attempts *attempts, const struct history_records *records)
{
    size_t n;
    const struct history_record **sorted = sort_records(records, &n);
    const struct history_record *killed = NULL;

    attempts->n = 0;
    attempts->at = calloc(n + 1, sizeof(*attempts->at));
    if (!attempts->at)
        abort();
    for (size_t i = 0; i < n; i++) {
        const struct history_record *r = sorted[i];
        bool same_life = i > 0 && r->slot == sorted[i - 1]->slot && r->life == sorted[i - 1]->life;

        if (!same_life)
            killed = find_killed(records, r->slot, r->life);
        if (!same_life || r->hold != sorted[i - 1]->hold)
            attempts->at[attempts->n++].killed = killed;
        add(&attempts->at[attempts->n - 1], r);
    }
    free(sorted);
    qsort(attempts->at, attempts->n, sizeof(*attempts->at), compare_attempts);
}

void attempts_free(struct attempts *attempts)
{
    free(attempts->at);
    *attempts = (struct attempts){0};
}
