/* Multi locks: levels, owners, and members that are held beside. */
#include "support/actor.h"
#include "support/multi.h"
#include "support/peer.h"

/* ---- levels -------------------------------------------------------------------------------- */

static void each_level_is_a_level_of_each_member(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));
    struct relock_grant grant;

    for (unsigned level = 1; level <= 3; level++) {
        assert_result(relock_acquire(t.both, NULL, &grant), RELOCK_OK);
        assert_int_equal(grant.hold_count, level);
        assert_int_equal(probe_only_value(f->probe, "a"), level);
        assert_int_equal(probe_only_value(f->probe, "b"), level);
    }
    for (unsigned level = 3; level > 0; level--) {
        assert_result(relock_check(t.both, 0, &grant), RELOCK_OK);
        assert_int_equal(grant.hold_count, level);
        assert_result(relock_unlock(t.both), RELOCK_OK);
    }
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_unlock(t.both), RELOCK_NOT_OWNER);
}

static void a_member_that_the_owner_has_already_is_nested_in(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.b), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "b"), 2);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS a"), 0);
    assert_int_equal(probe_only_value(f->probe, "b"), 1);
    assert_result(relock_check(t.both, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(t.b), RELOCK_OK);
}

static void a_member_may_be_taken_once_more_by_itself(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.a), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "a"), 1);
    assert_int_equal(probe_int(f->probe, "EXISTS b"), 0);
    assert_result(relock_unlock(t.a), RELOCK_OK);
}

static void two_multi_locks_that_share_a_member_nest_in_it(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));
    struct relock_lock *c = fixture_lock(f, t.client, "c");
    struct relock_lock *other = fixture_multi(f, c, t.b, NULL);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(other), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "b"), 2);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_check(other, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* Two parts of a program may each make the lock, and name its members in any order. */
static void handles_of_the_same_members_share_the_hold(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));
    struct relock_lock *again = fixture_multi(f, t.a, t.b, NULL);
    struct relock_grant grant;

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_check(again, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 1);
    assert_result(relock_acquire(again, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_unlock(again), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_NOT_OWNER);
}

/* ---- owners -------------------------------------------------------------------------------- */

static void a_call_with_an_explicit_owner_acts_for_it(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));
    struct relock_how how = {.owner = relock_owner_new()};
    struct actor *other = actor_start();
    struct relock_grant grant;

    assert_result(relock_acquire(t.both, &how, &grant), RELOCK_OK);
    assert_true(grant.owner == how.owner);
    assert_result(relock_check(t.both, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_trylock(t.both), RELOCK_BUSY);
    assert_result(actor_acquire(other, t.both, &how), RELOCK_OK);
    assert_int_equal(actor_grant(other).hold_count, 2);
    assert_result(relock_extend(t.both, how.owner, 60000), RELOCK_OK);
    assert_result(relock_release(t.both, how.owner), RELOCK_OK);
    assert_result(relock_release(t.both, how.owner), RELOCK_OK);
    assert_result(relock_release(t.both, how.owner), RELOCK_NOT_OWNER);
}

