#include "wait_record.h"

#include "support/wait.h"

#include <stddef.h>

#define NONE (-1)
#define CLOCK_MS 10 /* the clock of the library is coarse */

void wait_record_init(struct wait_record *record, uint64_t deadlock_ms, int per_client)
{
    pthread_mutexattr_t attr;

    *record = (struct wait_record){.deadlock_ms = deadlock_ms};
    for (int i = 0; i < WAIT_RECORD_LOCKS; i++)
        record->holder[i] = NONE;
    for (int i = 0; i < WAIT_RECORD_WORKERS; i++) {
        record->waits[i].lock = NONE;
        record->client_of[i] = i / per_client;
    }
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&record->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* ---- cycles: with the mutex ---------------------------------------------------------------- */

static struct wait_cycle *cycle_at(struct wait_record *record, unsigned i)
{
    return &record->cycles[i % WAIT_RECORD_CYCLES];
}

/* From the lock that `me` waits for to its holder, to the lock that this one waits for, and so on.
 * Returns whether that leads back to `me`. */
static bool follow(const struct wait_record *record, int me, struct wait_cycle *cycle)
{
    int lock = record->waits[me].lock;

    *cycle = (struct wait_cycle){.is_local = true, .formed_ms = now_ms()};
    while (lock != NONE && cycle->n < WAIT_RECORD_WORKERS) {
        int holder = record->holder[lock];

        if (holder == NONE)
            return false;
        cycle->workers[cycle->n++] = holder;
        cycle->is_local &= record->client_of[holder] == record->client_of[me];
        if (holder == me)
            return true;
        lock = record->waits[holder].lock;
    }
    return false;
}

static void add(struct wait_record *record, const struct wait_cycle *new)
{
    unsigned i = record->counts.n_cycles++;

    *cycle_at(record, i) = *new;
    record->counts.n_local += new->is_local;
    record->counts.n_longer += new->n > 2;
    for (unsigned j = 0; j < new->n; j++) {
        struct recorded_wait *wait = &record->waits[new->workers[j]];

        wait->cycles[wait->n_cycles++ % WAIT_RECORD_OF_A_WAIT] = i;
    }
}

/* The wait ends, and so does the cycle that it is in. */
static void break_cycle(struct wait_record *record, const struct recorded_wait *wait)
{
    struct wait_cycle *cycle;

    if (wait->n_cycles == 0)
        return;
    cycle = cycle_at(record, wait->cycles[(wait->n_cycles - 1) % WAIT_RECORD_OF_A_WAIT]);
    if (cycle->ended_ms > 0)
        return;
    cycle->ended_ms = now_ms();
    if (cycle->ended_ms - cycle->formed_ms > record->counts.longest_ms)
        record->counts.longest_ms = cycle->ended_ms - cycle->formed_ms;
}

static bool stood_for_long(const struct wait_record *record, const struct wait_cycle *cycle)
{
    return cycle->is_local || cycle->ended_ms - cycle->formed_ms + CLOCK_MS >= record->deadlock_ms;
}

/* Makes the wait the victim of a cycle that it was in. */
static const char *claim(struct wait_record *record, const struct recorded_wait *wait)
{
    bool was_in_one = false;

    for (unsigned i = 0; i < wait->n_cycles && i < WAIT_RECORD_OF_A_WAIT; i++) {
        struct wait_cycle *cycle = cycle_at(record, wait->cycles[i]);

        if (!stood_for_long(record, cycle))
            continue;
        was_in_one = true;
        if (cycle->has_victim)
            continue;
        cycle->has_victim = true;
        return NULL;
    }
    if (was_in_one) {
        record->counts.n_doubled++;
        return "refused, and so was another wait of its cycle";
    }
    record->counts.n_false++;
    return wait->n_cycles > 0 ? "refused, and its cycle had stood too short"
                              : "refused, and was in no cycle";
}

/* ---- what workers do ----------------------------------------------------------------------- */

void wait_record_begin(struct wait_record *record, int worker, int lock)
{
    struct wait_cycle cycle;

    pthread_mutex_lock(&record->mutex);
    record->waits[worker] = (struct recorded_wait){.lock = lock};
    if (follow(record, worker, &cycle))
        add(record, &cycle);
    pthread_mutex_unlock(&record->mutex);
}

static const char *hold(struct wait_record *record, int worker, int lock)
{
    bool is_free = record->holder[lock] == NONE;

    record->holder[lock] = worker;
    record->counts.n_held++;
    return is_free ? NULL : "acquired, and another worker holds it";
}

const char *wait_record_end(struct wait_record *record, int worker, enum wait_end end)
{
    struct recorded_wait *wait = &record->waits[worker];
    const char *wrong = NULL;

    pthread_mutex_lock(&record->mutex);
    break_cycle(record, wait);
    if (end == WAIT_REFUSED)
        wrong = claim(record, wait);
    else if (end == WAIT_ACQUIRED)
        wrong = hold(record, worker, wait->lock);
    record->counts.n_refused += end == WAIT_REFUSED;
    record->counts.n_late += end == WAIT_LATE;
    wait->lock = NONE;
    pthread_mutex_unlock(&record->mutex);
    return wrong;
}

void wait_record_release(struct wait_record *record, int lock)
{
    pthread_mutex_lock(&record->mutex);
    record->holder[lock] = NONE;
    pthread_mutex_unlock(&record->mutex);
}

/* ---- what the parent sees ------------------------------------------------------------------ */

uint64_t wait_record_stands_ms(struct wait_record *record)
{
    uint64_t at_ms = now_ms(), oldest_ms = at_ms;

    pthread_mutex_lock(&record->mutex);
    for (unsigned i = 0; i < WAIT_RECORD_CYCLES && i < record->counts.n_cycles; i++) {
        const struct wait_cycle *cycle = &record->cycles[i];

        if (cycle->ended_ms == 0 && cycle->formed_ms < oldest_ms)
            oldest_ms = cycle->formed_ms;
    }
    pthread_mutex_unlock(&record->mutex);
    return at_ms - oldest_ms;
}

struct wait_counts wait_record_counts(struct wait_record *record)
{
    struct wait_counts counts;

    pthread_mutex_lock(&record->mutex);
    counts = record->counts;
    pthread_mutex_unlock(&record->mutex);
    return counts;
}
