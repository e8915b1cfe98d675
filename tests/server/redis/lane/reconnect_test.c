/* Connections that break, and servers that stop and return. */
#include "support/waiter.h"

#include <stdatomic.h>

/* Both outlive a second in which a machine stands still. */
#define LEASE_MS 2000
#define SHORT_MS 1300 /* of a command that is to end by time */
#define CHANNEL "redisson_lock__channel:{orders}"

/* All connections but the probe's own. */
static void kill_connections(struct fixture *f)
{
    probe_int(f->probe, "CLIENT KILL TYPE normal SKIPME yes");
    probe_int(f->probe, "CLIENT KILL TYPE pubsub SKIPME yes");
}

static void a_hold_survives_its_connections(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    kill_connections(f);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    kill_connections(f);
    let_pass(slow_ms(LEASE_MS * 5 / 4)); /* renewals reconnect, too */
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    kill_connections(f);
    assert_result(relock_unlock(lock), RELOCK_OK);
    kill_connections(f);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_int_equal(losses_count(f->losses), 0);
    assert_true(stats_of(client).reconnects > 0);
}

static void a_waiter_still_wakes_on_the_message(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    waiter_begin(f, waiting, lock);
    for (int i = 0; i < 3; i++) {
        kill_connections(f);
        assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    }
    assert_true(actor_is_busy(waiting));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

/* The message reaches nobody: the new subscription makes the waiter retry. */
static void a_release_while_the_waiter_is_cut_off_is_not_missed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    for (int i = 0; i < 5; i++) {
        waiter_begin(f, waiting, lock);
        probe_int(f->probe, "MULTI");
        probe_text(f->probe, "CLIENT KILL TYPE pubsub SKIPME yes");
        probe_text(f->probe, "DEL orders");
        probe_text(f->probe, "PUBLISH " CHANNEL " 0");
        probe_text(f->probe, "EXEC");
        assert_gets_in(waiting, lock);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

struct storm {
    struct fixture *f;
    struct probe *probe;
    atomic_bool over;
};

static int keep_killing(void *arg)
{
    struct storm *storm = arg;

    while (!atomic_load(&storm->over)) {
        probe_int(storm->probe, "CLIENT KILL TYPE normal SKIPME yes");
        probe_int(storm->probe, "CLIENT KILL TYPE pubsub SKIPME yes");
        let_pass(3);
    }
    return 0;
}

/* Every command may be cut off before or after it ran: counts stay right, and nothing is lost. */
static void levels_stay_right_while_connections_keep_breaking(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){.command_timeout_ms = slow_ms(20000), .recheck_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct storm storm = {.f = f, .probe = probe_open(f->server->socket)};
    struct actor *killer = actor_start();

    actor_begin(killer, keep_killing, &storm);
    for (int i = 0; i < 200; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    atomic_store(&storm.over, true);
    assert_int_equal(actor_result(killer), 0);
    probe_close(storm.probe);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_int_equal(losses_count(f->losses), 0);
}

/* By the next renewal: the end of the lease would be reported as expired. */
static void a_server_that_lost_its_data_is_reported_as_gone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, 3 * LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    server_restart(f->server);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_wait_outlives_a_server_that_comes_back(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){.recheck_ms = NEVER_MS, .command_timeout_ms = slow_ms(20000)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    waiter_begin(f, waiting, lock);
    server_restart(f->server);
    assert_result(actor_result(waiting),
                  RELOCK_OK); /* the data are lost, and with them the hold of the peer */
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static void a_wait_ends_when_redis_stays_unreachable(void **state)
{
    struct fixture *f = *state;
    uint64_t limit_ms = slow_ms(SHORT_MS), killed_ms;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){.command_timeout_ms = limit_ms, .recheck_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[3];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actors_begin_lock(waiting, 3, lock);
    assert_true(wait_for_waiters(client, 3));
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    server_kill(f->server);
    killed_ms = now_ms();
    assert_results(waiting, 3, RELOCK_E_CONN);
    assert_true(now_ms() - killed_ms >= limit_ms / 2);
    assert_no_later(now_ms() - killed_ms, 3 * limit_ms - slow_ms(300)); /* and not one by one */
    server_restart(f->server);
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Redis hangs and runs the command when it goes on: the lock must be free in the end. */
static void an_acquire_given_up_is_not_held_in_the_end(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = slow_ms(SHORT_MS)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    server_pause(f->server);
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    server_resume(f->server);

    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    let_pass(100);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* An unanswered nested level does not count; the hold itself goes on. */
static void a_failed_level_is_corrected_by_the_next_command(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = slow_ms(SHORT_MS)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_grant grant;

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(f->server);
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 1);
    server_resume(f->server);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
}

/* A release that did not reach Redis is sent later, and wakes the waiter. */
static void a_failed_release_is_completed_later(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.command_timeout_ms = slow_ms(SHORT_MS)});
    struct relock_client *other = woken_client(f);
    struct relock_lock *ours = fixture_lock(f, client, "orders");
    struct relock_lock *theirs = fixture_lock(f, other, "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(ours), RELOCK_OK);
    actor_begin_lock(waiting, theirs);
    assert_true(probe_wait_subscribers(f->probe, CHANNEL, 1));
    server_pause(f->server);
    assert_result(relock_unlock(ours), RELOCK_E_CONN);
    server_resume(f->server);
    assert_gets_in(waiting, theirs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_hold_survives_its_connections),
        SERVER_TEST(a_waiter_still_wakes_on_the_message),
        SERVER_TEST(a_release_while_the_waiter_is_cut_off_is_not_missed),
        SERVER_TEST(levels_stay_right_while_connections_keep_breaking),
        SERVER_TEST(a_server_that_lost_its_data_is_reported_as_gone),
        SERVER_TEST(a_wait_outlives_a_server_that_comes_back),
        SERVER_TEST(a_wait_ends_when_redis_stays_unreachable),
        SERVER_TEST(an_acquire_given_up_is_not_held_in_the_end),
        SERVER_TEST(a_failed_level_is_corrected_by_the_next_command),
        SERVER_TEST(a_failed_release_is_completed_later),
    };

    return SERVER_TESTS_RUN(tests);
}
