#include "hold.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void announce(int fd)
{
    uint64_t one = 1;

    (void)!write(fd, &one, sizeof(one)); /* never fails: nobody adds up to 2^64 */
}

static void on_lost(const struct relock_lost *what, void *arg)
{
    struct hold *hold = arg;

    atomic_store(&hold->lost_reason, what->reason);
    announce(hold->lost_fd);
}

static int acquire(struct hold *hold)
{
    struct relock_how again = hold->how;
    int r = relock_acquire(hold->lock, &hold->how, &hold->grant);

    if (r != RELOCK_OK || !hold->is_renewed)
        return r;
    again.lease_ms = 0;
    r = relock_acquire(hold->lock, &again, NULL);
    if (r != RELOCK_OK)
        (void)relock_release(hold->lock, hold->how.owner);
    return r;
}

static void *wait_for_it(void *arg)
{
    struct hold *hold = arg;

    hold->result = acquire(hold);
    announce(hold->over_fd);
    return NULL;
}

bool hold_begin(struct hold *hold, struct relock_lock *lock, const struct relock_how *how,
                bool is_renewed)
{
    *hold = (struct hold){.lock = lock, .how = *how, .is_renewed = is_renewed};
    hold->how.owner = relock_owner_new();
    hold->how.on_lost = on_lost;
    hold->how.arg = hold;
    hold->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hold->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return hold->over_fd >= 0 && hold->lost_fd >= 0 &&
           relock_cancel_new(&hold->how.cancel) == RELOCK_OK &&
           pthread_create(&hold->thread, NULL, wait_for_it, hold) == 0;
}

int hold_join(struct hold *hold)
{
    relock_cancel_fire(hold->how.cancel);
    (void)pthread_join(hold->thread, NULL);
    hold->how.cancel = relock_cancel_free(hold->how.cancel);
    return hold->result;
}

int hold_release(struct hold *hold)
{
    int r = RELOCK_OK;

    for (int levels = hold->is_renewed ? 2 : 1; levels > 0; levels--)
        r = relock_release(hold->lock, hold->how.owner);
    return r;
}

const char *hold_lost_text(const struct hold *hold)
{
    switch (atomic_load(&hold->lost_reason)) {
    case RELOCK_LOST_EXPIRED:
        return "its lease expired";
    case RELOCK_LOST_GONE:
        return "its key is gone: it was broken or deleted, or the server lost its data";
    case RELOCK_LOST_TAKEN:
        return "another owner holds it, or another program has replaced its key";
    case RELOCK_LOST_REPLICAS:
        return "too few replicas acknowledged its renewals";
    default:
        return "it was not renewed in time";
    }
}
