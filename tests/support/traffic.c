#include "traffic.h"

#include "support/fixture.h"

static int take_turns(void *arg)
{
    struct traffic *traffic = arg;
    int r = RELOCK_OK;

    while (r == RELOCK_OK && !atomic_load(&traffic->over))
        r = actor_take_turn(traffic->lock);
    return r;
}

static bool flows(void *client)
{
    return stats_of(client).acquired > TRAFFIC_THREADS;
}

void traffic_begin(struct traffic *traffic, struct relock_client *client, struct relock_lock *lock)
{
    *traffic = (struct traffic){.lock = lock};
    for (int i = 0; i < TRAFFIC_THREADS; i++) {
        traffic->actors[i] = actor_start();
        actor_begin(traffic->actors[i], take_turns, traffic);
    }
    assert_true(wait_until(flows, client, SOON_MS));
}

void traffic_assert_pauses(struct relock_client *client, struct relock_lock *lock,
                           const struct relock_how *how)
{
    struct actor *waiting = actor_start();

    for (int round = 0; round < 10; round++) {
        uint64_t released_ms;

        assert_result(relock_acquire(lock, how, NULL), RELOCK_OK);
        actor_begin_acquire(waiting, lock, how);
        assert_true(wait_for_waiters(client, 1));
        let_pass(2); /* longer than a turn of 1 ms */
        released_ms = now_ms();
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(actor_result(waiting), RELOCK_OK);
        assert_true(actor_ended_ms(waiting) > released_ms); /* 2 ms, less the rounding */
        assert_result(actor_unlock(waiting, lock), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).passed_on, 0);
}

void traffic_end(struct traffic *traffic)
{
    atomic_store(&traffic->over, true);
    for (int i = 0; i < TRAFFIC_THREADS; i++)
        assert_result(actor_result(traffic->actors[i]), RELOCK_OK);
}
