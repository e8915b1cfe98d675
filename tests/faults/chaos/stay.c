#include "stay.h"

#include "rush.h"
#include "support/wait.h"

#define LINGER_MS 200

static const struct worker_options *options_of(const struct stay *stay)
{
    return &stay->toiler->workshop->options;
}

static bool is_quiet(const struct stay *stay)
{
    return names_is_quiet(&stay->toiler->workshop->names, stay->record.lock);
}

static bool is_hot(const struct stay *stay)
{
    return options_of(stay)->set == NAMES_HOT;
}

/* At a quiet semaphore so many that two of them exclude each other. */
static unsigned draw_permits(struct toiler *toiler, int lock)
{
    if (names_is_quiet(&toiler->workshop->names, lock))
        return NAMES_N_PERMITS - (unsigned)toiler_dice(toiler, 2);
    return 1 + (unsigned)toiler_dice(toiler, NAMES_N_PERMITS);
}

struct stay stay_new(struct toiler *toiler, int lock, enum history_sort sort)
{
    struct workshop *workshop = toiler->workshop;

    return (struct stay){
        .toiler = toiler,
        .lock = sort == HISTORY_READ ? workshop->readers[lock] : workshop->locks[lock],
        .record = {.sort = sort,
                   .slot = workshop->options.slot,
                   .life = workshop->options.life,
                   .thread = toiler->number,
                   .lock = lock,
                   .permits = sort == HISTORY_SEMAPHORE ? draw_permits(toiler, lock) : 0,
                   .hold = 1 + atomic_fetch_add(&workshop->n_jobs, 1)},
    };
}

/* ---- what is written ----------------------------------------------------------------------- */

/* Before a step. */
static uint64_t write_begin(struct stay *stay, enum history_kind kind, int64_t value)
{
    struct history_record record = stay->record;

    record.kind = kind;
    record.value = value;
    record.from_ns = record.to_ns = history_now_ns();
    history_write(&stay->toiler->workshop->history, &record);
    return record.from_ns;
}

/* After it. */
static void write_end(struct stay *stay, enum history_kind kind, uint64_t from_ns, int result,
                      uint64_t value)
{
    struct history_record record = stay->record;

    record.to_ns = history_now_ns();
    record.kind = kind;
    record.from_ns = from_ns;
    record.result = result;
    record.value = (int64_t)value;
    history_write(&stay->toiler->workshop->history, &record);
}

/* ---- taking and giving up ------------------------------------------------------------------ */

/* Acquires one level; the record has the token of the hold. */
static int take_level(struct stay *stay, const struct relock_how *how, enum history_kind kind,
                      uint64_t from_ns)
{
    struct relock_how wanted = *how;
    struct relock_grant grant;
    int r;

    wanted.permits = stay->record.permits;
    r = relock_acquire(stay->lock, &wanted, &grant);
    stay->record.token = grant.fencing_token;
    write_end(stay, kind, from_ns, r, kind == HISTORY_TAKE ? grant.acked_replicas : 0);
    stay->record.token = 0;
    return r;
}

int stay_take(struct stay *stay, const struct relock_how *how)
{
    uint64_t from_ns = write_begin(stay, HISTORY_ASK, how->wait_ms);

    stay->lease_ms = how->lease_ms;
    return take_level(stay, how, HISTORY_TAKE, from_ns);
}

static void leave(struct stay *stay)
{
    uint64_t from_ns = write_begin(stay, HISTORY_LEAVE, 0);
    int r = relock_unlock(stay->lock);

    write_end(stay, HISTORY_LEFT, from_ns, r, 0);
}

/* ---- inside -------------------------------------------------------------------------------- */

static bool claim(struct stay *stay)
{
    uint64_t from_ns = history_now_ns();
    uint64_t valid_ms = options_of(stay)->ignores_leases ? 1 : relock_valid_ms(stay->lock);

    write_end(stay, HISTORY_CLAIM, from_ns, 0, valid_ms);
    return valid_ms > 0;
}

