/*
 * Every level is answered by one release, also after a loss: each call of the owner reports the
 * loss until it has released all its levels.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

static void lock_levels(struct relock_lock *lock, int n)
{
    for (int level = 0; level < n; level++)
        assert_result(relock_lock(lock), RELOCK_OK);
}

/* A helper deep inside that tries again must not get a new hold while its callers believe in
 * theirs. */
static void a_helper_that_tries_again_still_gets_lost(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    lock_levels(lock, 2);
    probe_int(f->probe, "DEL orders");

    for (int i = 0; i < 3; i++) {
        assert_result(relock_lock(lock), RELOCK_LOST);
        assert_result(relock_trylock(lock), RELOCK_LOST);
        assert_result(relock_timedlock(lock, 100), RELOCK_LOST);
        assert_result(relock_acquire(lock, NULL, NULL), RELOCK_LOST);
    }
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_trylock(lock), RELOCK_LOST);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void every_call_of_the_owner_reports_the_loss(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant;

    lock_levels(lock, 3);
    probe_int(f->probe, "DEL orders");
    assert_result(relock_extend(lock, 0, 60000), RELOCK_LOST);

    assert_result(relock_extend(lock, 0, 60000), RELOCK_LOST);
    assert_result(relock_check(lock, 0, &grant), RELOCK_LOST);
    assert_int_equal(grant.hold_count, 3);
    assert_int_equal(grant.valid_ms, 0);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_false(relock_is_mine(lock));

    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_check(lock, 0, &grant), RELOCK_LOST);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void after_the_last_level_the_lock_can_be_taken_anew(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant;

    lock_levels(lock, 2);
    probe_int(f->probe, "DEL orders");
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 1);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void levels_of_a_lost_hold_do_not_touch_the_next_holder(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    lock_levels(lock, 2);
    assert_true(peer_usurp(f->probe, "orders", PEER, PEER_LEASE_MS));

    assert_result(relock_lock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_string_equal(probe_only_field(f->probe, "orders"), PEER);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void another_owner_may_take_a_lost_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct actor *other = actor_start();

    lock_levels(lock, 1);
    probe_int(f->probe, "DEL orders");
    assert_result(relock_trylock(lock), RELOCK_LOST);

    assert_result(actor_timedlock(other, lock, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(actor_check(other, lock), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(actor_unlock(other, lock), RELOCK_OK);
}

static void an_explicit_owner_loses_by_the_same_rules(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.owner = relock_owner_new()};
    struct relock_grant grant;

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    probe_int(f->probe, "DEL orders");

    assert_result(relock_acquire(lock, &how, &grant), RELOCK_LOST);
    assert_int_equal(grant.hold_count, 0);
    assert_int_equal(grant.owner, 0);
    assert_result(relock_check(lock, how.owner, NULL), RELOCK_LOST);
    assert_result(relock_release(lock, how.owner), RELOCK_LOST);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
}

/* Redis hangs: the level is released here at once, and in Redis as soon as it answers. */
static void a_level_is_released_though_redis_is_unreachable(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = slow_ms(300)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    for (int level = 0; level < 2; level++)
        assert_result(fixture_acquire(lock, NULL), RELOCK_OK);
    server_pause(f->server);
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_E_CONN);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    server_resume(f->server);

    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_helper_that_tries_again_still_gets_lost),
        SERVER_TEST(every_call_of_the_owner_reports_the_loss),
        SERVER_TEST(after_the_last_level_the_lock_can_be_taken_anew),
        SERVER_TEST(levels_of_a_lost_hold_do_not_touch_the_next_holder),
        SERVER_TEST(another_owner_may_take_a_lost_lock),
        SERVER_TEST(an_explicit_owner_loses_by_the_same_rules),
        SERVER_TEST(a_level_is_released_though_redis_is_unreachable),
    };

    return SERVER_TESTS_RUN(tests);
}
