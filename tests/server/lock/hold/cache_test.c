/* A lock that nobody uses stays with the process, and its threads get it from memory. */
#include "support/actor.h"
#include "support/keeping.h"
#include "support/kinds.h"
#include "support/listener.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_MS 300  /* `keep_ms` of tests that wait for its end */
#define LEASE_MS 2000 /* outlives a second in which a machine stands still */
#define LONG_MS 3600000

static void an_unused_lock_is_acquired_from_memory(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *other = actor_start();
    struct relock_stats before, after;
    char holder[128];
    long long calls;

    keeping_fill(client, lock);
    snprintf(holder, sizeof(holder), "%s", kind_holder(f, "orders"));
    before = stats_of(client);
    calls = probe_calls(f->probe, "hset") + probe_calls(f->probe, "del");
    for (int i = 0; i < 3; i++) {
        assert_result(actor_lock(other, lock), RELOCK_OK);
        assert_result(relock_trylock(lock), RELOCK_BUSY); /* it is held */
        assert_result(actor_unlock(other, lock), RELOCK_OK);
        assert_result(relock_trylock(lock), RELOCK_OK); /* and now free */
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_int_equal(probe_calls(f->probe, "hset") + probe_calls(f->probe, "del"), calls);
    assert_string_equal(kind_holder(f, "orders"), holder);
    after = stats_of(client);
    assert_int_equal(after.reused, before.reused + 6);
    assert_int_equal(after.acquired, before.acquired);
}

static void queries_from_memory_report_a_kept_lock_as_free(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_grant grant;
    unsigned count = 7;
    bool locked = false;

    keeping_fill(client, lock);
    assert_result(relock_check(lock, 0, &grant), RELOCK_NOT_OWNER);
    assert_int_equal(grant.hold_count, 0);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_false(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_result(relock_extend(lock, 0, 1000), RELOCK_NOT_OWNER);
    assert_int_equal(stats_of(client).holds, 0);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 0);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_true(locked); /* Redis says so */
}

static void nothing_is_kept_without_the_option(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(strtoull(strchr(kind_holder(f, "orders"), ':') + 1, NULL, 10) % 1000000000 <
                500000000);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(kind_holder(f, "orders"), "");
    assert_int_equal(stats_of(client).reused, 0);
}

static void other_kinds_are_not_kept(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 0);
    assert_string_equal(kind_holder(f, "orders"), "");
}

