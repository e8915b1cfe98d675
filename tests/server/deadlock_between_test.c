/*
 * Owners of several clients that wait for each other: when all their waits have lasted for
 * `deadlock_ms`, the youngest is refused, and the others go on.
 */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/peer.h"
#include "support/reactor.h"
#include "support/words.h"

#include <stdio.h>

#define N_MOST 4
#define DEADLOCK_MS 200

/* Each actor is of a client of its own, holds the lock of its number, and wants the next one. */
struct ring {
    struct relock_client *clients[N_MOST];
    struct relock_lock *has[N_MOST], *wants[N_MOST];
    struct actor *actors[N_MOST];
    int n;
};

static struct relock_client *client_of(struct fixture *f, int n, uint64_t deadlock_ms)
{
    char name[16];

    snprintf(name, sizeof(name), "shop-%d", n);
    return fixture_client(f, &(struct relock_options){
                                 .client_name = name,
                                 .watchdog_timeout_ms = slow_ms(NEVER_MS),
                                 .recheck_ms = slow_ms(NEVER_MS),
                                 .deadlock_ms = deadlock_ms,
                             });
}

static struct ring ring_of(struct fixture *f, int n)
{
    struct ring ring = {.n = n};
    char name[16];

    for (int i = 0; i < n; i++) {
        ring.clients[i] = client_of(f, i, DEADLOCK_MS);
        snprintf(name, sizeof(name), "ring:%d", i);
        ring.has[i] = kind_lock(f, ring.clients[i], name);
        snprintf(name, sizeof(name), "ring:%d", (i + 1) % n);
        ring.wants[i] = kind_lock(f, ring.clients[i], name);
        ring.actors[i] = actor_start();
        assert_result(actor_lock(ring.actors[i], ring.has[i]), RELOCK_OK);
    }
    return ring;
}

static bool one_has_ended(void *arg)
{
    const struct ring *ring = arg;
    int n_busy = 0;

    for (int i = 0; i < ring->n; i++)
        n_busy += actor_is_busy(ring->actors[i]);
    return n_busy < ring->n;
}

static uint64_t deadlocks_of(const struct ring *ring)
{
    uint64_t n = 0;

    for (int i = 0; i < ring->n; i++)
        n += stats_of(ring->clients[i]).deadlocks;
    return n;
}

/* From the victim backwards: each is given the lock of the one that was served before. */
static int assert_that_one_is_refused_and_the_others_are_served(struct ring *ring)
{
    int victim = 0;

    assert_true(wait_until(one_has_ended, ring, SOON_MS));
    while (actor_is_busy(ring->actors[victim]))
        victim++;
    assert_result(actor_result(ring->actors[victim]), RELOCK_E_DEADLOCK);
    assert_result(actor_check(ring->actors[victim], ring->has[victim]), RELOCK_OK);
    assert_result(actor_unlock(ring->actors[victim], ring->has[victim]), RELOCK_OK);
    for (int i = 1; i < ring->n; i++) {
        int served = (victim - i + ring->n) % ring->n;

        assert_result(actor_result(ring->actors[served]), RELOCK_OK);
        assert_result(actor_unlock(ring->actors[served], ring->wants[served]), RELOCK_OK);
        assert_result(actor_unlock(ring->actors[served], ring->has[served]), RELOCK_OK);
    }
    assert_int_equal(deadlocks_of(ring), 1);
    return victim;
}

static void play_ring(struct fixture *f, int n)
{
    struct ring ring = ring_of(f, n);

    for (int i = 0; i < n; i++)
        actor_begin_lock(ring.actors[i], ring.wants[i]);
    assert_that_one_is_refused_and_the_others_are_served(&ring);
    assert_true(log_wait_n(f->log, "this call would deadlock: this owner holds ring:", 1, SOON_MS));
    assert_true(wait_for_no_keys(f->probe));
}

static void one_of_two_clients_is_refused(void **state)
{
    play_ring(*state, 2);
}

static void one_of_three_clients_is_refused(void **state)
{
    play_ring(*state, 3);
}

static void one_of_four_clients_is_refused(void **state)
{
    play_ring(*state, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(one_of_two_clients_is_refused),
        SERVER_TEST(one_of_three_clients_is_refused),
        SERVER_TEST(one_of_four_clients_is_refused),
    };

    return SERVER_TESTS_RUN(tests);
}
