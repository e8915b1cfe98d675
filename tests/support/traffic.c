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

void traffic_end(struct traffic *traffic)
{
    atomic_store(&traffic->over, true);
    for (int i = 0; i < TRAFFIC_THREADS; i++)
        assert_result(actor_result(traffic->actors[i]), RELOCK_OK);
}
