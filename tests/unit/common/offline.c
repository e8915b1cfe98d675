#include "unit/common/offline.h"

#include "base/fork.h"
#include "kind/kinds.h"
#include "lock/state/resource.h"

#include <string.h>

struct relock_client client;
struct relock_resource *resource;

void offline_begin(void)
{
    memset(&client, 0, sizeof(client));
    relock_mutex_init(&client.mutex);
    relock_cond_init(&client.changed);
    client.generation = relock_fork_generation();
    client.guarded.iteration_at_ms = 0; /* wakes no I/O thread: there is none */
    client.options.watchdog_timeout_ms = LEASE_MS;
    client.options.recheck_ms = LEASE_MS;
    client.options.handoff_ms = 1000;
    client.options.flags = RELOCK_NO_TRACKING; /* a hold has no command of its own */
    resource = relock_resources_get(&client, &relock_kind_reentrant, "orders", strlen("orders"), 0,
                                    &(const char *){NULL});
    assert_non_null(resource);
}

int offline_end(void)
{
    relock_resources_unref(&client, resource);
    relock_cond_deinit(&client.changed);
    relock_mutex_deinit(&client.mutex);
    if (client.guarded.resources.n_links > 0 || relock_client_next_hold(&client, NULL))
        return -1;
    relock_pool_deinit(&client.guarded.holds);
    return 0;
}

struct relock_hold *offline_acquire(struct relock_waiter *waiter, uint64_t sent_ms)
{
    struct relock_hold *hold = relock_holds_new(&client, resource, waiter->owner, false);

    assert_non_null(hold);
    hold->lease_ms = LEASE_MS;
    relock_gate_init(&waiter->gate);
    relock_resource_enqueue(resource, waiter);
    relock_holds_begin(&client, relock_holds_ref(hold), waiter, sent_ms, relock_clock_now_us());
    return hold;
}

void offline_release(struct relock_hold *hold, uint64_t now_ms)
{
    relock_holds_release(&client, hold);
    relock_resource_released(resource, false, now_ms);
    relock_holds_end(&client, hold);
}
