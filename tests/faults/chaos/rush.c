#include "rush.h"

#include "history.h"
#include "support/wait.h"

#define RUSH_MS 1500
#define CALM_MS 2500 /* longer than it takes to serve all, and than a sleeper may sleep */
#define FELT_MS (RUSH_MS + CALM_MS * 3 / 4)
#define NS_PER_MS 1000000

uint64_t rush_cycle_ms(void)
{
    return slow_ms(RUSH_MS) + slow_ms(CALM_MS);
}

static uint64_t at_ms_of_cycle(void)
{
    return history_now_ns() / NS_PER_MS % rush_cycle_ms();
}

uint64_t rush_begins_in_ms(void)
{
    uint64_t at_ms = at_ms_of_cycle();

    return at_ms < slow_ms(RUSH_MS) ? 0 : rush_cycle_ms() - at_ms;
}

uint64_t rush_is_felt_in_ms(void)
{
    uint64_t at_ms = at_ms_of_cycle(), felt_ms = slow_ms(FELT_MS);

    return at_ms < slow_ms(RUSH_MS) ? felt_ms - at_ms : rush_cycle_ms() - at_ms + felt_ms;
}
