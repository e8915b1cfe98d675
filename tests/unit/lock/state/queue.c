#include "queue.h"

#include "base/clock.h"
#include "kind/kinds.h"
#include "lock/state/client.h"

struct relock_resource resource;
struct relock_waiter waiters[N_WAITERS];
struct relock_hold hold;

static struct relock_contention contention;
static struct relock_client client; /* only its mutex is used */

int queue_begin(void **state)
{
    (void)state;
    relock_mutex_init(&client.mutex);
    resource = (struct relock_resource){
        .client = &client,
        .kind = &relock_kind_reentrant,
        .primary = &resource,
        .contention = &contention,
    };
    contention = (struct relock_contention){.resource = &resource, .lease_end_ms = RELOCK_NEVER};
    hold = (struct relock_hold){0};
    for (unsigned i = 0; i < N_WAITERS; i++) {
        waiters[i] = (struct relock_waiter){.owner = i + 1, .joined_ms = 100 * i};
        relock_gate_init(&waiters[i].gate);
    }
    return 0;
}

int queue_end(void **state)
{
    (void)state;
    relock_mutex_deinit(&client.mutex);
    return 0;
}

void join_all(void)
{
    for (int i = 0; i < N_WAITERS; i++)
        relock_resource_enqueue(&resource, &waiters[i]);
    (void)is_woken(0);
}

bool may_ask(int i)
{
    return relock_resource_may_ask(&resource, &waiters[i]);
}

void ask(int i)
{
    assert_true(may_ask(i));
    resource.retry = RELOCK_RETRY_NONE;
}

void take(void)
{
    resource.holder = &hold;
}

bool is_woken(int i)
{
    return relock_gate_wait(&waiters[i].gate, 0);
}

void no_waiter_is_woken(void)
{
    for (int i = 0; i < N_WAITERS; i++)
        assert_false(is_woken(i));
}
