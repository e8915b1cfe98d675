#include "support/wait.h"

#include "support/late.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#define POLL_MS 2

uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

uint64_t slow_ms(uint64_t ms)
{
    const char *factor = getenv("RELOCK_TEST_SLOW");
    uint64_t n = factor ? strtoull(factor, NULL, 10) : 1;

    return ms * (n > 0 ? n : 1);
}

uint64_t outlast_ms(uint64_t ms)
{
    uint64_t slow = slow_ms(ms) * 7 / 10;

    return slow > ms ? slow : ms;
}

uint64_t deadline_in(uint64_t ms)
{
    return now_ms() + slow_ms(ms);
}

bool wait_until(wait_predicate_fn *predicate, void *arg, uint64_t within_ms)
{
    uint64_t deadline_ms = deadline_in(within_ms);

    while (!predicate(arg)) {
        if (now_ms() >= deadline_ms)
            return late_unless(predicate(arg));
        let_pass(POLL_MS);
    }
    return late_unless(true);
}

void let_pass(uint64_t ms)
{
    struct timespec rest = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    while (nanosleep(&rest, &rest) != 0 && errno == EINTR)
        ;
}
