/* Red locks: one lock on five servers, as long as they are up. */
#include "support/actor.h"
#include "support/red.h"

#define LEASE_MS 30000 /* the default */
#define FIXED_MS 20000

/* The lease less its drift of 1 % and 2 ms. */
#define CERTAIN(lease_ms) ((lease_ms) - ((lease_ms) / 100) - 2)

/* ---- acquiring ----------------------------------------------------------------------------- */

static void a_hold_is_a_key_on_each_server_until_it_is_released(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    assert_true(relock_is_mine(red.lock));
    for (size_t i = 0; i < s->n; i++) {
        assert_string_equal(probe_text(s->probe[i], "TYPE " RED_NAME), "hash");
        assert_in_range(probe_pttl(s->probe[i], RED_NAME), 1, LEASE_MS);
    }
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_true(red_wait_keys(s, 0));
    assert_result(relock_unlock(red.lock), RELOCK_NOT_OWNER);
}

static void two_red_locks_exclude_each_other(void **state)
{
    struct servers *s = *state;
    struct red a = red_new(s, NULL), b = red_new(s, NULL);

    red_settle(s, &a, s->n);
    red_settle(s, &b, s->n);
    for (int i = 0; i < 10; i++) {
        assert_result(relock_lock(a.lock), RELOCK_OK);
        assert_result(relock_trylock(b.lock), RELOCK_BUSY);
        assert_result(fixture_timedlock(b.lock, 20), RELOCK_TIMEOUT);
        assert_false(relock_is_mine(b.lock));
        assert_int_equal(relock_valid_ms(b.lock), 0);
        assert_result(relock_unlock(b.lock), RELOCK_NOT_OWNER);
        assert_result(relock_unlock(a.lock), RELOCK_OK);
        assert_result(relock_lock(b.lock), RELOCK_OK);
        assert_result(relock_trylock(a.lock), RELOCK_BUSY);
        assert_result(relock_unlock(b.lock), RELOCK_OK);
    }
}

static void a_member_held_by_its_client_costs_only_one_vote(void **state)
{
    struct servers *s = *state;
    struct red a = red_new(s, NULL), b = red_new(s, NULL);

    red_settle(s, &a, s->n);
    for (size_t i = 0; i < 2; i++)
        assert_result(relock_lock(b.members[i]), RELOCK_OK);
    assert_result(relock_lock(a.lock), RELOCK_OK);
    red_unlock(&a);
    assert_result(relock_lock(b.members[2]), RELOCK_OK);
    assert_result(relock_trylock(a.lock), RELOCK_BUSY);
    assert_true(red_wait_keys(s, 3));
    for (size_t i = 0; i < 3; i++)
        assert_result(relock_unlock(b.members[i]), RELOCK_OK);
}

static void a_vote_is_no_hold_of_the_members_client(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    for (size_t i = 0; i < s->n; i++) {
        assert_false(relock_is_mine(red.members[i]));
        assert_result(relock_unlock(red.members[i]), RELOCK_NOT_OWNER);
        assert_result(relock_trylock(red.members[i]), RELOCK_BUSY);
        assert_int_equal(stats_of(red.clients[i]).holds, i == 0);
    }
    assert_result(relock_unlock(red.lock), RELOCK_OK);
}

/* ---- levels and owners --------------------------------------------------------------------- */

