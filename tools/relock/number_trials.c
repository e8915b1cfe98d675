/* Trials of latches and unleased semaphores, which have handles and calls of their own. */
#include "number_trials.h"

#include "clock.h"

#include <pthread.h>
#include <stddef.h>

#define LONG_MS 2000

struct number_kind {
    int (*make)(struct relock_client *client, const char *name, void **number);
    void (*free)(void *number);
    int (*close)(void *number, bool *stays); /* so that a wait is refused; `*stays`: there is a key
                                                now, and end() leaves it */
    int (*open)(void *number);               /* and lets it through */
    int (*wait)(void *number, int64_t wait_ms);
    int (*end)(void *number);
};

/* ---- latches ------------------------------------------------------------------------------- */

static int make_latch(struct relock_client *client, const char *name, void **number)
{
    struct relock_latch *latch = NULL;
    int r = relock_latch_new(client, name, &latch);

    *number = latch;
    return r;
}

static void free_latch(void *number)
{
    (void)relock_latch_free(number);
}

static int close_latch(void *number, bool *stays)
{
    uint64_t count;
    int r = relock_latch_try_set(number, 2, NULL);

    *stays = false;
    return trials_first_failure(r, relock_latch_count(number, &count));
}

static int open_latch(void *number)
{
    int r = relock_latch_count_down(number);

    return trials_first_failure(r, relock_latch_count_down(number));
}

static int wait_for_latch(void *number, int64_t wait_ms)
{
    return relock_latch_wait(number, wait_ms, NULL);
}

static int delete_latch(void *number)
{
    return relock_latch_delete(number, NULL);
}

static const struct number_kind latch = {make_latch, free_latch,     close_latch,
                                         open_latch, wait_for_latch, delete_latch};

/* ---- unleased semaphores ------------------------------------------------------------------- */

static int make_unleased(struct relock_client *client, const char *name, void **number)
{
    struct relock_unleased *semaphore = NULL;
    int r = relock_unleased_new(client, name, &semaphore);

    *number = semaphore;
    return r;
}

static void free_unleased(void *number)
{
    (void)relock_unleased_free(number);
}

static int close_unleased(void *number, bool *stays)
{
    int64_t n;
    int r = relock_unleased_try_set(number, 1, stays);

    r = trials_first_failure(r, relock_unleased_available(number, &n));
    return trials_first_failure(r, relock_unleased_drain(number, &n));
}

static int open_unleased(void *number)
{
    int r = relock_unleased_add(number, 1);

    return trials_first_failure(r, relock_unleased_release(number, 1));
}

static int wait_for_permit(void *number, int64_t wait_ms)
{
    return relock_unleased_acquire(number, 1, wait_ms, NULL);
}

static int drain(void *number)
{
    int64_t n;

    return relock_unleased_drain(number, &n);
}

static const struct number_kind unleased = {make_unleased, free_unleased,   close_unleased,
                                            open_unleased, wait_for_permit, drain};

/* ---- the trial ----------------------------------------------------------------------------- */

struct waiting {
    const struct number_kind *kind;
    void *number;
    int64_t wait_ms;
    int result;
    pthread_t thread;
};

static void *wait_until_open(void *arg)
{
    struct waiting *waiting = arg;

    waiting->result = waiting->kind->wait(waiting->number, waiting->wait_ms);
    return NULL;
}

/* Another doctor may open it. */
static int give_up(const struct number_kind *kind, void *number, int64_t wait_ms)
{
    int r = kind->wait(number, wait_ms);

    return r == RELOCK_TIMEOUT || r == RELOCK_BUSY ? RELOCK_OK : r;
}

static int be_awaited(const struct number_kind *kind, void *const numbers[3], int64_t trips_ms)
{
    struct waiting first = {.kind = kind, .number = numbers[1], .wait_ms = LONG_MS + trips_ms};
    int r;

    if (pthread_create(&first.thread, NULL, wait_until_open, &first) != 0)
        return RELOCK_E_NOMEM;
    r = give_up(kind, numbers[2], TRIALS_WAIT_MS + trips_ms);
    r = trials_first_failure(r, kind->open(numbers[0]));
    (void)pthread_join(first.thread, NULL);
    r = trials_first_failure(r, first.result);
    return trials_first_failure(r, kind->end(numbers[0]));
}

/* The first call may take its time, also to connect, and shows how long a wait has to be. */
static int try_kind(const struct trials *trials, const struct number_kind *kind, const char *name)
{
    struct relock_client *const clients[3] = {trials->holder, trials->waiter, trials->other};
    void *numbers[3] = {NULL};
    bool stays = false;
    uint64_t began_ms;
    int r = RELOCK_OK;

    for (size_t i = 0; i < 3; i++)
        r = trials_first_failure(r, kind->make(clients[i], name, &numbers[i]));
    began_ms = clock_ms();
    if (r == RELOCK_OK)
        r = kind->close(numbers[0], &stays);
    if (stays)
        trials_note(trials, name);
    if (r == RELOCK_OK)
        r = be_awaited(kind, numbers, (int64_t)(TRIALS_WAIT_TRIPS * (clock_ms() - began_ms)));
    for (size_t i = 0; i < 3; i++)
        kind->free(numbers[i]);
    return r;
}

int number_trials_of_latch(const struct trials *trials, const char *name)
{
    return try_kind(trials, &latch, name);
}

int number_trials_of_unleased(const struct trials *trials, const char *name)
{
    return try_kind(trials, &unleased, name);
}
