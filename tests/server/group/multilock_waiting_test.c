/*
 * Multi locks: the end of a wait for several members, and the leases of members acquired before it.
 */
#include "support/actor.h"
#include "support/multi.h"
#include "support/peer.h"

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */

/* ---- the end of the wait ------------------------------------------------------------------- */

/* The limit does not start again with each member: the first is acquired when most of it is over.
 */
static void the_time_limit_is_one_for_all_members(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, woken_client(f));
    uint64_t wait_ms = slow_ms(2000), began_ms;

    assert_true(peer_lock(f->probe, "a", PEER, slow_ms(1800)));
    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    began_ms = now_ms();
    assert_result(fixture_timedlock(t.both, (int64_t)wait_ms), RELOCK_TIMEOUT);
    assert_in_range(now_ms() - began_ms, wait_ms - 1, slow_ms(3600)); /* of 3800 for each anew */
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS)); /* its release had no time left */
    assert_true(peer_unlock(f->probe, "b", PEER));
}

static void a_wait_that_is_cancelled_leaves_nothing(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, woken_client(f));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    actor_begin_acquire(waiting, t.both, &how);
    assert_true(wait_behind_a(t.client, t.client));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_string_equal(actor_grant(waiting).failed_member, "b");
    assert_int_equal(probe_int(f->probe, "EXISTS a"), 0);

    /* It is sticky, and asks for nothing. */
    assert_result(actor_acquire(waiting, t.both, &how), RELOCK_CANCELLED);
    assert_string_equal(actor_grant(waiting).failed_member, "a");
    assert_int_equal(stats_of(t.client).acquired, 1);
    assert_true(peer_unlock(f->probe, "b", PEER));
    relock_cancel_free(how.cancel);
}

/* Whichever of its clients: that of the first member, where it does not wait, or the other. */
static void a_client_that_is_shut_down_ends_the_wait(void **state)
{
    struct fixture *f = *state;

    for (int frees = 0; frees < 2; frees++) {
        for (int second = 0; second < 2; second++) {
            struct relock_client *client = fixture_client(f, NULL);
            struct relock_client *other = fixture_client(f, NULL);
            struct relock_lock *a = fixture_lock(f, client, "a");
            struct relock_lock *b = fixture_lock(f, other, "b");
            struct relock_lock *both = fixture_multi(f, a, b, NULL);
            struct actor *waiting = actor_start();

            assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
            actor_begin_lock(waiting, both);
            assert_true(wait_for_waiters(other, 1));
            if (frees)
                fixture_free_client(f, second ? other : client);
            else
                relock_client_shutdown(second ? other : client);
            assert_result(actor_result(waiting), RELOCK_E_CLOSED);
            assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
            assert_true(peer_unlock(f->probe, "b", PEER));
            assert_result(actor_lock(waiting, both), RELOCK_E_CLOSED);
            fixture_free_lock(f, both);
            if (!frees || second)
                fixture_free_client(f, client);
            if (!frees || !second)
                fixture_free_client(f, other);
        }
    }
}

static void levels_are_added_while_its_client_drains(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, woken_client(f));

    assert_result(relock_lock(t.both), RELOCK_OK);
    relock_client_shutdown(t.client);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_extend(t.both, 0, 60000), RELOCK_OK);
    assert_true(relock_is_mine(t.both));
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_E_CLOSED);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* A failure of other libraries: each waiter polls every few milliseconds. */
static void a_waiting_multi_lock_sends_nothing(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, woken_client(f));
    struct actor *waiting[8];
    long long before;

    assert_true(peer_lock(f->probe, "b", PEER, NEVER_MS));
    actors_begin_lock(waiting, 8, t.both);
    assert_true(wait_for_waiters(t.client, 8));
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{b}", 1));
    let_pass(slow_ms(100)); /* the commands that a subscription needs */
    before = probe_commands(f->probe);
    let_pass(1000);
    assert_in_range(probe_commands(f->probe) - before, 0, 4);

    relock_client_shutdown(t.client);
    assert_results(waiting, 8, RELOCK_E_CLOSED);
    assert_true(peer_unlock(f->probe, "b", PEER));
}

/* ---- leases -------------------------------------------------------------------------------- */

static void acquired_members_are_renewed_while_the_others_are_awaited(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, woken_client(f));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .lease_ms = slow_ms(LEASE_MS)};
    struct actor *waiting = actor_start();
    uint64_t until_ms;

    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    actor_begin_acquire(waiting, t.both, &how);
    assert_true(wait_behind_a(t.client, t.client));
    until_ms = deadline_in(LEASE_MS * 5 / 4);
    while (now_ms() < until_ms) {
        assert_true(probe_pttl(f->probe, "a") > 0);
        let_pass(10);
    }
    assert_true(peer_unlock(f->probe, "b", PEER));
    assert_result(actor_result(waiting), RELOCK_OK);

    /* From then on for all of them, and once. */
    assert_true(actor_grant(waiting).valid_ms > how.lease_ms / 5);
    assert_true(actor_grant(waiting).valid_ms <= how.lease_ms);
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
    assert_true(probe_wait_no_key(f->probe, "b", SOON_MS));
    assert_result(actor_unlock(waiting, t.both), RELOCK_LOST);
}

