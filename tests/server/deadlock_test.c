/*
 * Owners of one client that wait for each other: the wait that closes the cycle is refused, and the
 * others go on.
 */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/multi.h"
#include "support/peer.h"
#include "support/reactor.h"

#include <stdio.h>

#define N_MOST 5
#define LEASE_MS 1500 /* outlives a second in which a machine stands still */

static const struct relock_how waits = {.wait_ms = RELOCK_FOREVER};

/* Each actor holds the lock of its number, and wants the next one. */
struct ring {
    struct relock_client *client;
    struct relock_lock *locks[N_MOST];
    struct actor *actors[N_MOST];
    int n;
};

static struct ring ring_of(struct fixture *f, struct relock_client *client, int n)
{
    struct ring ring = {.client = client, .n = n};
    char name[16];

    for (int i = 0; i < n; i++) {
        snprintf(name, sizeof(name), "ring:%d", i);
        ring.locks[i] = kind_lock(f, ring.client, name);
        ring.actors[i] = actor_start();
        assert_result(actor_lock(ring.actors[i], ring.locks[i]), RELOCK_OK);
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

/* From the victim backwards: each is given the lock of the one that was served before. */
static void assert_that_one_is_refused_and_the_others_are_served(struct ring *ring)
{
    int victim = 0;

    assert_true(wait_until(one_has_ended, ring, SOON_MS));
    while (actor_is_busy(ring->actors[victim]))
        victim++;
    assert_result(actor_result(ring->actors[victim]), RELOCK_E_DEADLOCK);
    assert_true(wait_for_waiters(ring->client, (uint64_t)ring->n - 1));
    assert_result(actor_check(ring->actors[victim], ring->locks[victim]), RELOCK_OK);
    assert_result(actor_unlock(ring->actors[victim], ring->locks[victim]), RELOCK_OK);
    for (int i = 1; i < ring->n; i++) {
        int served = (victim - i + ring->n) % ring->n;

        assert_result(actor_result(ring->actors[served]), RELOCK_OK);
        assert_result(actor_unlock(ring->actors[served], ring->locks[(served + 1) % ring->n]),
                      RELOCK_OK);
        assert_result(actor_unlock(ring->actors[served], ring->locks[served]), RELOCK_OK);
    }
    assert_int_equal(stats_of(ring->client).acquires[-RELOCK_E_DEADLOCK], 1);
}

static void play_ring(struct fixture *f, int n)
{
    struct ring ring = ring_of(f, patient_client(f, NEVER_MS), n);

    for (int i = 0; i < n; i++)
        actor_begin_lock(ring.actors[i], ring.locks[(i + 1) % n]);
    assert_that_one_is_refused_and_the_others_are_served(&ring);
    assert_true(log_wait_n(f->log, "this call would deadlock: this owner holds ring:", 1, SOON_MS));
}

static void one_of_two_that_wait_for_each_other_is_refused(void **state)
{
    play_ring(*state, 2);
}

static void one_of_three_is_refused(void **state)
{
    play_ring(*state, 3);
}

static void one_of_five_is_refused(void **state)
{
    play_ring(*state, 5);
}

static void the_log_names_the_locks_and_owners_of_the_cycle(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of(f, patient_client(f, NEVER_MS), 2);
    struct relock_grant grant;
    char line[160];

    actor_begin_lock(ring.actors[0], ring.locks[1]);
    assert_true(wait_for_waiters(ring.client, 1));
    assert_result(actor_lock(ring.actors[1], ring.locks[0]), RELOCK_E_DEADLOCK);
    assert_result(actor_check(ring.actors[1], ring.locks[1]), RELOCK_OK);
    grant = actor_grant(ring.actors[1]);
    snprintf(line, sizeof(line), "ring:0: owner %llu: not acquired",
             (unsigned long long)grant.owner);
    assert_true(log_wait_n(f->log, line, 1, SOON_MS));
    assert_int_equal(log_count(f->log, "this owner holds ring:1, for which owner "), 1);
    assert_int_equal(log_count(f->log, " waits, who holds ring:0"), 1);
    assert_result(actor_unlock(ring.actors[1], ring.locks[1]), RELOCK_OK);
    assert_result(actor_result(ring.actors[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.locks[1]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.locks[0]), RELOCK_OK);
}

/* ---- readers ------------------------------------------------------------------------------- */

/* Two readers, of whom the second wants what the writer holds; which of the two calls comes last
 * makes no difference. */
static void play_readers(struct fixture *f, bool writer_comes_last)
{
    struct relock_client *client = patient_client(f, NEVER_MS);
    struct relock_lock *read = fixture_lock_of(f, client, "shelf", relock_rdlock_new);
    struct relock_lock *write = fixture_lock_of(f, client, "shelf", relock_wrlock_new);
    struct relock_lock *other = fixture_lock(f, client, "orders");
    struct actor *one = actor_start(), *two = actor_start(), *writer = actor_start();
    struct actor *first = writer_comes_last ? two : writer;
    struct actor *last = writer_comes_last ? writer : two;

    assert_result(actor_lock(one, read), RELOCK_OK);
    assert_result(actor_lock(two, read), RELOCK_OK);
    assert_result(actor_lock(writer, other), RELOCK_OK);
    actor_begin_lock(first, writer_comes_last ? other : write);
    assert_true(wait_for_waiters(client, 1));
    /* The writer asked Redis first, so it may come last, too. */
    actor_begin_lock(last, writer_comes_last ? write : other);
    while (actor_is_busy(writer) && actor_is_busy(two))
        let_pass(1);
    if (actor_is_busy(writer)) {
        assert_result(actor_result(two), RELOCK_E_DEADLOCK);
        assert_result(actor_unlock(two, read), RELOCK_OK);
        assert_true(actor_is_busy(writer));
        assert_result(actor_unlock(one, read), RELOCK_OK);
        assert_result(actor_result(writer), RELOCK_OK);
        assert_result(actor_unlock(writer, write), RELOCK_OK);
        assert_result(actor_unlock(writer, other), RELOCK_OK);
    } else {
        assert_result(actor_result(writer), RELOCK_E_DEADLOCK);
        assert_result(actor_unlock(writer, other), RELOCK_OK);
        assert_result(actor_result(two), RELOCK_OK);
        assert_result(actor_unlock(two, other), RELOCK_OK);
        assert_result(actor_unlock(two, read), RELOCK_OK);
        assert_result(actor_unlock(one, read), RELOCK_OK);
    }
}

static void a_writer_waits_for_each_of_the_readers(void **state)
{
    play_readers(*state, true);
    play_readers(*state, false);
}

/* The reader waits for the writer, and not for the other reader, who waits for it. */
static void a_reader_does_not_wait_for_readers(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, NEVER_MS);
    struct relock_lock *read = fixture_lock_of(f, client, "shelf", relock_rdlock_new);
    struct relock_lock *other = fixture_lock(f, client, "orders");
    struct actor *one = actor_start(), *two = actor_start();

    assert_result(actor_lock(one, read), RELOCK_OK);
    assert_result(actor_lock(two, other), RELOCK_OK);
    actor_begin_lock(one, other);
    assert_true(wait_for_waiters(client, 1));
    assert_result(actor_lock(two, read), RELOCK_OK);
    assert_result(actor_unlock(two, read), RELOCK_OK);
    assert_result(actor_unlock(two, other), RELOCK_OK);
    assert_result(actor_result(one), RELOCK_OK);
    assert_result(actor_unlock(one, other), RELOCK_OK);
    assert_result(actor_unlock(one, read), RELOCK_OK);
}

/* ---- several locks at once, and several owners in one thread ------------------------------- */

/* It has `a` at once, as a second level, so the wait that is counted is the one for `b`. */
static void a_multi_lock_waits_as_its_owner(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, patient_client(f, NEVER_MS));
    struct actor *collecting = actor_start(), *other = actor_start();

    assert_result(actor_lock(other, t.b), RELOCK_OK);
    assert_result(actor_lock(collecting, t.a), RELOCK_OK);
    actor_begin_lock(collecting, t.both);
    assert_true(wait_for_waiters(t.client, 1));
    assert_result(actor_lock(other, t.a), RELOCK_E_DEADLOCK);
    assert_result(actor_unlock(other, t.b), RELOCK_OK);
    assert_result(actor_result(collecting), RELOCK_OK);
    assert_result(actor_unlock(collecting, t.both), RELOCK_OK);
    assert_result(actor_unlock(collecting, t.a), RELOCK_OK);
}

static void a_multi_lock_is_in_the_way_with_each_member(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, patient_client(f, NEVER_MS));
    struct relock_lock *last = fixture_lock(f, t.client, "last");
    struct actor *collecting = actor_start(), *other = actor_start();

