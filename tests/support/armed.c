#include "support/armed.h"

struct relock_client *armed_client(struct fixture *f, unsigned flags)
{
    return fixture_client(f, &(struct relock_options){
                                 .watchdog_timeout_ms = NEVER_MS,
                                 .command_timeout_ms = slow_ms(10000),
                                 .flags = flags,
                             });
}

long long armed_count(struct probe *probe)
{
    return probe_calls(probe, "client|caching");
}

struct armings {
    struct probe *probe;
    long long n;
};

static bool has_armed(void *arg)
{
    const struct armings *armings = arg;

    return armed_count(armings->probe) >= armings->n;
}

bool armed_wait(struct probe *probe, long long n)
{
    struct armings armings = {probe, n};

    return wait_until(has_armed, &armings, SOON_MS);
}

void armed_hold(struct fixture *f, struct relock_lock *lock, const struct relock_how *how)
{
    long long before = armed_count(f->probe);

    assert_result(relock_acquire(lock, how, NULL), RELOCK_OK);
    assert_true(armed_wait(f->probe, before + 1));
}

int armed_start(void **state)
{
    int r = fixture_start(state);
    struct fixture *f = *state;

    if (r == 0 && probe_int(f->probe, "CLIENT ID") > 0 && probe_calls(f->probe, "client|id") == 0)
        fixture_skip();
    return r;
}