/* Redisson's waiters recall nothing. They hear the release. */
static void a_kept_lock_is_released_after_keep_ms(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(
        f, &(struct relock_options){.keep_ms = SHORT_MS, .watchdog_timeout_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct listener *listener = listener_open(f->server->socket, "redisson_lock__channel:{orders}");
    uint64_t began_ms = now_ms();

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    /* Using it does not make it stay any longer. */
    while (now_ms() < began_ms + SHORT_MS / 2) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_true(now_ms() - began_ms + 2 >= SHORT_MS);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_int_equal(stats_of(client).kept, 0);
    listener_close(listener);
}

static void a_lock_held_beyond_keep_ms_is_released_by_its_owner(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, &(struct relock_options){.keep_ms = SHORT_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    let_pass(SHORT_MS + 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static void a_kept_lock_is_renewed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    keeping_fill(client, lock);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 3));
    assert_int_equal(stats_of(client).kept, 1);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(relock_valid_ms(lock) >= slow_ms(LEASE_MS) / 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- who may have it ----------------------------------------------------------------------- */

static void a_fixed_lease_is_not_kept_and_gets_no_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_how fixed = {.lease_ms = 5000};

    keeping_fill(client, lock);
    assert_result(relock_acquire(lock, &fixed, NULL), RELOCK_OK);
    assert_in_range(probe_pttl(f->probe, "orders"), 1, 5000);
    assert_int_equal(stats_of(client).kept, 0);
    assert_int_equal(stats_of(client).reused, 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(kind_holder(f, "orders"), "");

    /* A lease that is longer than that of the next owner would block the lock for longer. */
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(kind_holder(f, "orders"), "");
}

static void levels_and_owners_are_counted_anew(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_how how = {.owner = relock_owner_new(), .flags = RELOCK_NON_REENTRANT};
    struct relock_grant grant;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    keeping_wait(client, 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 1);

    assert_result(relock_acquire(lock, &how, &grant), RELOCK_OK);
    assert_true(grant.owner == how.owner);
    assert_int_equal(grant.hold_count, 1);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_E_DEADLOCK);
    how.flags = 0;
    assert_result(relock_acquire(lock, &how, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_true(kind_has_levels(f, "orders", 2));
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, 1);
    assert_int_equal(stats_of(client).kept, 1);
}

static void a_fired_cancel_refuses_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_cancel *cancel = NULL;

    keeping_fill(client, lock);
    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    relock_cancel_fire(cancel);
    assert_result(relock_acquire(lock, &(struct relock_how){.cancel = cancel}, NULL),
                  RELOCK_CANCELLED);
    assert_int_equal(stats_of(client).kept, 1);
    relock_cancel_free(cancel);
}

static void members_of_a_multi_lock_are_kept(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *members[] = {fixture_lock(f, client, "a"), fixture_lock(f, client, "b")};
    struct relock_lock **both = fixture_place(f);
    struct relock_how fixed = {.lease_ms = 5000};

    assert_result(relock_multilock_new(members, 2, both), RELOCK_OK);
    assert_result(relock_lock(*both), RELOCK_OK);
    assert_result(relock_unlock(*both), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 2);
    assert_result(relock_lock(*both), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 0);
    assert_int_equal(stats_of(client).reused, 2);
    assert_true(relock_is_mine(members[0]) && relock_is_mine(members[1]));
    assert_result(relock_unlock(*both), RELOCK_OK);

    assert_result(relock_acquire(*both, &fixed, NULL), RELOCK_OK);
    assert_in_range(probe_pttl(f->probe, "a"), 1, 5000);
    assert_in_range(probe_pttl(f->probe, "b"), 1, 5000);
    assert_result(relock_unlock(*both), RELOCK_OK);
}

/* ---- hand-offs ----------------------------------------------------------------------------- */

static void threads_hand_a_lock_off_until_keep_ms(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, &(struct relock_options){.handoff_ms = 1});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *other = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(other, lock);
    assert_true(wait_for_waiters(client, 1));
    let_pass(5); /* more than handoff_ms */
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    assert_int_equal(stats_of(client).passed_on, 1);
    assert_result(actor_unlock(other, lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 1);
}

/* It wants a fixed lease, so it waits for the release. */
static void a_waiter_that_gets_no_hand_off_is_not_kept_waiting(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.recheck_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_how fixed = {.wait_ms = NEVER_MS, .lease_ms = 25000};
    struct actor *other = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_acquire(other, lock, &fixed);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 0);
    assert_gets_in(other, lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(an_unused_lock_is_acquired_from_memory, reentrant),
        KINDS_TEST_OF(an_unused_lock_is_acquired_from_memory, spin),
        KINDS_TEST_OF(queries_from_memory_report_a_kept_lock_as_free, reentrant),
        KINDS_TEST_OF(queries_from_memory_report_a_kept_lock_as_free, spin),
        SERVER_TEST(nothing_is_kept_without_the_option),
        KINDS_TEST_OF(other_kinds_are_not_kept, fenced),
        KINDS_TEST_OF(other_kinds_are_not_kept, fair),
        KINDS_TEST_OF(other_kinds_are_not_kept, plain),
        KINDS_TEST_OF(other_kinds_are_not_kept, read),
        KINDS_TEST_OF(other_kinds_are_not_kept, write),
        SERVER_TEST(a_kept_lock_is_released_after_keep_ms),
        SERVER_TEST(a_lock_held_beyond_keep_ms_is_released_by_its_owner),
        SERVER_TEST(a_kept_lock_is_renewed),
        KINDS_TEST_OF(a_fixed_lease_is_not_kept_and_gets_no_kept_lock, reentrant),
        KINDS_TEST_OF(a_fixed_lease_is_not_kept_and_gets_no_kept_lock, spin),
        KINDS_TEST_OF(levels_and_owners_are_counted_anew, reentrant),
        KINDS_TEST_OF(levels_and_owners_are_counted_anew, spin),
        SERVER_TEST(a_fired_cancel_refuses_a_kept_lock),
        SERVER_TEST(members_of_a_multi_lock_are_kept),
        KINDS_TEST_OF(threads_hand_a_lock_off_until_keep_ms, reentrant),
        KINDS_TEST_OF(threads_hand_a_lock_off_until_keep_ms, spin),
        SERVER_TEST(a_waiter_that_gets_no_hand_off_is_not_kept_waiting),
    };

    return SERVER_TESTS_RUN(tests);
}
