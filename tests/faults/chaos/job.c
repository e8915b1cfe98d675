#include "job.h"

#include "rush.h"
#include "schedule.h"
#include "stay.h"

#include <relock.h>
#include <stdlib.h>

#define HOT_WAIT_MS 300

uint64_t toiler_dice(struct toiler *toiler, uint64_t n)
{
    return schedule_dice(&toiler->seed, n);
}

static void let_cancel(struct toiler *toiler, struct relock_cancel *cancel)
{
    pthread_mutex_lock(&toiler->mutex);
    toiler->cancel = cancel;
    pthread_mutex_unlock(&toiler->mutex);
}

static uint64_t longest_wait_ms(const struct toiler *toiler)
{
    return toiler->workshop->options.set == NAMES_HOT ? HOT_WAIT_MS : 3 * WORKER_RECHECK_MS;
}

static void draw_wait(struct toiler *toiler, struct relock_how *how)
{
    switch (toiler_dice(toiler, 6)) {
    case 0: /* one attempt */
        break;
    case 1:
        how->wait_ms = 1 + (int64_t)toiler_dice(toiler, 20);
        break;
    case 2:
        how->wait_ms = 1 + (int64_t)toiler_dice(toiler, longest_wait_ms(toiler));
        break;
    case 3:
        if (relock_cancel_new(&how->cancel) != RELOCK_OK)
            abort();
        how->wait_ms = RELOCK_FOREVER;
        break;
    default:
        how->wait_ms = RELOCK_FOREVER;
        break;
    }
}

/* At hot locks so long that no waiter retries between two rushes because a lease ends. */
static uint64_t draw_lease(struct toiler *toiler)
{
    const struct worker_options *options = &toiler->workshop->options;

    if (options->set == NAMES_HOT)
        return rush_cycle_ms() + toiler_dice(toiler, options->lease_ms);
    return 50 + toiler_dice(toiler, options->lease_ms / 3);
}

static void draw_how(struct toiler *toiler, struct relock_how *how)
{
    const struct worker_options *options = &toiler->workshop->options;

    draw_wait(toiler, how);
    if (options->ignores_leases)
        how->lease_ms = WORKER_SHORT_LEASE_MS;
    else if (toiler_dice(toiler, 8) == 0)
        how->lease_ms = draw_lease(toiler);
}

void toiler_cancel(struct toiler *toiler)
{
    pthread_mutex_lock(&toiler->mutex);
    if (toiler->cancel)
        relock_cancel_fire(toiler->cancel);
    pthread_mutex_unlock(&toiler->mutex);
}

void toiler_come(struct toiler *toiler)
{
    const struct names *names = &toiler->workshop->names;
    int lock = names_come(names, toiler->number, &toiler->seed);
    enum history_sort sort = names->sorts[lock];
    struct relock_how how = {0};
    struct stay stay;
    int r;

    if (sort == HISTORY_WRITE && toiler_dice(toiler, 2) == 0)
        sort = HISTORY_READ;
    stay = stay_new(toiler, lock, sort);
    draw_how(toiler, &how);
    let_cancel(toiler, how.cancel);
    r = stay_take(&stay, &how);
    let_cancel(toiler, NULL);
    relock_cancel_free(how.cancel);
    if (r == RELOCK_OK)
        stay_be(&stay);
}
