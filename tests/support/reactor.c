#include "support/reactor.h"

#include "support/fixture.h"
#include "support/wait.h"

#include <poll.h>

static uint64_t n_callbacks;

void outcome_acquired(int result, const struct relock_grant *grant, void *arg)
{
    struct outcome *outcome = arg;

    outcome->grant = *grant;
    outcome_released(result, arg);
}

void outcome_released(int result, void *arg)
{
    struct outcome *outcome = arg;

    outcome->result = result;
    outcome->n_times++;
    outcome->order = ++n_callbacks;
}

int outcome_acquire(struct relock_lock *lock, const struct relock_how *how,
                    struct relock_events *events, struct outcome *outcome)
{
    *outcome = OUTCOME;
    return relock_acquire_async(lock, how, events, outcome_acquired, outcome);
}

int outcome_release(struct relock_lock *lock, uint64_t owner, struct relock_events *events,
                    struct outcome *outcome)
{
    *outcome = OUTCOME;
    return relock_release_async(lock, owner, events, outcome_released, outcome);
}

static bool is_readable(struct relock_events *events, int timeout_ms)
{
    struct pollfd fd = {.fd = relock_events_fd(events), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) == 1;
}

bool reactor_is_due(struct relock_events *events)
{
    return is_readable(events, 0);
}

bool reactor_run_until(struct relock_events *events, reactor_predicate_fn *predicate, void *arg)
{
    uint64_t until_ms = deadline_in(SOON_MS);

    while (!predicate(arg)) {
        uint64_t now = now_ms();

        if (now >= until_ms)
            return late_unless(false);
        if (is_readable(events, (int)(until_ms - now)) && relock_events_dispatch(events) < 0)
            return false;
    }
    return late_unless(true);
}

static bool has_ended(void *arg)
{
    const struct outcome *outcome = arg;

    return outcome->result != REACTOR_NOTHING;
}

int reactor_await(struct relock_events *events, const struct outcome *outcome)
{
    (void)reactor_run_until(events, has_ended, (void *)outcome);
    return outcome->result;
}

int reactor_acquire(struct relock_lock *lock, const struct relock_how *how,
                    struct relock_events *events, uint64_t *owner)
{
    struct outcome outcome;
    int r = outcome_acquire(lock, how, events, &outcome);

    if (r == RELOCK_OK)
        r = reactor_await(events, &outcome);
    *owner = outcome.grant.owner;
    return r;
}

int reactor_release(struct relock_lock *lock, uint64_t owner, struct relock_events *events)
{
    struct outcome outcome;
    int r = outcome_release(lock, owner, events, &outcome);

    return r == RELOCK_OK ? reactor_await(events, &outcome) : r;
}

struct relock_events *reactor_events(struct relock_client *client)
{
    struct relock_events *events = NULL;

    assert_result(relock_events_new(client, &events), RELOCK_OK);
    return events;
}
