#include "support/ring.h"

#include "support/kinds.h"

#include <stdio.h>

struct relock_client *ring_client(struct fixture *f, int nth, uint64_t deadlock_ms)
{
    char name[32];

    snprintf(name, sizeof(name), "shop-%d", nth);
    return fixture_client(f, &(struct relock_options){
                                 .client_name = name,
                                 .watchdog_timeout_ms = slow_ms(NEVER_MS),
                                 .recheck_ms = slow_ms(NEVER_MS),
                                 .deadlock_ms = deadlock_ms,
                             });
}

struct ring ring_of(struct fixture *f, struct relock_client *const *clients, int n)
{
    static const char *const names[RING_MOST] = {"ring:0", "ring:1", "ring:2", "ring:3", "ring:4"};

    return ring_of_locks(f, clients, names, n, kind_now()->constructor);
}

struct ring ring_of_locks(struct fixture *f, struct relock_client *const *clients,
                          const char *const *names, int n, fixture_constructor_fn *make)
{
    struct ring ring = {.n = n};

    for (int i = 0; i < n; i++) {
        ring.clients[i] = clients[i];
        ring.has[i] = fixture_lock_of(f, clients[i], names[i], make);
        ring.wants[i] = fixture_lock_of(f, clients[i], names[(i + 1) % n], make);
        ring.actors[i] = actor_start();
        assert_result(actor_lock(ring.actors[i], ring.has[i]), RELOCK_OK);
    }
    return ring;
}

void ring_close(struct ring *ring)
{
    for (int i = 0; i < ring->n; i++)
        actor_begin_lock(ring->actors[i], ring->wants[i]);
}

void ring_wait(struct ring *ring, int nth)
{
    actor_begin_lock(ring->actors[nth], ring->wants[nth]);
    assert_true(wait_for_waiters(ring->clients[nth], 1));
}

void ring_unwind(struct ring *ring, int first)
{
    assert_result(actor_unlock(ring->actors[first], ring->has[first]), RELOCK_OK);
    for (int i = 1; i < ring->n; i++) {
        int next = (first - i + ring->n) % ring->n;

        assert_result(actor_result(ring->actors[next]), RELOCK_OK);
        assert_result(actor_unlock(ring->actors[next], ring->wants[next]), RELOCK_OK);
        assert_result(actor_unlock(ring->actors[next], ring->has[next]), RELOCK_OK);
    }
}

struct waiting {
    struct actor *const *actors;
    int n;
};

static int n_busy(const struct waiting *waiting)
{
    int n = 0;

    for (int i = 0; i < waiting->n; i++)
        n += actor_is_busy(waiting->actors[i]);
    return n;
}

static bool one_has_ended(void *arg)
{
    const struct waiting *waiting = arg;

    return n_busy(waiting) < waiting->n;
}

static uint64_t deadlocks_of(const struct ring *ring)
{
    uint64_t n = 0;

    for (int i = 0; i < ring->n; i++) {
        bool is_counted = false;

        for (int j = 0; j < i; j++)
            is_counted |= ring->clients[j] == ring->clients[i];
        if (!is_counted)
            n += stats_of(ring->clients[i]).deadlocks;
    }
    return n;
}

int ring_assert_one_is_refused(struct ring *ring)
{
    return ring_assert_one_is_refused_within(ring, SOON_MS);
}

int ring_assert_one_is_refused_within(struct ring *ring, uint64_t within_ms)
{
    struct waiting waiting = {ring->actors, ring->n};
    int victim = 0;

    assert_true(wait_until(one_has_ended, &waiting, within_ms));
    while (actor_is_busy(ring->actors[victim]))
        victim++;
    assert_result(actor_result(ring->actors[victim]), RELOCK_E_DEADLOCK);
    assert_int_equal(n_busy(&waiting), ring->n - 1);
    assert_result(actor_check(ring->actors[victim], ring->has[victim]), RELOCK_OK);
    ring_unwind(ring, victim);
    assert_int_equal(deadlocks_of(ring), 1);
    return victim;
}

/* One of the two that wait is refused: it releases what it has, and the other one goes on. */
static void end_readers(struct actor *const actors[3], struct relock_lock *const read[2],
                        struct relock_lock *write, struct relock_lock *has,
                        struct relock_lock *wants)
{
    struct actor *reader = actors[1], *writer = actors[2];
    struct waiting waiting = {actors + 1, 2};

    assert_true(wait_until(one_has_ended, &waiting, SOON_MS));
    if (actor_is_busy(writer)) {
        assert_result(actor_result(reader), RELOCK_E_DEADLOCK);
        assert_result(actor_unlock(reader, read[1]), RELOCK_OK);
        assert_true(actor_is_busy(writer));
        assert_result(actor_unlock(actors[0], read[0]), RELOCK_OK);
        assert_result(actor_result(writer), RELOCK_OK);
        assert_result(actor_unlock(writer, write), RELOCK_OK);
        assert_result(actor_unlock(writer, has), RELOCK_OK);
    } else {
        assert_result(actor_result(writer), RELOCK_E_DEADLOCK);
        assert_result(actor_unlock(writer, has), RELOCK_OK);
        assert_result(actor_result(reader), RELOCK_OK);
        assert_result(actor_unlock(reader, wants), RELOCK_OK);
        assert_result(actor_unlock(reader, read[1]), RELOCK_OK);
        assert_result(actor_unlock(actors[0], read[0]), RELOCK_OK);
    }
}

void ring_play_readers(struct fixture *f, struct relock_client *const clients[3],
                       bool writer_comes_last)
{
    struct relock_lock *read[2], *write, *has, *wants;
    struct actor *actors[3];
    int first = writer_comes_last ? 1 : 2;

    for (int i = 0; i < 3; i++)
        actors[i] = actor_start();
    for (int i = 0; i < 2; i++) {
        read[i] = fixture_lock_of(f, clients[i], "shelf", relock_rdlock_new);
        assert_result(actor_lock(actors[i], read[i]), RELOCK_OK);
    }
    write = fixture_lock_of(f, clients[2], "shelf", relock_wrlock_new);
    has = fixture_lock(f, clients[2], "orders");
    wants = fixture_lock(f, clients[1], "orders");
    assert_result(actor_lock(actors[2], has), RELOCK_OK);
    actor_begin_lock(actors[first], writer_comes_last ? wants : write);
    assert_true(wait_for_waiters(clients[first], 1));
    /* The writer asked Redis first, so it may be refused though it comes last. */
    actor_begin_lock(actors[3 - first], writer_comes_last ? write : wants);
    end_readers(actors, read, write, has, wants);
}
