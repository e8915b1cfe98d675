#include "private.h"

#include "base/clock.h"
#include "base/fork.h"
#include "base/hash.h"
#include "lock/hold/holds.h"
#include "lock/state/owner.h"

/* Those of the parent process are among them. Guarded by the process mutex. */
static struct relock_client *clients;
static uint64_t n_made;

/* Pins the next client after the `nth`; returns NULL after the last. */
static struct relock_client *pin_next(uint64_t nth)
{
    struct relock_client *at;

    relock_mutex_lock(&relock_process_mutex);
    DL_FOREACH(clients, at)
    {
        if (at->nth > nth && at->generation == relock_fork_generation()) {
            atomic_fetch_add(&at->n_pins, 1);
            break;
        }
    }
    relock_mutex_unlock(&relock_process_mutex);
    return at;
}

/* The client is pinned until then. */
static void release_all_of(struct relock_client *client, uint64_t owner)
{
    struct relock_hold *hold;

    relock_mutex_lock(&client->mutex);
    while ((hold = relock_holds_find(client, owner))) {
        struct relock_subject subject = {relock_resource_given(hold->resource), owner, RELOCK_OK};
        char name[RELOCK_LOG_NAME_MAX];

        if (hold->busy) {
            (void)relock_cond_wait_until(&client->changed, &client->mutex, RELOCK_NEVER);
            continue;
        }
        (void)relock_log_name(hold->resource->name, name);
        (void)relock_holds_ref(hold);
        relock_let_go(client, hold, relock_clock_now_ms());
        relock_losses_wait(client, hold); /* data used by its callback may end with the thread */
        relock_mutex_unlock(&client->mutex);
        relock_log_about(&client->log, (struct relock_cause){"thread ended", 0}, &subject,
                         "%s: owner %llu is a thread that ended while it held the lock; the "
                         "library releases it",
                         name, (unsigned long long)owner);
        relock_mutex_lock(&client->mutex);
        relock_holds_unref(client, hold);
    }
    atomic_fetch_sub(&client->n_pins, 1);
    relock_cond_broadcast(&client->changed);
    relock_mutex_unlock(&client->mutex);
}

static void end_owner(uint64_t owner)
{
    struct relock_client *client;
    uint64_t nth = 0;

    while ((client = pin_next(nth))) {
        nth = client->nth; /* the client may be freed once it is no longer pinned */
        release_all_of(client, owner);
    }
}

void relock_thread_exit_watch(struct relock_client *client)
{
    relock_mutex_lock(&relock_process_mutex);
    client->nth = ++n_made;
    DL_APPEND(clients, client);
    relock_mutex_unlock(&relock_process_mutex);
    relock_owner_on_exit(end_owner);
}

void relock_thread_exit_unwatch(struct relock_client *client)
{
    relock_mutex_lock(&relock_process_mutex);
    DL_DELETE(clients, client);
    relock_mutex_unlock(&relock_process_mutex);
}
