/* What relock_client_stats() costs a client with many holds. */
#include "base/pool.h"
#include "support/fixture.h"

#include <stdio.h>

#define N_LOCKS 5000

static _Thread_local unsigned n_visits; /* of holds, by this thread */

void *__real_relock_pool_next(const struct relock_pool *pool, const void *object, uint8_t nth);
void *__wrap_relock_pool_next(const struct relock_pool *pool, const void *object, uint8_t nth);

/* RELOCK_HOLDS_FOREACH calls it. */
void *__wrap_relock_pool_next(const struct relock_pool *pool, const void *object, uint8_t nth)
{
    n_visits++;
    return __real_relock_pool_next(pool, object, nth);
}

static unsigned visits_of_stats(struct relock_client *client, struct relock_stats *stats)
{
    n_visits = 0;
    assert_result(relock_client_stats(client, stats, sizeof(*stats)), RELOCK_OK);
    return n_visits;
}

static void the_counters_are_read_without_a_visit_to_any_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    static struct relock_lock *locks[N_LOCKS];
    uint64_t before_ms = now_ms(), last_ms = 0;
    struct relock_stats stats;
    char name[32];

    for (int i = 0; i < N_LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "lock %d", i);
        assert_result(relock_lock_new(client, name, &locks[i]), RELOCK_OK);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
        if (i == 0)
            last_ms = now_ms();
    }
    assert_int_equal(visits_of_stats(client, &stats), 0);
    assert_int_equal(stats.holds, N_LOCKS);
    assert_in_range(stats.oldest_hold_us, (now_ms() - last_ms - 1) * 1000,
                    (now_ms() - before_ms + 1) * 1000);
    for (int i = 0; i < N_LOCKS; i++) {
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        relock_lock_free(locks[i]);
    }
    assert_int_equal(visits_of_stats(client, &stats), 0);
    assert_int_equal(stats.oldest_hold_us, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_counters_are_read_without_a_visit_to_any_hold),
    };

    return SERVER_TESTS_RUN(tests);
}
