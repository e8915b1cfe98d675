#include "support/tracked.h"

struct relock_client *tracked_client(struct fixture *f, unsigned flags)
{
    return fixture_client(f, &(struct relock_options){
                                 .watchdog_timeout_ms = NEVER_MS,
                                 .command_timeout_ms = slow_ms(10000),
                                 .flags = flags,
                             });
}

long long tracked_count(struct probe *probe)
{
    return probe_calls(probe, "client|caching");
}

struct tracked {
    struct probe *probe;
    long long n;
};

static bool has_tracked(void *arg)
{
    const struct tracked *tracked = arg;

    return tracked_count(tracked->probe) >= tracked->n;
}

bool tracked_wait(struct probe *probe, long long n)
{
    struct tracked tracked = {probe, n};

    return wait_until(has_tracked, &tracked, SOON_MS);
}

void tracked_hold(struct fixture *f, struct relock_lock *lock, const struct relock_how *how)
{
    long long before = tracked_count(f->probe);

    assert_result(relock_acquire(lock, how, NULL), RELOCK_OK);
    assert_true(tracked_wait(f->probe, before + 1));
}

bool tracked_is_counted(struct probe *probe)
{
    return probe_int(probe, "CLIENT ID") > 0 && probe_calls(probe, "client|id") > 0;
}

int tracked_start(void **state)
{
    int r = fixture_start(state);
    struct fixture *f = *state;

    if (r == 0 && !tracked_is_counted(f->probe))
        fixture_skip();
    return r;
}
