/*
 * Owners of one client that wait for each other: the wait that closes the cycle is refused, and the
 * others go on.
 */
#include "support/kinds.h"
#include "support/multi.h"
#include "support/reactor.h"
#include "support/ring.h"

#include <stdio.h>

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */

static const struct relock_how waits = {.wait_ms = RELOCK_FOREVER};

static struct ring ring_in(struct fixture *f, struct relock_client *client, int n)
{
    return ring_of(f, (struct relock_client *[]){client, client, client, client, client}, n);
}

static void play_ring(struct fixture *f, int n)
{
    struct relock_client *client = woken_client(f);
    struct ring ring = ring_in(f, client, n);

    ring_close(&ring);
    (void)ring_assert_one_is_refused(&ring);
    assert_int_equal(stats_of(client).acquires[-RELOCK_E_DEADLOCK], 1);
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
    struct ring ring = ring_in(f, woken_client(f), 2);
    struct relock_grant grant;
    char line[160];

    actor_begin_lock(ring.actors[0], ring.wants[0]);
    assert_true(wait_for_waiters(ring.clients[0], 1));
    assert_result(actor_lock(ring.actors[1], ring.wants[1]), RELOCK_E_DEADLOCK);
    assert_result(actor_check(ring.actors[1], ring.has[1]), RELOCK_OK);
    grant = actor_grant(ring.actors[1]);
    snprintf(line, sizeof(line), "ring:0: owner %llu: not acquired",
             (unsigned long long)grant.owner);
    assert_true(log_wait_n(f->log, line, 1, SOON_MS));
    assert_int_equal(log_count(f->log, "this owner holds ring:1, for which owner "), 1);
    assert_int_equal(log_count(f->log, " waits, who holds ring:0"), 1);
    ring_unwind(&ring, 1);
}

/* ---- readers --------------------------------------------------------------------------------- */

static void a_writer_waits_for_each_of_the_readers(void **state)
{
    struct relock_client *client = woken_client(*state);
    struct relock_client *clients[] = {client, client, client};

    ring_play_readers(*state, clients, true);
    ring_play_readers(*state, clients, false);
}

/* The reader waits for the writer, and not for the other reader, who waits for it. */
static void a_reader_does_not_wait_for_readers(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
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

/* ---- several locks at once, and several owners in one thread --------------------------------- */

/* It has `a` at once, as a second level, so the wait that is counted is the one for `b`. */
static void a_multi_lock_waits_as_its_owner(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, woken_client(f));
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
    struct multi_pair t = multi_pair_of(f, woken_client(f));
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
    struct relock_client *client = woken_client(f);
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

/* ---- waits without a cycle ------------------------------------------------------------------- */

static void a_chain_is_no_cycle(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_in(f, woken_client(f), 3);
    struct relock_lock *foreign = kind_lock(f, ring.clients[0], "foreign");

    assert_true(kind_peer_lock(f, "foreign"));
    actor_begin_lock(ring.actors[0], ring.wants[0]);
    actor_begin_lock(ring.actors[1], ring.wants[1]);
    assert_true(wait_for_waiters(ring.clients[0], 2));
    assert_result(actor_wait_out(ring.actors[2], foreign, 100), RELOCK_TIMEOUT);
    ring_unwind(&ring, 2);
    assert_true(kind_peer_unlock(f, "foreign"));
}

static void an_attempt_without_waiting_is_not_refused(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_in(f, woken_client(f), 2);

    actor_begin_lock(ring.actors[0], ring.wants[0]);
    assert_true(wait_for_waiters(ring.clients[0], 1));
    assert_result(actor_trylock(ring.actors[1], ring.wants[1]), RELOCK_BUSY);
    ring_unwind(&ring, 1);
}

/* The owner need not release what ends by itself. */
static void a_fixed_lease_ends_by_itself(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
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
    struct ring ring = ring_in(f, watchful_client(f, LEASE_MS), 2);

    actor_begin_lock(ring.actors[0], ring.wants[0]);
    assert_true(wait_for_waiters(ring.clients[0], 1));
    assert_result(relock_force_unlock(ring.has[0]), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_true(kind_peer_lock(f, "ring:0"));
    assert_result(actor_wait_out(ring.actors[1], ring.wants[1], 100), RELOCK_TIMEOUT);
    assert_true(kind_peer_unlock(f, "ring:0"));
    assert_result(actor_unlock(ring.actors[1], ring.has[1]), RELOCK_OK);
    assert_result(actor_result(ring.actors[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.wants[0]), RELOCK_OK);
    assert_result(actor_unlock(ring.actors[0], ring.has[0]), RELOCK_LOST);
}

/* A wait that was cancelled is over, and so is its part in cycles. */
static void a_wait_that_has_ended_is_not_followed(void **state)
{
    struct fixture *f = *state;
    struct ring ring = ring_in(f, woken_client(f), 2);
    struct relock_how how = waits;

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(ring.actors[0], ring.wants[0], &how);
    assert_true(wait_for_waiters(ring.clients[0], 1));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(ring.actors[0]), RELOCK_CANCELLED);
    actor_begin_lock(ring.actors[1], ring.wants[1]);
    assert_true(wait_for_waiters(ring.clients[0], 1));
    ring_unwind(&ring, 0);
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
