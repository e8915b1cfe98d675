#include "one_hold.h"

#include "base/clock.h"

#include <stdlib.h>

struct relock_waiter waiters[3];
struct relock_hold *hold;
uint64_t sent_ms;

static struct relock_told *told_with(void *arg)
{
    struct relock_told *told = malloc(sizeof(*told));

    assert_non_null(told);
    *told = (struct relock_told){.arg = arg};
    return told;
}

int one_hold_begin(void **state)
{
    (void)state;
    offline_begin();
    for (unsigned i = 0; i < 3; i++)
        waiters[i] =
            (struct relock_waiter){.owner = i + 1, .renewed = true, .told = told_with(&waiters[i])};
    sent_ms = relock_clock_now_ms();
    hold = offline_acquire(&waiters[0], sent_ms);
    for (int i = 1; i < 3; i++) {
        relock_gate_init(&waiters[i].gate);
        relock_resource_enqueue(resource, &waiters[i]);
    }
    resource->retry = RELOCK_RETRY_NONE;
    return 0;
}

int one_hold_end(void **state)
{
    unsigned refs = hold->refs;
    int r;

    (void)state;
    relock_holds_unref(&client, hold);
    for (unsigned i = 0; i < 3; i++)
        free(waiters[i].told); /* no hold has taken it over */
    r = offline_end();
    return refs == 1 ? r : -1;
}

uint64_t renewal_after(uint64_t ms)
{
    return relock_hold_meeting_ms(ms + RENEWAL_MS, RENEWAL_MS, 1, 0);
}

void finish(void)
{
    offline_release(hold, sent_ms);
}

bool is_woken(int i)
{
    return relock_gate_wait(&waiters[i].gate, 0);
}
