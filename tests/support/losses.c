#include "support/losses.h"

#include "support/wait.h"

#include <stdio.h>
#include <stdlib.h>

struct losses {
    pthread_mutex_t mutex;
    struct {
        struct loss list[LOSSES_MAX];
        size_t n;
    } guarded; /* by mutex */
};

struct losses *losses_new(void)
{
    struct losses *losses = calloc(1, sizeof(*losses));

    if (!losses)
        abort();
    pthread_mutex_init(&losses->mutex, NULL);
    return losses;
}

struct losses *losses_free(struct losses *losses)
{
    if (!losses)
        return NULL;

    pthread_mutex_destroy(&losses->mutex);
    free(losses);
    return NULL;
}

void losses_write(const struct relock_lost *what, void *arg)
{
    struct losses *losses = arg;
    struct loss loss = {
        .owner = what->owner,
        .reason = what->reason,
        .hold_count = what->hold_count,
        .at_ms = now_ms(),
        .thread = pthread_self(),
    };

    snprintf(loss.name, sizeof(loss.name), "%s", what->name);

    pthread_mutex_lock(&losses->mutex);
    if (losses->guarded.n < LOSSES_MAX)
        losses->guarded.list[losses->guarded.n] = loss;
    losses->guarded.n++;
    pthread_mutex_unlock(&losses->mutex);
}

void losses_drop(const struct relock_lost *what, void *arg)
{
    (void)what;
    (void)arg;
}

size_t losses_count(struct losses *losses)
{
    size_t n;

    pthread_mutex_lock(&losses->mutex);
    n = losses->guarded.n;
    pthread_mutex_unlock(&losses->mutex);
    return n;
}

struct expected {
    struct losses *losses;
    size_t n;
};

static bool has_come(void *arg)
{
    struct expected *expected = arg;

    return losses_count(expected->losses) >= expected->n;
}

bool losses_wait(struct losses *losses, size_t n, uint64_t within_ms)
{
    return wait_until(has_come, &(struct expected){losses, n}, within_ms);
}

struct loss losses_get(struct losses *losses, size_t i)
{
    struct loss loss = {0};

    pthread_mutex_lock(&losses->mutex);
    if (i < losses->guarded.n && i < LOSSES_MAX)
        loss = losses->guarded.list[i];
    pthread_mutex_unlock(&losses->mutex);
    return loss;
}
