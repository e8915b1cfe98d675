/* An unleased semaphore: Redisson's RSemaphore. */
#include "count/private.h"

#include "lock/state/keys.h"

/* The message is the number of permits available. */
#define PERMITS ""

static const struct relock_kind kind = {
    .unlock = &relock_script_unleased_release,
    .channel = RELOCK_CHANNEL_SEMAPHORE,
    .message = "1", /* again: only that there are permits */
    .is_number = true,
};

static struct relock_lock *lock_of(struct relock_unleased *semaphore)
{
    return (struct relock_lock *)semaphore;
}

int relock_unleased_new(struct relock_client *client, const char *name,
                        struct relock_unleased **semaphore)
{
    struct relock_lock *lock;
    int r = relock_lock_make(client, &kind, name, semaphore ? &lock : NULL);

    if (semaphore && r == RELOCK_OK)
        *semaphore = (struct relock_unleased *)lock;
    return r;
}

struct relock_unleased *relock_unleased_free(struct relock_unleased *semaphore)
{
    (void)relock_lock_free(lock_of(semaphore));
    return NULL;
}

/* Redisson counts permits in 31 bits. */
static bool is_number_of_permits(int64_t n, int64_t least)
{
    return n >= least && n <= INT32_MAX;
}

int relock_unleased_try_set(struct relock_unleased *semaphore, unsigned n, bool *set)
{
    const int64_t permits = n;
    const struct relock_number_command command = {
        .script = &relock_script_number_try_set,
        .message = PERMITS,
        .n = &permits,
        .failed = "the permits were not set",
    };
    int64_t value;
    int r;

    if (!semaphore || !is_number_of_permits(permits, 0))
        return relock_lock_refuse(lock_of(semaphore),
                                  "relock_unleased_try_set: `n` is above INT32_MAX");
    r = relock_number_run(lock_of(semaphore), &command, &value);
    if (r == RELOCK_OK && set)
        *set = value == 1;
    return r;
}

int relock_unleased_add(struct relock_unleased *semaphore, int n)
{
    const int64_t permits = n;
    const struct relock_number_command command = {
        .script = &relock_script_unleased_add,
        .message = PERMITS,
        .n = &permits,
        .failed = "no permits were added",
    };
    int64_t value;

    return semaphore ? relock_number_run(lock_of(semaphore), &command, &value) : RELOCK_E_INVALID;
}

int relock_unleased_release(struct relock_unleased *semaphore, unsigned n)
{
    const int64_t permits = n;
    const struct relock_number_command command = {
        .script = &relock_script_unleased_release,
        .message = PERMITS,
        .n = &permits,
        .failed = "not released",
    };
    int64_t value;

    if (!semaphore || !is_number_of_permits(permits, 1))
        return relock_lock_refuse(lock_of(semaphore),
                                  "relock_unleased_release: `n` is 0 or above INT32_MAX");
    return relock_number_run(lock_of(semaphore), &command, &value);
}

int relock_unleased_drain(struct relock_unleased *semaphore, int64_t *n)
{
    static const struct relock_number_command command = {
        .script = &relock_script_unleased_drain,
        .failed = "the permits were not taken",
    };

    if (!semaphore || !n)
        return relock_lock_refuse(lock_of(semaphore), "relock_unleased_drain: `n` is NULL");
    return relock_number_run(lock_of(semaphore), &command, n);
}

int relock_unleased_available(struct relock_unleased *semaphore, int64_t *n)
{
    static const struct relock_number_command command = {.failed = "query failed"};

    if (!semaphore || !n)
        return relock_lock_refuse(lock_of(semaphore), "relock_unleased_available: `n` is NULL");
    return relock_number_run(lock_of(semaphore), &command, n);
}

static enum relock_number_verdict judge(int64_t n_acquires)
{
    return n_acquires == 0 ? RELOCK_NUMBER_NOBODY : RELOCK_NUMBER_CALLER;
}

int relock_unleased_acquire(struct relock_unleased *semaphore, unsigned n, int64_t wait_ms,
                            struct relock_cancel *cancel)
{
    const int64_t permits = n;
    const struct relock_number_command command = {
        .script = &relock_script_unleased_acquire,
        .n = &permits,
        .failed = "not acquired",
    };

    if (!semaphore || !is_number_of_permits(permits, 1))
        return relock_lock_refuse(lock_of(semaphore),
                                  "relock_unleased_acquire: `n` is 0 or above INT32_MAX");
    return relock_number_wait(lock_of(semaphore), &command, judge, wait_ms, cancel);
}
