/* A latch: Redisson's RCountDownLatch. At zero it has no key. */
#include "count/private.h"

#include "lock/state/keys.h"

/* Messages: the latch is open; it was closed. */
#define OPEN "0"
#define CLOSED "1"

static const struct relock_kind kind = {
    .unlock = &relock_script_latch_count_down,
    .channel = RELOCK_CHANNEL_LATCH,
    .message = OPEN,
    .is_number = true,
};

static struct relock_lock *lock_of(struct relock_latch *latch)
{
    return (struct relock_lock *)latch;
}

int relock_latch_new(struct relock_client *client, const char *name, struct relock_latch **latch)
{
    struct relock_lock *lock;
    int r = relock_lock_make(client, &kind, name, latch ? &lock : NULL);

    if (latch && r == RELOCK_OK)
        *latch = (struct relock_latch *)lock;
    return r;
}

struct relock_latch *relock_latch_free(struct relock_latch *latch)
{
    (void)relock_lock_free(lock_of(latch));
    return NULL;
}

/* Runs a command that answers 1 if it was done. */
static int change(struct relock_latch *latch, const struct relock_number_command *command,
                  bool *done)
{
    int64_t value;
    int r = relock_number_run(lock_of(latch), command, &value);

    if (r == RELOCK_OK && done)
        *done = value == 1;
    return r;
}

int relock_latch_try_set(struct relock_latch *latch, uint64_t count, bool *set)
{
    const int64_t n = (int64_t)count;
    const struct relock_number_command command = {
        .script = &relock_script_number_try_set,
        .message = CLOSED,
        .n = &n,
        .failed = "the latch was not set",
    };

    if (!latch || count == 0 || count > INT64_MAX)
        return relock_lock_refuse(lock_of(latch),
                                  "relock_latch_try_set: `count` is 0 or above INT64_MAX");
    return change(latch, &command, set);
}

int relock_latch_count_down(struct relock_latch *latch)
{
    static const struct relock_number_command command = {
        .script = &relock_script_latch_count_down,
        .message = OPEN,
        .failed = "the latch was not counted down",
    };

    return latch ? change(latch, &command, NULL) : RELOCK_E_INVALID;
}

int relock_latch_delete(struct relock_latch *latch, bool *deleted)
{
    static const struct relock_number_command command = {
        .script = &relock_script_latch_delete,
        .message = OPEN,
        .failed = "the latch was not deleted",
    };

    return latch ? change(latch, &command, deleted) : RELOCK_E_INVALID;
}

int relock_latch_count(struct relock_latch *latch, uint64_t *count)
{
    static const struct relock_number_command command = {.failed = "query failed"};
    int64_t value;
    int r;

    if (!latch || !count)
        return relock_lock_refuse(lock_of(latch), "relock_latch_count: `count` is NULL");
    r = relock_number_run(lock_of(latch), &command, &value);
    if (r == RELOCK_OK)
        *count = value > 0 ? (uint64_t)value : 0;
    return r;
}

static enum relock_number_verdict judge(int64_t value)
{
    return value > 0 ? RELOCK_NUMBER_NOBODY : RELOCK_NUMBER_ALL;
}

int relock_latch_wait(struct relock_latch *latch, int64_t wait_ms, struct relock_cancel *cancel)
{
    static const struct relock_number_command command = {.failed = "the wait failed"};

    return latch ? relock_number_wait(lock_of(latch), &command, judge, wait_ms, cancel)
                 : RELOCK_E_INVALID;
}
