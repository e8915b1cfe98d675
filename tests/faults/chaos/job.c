#include "job.h"

#include "schedule.h"
#include "support/wait.h"

#include <relock.h>
#include <stdlib.h>

#define SHORT_LEASE_MS 200 /* of those who ignore it */

/* Seldom wanted, held for long, with a lease that ends late: whoever has missed its release is not
 * woken by others, nor by the end of the lease. */
#define QUIET_LOCK (WORKER_N_LOCKS - 1)

/* One attempt to take a lock, and what came of it. */
struct job {
    struct toiler *toiler;
    struct relock_lock *lock;
    uint64_t lease_ms;            /* 0: renewed */
    struct history_record record; /* what is the same in all */
};

static const struct worker_options *options_of(const struct job *job)
{
    return &job->toiler->workshop->options;
}

uint64_t toiler_dice(struct toiler *toiler, uint64_t n)
{
    return schedule_dice(&toiler->seed, n);
}

/* ---- what is written ----------------------------------------------------------------------- */

/* Before a step. */
static uint64_t write_begin(struct job *job, enum history_kind kind, int64_t value)
{
    struct history_record record = job->record;

    record.kind = kind;
    record.value = value;
    record.from_ns = record.to_ns = history_now_ns();
    history_write(&job->toiler->workshop->history, &record);
    return record.from_ns;
}

/* After it. */
static void write_end(struct job *job, enum history_kind kind, uint64_t from_ns, int result,
                      uint64_t value)
{
    struct history_record record = job->record;

    record.to_ns = history_now_ns();
    record.kind = kind;
    record.from_ns = from_ns;
    record.result = result;
    record.value = (int64_t)value;
    history_write(&job->toiler->workshop->history, &record);
}

/* ---- inside a lock ------------------------------------------------------------------------- */

static bool claim(struct job *job)
{
    uint64_t from_ns = history_now_ns();
    uint64_t valid_ms = options_of(job)->ignores_leases ? 1 : relock_valid_ms(job->lock);

    write_end(job, HISTORY_CLAIM, from_ns, 0, valid_ms);
    return valid_ms > 0;
}

/* Mostly a moment, at times so long that the lease must be renewed or ends. */
static uint64_t draw_length(struct job *job)
{
    const struct worker_options *options = options_of(job);
    struct toiler *toiler = job->toiler;
    uint64_t sort = toiler_dice(toiler, 400);

    if (options->ignores_leases)
        return toiler_dice(toiler, 3 * SHORT_LEASE_MS);
    if (job->record.lock == QUIET_LOCK)
        return options->lease_ms / 5 + toiler_dice(toiler, options->lease_ms);
    if (job->lease_ms > 0 && sort < 80)
        return 2 * job->lease_ms;
    if (sort == 0)
        return toiler_dice(toiler, 2 * options->lease_ms);
    return toiler_dice(toiler, sort < 20 ? 100 : 6);
}

static void toil(struct job *job)
{
    uint64_t until_ms = now_ms() + draw_length(job);

    while (claim(job) && now_ms() < until_ms)
        let_pass(1 + toiler_dice(job->toiler, 10));
}

static void be_inside(struct job *job, unsigned depth)
{
    uint64_t from_ns;
    int r;

    toil(job);
    if (depth == 0 || toiler_dice(job->toiler, 4) > 0)
        return;

    from_ns = history_now_ns();
    r = relock_lock(job->lock);
    write_end(job, HISTORY_NEST, from_ns, r, 0);
    if (r != RELOCK_OK)
        return;
    be_inside(job, depth - 1);
    from_ns = history_now_ns();
    r = relock_unlock(job->lock);
    write_end(job, HISTORY_UNNEST, from_ns, r, 0);
    (void)claim(job);
}

static void extend(struct job *job)
{
    const struct worker_options *options = options_of(job);
    bool is_quiet = job->record.lock == QUIET_LOCK;
    uint64_t lease_ms, from_ns;
    int r;

    if (options->ignores_leases || toiler_dice(job->toiler, is_quiet ? 2 : 20) > 0)
        return;
    lease_ms = is_quiet ? worker_longest_lease_ms(options->lease_ms)
                        : 1 + toiler_dice(job->toiler, options->lease_ms);
    from_ns = history_now_ns();
    r = relock_extend(job->lock, 0, lease_ms);
    write_end(job, HISTORY_EXTEND, from_ns, r, lease_ms);
}

static void hold(struct job *job)
{
    uint64_t from_ns;
    int r;

    extend(job);
    be_inside(job, 2);
    from_ns = write_begin(job, HISTORY_LEAVE, 0);
    r = relock_unlock(job->lock);
    write_end(job, HISTORY_LEFT, from_ns, r, 0);
}

/* ---- taking -------------------------------------------------------------------------------- */

static void let_cancel(struct toiler *toiler, struct relock_cancel *cancel)
{
    pthread_mutex_lock(&toiler->mutex);
    toiler->cancel = cancel;
    pthread_mutex_unlock(&toiler->mutex);
}

static void draw_how(struct toiler *toiler, struct relock_how *how)
{
    const struct worker_options *options = &toiler->workshop->options;

    switch (toiler_dice(toiler, 6)) {
    case 0: /* one try */
        break;
    case 1:
        how->wait_ms = 1 + (int64_t)toiler_dice(toiler, 20);
        break;
    case 2:
        how->wait_ms = 1 + (int64_t)toiler_dice(toiler, 3 * WORKER_RECHECK_MS);
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
    if (options->ignores_leases)
        how->lease_ms = SHORT_LEASE_MS;
    else if (toiler_dice(toiler, 8) == 0)
        how->lease_ms = 50 + toiler_dice(toiler, options->lease_ms / 3);
}

static int draw_lock(struct toiler *toiler)
{
    return toiler_dice(toiler, 30) == 0 ? QUIET_LOCK : (int)toiler_dice(toiler, QUIET_LOCK);
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
    struct workshop *workshop = toiler->workshop;
    int lock = draw_lock(toiler);
    struct relock_how how = {0};
    struct job job = {
        .toiler = toiler,
        .lock = workshop->locks[lock],
        .record = {.slot = workshop->options.slot,
                   .life = workshop->options.life,
                   .thread = toiler->number,
                   .lock = lock,
                   .hold = 1 + atomic_fetch_add(&workshop->n_jobs, 1)},
    };
    uint64_t from_ns;
    int r;

    draw_how(toiler, &how);
    job.lease_ms = how.lease_ms;
    let_cancel(toiler, how.cancel);
    from_ns = write_begin(&job, HISTORY_ASK, how.wait_ms);
    r = relock_acquire(job.lock, &how, NULL);
    write_end(&job, HISTORY_TAKE, from_ns, r, 0);
    let_cancel(toiler, NULL);
    relock_cancel_free(how.cancel);
    if (r == RELOCK_OK)
        hold(&job);
}