/* Mostly a moment, sometimes so long that the lease must be renewed or ends. */
static uint64_t draw_length(struct stay *stay)
{
    const struct worker_options *options = options_of(stay);
    struct toiler *toiler = stay->toiler;
    uint64_t sort = toiler_dice(toiler, 400);

    if (options->ignores_leases)
        return toiler_dice(toiler, 3 * WORKER_SHORT_LEASE_MS);
    if (options->set == NAMES_EVEN)
        return toiler_dice(toiler, LINGER_MS);
    if (is_quiet(stay))
        return options->lease_ms / 5 + toiler_dice(toiler, options->lease_ms);
    if (is_hot(stay))
        return rush_begins_in_ms() > 0 ? toiler_dice(toiler, 30) : toiler_dice(toiler, 2);
    if (stay->lease_ms > 0 && sort < 80)
        return 2 * stay->lease_ms;
    if (sort == 0)
        return toiler_dice(toiler, 2 * options->lease_ms);
    return toiler_dice(toiler, sort < 20 ? 100 : 6);
}

static void toil(struct stay *stay)
{
    uint64_t until_ms = now_ms() + draw_length(stay);

    while (claim(stay) && now_ms() < until_ms)
        let_pass(1 + toiler_dice(stay->toiler, is_hot(stay) ? 2 : 10));
}

static void be_inside(struct stay *stay, unsigned depth)
{
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    uint64_t from_ns;
    int r;

    toil(stay);
    if (depth == 0 || stay->record.sort == HISTORY_SEMAPHORE || toiler_dice(stay->toiler, 4) > 0)
        return; /* a semaphore has no levels, and further permits may never be free */

    if (take_level(stay, &how, HISTORY_NEST, history_now_ns()) != RELOCK_OK)
        return;
    be_inside(stay, depth - 1);
    from_ns = history_now_ns();
    r = relock_unlock(stay->lock);
    write_end(stay, HISTORY_UNNEST, from_ns, r, 0);
    (void)claim(stay);
}

static void extend(struct stay *stay)
{
    const struct worker_options *options = options_of(stay);
    uint64_t lease_ms, from_ns;
    int r;

    if (options->ignores_leases || toiler_dice(stay->toiler, is_quiet(stay) ? 2 : 20) > 0)
        return;
    lease_ms = is_quiet(stay) ? worker_longest_lease_ms(options->lease_ms, stay->record.sort)
                              : 1 + toiler_dice(stay->toiler, options->lease_ms);
    from_ns = history_now_ns();
    r = relock_extend(stay->lock, 0, lease_ms);
    write_end(stay, HISTORY_EXTEND, from_ns, r, lease_ms);
}

/* ---- the other side ------------------------------------------------------------------------ */

static void climb(struct stay *stay)
{
    uint64_t from_ns;
    int r;

    if (stay->record.sort != HISTORY_READ || toiler_dice(stay->toiler, 10) > 0)
        return;
    from_ns = history_now_ns();
    r = relock_lock(stay->toiler->workshop->locks[stay->record.lock]);
    write_end(stay, HISTORY_CLIMB, from_ns, r, 0);
}

/* A separate hold, acquired while the writer holds, and released before or after it. */
static void read_too(struct stay *stay)
{
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct stay reading = stay_new(stay->toiler, stay->record.lock, HISTORY_READ);
    bool is_taken = stay_take(&reading, &how) == RELOCK_OK;
    bool goes_on = is_taken && toiler_dice(stay->toiler, 3) > 0;

    if (is_taken)
        be_inside(&reading, 1);
    if (is_taken && !goes_on)
        leave(&reading);
    (void)claim(stay);
    leave(stay);
    if (goes_on) {
        be_inside(&reading, 1);
        leave(&reading);
    }
}

void stay_be(struct stay *stay)
{
    extend(stay);
    be_inside(stay, 2);
    climb(stay);
    if (stay->record.sort == HISTORY_WRITE && toiler_dice(stay->toiler, 3) == 0)
        read_too(stay);
    else
        leave(stay);
}
