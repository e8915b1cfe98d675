#include "waits.h"

#include <stddef.h>

#define N_BARS (sizeof(((struct waits *)0)->n) / sizeof(((struct waits *)0)->n[0]))

/* Below WAITS_PARTS, each bar is one nanosecond wide. */
static size_t bar_of(uint64_t ns)
{
    unsigned n_halved = 0;

    while (ns >> n_halved >= 2 * WAITS_PARTS)
        n_halved++;
    return n_halved * WAITS_PARTS + (size_t)(ns >> n_halved);
}

/* The first time that belongs to the next bar. */
static double end_of_bar_ns(size_t bar)
{
    unsigned n_halved = bar < 2 * WAITS_PARTS ? 0 : (unsigned)(bar / WAITS_PARTS) - 1;

    return (double)(bar - (size_t)n_halved * WAITS_PARTS + 1) * (double)(UINT64_C(1) << n_halved);
}

void waits_add(struct waits *waits, uint64_t from_ns, uint64_t to_ns)
{
    uint64_t begin_ns = atomic_load(&waits->from_ns), end_ns = atomic_load(&waits->to_ns);

    if (begin_ns == 0 || to_ns < begin_ns || (end_ns > 0 && from_ns >= end_ns))
        return;
    if (from_ns < begin_ns)
        from_ns = begin_ns;
    if (end_ns > 0 && to_ns > end_ns)
        to_ns = end_ns;
    atomic_fetch_add_explicit(&waits->n[bar_of(to_ns - from_ns)], 1, memory_order_relaxed);
}

void waits_begin(struct waits *waits, uint64_t now_ns)
{
    atomic_store(&waits->from_ns, now_ns);
}

void waits_end(struct waits *waits, uint64_t now_ns)
{
    atomic_store(&waits->to_ns, now_ns);
}

/* In whole numbers: i386 rounds a product of doubles only when it stores it. */
double waits_percentile_us(struct waits *waits, double percent)
{
    uint64_t all = 0, seen = 0, thousandths = (uint64_t)(percent * 1000 + 0.5);

    for (size_t i = 0; i < N_BARS; i++)
        all += atomic_load(&waits->n[i]);
    for (size_t i = 0; i < N_BARS && all > 0; i++) {
        seen += atomic_load(&waits->n[i]);
        if (seen * 100000 >= all * thousandths)
            return end_of_bar_ns(i) / 1000;
    }
    return 0;
}