static void levels_are_counted_in_the_process_alone(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, &(struct relock_options){.flags = RELOCK_NO_TRACKING});
    struct relock_grant grant;
    long long calls;

    red_settle(s, &red, s->n);
    red_lock_on_all(s, &red);
    calls = probe_script_calls(s->probe[1]);
    assert_result(relock_trylock(red.lock), RELOCK_OK);
    assert_result(relock_acquire(red.lock, NULL, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 3);
    assert_true(grant.valid_ms > 0);
    for (size_t i = 0; i < s->n; i++)
        assert_int_equal(probe_only_value(s->probe[i], RED_NAME), 1);
    for (int level = 0; level < 2; level++)
        assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_int_equal(probe_script_calls(s->probe[1]), calls);
    assert_int_equal(red_n_keys(s), s->n);
    assert_result(relock_check(red.lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 1);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_true(red_wait_keys(s, 0));
}

static void any_thread_may_act_for_an_explicit_owner(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_lock *again = red_lock_of(s->f, red.members, red.n);
    struct actor *actor = actor_start();
    uint64_t owner = relock_owner_new();
    struct relock_how how = {.owner = owner};
    struct relock_grant grant;

    red_settle(s, &red, s->n);
    assert_result(relock_acquire(red.lock, &how, &grant), RELOCK_OK);
    assert_int_equal(grant.owner, owner);
    assert_result(relock_trylock(red.lock), RELOCK_BUSY);
    assert_result(relock_unlock(red.lock), RELOCK_NOT_OWNER);
    assert_result(actor_acquire(actor, again, &how), RELOCK_OK);
    assert_int_equal(actor_grant(actor).hold_count, 2);
    assert_result(relock_release(red.lock, owner), RELOCK_OK);
    assert_result(relock_check(again, owner, NULL), RELOCK_OK);
    assert_result(relock_release(again, owner), RELOCK_OK);
    assert_result(relock_check(red.lock, owner, NULL), RELOCK_NOT_OWNER);
    assert_result(actor_trylock(actor, red.lock), RELOCK_OK);
    assert_result(actor_unlock(actor, red.lock), RELOCK_OK);
}

static void a_non_reentrant_call_of_the_holder_reports_a_deadlock(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_how how = {.flags = RELOCK_NON_REENTRANT};

    red_settle(s, &red, s->n);
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_result(relock_unlock(red.lock), RELOCK_NOT_OWNER);
}

/* ---- time ---------------------------------------------------------------------------------- */

static void a_red_lock_is_certain_for_its_lease_less_drift_since_before_the_send(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_how how = {.lease_ms = FIXED_MS};
    struct relock_grant grant;
    uint64_t before_ms, valid_ms, passed_ms;

    red_settle(s, &red, s->n);
    before_ms = now_ms();
    assert_result(relock_acquire(red.lock, &how, &grant), RELOCK_OK);
    valid_ms = relock_valid_ms(red.lock);
    passed_ms = now_ms() - before_ms + 1; /* which may be rounded */
    assert_in_range(grant.valid_ms, CERTAIN(FIXED_MS) - passed_ms, CERTAIN(FIXED_MS));
    assert_in_range(valid_ms, CERTAIN(FIXED_MS) - passed_ms, grant.valid_ms);
    for (size_t i = 0; i < s->n; i++)
        assert_true(probe_pttl(s->probe[i], RED_NAME) <= FIXED_MS);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
}

struct extended {
    struct servers *s;
    struct relock_lock *lock;
};

/* A server that is late is not asked until it has answered. */
static bool have_been_extended(void *arg)
{
    const struct extended *extended = arg;
    bool have = true;

    assert_result(relock_extend(extended->lock, 0, 3 * FIXED_MS), RELOCK_OK);
    for (size_t i = 0; i < extended->s->n && have; i++)
        have = probe_pttl(extended->s->probe[i], RED_NAME) > 2 * FIXED_MS;
    return have;
}

/* The call returns when a quorum has been released. */
static void a_lease_is_extended_on_all_and_never_shortened(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_how how = {.lease_ms = FIXED_MS};

    red_settle(s, &red, s->n);
    assert_result(relock_extend(red.lock, 0, FIXED_MS), RELOCK_NOT_OWNER);
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    assert_true(red_wait_keys(s, s->n));
    assert_true(wait_until(have_been_extended, &(struct extended){s, red.lock}, SOON_MS));
    assert_in_range(relock_valid_ms(red.lock), 2 * FIXED_MS, CERTAIN(3 * FIXED_MS));
    assert_result(relock_extend(red.lock, 0, FIXED_MS), RELOCK_OK);
    assert_in_range(relock_valid_ms(red.lock), 2 * FIXED_MS, CERTAIN(3 * FIXED_MS));
    assert_true(red_wait_quiet(s));
    for (size_t i = 0; i < s->n; i++)
        assert_in_range(probe_pttl(s->probe[i], RED_NAME), 2 * FIXED_MS, 3 * FIXED_MS);
    assert_result(relock_extend(red.lock, 0, 0), RELOCK_E_INVALID);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
}

static void a_level_may_lengthen_the_lease(void **state)
{
    struct servers *s = *state;
    struct red red = red_new(s, NULL);
    struct relock_how how = {.lease_ms = FIXED_MS};

    red_settle(s, &red, s->n);
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    how.lease_ms = 2 * FIXED_MS;
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    assert_in_range(relock_valid_ms(red.lock), FIXED_MS, CERTAIN(2 * FIXED_MS));
    how.lease_ms = 30;
    assert_result(relock_acquire(red.lock, &how, NULL), RELOCK_OK);
    assert_in_range(relock_valid_ms(red.lock), FIXED_MS, CERTAIN(2 * FIXED_MS));
    for (int level = 0; level < 3; level++)
        assert_result(relock_unlock(red.lock), RELOCK_OK);
}

static void without_a_lease_the_shortest_of_its_members_counts(void **state)
{
    struct servers *s = *state;
    struct relock_lock *members[3];
    struct relock_lock *lock;
    struct relock_grant grant;

    for (size_t i = 0; i < 3; i++) {
        struct relock_options options = {.watchdog_timeout_ms = i == 1 ? FIXED_MS : LEASE_MS};

        members[i] = fixture_lock(s->f, servers_client(s, i, &options), RED_NAME);
    }
    lock = red_lock_of(s->f, members, 3);
    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    assert_in_range(grant.valid_ms, CERTAIN(FIXED_MS) / 2, CERTAIN(FIXED_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_hold_is_a_key_on_each_server_until_it_is_released),
        SERVERS_TEST(two_red_locks_exclude_each_other),
        SERVERS_TEST(a_member_held_by_its_client_costs_only_one_vote),
        SERVERS_TEST(a_vote_is_no_hold_of_the_members_client),
        SERVERS_TEST(levels_are_counted_in_the_process_alone),
        SERVERS_TEST(any_thread_may_act_for_an_explicit_owner),
        SERVERS_TEST(a_non_reentrant_call_of_the_holder_reports_a_deadlock),
        SERVERS_TEST(a_red_lock_is_certain_for_its_lease_less_drift_since_before_the_send),
        SERVERS_TEST(a_lease_is_extended_on_all_and_never_shortened),
        SERVERS_TEST(a_level_may_lengthen_the_lease),
        SERVERS_TEST(without_a_lease_the_shortest_of_its_members_counts),
    };
    return SERVERS_TESTS_RUN(tests);
}
