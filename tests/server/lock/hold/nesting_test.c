/* Levels of one owner: their count, here and in Redis, and the exclusion of others meanwhile. */
#include "support/actor.h"
#include "support/fixture.h"

#define DEPTH 5

static void levels_count_up_and_back_in_redis(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant;

    for (unsigned level = 1; level <= DEPTH; level++) {
        assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
        assert_int_equal(grant.hold_count, level);
        assert_int_equal(probe_only_value(f->probe, "orders"), level);
    }
    for (unsigned left = DEPTH; left-- > 0;) {
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_int_equal(probe_only_value(f->probe, "orders"), left > 0 ? (int)left : -1);
    }
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static void another_gets_in_only_after_the_last_level(struct relock_lock *ours,
                                                      struct relock_lock *theirs)
{
    struct actor *other = actor_start();

    for (int level = 0; level < DEPTH; level++)
        assert_result(relock_lock(ours), RELOCK_OK);
    for (int level = 0; level < DEPTH; level++) {
        assert_result(actor_trylock(other, theirs), RELOCK_BUSY);
        assert_result(relock_unlock(ours), RELOCK_OK);
    }
    assert_result(actor_trylock(other, theirs), RELOCK_OK);
    assert_result(relock_trylock(ours), RELOCK_BUSY);
    assert_result(actor_unlock(other, theirs), RELOCK_OK);
}

static void another_thread_gets_in_only_after_the_last_level(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    another_gets_in_only_after_the_last_level(lock, lock);
}

static void another_client_gets_in_only_after_the_last_level(void **state)
{
    struct fixture *f = *state;

    another_gets_in_only_after_the_last_level(fixture_lock(f, fixture_client(f, NULL), "orders"),
                                              fixture_lock(f, fixture_client(f, NULL), "orders"));
}

static void unlock_by_a_stranger_changes_nothing_and_sends_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = untracked_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *stranger = actor_start();
    long long calls;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    calls = probe_script_calls(f->probe);

    assert_result(actor_unlock(stranger, lock), RELOCK_NOT_OWNER);
    assert_result(relock_release(lock, relock_owner_new()), RELOCK_NOT_OWNER);

    assert_int_equal(probe_script_calls(f->probe), calls);
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    assert_int_equal(stats_of(client).holds, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
}

static void a_try_at_a_lock_of_this_process_sends_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, untracked_client(f), "orders");
    struct actor *other = actor_start();
    long long calls;

    assert_result(relock_lock(lock), RELOCK_OK);
    calls = probe_script_calls(f->probe);
    for (int i = 0; i < 10; i++)
        assert_result(actor_trylock(other, lock), RELOCK_BUSY);
    assert_int_equal(probe_script_calls(f->probe), calls);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_hold_belongs_to_its_owner_and_not_to_a_handle(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *one = fixture_lock(f, client, "orders");
    struct relock_lock *two = fixture_lock(f, client, "orders");
    unsigned count;

    assert_result(relock_lock(one), RELOCK_OK);
    assert_result(relock_lock(two), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    assert_true(relock_is_mine(one));
    assert_true(relock_is_mine(two));
    assert_true(relock_valid_ms(two) > 0);
    assert_result(relock_hold_count(two, &count), RELOCK_OK);
    assert_int_equal(count, 2);

    fixture_free_lock(f, one);
    assert_result(relock_extend(two, 0, 60000), RELOCK_OK);
    assert_result(relock_unlock(two), RELOCK_OK);
    assert_result(relock_unlock(two), RELOCK_OK);
}

static void two_clients_are_two_strangers_in_one_thread_too(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *one = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_lock *two = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(one), RELOCK_OK);
    assert_result(relock_trylock(two), RELOCK_BUSY);
    assert_result(fixture_timedlock(two, 30), RELOCK_TIMEOUT);
    assert_result(relock_unlock(two), RELOCK_NOT_OWNER);
    assert_false(relock_is_mine(two));
    assert_result(relock_unlock(one), RELOCK_OK);
}

static void two_owners_of_one_thread_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how first = {.owner = relock_owner_new()};
    struct relock_how second = {.owner = relock_owner_new()};
    struct relock_grant grant;

    assert_result(relock_acquire(lock, &first, &grant), RELOCK_OK);
    assert_true(grant.owner == first.owner);
    assert_result(relock_acquire(lock, &first, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);

    assert_result(relock_acquire(lock, &second, &grant), RELOCK_BUSY);
    assert_int_equal(grant.hold_count, 0);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_result(relock_release(lock, second.owner), RELOCK_NOT_OWNER);

    assert_result(relock_release(lock, first.owner), RELOCK_OK);
    assert_result(relock_release(lock, first.owner), RELOCK_OK);
    assert_result(relock_acquire(lock, &second, NULL), RELOCK_OK);
    assert_result(relock_release(lock, second.owner), RELOCK_OK);
}

static void a_grant_names_the_owner_of_the_thread(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct actor *other = actor_start();
    struct relock_grant grant;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_true(grant.owner != 0);
    assert_result(actor_check(other, lock), RELOCK_NOT_OWNER);
    assert_result(relock_check(lock, grant.owner, NULL), RELOCK_OK);
    assert_result(relock_release(lock, grant.owner), RELOCK_OK);

    assert_result(actor_acquire(other, lock, &(struct relock_how){0}), RELOCK_OK);
    assert_true(actor_grant(other).owner != grant.owner);
    assert_result(relock_release(lock, actor_grant(other).owner), RELOCK_OK);
}

static int leave_early(struct relock_lock *lock)
{
    int r = relock_lock(lock);

    if (r != RELOCK_OK)
        return r;
    RELOCK_SCOPE(lock);

    if (relock_is_mine(lock))
        return 1;
    return 2;
}

static void every_exit_from_a_scope_releases_one_level(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_int_equal(leave_early(lock), 1);
    assert_false(relock_is_mine(lock));

    assert_result(relock_lock(lock), RELOCK_OK);
    {
        RELOCK_SCOPE(lock);
        assert_int_equal(leave_early(lock), 1);
        assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    }
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

static void a_scope_acquires_nothing_and_ignores_null(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    {
        RELOCK_SCOPE(lock);
        RELOCK_SCOPE(NULL);
        assert_false(relock_is_mine(lock));
    }
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(levels_count_up_and_back_in_redis),
        SERVER_TEST(another_thread_gets_in_only_after_the_last_level),
        SERVER_TEST(another_client_gets_in_only_after_the_last_level),
        SERVER_TEST(unlock_by_a_stranger_changes_nothing_and_sends_nothing),
        SERVER_TEST(a_try_at_a_lock_of_this_process_sends_nothing),
        SERVER_TEST(a_hold_belongs_to_its_owner_and_not_to_a_handle),
        SERVER_TEST(two_clients_are_two_strangers_in_one_thread_too),
        SERVER_TEST(two_owners_of_one_thread_exclude_each_other),
        SERVER_TEST(a_grant_names_the_owner_of_the_thread),
        SERVER_TEST(every_exit_from_a_scope_releases_one_level),
        SERVER_TEST(a_scope_acquires_nothing_and_ignores_null),
    };

    return SERVER_TESTS_RUN(tests);
}
