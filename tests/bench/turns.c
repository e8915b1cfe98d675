#include "turns.h"

/* Only the holder of the lock writes, so this needs no atomic addition. */
static void count(atomic_uint_fast64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

static uint64_t count_of(atomic_uint_fast64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

static uint64_t max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* All acquisitions since the last one of this process are those of others. */
static void note_gap(struct turns *turns, struct turns_process *process)
{
    uint64_t from_turn = max(process->last_turn, turns->from_turn);
    uint64_t gap = count_of(&turns->n) - max(process->last, turns->from);

    process->longest = max(process->longest, gap);
    process->longest_turns = max(process->longest_turns, count_of(&turns->n_turns) - from_turn);
    if (atomic_load(&process->n_asking) == 0)
        return;
    from_turn = max(from_turn, count_of(&process->asked_turn));
    process->longest_wait = max(process->longest_wait, count_of(&turns->n_turns) - from_turn);
}

void turns_init(struct turns *turns, unsigned n_processes)
{
    *turns = (struct turns){.n_processes = n_processes};
}

void turns_ask(struct turns *turns, unsigned number)
{
    struct turns_process *process = &turns->processes[number];
    uint64_t turn = count_of(&turns->n_turns);

    if (atomic_fetch_add(&process->n_asking, 1) == 0)
        atomic_store(&process->asked_turn, turn);
}

bool turns_take(struct turns *turns, unsigned number, uint64_t n_granted)
{
    struct turns_process *process = &turns->processes[number];

    if (atomic_load(&turns->over))
        return false;
    if (atomic_load(&turns->measuring))
        note_gap(turns, process);
    atomic_fetch_sub(&process->n_asking, 1);
    count(&turns->n);
    count(&process->n);
    if (process->n_granted != n_granted)
        count(&turns->n_turns);
    process->n_granted = n_granted;
    process->last = count_of(&turns->n);
    process->last_turn = count_of(&turns->n_turns);
    return true;
}

uint64_t turns_count(struct turns *turns)
{
    return count_of(&turns->n_turns);
}

void turns_begin(struct turns *turns)
{
    for (unsigned i = 0; i < turns->n_processes; i++)
        turns->processes[i].from = count_of(&turns->processes[i].n);
    turns->from_turn = count_of(&turns->n_turns);
    turns->from = count_of(&turns->n);
    atomic_store(&turns->measuring, true);
}

void turns_end(struct turns *turns)
{
    atomic_store(&turns->over, true);
}

struct turns_summary turns_summary(struct turns *turns)
{
    double n_processes = turns->n_processes;
    uint64_t n = 0, least = UINT64_MAX, longest = 0, longest_turns = 0, longest_wait = 0;

    for (unsigned i = 0; i < turns->n_processes; i++) {
        struct turns_process *process = &turns->processes[i];
        uint64_t n_own = count_of(&process->n) - process->from;

        note_gap(turns, process);
        n += n_own;
        least = n_own < least ? n_own : least;
        longest = max(longest, process->longest);
        longest_turns = max(longest_turns, process->longest_turns);
        longest_wait = max(longest_wait, process->longest_wait);
    }
    return (struct turns_summary){
        .n = n,
        .rounds = (double)(count_of(&turns->n_turns) - turns->from_turn) / n_processes,
        .least = n > 0 ? (double)least * n_processes / (double)n : 0,
        .longest = (double)longest / n_processes,
        .longest_turns = (double)longest_turns / n_processes,
        .longest_wait = (double)longest_wait / n_processes,
    };
}
