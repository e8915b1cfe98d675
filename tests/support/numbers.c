#include "support/numbers.h"

#define MAX 32

static struct relock_latch *latches[MAX];
static struct relock_unleased *semaphores[MAX];
static unsigned n_latches, n_semaphores;

struct relock_latch *latch_of(struct relock_client *client, const char *name)
{
    assert_true(n_latches < MAX);
    assert_result(relock_latch_new(client, name, &latches[n_latches]), RELOCK_OK);
    return latches[n_latches++];
}

struct relock_unleased *semaphore_of(struct relock_client *client, const char *name)
{
    assert_true(n_semaphores < MAX);
    assert_result(relock_unleased_new(client, name, &semaphores[n_semaphores]), RELOCK_OK);
    return semaphores[n_semaphores++];
}

void numbers_free(void)
{
    while (n_semaphores > 0)
        assert_null(relock_unleased_free(semaphores[--n_semaphores]));
    while (n_latches > 0)
        assert_null(relock_latch_free(latches[--n_latches]));
}

int numbers_end(void **state)
{
    numbers_free();
    return fixture_end(state);
}

int latch_step(void *wait)
{
    const struct latch_wait *how = wait;

    return relock_latch_wait(how->latch, how->wait_ms, how->cancel);
}

int permits_step(void *wait)
{
    const struct permits_wait *how = wait;

    return relock_unleased_acquire(how->semaphore, how->n, how->wait_ms, how->cancel);
}
