#include "base/clock.h"

#include "base/ident.h"

uint64_t relock_backoff_ms(uint64_t previous_ms, uint64_t min_ms, uint64_t max_ms)
{
    uint64_t most_ms = 3 * (previous_ms > min_ms ? previous_ms : min_ms);

    if (most_ms > max_ms)
        most_ms = max_ms;
    return min_ms + relock_ident_jitter((uint32_t)(most_ms - min_ms) + 1);
}