    assert_result(actor_lock(collecting, t.both), RELOCK_OK);
    assert_result(actor_lock(other, last), RELOCK_OK);
    actor_begin_lock(collecting, last);
    assert_true(wait_for_waiters(t.client, 1));
    assert_result(actor_lock(other, t.a), RELOCK_E_DEADLOCK);
    assert_result(actor_lock(other, t.b), RELOCK_E_DEADLOCK);
    assert_result(actor_unlock(other, last), RELOCK_OK);
    assert_result(actor_result(collecting), RELOCK_OK);
    assert_result(actor_unlock(collecting, last), RELOCK_OK);
    assert_result(actor_unlock(collecting, t.both), RELOCK_OK);
}

static void owners_of_an_event_loop_take_part(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, NEVER_MS);
    struct relock_lock *a = fixture_lock(f, client, "a"), *b = fixture_lock(f, client, "b");
    struct relock_how one = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct relock_how two = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct relock_events *events = reactor_events(client);
    struct outcome waiting, refused;

    assert_result(relock_acquire(a, &one, NULL), RELOCK_OK);
    assert_result(relock_acquire(b, &two, NULL), RELOCK_OK);
    assert_result(outcome_acquire(b, &one, events, &waiting), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
    assert_result(outcome_acquire(a, &two, events, &refused), RELOCK_OK);
    assert_result(reactor_await(events, &refused), RELOCK_E_DEADLOCK);
    assert_result(relock_release(b, two.owner), RELOCK_OK);
    assert_result(reactor_await(events, &waiting), RELOCK_OK);
    assert_result(relock_release(b, one.owner), RELOCK_OK);
    assert_result(relock_release(a, one.owner), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* ---- what is no deadlock ------------------------------------------------------------------- */

static void a_chain_is_no_cycle(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of(f, patient_client(f, NEVER_MS), 3);
    struct relock_lock *foreign = kind_lock(f, ring.client, "foreign");

    assert_true(kind_peer_lock(f, "foreign"));
    actor_begin_lock(ring.actors[0], ring.locks[1]);
    actor_begin_lock(ring.actors[1], ring.locks[2]);
    assert_true(wait_for_waiters(ring.client, 2));
    assert_result(actor_wait_out(ring.actors[2], foreign, 100), RELOCK_TIMEOUT);
    for (int i = 2; i >= 0; i--) {
        assert_result(actor_unlock(ring.actors[i], ring.locks[i]), RELOCK_OK);
        if (i > 0) {
            assert_result(actor_result(ring.actors[i - 1]), RELOCK_OK);
            assert_result(actor_unlock(ring.actors[i - 1], ring.locks[i]), RELOCK_OK);
        }
    }
    assert_true(kind_peer_unlock(f, "foreign"));
}

static void an_attempt_without_waiting_is_not_refused(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of(f, patient_client(f, NEVER_MS), 2);

    actor_begin_lock(ring.actors[0], ring.locks[1]);
    assert_true(wait_for_waiters(ring.client, 1));
    assert_result(actor_trylock(ring.actors[1], ring.locks[0]), RELOCK_BUSY);
    assert_result(actor_unlock(ring.actors[1], ring.locks[1]), RELOCK_OK);
    assert_result(actor_result(ring.actors[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.locks[1]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.locks[0]), RELOCK_OK);
}

/* The owner need not release what ends by itself. */
static void a_fixed_lease_ends_by_itself(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, NEVER_MS);
    struct relock_lock *a = fixture_lock(f, client, "a"), *b = fixture_lock(f, client, "b");
    const struct relock_how leased = {.lease_ms = slow_ms(LEASE_MS)};
    struct actor *one = actor_start(), *two = actor_start();

    assert_result(actor_acquire(one, a, &leased), RELOCK_OK);
    assert_result(actor_lock(two, b), RELOCK_OK);
    actor_begin_lock(one, b);
    assert_true(wait_for_waiters(client, 1));
    assert_result(actor_lock(two, a), RELOCK_OK);
    assert_result(actor_unlock(two, a), RELOCK_OK);
    assert_result(actor_unlock(two, b), RELOCK_OK);
    assert_result(actor_result(one), RELOCK_OK);
    assert_result(actor_unlock(one, b), RELOCK_OK);
    assert_result(actor_unlock(one, a), RELOCK_LOST);
}

/* An operator broke the lock: its former owner stands in nobody's way. */
static void a_lost_hold_is_in_nobodys_way(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of(f, watchful_client(f, LEASE_MS), 2);

    actor_begin_lock(ring.actors[0], ring.locks[1]);
    assert_true(wait_for_waiters(ring.client, 1));
    assert_result(relock_force_unlock(ring.locks[0]), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_true(kind_peer_lock(f, "ring:0"));
    assert_result(actor_wait_out(ring.actors[1], ring.locks[0], 100), RELOCK_TIMEOUT);
    assert_true(kind_peer_unlock(f, "ring:0"));
    assert_result(actor_unlock(ring.actors[1], ring.locks[1]), RELOCK_OK);
    assert_result(actor_result(ring.actors[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.locks[1]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.locks[0]), RELOCK_LOST);
}

/* A wait that was cancelled is over, and so is its part in cycles. */
static void a_wait_that_has_ended_is_not_followed(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_of(f, patient_client(f, NEVER_MS), 2);
    struct relock_how how = waits;

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(ring.actors[0], ring.locks[1], &how);
    assert_true(wait_for_waiters(ring.client, 1));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(ring.actors[0]), RELOCK_CANCELLED);
    actor_begin_lock(ring.actors[1], ring.locks[0]);
    assert_true(wait_for_waiters(ring.client, 1));
    assert_result(actor_unlock(ring.actors[0], ring.locks[0]), RELOCK_OK);
    assert_result(actor_result(ring.actors[1]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[1], ring.locks[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[1], ring.locks[1]), RELOCK_OK);
    relock_cancel_free(how.cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(one_of_two_that_wait_for_each_other_is_refused),
        SERVER_TEST(one_of_three_is_refused),
        SERVER_TEST(one_of_five_is_refused),
        SERVER_TEST(the_log_names_the_locks_and_owners_of_the_cycle),
        SERVER_TEST(a_writer_waits_for_each_of_the_readers),
        SERVER_TEST(a_reader_does_not_wait_for_readers),
        SERVER_TEST(a_multi_lock_waits_as_its_owner),
        SERVER_TEST(a_multi_lock_is_in_the_way_with_each_member),
        SERVER_TEST(owners_of_an_event_loop_take_part),
        SERVER_TEST(a_chain_is_no_cycle),
        SERVER_TEST(an_attempt_without_waiting_is_not_refused),
        SERVER_TEST(a_fixed_lease_ends_by_itself),
        SERVER_TEST(a_lost_hold_is_in_nobodys_way),
        SERVER_TEST(a_wait_that_has_ended_is_not_followed),
    };

    return SERVER_TESTS_RUN(tests);
}
