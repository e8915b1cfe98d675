/* How long a wait lasts: to its deadline, or until it is cancelled. */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

#define WAIT_MS 200
#define SLACK_MS 5000 /* of a machine that stands still now and then */

static struct relock_cancel *new_cancel(void)
{
    struct relock_cancel *cancel;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    return cancel;
}

static void a_wait_of_nothing_or_less_is_one_try(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    const int64_t waits[] = {0, -1, -1000000, INT64_MIN};
    uint64_t began_ms;

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    began_ms = now_ms();
    for (size_t i = 0; i < 4; i++) {
        struct relock_how how = {.wait_ms = waits[i]};

        assert_result(fixture_timedlock(lock, waits[i]), RELOCK_TIMEOUT);
        assert_result(relock_acquire(lock, &how, NULL), RELOCK_BUSY);
    }
    assert_no_later(now_ms() - began_ms, slow_ms(SLACK_MS));
    assert_int_equal(stats_of(client).waits, 0);

    assert_true(peer_unlock(f->probe, "orders", PEER));
    for (size_t i = 0; i < 4; i++) {
        assert_result(relock_timedlock(lock, waits[i]), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

static void a_very_long_wait_is_not_a_short_one(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    const int64_t waits[] = {RELOCK_FOREVER, RELOCK_FOREVER - 1, INT64_MAX / 2};
    struct actor *waiting[3];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    for (int i = 0; i < 3; i++) {
        waiting[i] = actor_start();
        actor_begin_timedlock(waiting[i], lock, waits[i]);
        assert_true(wait_for_waiters(client, (uint64_t)i + 1));
    }
    let_pass(50);
    for (int i = 0; i < 3; i++)
        assert_true(actor_is_busy(waiting[i]));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    for (int i = 0; i < 3; i++) {
        assert_gets_in(waiting[i], lock);
    }
}

struct coming {
    struct actor *actor;
    struct relock_client *client;
};

static bool has_come(void *arg)
{
    struct coming *coming = arg;

    return stats_of(coming->client).waiters > 0 || !actor_is_busy(coming->actor);
}

/* The wait of the head ends just when the message arrives. The waiter behind it must still be
 * woken. */
static void a_release_just_before_a_deadline_is_not_lost_to_the_next(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *first = actor_start(), *second = actor_start();
    int n_in_time = 0;

    for (int i = 0; i < 60; i++) {
        uint64_t began_ms;

        assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
        actor_begin_timedlock(first, lock, 40);
        assert_true(wait_until(has_come, &(struct coming){first, client}, SOON_MS));
        began_ms = now_ms();
        actor_begin_lock(second, lock);
        while (now_ms() < began_ms + 30 + (uint64_t)i % 12)
            ;
        assert_true(peer_unlock(f->probe, "orders", PEER));

        if (actor_result(first) == RELOCK_OK) {
            assert_result(actor_unlock(first, lock), RELOCK_OK);
            n_in_time++;
        }
        assert_gets_in(second, lock);
    }
    print_message("in time: %d of 60\n", n_in_time);
    assert_int_equal(stats_of(client).rechecks, 0);
}

static void a_cancel_ends_a_wait_for_another_thread(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = new_cancel()};
    struct actor *first = actor_start(), *second = actor_start(), *third = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(first, lock);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_acquire(second, lock, &how);
    assert_true(wait_for_waiters(client, 2));
    actor_begin_lock(third, lock);
    assert_true(wait_for_waiters(client, 3));

    relock_cancel_fire(how.cancel);
    assert_result(actor_result(second), RELOCK_CANCELLED);
    assert_true(actor_is_busy(first));
    assert_true(actor_is_busy(third));

    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(first, lock);
    assert_gets_in(third, lock);
    relock_cancel_free(how.cancel);
}

static void a_cancelled_head_leaves_the_release_to_the_next(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *first = actor_start(), *second = actor_start();

    for (int i = 0; i < 30; i++) {
        struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = new_cancel()};

        assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
        actor_begin_acquire(first, lock, &how);
        assert_true(wait_for_waiters(client, 1));
        actor_begin_lock(second, lock);
        assert_true(wait_for_waiters(client, 2));

        if (i % 2 == 0)
            relock_cancel_fire(how.cancel);
        assert_true(peer_unlock(f->probe, "orders", PEER));
        relock_cancel_fire(how.cancel);

        if (actor_result(first) == RELOCK_OK)
            assert_result(actor_unlock(first, lock), RELOCK_OK);
        assert_gets_in(second, lock);
        relock_cancel_free(how.cancel);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

static void a_cancel_that_was_fired_ends_every_later_wait_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = new_cancel()};
    struct relock_grant grant = {.hold_count = 7};

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    relock_cancel_fire(how.cancel);
    relock_cancel_fire(how.cancel);
    for (int i = 0; i < 3; i++)
        assert_result(relock_acquire(lock, &how, &grant), RELOCK_CANCELLED);
    assert_int_equal(grant.hold_count, 0);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    relock_cancel_free(how.cancel);
}

static void one_cancel_ends_all_waits_that_name_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *one = fixture_client(f, NULL), *two = fixture_client(f, NULL);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = new_cancel()};
    struct relock_lock *locks[] = {fixture_lock(f, one, "orders"), fixture_lock(f, one, "ledger"),
                                   fixture_lock(f, two, "orders")};
    struct actor *waiting[6];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_true(peer_lock(f->probe, "ledger", PEER, PEER_LEASE_MS));
    for (int i = 0; i < 6; i++) {
        waiting[i] = actor_start();
        actor_begin_acquire(waiting[i], locks[i % 3], &how);
    }
    assert_true(wait_for_waiters(one, 4));
    assert_true(wait_for_waiters(two, 2));
    relock_cancel_fire(how.cancel);
    assert_results(waiting, 6, RELOCK_CANCELLED);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_true(peer_unlock(f->probe, "ledger", PEER));
    relock_cancel_free(how.cancel);
}

static void a_cancel_does_not_stop_nesting(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = new_cancel()};

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    relock_cancel_fire(how.cancel);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    relock_cancel_free(how.cancel);
}

/* The bound of the header while Redis does not answer: both limits together. */
static void a_call_returns_in_time_while_redis_hangs(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = slow_ms(300)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t began_ms;

    server_pause(f->server);
    began_ms = now_ms();
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    assert_no_later(now_ms() - began_ms, slow_ms(300 + SLACK_MS));
    began_ms = now_ms();
    assert_result(relock_timedlock(lock, WAIT_MS), RELOCK_E_CONN);
    assert_no_later(now_ms() - began_ms, WAIT_MS + slow_ms(300 + SLACK_MS));
    server_resume(f->server);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_wait_of_nothing_or_less_is_one_try),
        SERVER_TEST(a_very_long_wait_is_not_a_short_one),
        SERVER_TEST(a_release_just_before_a_deadline_is_not_lost_to_the_next),
        SERVER_TEST(a_cancel_ends_a_wait_for_another_thread),
        SERVER_TEST(a_cancelled_head_leaves_the_release_to_the_next),
        SERVER_TEST(a_cancel_that_was_fired_ends_every_later_wait_at_once),
        SERVER_TEST(one_cancel_ends_all_waits_that_name_it),
        SERVER_TEST(a_cancel_does_not_stop_nesting),
        SERVER_TEST(a_call_returns_in_time_while_redis_hangs),
    };

    return SERVER_TESTS_RUN(tests);
}
