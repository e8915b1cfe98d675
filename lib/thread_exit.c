#include "thread_exit.h"

#include "base/clock.h"
#include "clients.h"
#include "lock/holds.h"
#include "lock/let_go.h"
#include "lock/losses.h"
#include "lock/owner.h"

static struct relock_hold *find_held(struct relock_client *client, uint64_t owner)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold;

    DL_FOREACH2(client->guarded.holds, hold, client_next)
    if (hold->count > 0 && hold->owner == owner)
        return hold;
    return NULL;
}

static void release_all_of(struct relock_client *client, uint64_t owner)
{
    struct relock_hold *hold;

    relock_mutex_lock(&client->mutex);
    while ((hold = find_held(client, owner))) {
        char name[RELOCK_LOG_NAME_MAX];

        if (hold->busy) {
            (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
            continue;
        }
        (void)relock_log_name(hold->resource->name, name);
        (void)relock_holds_ref(hold);
        relock_let_go(client, hold, relock_clock_now_ms());
        relock_losses_wait(client, hold); /* data used by its callback may end with the thread */
        relock_holds_unref(client, hold);
        relock_mutex_unlock(&client->mutex);
        relock_log_write(&client->log, RELOCK_LOG_WARNING,
                         "%s: owner %llu is a thread that ended while it held the lock; the "
                         "library releases it",
                         name, (unsigned long long)owner);
        relock_mutex_lock(&client->mutex);
    }
    relock_mutex_unlock(&client->mutex);
}

static void end_owner(uint64_t owner)
{
    struct relock_client *client;
    uint64_t nth = 0;

    while ((client = relock_clients_pin_next(nth))) {
        nth = client->nth;
        release_all_of(client, owner);
        relock_clients_unpin(client);
    }
}

void relock_thread_exit_watch(void)
{
    relock_owner_on_exit(end_owner);
}
