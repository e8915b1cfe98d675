#include "support/cycle.h"

#include "support/wait.h"

struct cycle cycle_new(struct fixture *f, struct relock_client *const clients[2],
                       const char *const names[2], fixture_constructor_fn *make)
{
    struct cycle cycle;

    for (int i = 0; i < 2; i++) {
        cycle.clients[i] = clients[i];
        cycle.has[i] = fixture_lock_of(f, clients[i], names[i], make);
        cycle.wants[i] = fixture_lock_of(f, clients[i], names[1 - i], make);
        cycle.actors[i] = actor_start();
        assert_result(actor_lock(cycle.actors[i], cycle.has[i]), RELOCK_OK);
    }
    return cycle;
}

void cycle_wait(struct cycle *cycle, int nth)
{
    actor_begin_lock(cycle->actors[nth], cycle->wants[nth]);
    assert_true(wait_for_waiters(cycle->clients[nth], 1));
}

static bool one_has_ended(void *arg)
{
    const struct cycle *cycle = arg;

    return !actor_is_busy(cycle->actors[0]) || !actor_is_busy(cycle->actors[1]);
}

static uint64_t deadlocks_of(const struct cycle *cycle)
{
    return stats_of(cycle->clients[0]).deadlocks + stats_of(cycle->clients[1]).deadlocks;
}

void cycle_breaks(struct cycle *cycle, uint64_t within_ms)
{
    int victim, other;

    assert_true(wait_until(one_has_ended, cycle, within_ms));
    victim = actor_is_busy(cycle->actors[0]) ? 1 : 0;
    other = 1 - victim;
    assert_result(actor_result(cycle->actors[victim]), RELOCK_E_DEADLOCK);
    assert_true(actor_is_busy(cycle->actors[other]));
    assert_result(actor_unlock(cycle->actors[victim], cycle->has[victim]), RELOCK_OK);
    assert_result(actor_result(cycle->actors[other]), RELOCK_OK);
    assert_result(actor_unlock(cycle->actors[other], cycle->wants[other]), RELOCK_OK);
    assert_result(actor_unlock(cycle->actors[other], cycle->has[other]), RELOCK_OK);
    assert_int_equal(deadlocks_of(cycle), 1);
    actor_end_all();
}
