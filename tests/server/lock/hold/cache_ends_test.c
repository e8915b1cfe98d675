/* Ends of a lock that is kept: its client, its process, its data in Redis. */
#include "support/actor.h"
#include "support/child.h"
#include "support/keeping.h"
#include "support/kinds.h"
#include "support/peer.h"
#include "support/reactor.h"

#include <stdio.h>
#include <stdlib.h>

#define LONG_MS 3600000
#define LEASE_MS 2000 /* outlives a second in which a machine stands still */

static void a_shutdown_releases_kept_locks(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *held = kind_lock(f, client, "held");
    struct actor *other = actor_start();

    keeping_fill(client, lock);
    assert_result(relock_lock(held), RELOCK_OK);
    relock_client_shutdown(client);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(actor_lock(other, lock), RELOCK_E_CLOSED);
    assert_result(relock_unlock(held), RELOCK_OK); /* and nothing is kept any more */
    assert_string_equal(kind_holder(f, "held"), "");
}

static void a_freed_client_leaves_nothing_kept(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock;
    char name[16];

    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "order:%d", i);
        lock = kind_lock(f, client, name);
        keeping_fill(client, lock);
        fixture_free_lock(f, lock);
    }
    assert_int_equal(probe_n_keys(f->probe), 20);
    fixture_free_client(f, client);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static bool can_be_plain(void *client)
{
    struct relock_lock *lock;

    if (relock_plainlock_new(client, "orders", &lock) != RELOCK_OK)
        return false;
    relock_lock_free(lock);
    return true;
}

/* It would be kept for an hour. */
static void a_kept_lock_without_a_handle_soon_makes_way_for_another_kind(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    keeping_fill(client, lock);
    assert_false(can_be_plain(client));
    assert_int_equal(stats_of(client).kept, 1); /* its handle may be used again */
    fixture_free_lock(f, lock);
    assert_true(wait_until(can_be_plain, client, SOON_MS));
    assert_int_equal(stats_of(client).kept, 0);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_new_handle_gets_the_lock_that_an_older_one_has_left(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    keeping_fill(client, lock);
    fixture_free_lock(f, lock);
    lock = kind_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static int use_in_child(struct child *parent, void *arg)
{
    struct relock_lock *lock = arg;

    (void)parent;
    child_must(relock_lock(lock) == RELOCK_E_FORKED);
    child_must(!relock_is_mine(lock));
    return EXIT_SUCCESS;
}

static void a_forked_child_does_not_get_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct child *child;

    keeping_fill(client, lock);
    child = child_start(use_in_child, lock);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_thread_that_ends_takes_no_kept_lock_with_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *left = kind_lock(f, client, "left");
    struct actor *other = actor_start();

    assert_result(actor_lock(other, lock), RELOCK_OK);
    assert_result(actor_unlock(other, lock), RELOCK_OK);
    assert_result(actor_lock(other, left), RELOCK_OK);
    actor_end(other);
    assert_int_equal(stats_of(client).kept, 1);
    /* The hold that the thread left behind is released for good: no owner saw to its end. */
    assert_true(probe_wait_no_key(f->probe, "left", SOON_MS));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- losses -------------------------------------------------------------------------------- */

static void a_kept_lock_that_is_deleted_ends_in_silence(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_lock *lock = kind_lock(f, client, "orders");

    keeping_fill(client, lock);
    probe_int(f->probe, "DEL orders");
    assert_true(keeping_wait(client, 0)); /* the next renewal finds it */
    assert_int_equal(stats_of(client).lost, 0);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 0);
}

/* As after a hand-off. */
static void the_next_owner_learns_soon_that_a_kept_lock_was_taken(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(
        f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS, .flags = RELOCK_NO_TRACKING});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct losses *losses = losses_new();
    struct relock_how how = {.on_lost = losses_write, .arg = losses};

    keeping_fill(client, lock);
    assert_true(kind_peer_usurp(f, "orders"));
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_true(losses_wait(losses, 1, SOON_MS));
    assert_int_equal(losses_get(losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 0); /* of the owner before */
    assert_true(kind_is_peers(f, "orders"));
    assert_true(kind_peer_unlock(f, "orders"));
    losses_free(losses);
}

static void the_report_of_an_earlier_owner_is_forgotten(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_cancel *cancel = NULL;
    struct losses *losses = losses_new();
    struct relock_how how = {.on_lost = losses_write, .arg = losses};
    uint64_t owner;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel_on_lost = cancel;
    assert_result(reactor_acquire(lock, &how, events, &owner), RELOCK_OK);
    assert_result(reactor_release(lock, owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
    relock_cancel_free(cancel);
    assert_int_equal(stats_of(client).kept, 1);
    probe_int(f->probe, "DEL orders");
    assert_true(keeping_wait(client, 0));
    assert_int_equal(losses_count(losses), 0);
    losses_free(losses);
}

static void a_forced_unlock_frees_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, fixture_client(f, NULL), "orders");
    bool held = true;

    keeping_fill(client, lock);
    assert_result(relock_force_unlock_held(lock, &held), RELOCK_OK);
    assert_false(held); /* by nobody */
    assert_int_equal(stats_of(client).kept, 0);
    assert_string_equal(kind_holder(f, "orders"), "");

    keeping_fill(client, lock);
    assert_result(relock_force_unlock_held(theirs, &held), RELOCK_OK);
    assert_true(held); /* as far as another client can see */
    assert_string_equal(kind_holder(f, "orders"), "");
}

static void max_hold_ms_counts_for_each_owner(void **state)
{
    struct fixture *f = *state;
    uint64_t lease_ms = slow_ms(LEASE_MS);
    struct relock_client *client = keeping_client(
        f, &(struct relock_options){.watchdog_timeout_ms = lease_ms, .max_hold_ms = lease_ms / 2});
    struct relock_lock *lock = kind_lock(f, client, "orders");

    keeping_fill(client, lock);
    let_pass(lease_ms * 5 / 4); /* nobody holds it */
    assert_int_equal(stats_of(client).kept, 1);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 1);
    assert_true(losses_wait(f->losses, 1, 5 * lease_ms));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_CAPPED);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* ---- others -------------------------------------------------------------------------------- */

