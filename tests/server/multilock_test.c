/* Multi locks: several locks as one, all or none. */
#include "support/actor.h"
#include "support/fixture.h"

#define FOREVER_MS 60000

static struct relock_lock *multi_of(struct fixture *f, struct relock_lock *first,
                                    struct relock_lock *second)
{
    struct relock_lock *members[] = {first, second};
    struct relock_lock *lock;

    (void)f;
    assert_result(relock_multilock_new(members, 2, &lock), RELOCK_OK);
    return lock;
}

static void all_members_are_held_and_given_up_together(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *other = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, other, "b");
    struct relock_lock *stranger = fixture_lock(f, fixture_client(f, NULL), "b");
    struct relock_lock *both = multi_of(f, a, b);
    struct relock_grant grant;

    assert_result(relock_acquire(both, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 1);
    assert_true(grant.valid_ms > 0);
    assert_true(relock_is_mine(a) && relock_is_mine(b) && relock_is_mine(both));
    assert_result(relock_trylock(stranger), RELOCK_BUSY);
    assert_result(relock_lock(both), RELOCK_OK);
    assert_result(relock_check(both, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_unlock(both), RELOCK_OK);
    assert_result(relock_trylock(stranger), RELOCK_BUSY);
    assert_result(relock_unlock(both), RELOCK_OK);
    assert_result(relock_unlock(both), RELOCK_NOT_OWNER);
    assert_result(relock_trylock(stranger), RELOCK_OK);
    assert_result(relock_unlock(stranger), RELOCK_OK);
    both = relock_lock_free(both);
}

static void what_was_got_is_given_back_when_a_member_is_busy(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *stranger = fixture_lock(f, fixture_client(f, NULL), "b");
    struct relock_lock *both = multi_of(f, b, a);
    struct relock_grant grant;

    assert_result(relock_lock(stranger), RELOCK_OK);
    assert_result(relock_acquire(both, NULL, &grant), RELOCK_BUSY);
    assert_string_equal(grant.failed_member, "b");
    assert_result(relock_timedlock(both, 50), RELOCK_TIMEOUT);
    assert_int_equal(probe_int(f->probe, "EXISTS a"), 0);
    assert_result(relock_unlock(stranger), RELOCK_OK);
    assert_result(relock_trylock(both), RELOCK_OK);
    assert_result(relock_unlock(both), RELOCK_OK);
    both = relock_lock_free(both);
}

static void a_lost_member_makes_the_whole_lost_and_that_is_told_once(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.watchdog_timeout_ms = 300};
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *a = fixture_lock(f, client, "a");
    struct relock_lock *b = fixture_lock(f, client, "b");
    struct relock_lock *both = multi_of(f, a, b);

    assert_result(relock_lock(both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b a"), 2);
    assert_true(losses_wait(f->losses, 1, FOREVER_MS));
    assert_result(relock_check(both, 0, NULL), RELOCK_LOST);
    assert_result(relock_lock(both), RELOCK_LOST);
    assert_result(relock_unlock(both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
    assert_result(relock_trylock(both), RELOCK_OK);
    assert_result(relock_unlock(both), RELOCK_OK);
    both = relock_lock_free(both);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(all_members_are_held_and_given_up_together),
        SERVER_TEST(what_was_got_is_given_back_when_a_member_is_busy),
        SERVER_TEST(a_lost_member_makes_the_whole_lost_and_that_is_told_once),
    };
    return SERVER_TESTS_RUN(tests);
}