/* Two threads wait for one owner: the second has a level more when the first gets in. */
static void two_threads_that_wait_for_one_owner_get_a_level_each(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));
    struct relock_how how = {.owner = relock_owner_new(), .wait_ms = RELOCK_FOREVER};
    struct actor *first = actor_start(), *second = actor_start();
    struct relock_grant grant;

    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    actor_begin_acquire(first, t.both, &how);
    actor_begin_acquire(second, t.both, &how);
    assert_true(wait_for_waiters(t.client, 2));
    assert_true(peer_unlock(f->probe, "b", PEER));
    assert_result(actor_result(first), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(relock_check(t.both, how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    assert_int_equal(probe_only_value(f->probe, "a"), 2);
    assert_result(relock_release(t.both, how.owner), RELOCK_OK);
    assert_result(relock_release(t.both, how.owner), RELOCK_OK);
}

struct busy {
    struct relock_lock *lock;
    uint64_t owner;
    uint64_t until_ms;
    unsigned n; /* rounds */
};

static int take_and_give(void *arg)
{
    struct busy *busy = arg;
    struct relock_how how = {.owner = busy->owner, .wait_ms = SOON_MS};

    do {
        int r = relock_acquire(busy->lock, &how, NULL);

        if (r == RELOCK_OK)
            r = relock_check(busy->lock, busy->owner, NULL);
        if (r == RELOCK_OK)
            r = relock_release(busy->lock, busy->owner);
        if (r != RELOCK_OK)
            return r;
        busy->n++;
    } while (now_ms() < busy->until_ms);
    return RELOCK_OK;
}

/* A release must not look like a loss to another thread. */
static int look(void *arg)
{
    struct busy *busy = arg;
    int r;

    do {
        r = relock_check(busy->lock, busy->owner, NULL);
        busy->n++;
    } while (now_ms() < busy->until_ms && (r == RELOCK_OK || r == RELOCK_NOT_OWNER));
    return r == RELOCK_NOT_OWNER ? RELOCK_OK : r;
}

static int extend(void *arg)
{
    struct busy *busy = arg;
    int r;

    do {
        r = relock_extend(busy->lock, busy->owner, 60000);
        busy->n++;
    } while (now_ms() < busy->until_ms && (r == RELOCK_OK || r == RELOCK_NOT_OWNER));
    return r == RELOCK_NOT_OWNER ? RELOCK_OK : r;
}

static void threads_that_act_for_one_owner_see_no_false_loss(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));
    struct relock_lock *again = fixture_multi(f, t.a, t.b, NULL);
    actor_step_fn *const steps[] = {take_and_give, look, extend, extend};
    struct busy busy[4];
    struct actor *actors[4];
    int results[4];

    for (int i = 0; i < 4; i++) {
        busy[i] = (struct busy){.lock = i % 2 ? again : t.both, .until_ms = deadline_in(800)};
        busy[i].owner = i == 0 ? relock_owner_new() : busy[0].owner;
        actors[i] = actor_start();
        actor_begin(actors[i], steps[i], &busy[i]);
    }
    for (int i = 0; i < 4; i++)
        results[i] = actor_result(actors[i]);
    for (int i = 0; i < 4; i++) {
        assert_result(results[i], RELOCK_OK);
        assert_true(busy[i].n > 0);
    }
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_check(t.both, busy[0].owner, NULL), RELOCK_NOT_OWNER);
}

/* ---- figures ------------------------------------------------------------------------------- */

/* The whole is a hold of the first member's client, beside those of the members. */
static void a_multi_lock_counts_as_a_hold_that_was_not_taken_from_redis(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));
    struct relock_stats stats;

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    stats = stats_of(t.client);
    assert_int_equal(stats.acquired, 2);
    assert_int_equal(stats.holds, 3);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_int_equal(stats_of(t.client).holds, 0);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL a"), 1);
    assert_result(relock_lock(t.both), RELOCK_LOST);
    assert_true(wait_for_lost(t.client, 2));
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(stats_of(t.client).lost, 2);
    assert_int_equal(stats_of(t.client).holds, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_level_is_a_level_of_each_member),
        SERVER_TEST(a_member_that_the_owner_has_already_is_nested_in),
        SERVER_TEST(a_member_may_be_taken_once_more_by_itself),
        SERVER_TEST(two_multi_locks_that_share_a_member_nest_in_it),
        SERVER_TEST(handles_of_the_same_members_share_the_hold),
        SERVER_TEST(a_call_with_an_explicit_owner_acts_for_it),
        SERVER_TEST(two_threads_that_wait_for_one_owner_get_a_level_each),
        SERVER_TEST(threads_that_act_for_one_owner_see_no_false_loss),
        SERVER_TEST(a_multi_lock_counts_as_a_hold_that_was_not_taken_from_redis),
    };
    return SERVER_TESTS_RUN(tests);
}