/* Two owners that each hold one lock and want the other's wait for each other, but not for locks
 * that are kept. */
static void a_kept_lock_closes_no_cycle(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *a = kind_lock(f, client, "a"), *b = kind_lock(f, client, "b");
    struct actor *other = actor_start();

    keeping_fill(client, a);
    assert_result(actor_lock(other, b), RELOCK_OK);
    assert_result(actor_unlock(other, b), RELOCK_OK);
    assert_result(relock_lock(b), RELOCK_OK);
    assert_result(actor_lock(other, a), RELOCK_OK);
    actor_begin_lock(other, b);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_lock(a), RELOCK_E_DEADLOCK); /* now it is one */
    assert_result(relock_unlock(b), RELOCK_OK);
    assert_gets_in(other, b);
    assert_result(actor_unlock(other, a), RELOCK_OK);
    assert_result(relock_lock(a), RELOCK_OK);
    assert_result(relock_unlock(a), RELOCK_OK);
}

static void an_owner_may_be_named_by_several_threads(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_how how = {.wait_ms = NEVER_MS, .owner = relock_owner_new()};
    struct actor *others[3];

    keeping_fill(client, lock);
    for (int i = 0; i < 3; i++) {
        others[i] = actor_start();
        assert_result(actor_acquire(others[i], lock, &how), RELOCK_OK);
        assert_int_equal(actor_grant(others[i]).hold_count, i + 1);
    }
    for (int i = 0; i < 3; i++)
        assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 1);
    assert_int_equal(stats_of(client).kept, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(a_shutdown_releases_kept_locks, reentrant),
        KINDS_TEST_OF(a_shutdown_releases_kept_locks, spin),
        SERVER_TEST(a_freed_client_leaves_nothing_kept),
        KINDS_TEST_OF(a_kept_lock_without_a_handle_soon_makes_way_for_another_kind, reentrant),
        KINDS_TEST_OF(a_kept_lock_without_a_handle_soon_makes_way_for_another_kind, spin),
        SERVER_TEST(a_new_handle_gets_the_lock_that_an_older_one_has_left),
        SERVER_TEST(a_forked_child_does_not_get_a_kept_lock),
        SERVER_TEST(a_thread_that_ends_takes_no_kept_lock_with_it),
        KINDS_TEST_OF(a_kept_lock_that_is_deleted_ends_in_silence, reentrant),
        KINDS_TEST_OF(a_kept_lock_that_is_deleted_ends_in_silence, spin),
        SERVER_TEST(the_next_owner_learns_soon_that_a_kept_lock_was_taken),
        SERVER_TEST(the_report_of_an_earlier_owner_is_forgotten),
        KINDS_TEST_OF(a_forced_unlock_frees_a_kept_lock, reentrant),
        KINDS_TEST_OF(a_forced_unlock_frees_a_kept_lock, spin),
        SERVER_TEST(max_hold_ms_counts_for_each_owner),
        SERVER_TEST(a_kept_lock_closes_no_cycle),
        SERVER_TEST(an_owner_may_be_named_by_several_threads),
    };

    return SERVER_TESTS_RUN(tests);
}