/* The lease of a member that is held anyway is not the lock's to end. */
static void a_member_that_was_renewed_before_is_renewed_after(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));

    assert_result(relock_lock(t.a), RELOCK_OK);
    assert_result(acquire_for(t.both, slow_ms(LEASE_MS)), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "b");
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    let_pass(slow_ms(LEASE_MS) / 4);
    assert_true(relock_is_mine(t.a));
    assert_result(relock_unlock(t.a), RELOCK_OK);
}

static void all_members_are_renewed_once_a_level_asks_for_it(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));

    assert_result(acquire_for(t.both, slow_ms(LEASE_MS)), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    let_pass(slow_ms(LEASE_MS * 5 / 4));
    assert_true(relock_is_mine(t.both));
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
}

/* The caller does not hold it yet, so no loss is reported. The remaining time is enough to start
 * again. */
static void a_member_that_is_lost_while_others_are_waited_for_is_taken_anew(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct actor *waiting = actor_start();

    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    actor_begin_lock(waiting, t.both);
    assert_true(wait_behind_a(t.client, t.client));
    assert_int_equal(probe_int(f->probe, "DEL a"), 1);
    assert_true(log_wait(f->log, "a: owner", SOON_MS));
    assert_true(actor_is_busy(waiting));
    assert_true(peer_unlock(f->probe, "b", PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 2);
    assert_result(actor_check(waiting, t.a), RELOCK_OK);
    assert_result(actor_unlock(waiting, t.both), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
}

/* Two threads act for one owner: one may release a member that the other acquired for the multi
 * lock. */
static void a_member_that_the_owner_releases_meanwhile_is_taken_anew(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, woken_client(f));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *waiting = actor_start();

    for (int fixed = 0; fixed < 2; fixed++) {
        how.lease_ms = fixed ? slow_ms(NEVER_MS) : 0;
        assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
        actor_begin_acquire(waiting, t.both, &how);
        assert_true(wait_behind_a(t.client, t.client));
        assert_result(relock_release(t.a, how.owner), RELOCK_OK);
        assert_true(peer_unlock(f->probe, "b", PEER));
        assert_result(actor_result(waiting), RELOCK_OK);
        assert_int_equal(probe_n_keys(f->probe), 2);
        assert_result(relock_release(t.both, how.owner), RELOCK_OK);
        assert_int_equal(probe_n_keys(f->probe), 0);
    }
}

/* The other call waits for a member that the owner has released beside the multi lock. */
static void a_try_beside_a_waiting_call_of_its_owner_ends(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = outlast_ms(1500)});
    struct multi_pair t = multi_pair_of(f, client);
    struct relock_how tries = {.owner = relock_owner_new()};
    struct relock_how waits = {.owner = tries.owner, .wait_ms = RELOCK_FOREVER};
    struct actor *waiting = actor_start(), *trying = actor_start();
    int r;

    assert_result(relock_acquire(t.both, &tries, NULL), RELOCK_OK);
    assert_result(relock_release(t.b, tries.owner), RELOCK_OK);
    assert_true(peer_lock(f->probe, "b", PEER, PEER_LEASE_MS));
    actor_begin_acquire(waiting, t.both, &waits);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_acquire(trying, t.both, &tries);
    r = actor_result(trying);
    assert_true(peer_unlock(f->probe, "b", PEER));
    (void)actor_result(waiting);
    (void)actor_result(trying);
    while (relock_release(t.both, tries.owner) == RELOCK_OK)
        continue;
    assert_result(r, RELOCK_E_CONN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_time_limit_is_one_for_all_members),
        SERVER_TEST(a_wait_that_is_cancelled_leaves_nothing),
        SERVER_TEST(a_client_that_is_shut_down_ends_the_wait),
        SERVER_TEST(levels_are_added_while_its_client_drains),
        SERVER_TEST(a_waiting_multi_lock_sends_nothing),
        SERVER_TEST(acquired_members_are_renewed_while_the_others_are_awaited),
        SERVER_TEST(a_member_that_was_renewed_before_is_renewed_after),
        SERVER_TEST(all_members_are_renewed_once_a_level_asks_for_it),
        SERVER_TEST(a_member_that_is_lost_while_others_are_waited_for_is_taken_anew),
        SERVER_TEST(a_member_that_the_owner_releases_meanwhile_is_taken_anew),
        SERVER_TEST(a_try_beside_a_waiting_call_of_its_owner_ends),
    };
    return SERVER_TESTS_RUN(tests);
}
