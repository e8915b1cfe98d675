#include "support/numbers.h"

#define MAX 32

static struct relock_latch *latches[MAX];
static unsigned n_latches;

struct relock_latch *latch_of(struct relock_client *client, const char *name)
{
    assert_true(n_latches < MAX);
    assert_result(relock_latch_new(client, name, &latches[n_latches]), RELOCK_OK);
    return latches[n_latches++];
}

void numbers_free(void)
{
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
