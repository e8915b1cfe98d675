#include "clients.h"

#include "base/fork.h"
#include "base/hash.h"

/* Those of the parent process are among them. Guarded by the process mutex. */
static struct relock_client *clients;
static uint64_t n_made;

void relock_clients_add(struct relock_client *client)
{
    relock_mutex_lock(&relock_process_mutex);
    client->nth = ++n_made;
    DL_APPEND(clients, client);
    relock_mutex_unlock(&relock_process_mutex);
}

void relock_clients_remove(struct relock_client *client)
{
    relock_mutex_lock(&relock_process_mutex);
    DL_DELETE(clients, client);
    relock_mutex_unlock(&relock_process_mutex);
}

struct relock_client *relock_clients_pin_next(uint64_t nth)
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

void relock_clients_unpin(struct relock_client *client)
{
    relock_mutex_lock(&client->mutex);
    atomic_fetch_sub(&client->n_pins, 1);
    relock_cond_broadcast(&client->changed);
    relock_mutex_unlock(&client->mutex);
}

bool relock_clients_is_pinned(const struct relock_client *client)
{
    return atomic_load(&client->n_pins) > 0;
}
