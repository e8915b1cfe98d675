/* Fair locks: in the order of arrival, over threads and processes. */
#include "support/actor.h"
#include "support/fixture.h"

#include <stdio.h>

#define MOST 6

static struct relock_lock *make(struct relock_client *client)
{
    struct relock_lock *lock = NULL;

    assert_result(relock_fairlock_new(client, "orders", &lock), RELOCK_OK);
    return lock;
}

/* Waits until so many stand in Redis' queue. */
struct queued {
    struct fixture *f;
    int n;
};

static bool are_queued(void *arg)
{
    struct queued *queued = arg;

    return probe_int(queued->f->probe, "LLEN redisson_lock_queue:{orders}") == queued->n;
}

static void wait_for_queue(struct fixture *f, int n)
{
    struct queued queued = {f, n};

    assert_true(wait_until(are_queued, &queued, SOON_MS));
}

static void it_goes_to_who_came_first_whatever_the_process(void **state)
{
    struct fixture *f = *state;
    struct relock_options slow = {.recheck_ms = slow_ms(20000)};
    struct relock_client *clients[2] = {fixture_client(f, &slow), fixture_client(f, &slow)};
    struct relock_lock *locks[2] = {make(clients[0]), make(clients[1])};
    struct actor *actors[MOST];

    assert_result(relock_lock(locks[0]), RELOCK_OK);
    for (int i = 0; i < MOST; i++) {
        actors[i] = actor_start();
        actor_begin_lock(actors[i], locks[(i / 2) % 2]);
        wait_for_queue(f, i + 1);
    }
    assert_result(relock_unlock(locks[0]), RELOCK_OK);
    for (int i = 0; i < MOST; i++) {
        assert_result(actor_result(actors[i]), RELOCK_OK);
        for (int j = i + 1; j < MOST; j++)
            assert_true(actor_is_busy(actors[j]));
        assert_result(actor_trylock(actors[i], locks[(i / 2) % 2]), RELOCK_OK);
        assert_result(actor_unlock(actors[i], locks[(i / 2) % 2]), RELOCK_OK);
        assert_result(relock_trylock(locks[1]), RELOCK_BUSY);
        assert_result(actor_unlock(actors[i], locks[(i / 2) % 2]), RELOCK_OK);
    }
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    actor_end_all();
    for (int i = 0; i < 2; i++)
        locks[i] = relock_lock_free(locks[i]);
}

static void who_gives_up_leaves_the_queue(void **state)
{
    struct fixture *f = *state;
    struct relock_options slow = {.recheck_ms = slow_ms(20000)};
    struct relock_client *client = fixture_client(f, &slow);
    struct relock_lock *lock = make(client);
    struct actor *first = actor_start(), *second = actor_start();
    struct relock_cancel *cancel;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_acquire(first, lock,
                        &(struct relock_how){.wait_ms = RELOCK_FOREVER, .cancel = cancel});
    wait_for_queue(f, 1);
    actor_begin_lock(second, lock);
    wait_for_queue(f, 2);
    relock_cancel_fire(cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    wait_for_queue(f, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(second, lock), RELOCK_OK);
    assert_result(actor_timedlock(first, lock, 1), RELOCK_OK);
    assert_result(relock_timedlock(lock, 20), RELOCK_TIMEOUT);
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    wait_for_queue(f, 0);
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    relock_cancel_free(cancel);
    actor_end_all();
    lock = relock_lock_free(lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(it_goes_to_who_came_first_whatever_the_process),
        SERVER_TEST(who_gives_up_leaves_the_queue),
    };

    return SERVER_TESTS_RUN(tests);
}
