/*
 * Connections over TCP that carry nothing any more and do not end either: the other side vanished,
 * or a middlebox dropped the connection. New connections work.
 */
#include "faults.h"

#define RECHECK_MS 600
#define LEASE_MS 3600            /* after six tenths a renewal uses another connection */
#define PING_MS (2 * RECHECK_MS) /* after so long without traffic, a ping is sent */

/* How late an event may be on a shared machine. */
#define LATE_MS 7000

static bool is_subscribed(void *probe)
{
    return probe_n_channels(probe) == 2;
}

/* Its second attempt, after the acknowledgement, has been refused as well. The channels are that of
 * the lock and the client's inbox; an answer that is owed may take longer than that to a ping. */
static struct actor *subscribed_waiter(struct faults *t, struct relock_client *client,
                                       struct relock_lock *lock)
{
    struct actor *waiting = faults_blocked(t, lock);

    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    while (stats_of(client).waits < 2 && actor_is_busy(waiting))
        let_pass(1);
    assert_true(wait_until(is_subscribed, t->f->probe, SOON_MS));
    let_pass(200); /* for the last answer */
    return waiting;
}

/* A waiter whose subscriber becomes half-open. */
static void subscriber_is_noticed(struct faults *t, uint64_t command_timeout_ms)
{
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.recheck_ms = slow_ms(RECHECK_MS),
                                                  .command_timeout_ms = command_timeout_ms});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting;
    uint64_t took_ms;

    waiting = subscribed_waiter(t, client, lock);
    proxy_stall(t->proxy, "SUBSCRIBE");
    took_ms = now_ms();
    assert_true(wait_for_reconnects(client, 1));
    took_ms = now_ms() - took_ms;

    proxy_reset(t->proxy);
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_gets_in(waiting, lock);
    if (took_ms > slow_ms(2 * PING_MS + LATE_MS))
        fail_msg("noticed after %llu ms", (unsigned long long)took_ms);
}

static void a_half_open_subscriber_is_noticed_by_the_ping(void **state)
{
    subscriber_is_noticed(*state, short_ms());
}

static void a_half_open_subscriber_is_noticed_as_soon_when_commands_may_take_longer(void **state)
{
    subscriber_is_noticed(*state, slow_ms(2 * PING_MS + 2 * LATE_MS));
}

/* The server is up; only this connection is broken. */
static void a_half_open_connection_of_the_io_thread_ends_no_wait(void **state)
{
    struct faults *t = *state;
    uint64_t command_ms = outlast_ms(3000);
    struct relock_client *client = faults_client(
        t, &(struct relock_options){.recheck_ms = LONG_MS, .command_timeout_ms = command_ms});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting = subscribed_waiter(t, client, lock);

    assert_true(proxy_counts(t->proxy, "PING", 1));
    proxy_stall(t->proxy, "PING");
    let_pass(3 * command_ms);
    assert_true(actor_is_busy(waiting));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_gets_in(waiting, lock);
}

/* The message is lost, so only a retry finds the release. */
static void a_release_that_a_half_open_subscriber_missed_is_found_by_recheck(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.recheck_ms = slow_ms(RECHECK_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting;
    uint64_t freed_ms;

    waiting = subscribed_waiter(t, client, lock);
    proxy_stall(t->proxy, "SUBSCRIBE");
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    freed_ms = now_ms();
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_no_later(now_ms() - freed_ms, slow_ms(RECHECK_MS + LATE_MS));
    assert_true(stats_of(client).rechecks > 0);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static void a_half_open_lane_is_noticed_within_the_command_timeout(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){
               .connections = 1, .watchdog_timeout_ms = LONG_MS, .command_timeout_ms = short_ms()});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *owner = actor_start();

    assert_result(actor_lock(owner, lock), RELOCK_OK);
    proxy_stall(t->proxy, "lock");
    assert_result(actor_lock(owner, lock), RELOCK_E_CONN);
    assert_no_later(actor_took_ms(owner), short_ms() + slow_ms(LATE_MS));
    assert_result(actor_lock(owner, lock), RELOCK_OK); /* over a new connection */
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 2);

    proxy_flow(t->proxy); /* the command in flight does not run: its connection was killed */
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 2);
    assert_int_equal(proxy_count(t->proxy, "lock 1 orders * * 2"), 2);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
}

static void an_idle_lane_that_became_half_open_costs_one_call(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                  .command_timeout_ms = short_ms()});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *owner = actor_start();

    assert_result(actor_lock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    proxy_stall(t->proxy, "");
    assert_result(actor_trylock(owner, lock), RELOCK_E_CONN);
    assert_no_later(actor_took_ms(owner), short_ms() + slow_ms(LATE_MS));
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    assert_result(actor_trylock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
}

static void half_open_renewals_are_noticed_before_the_lease_ends(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        uint64_t renewed = stats_of(client).renewed;

        assert_true(wait_for_renewals(client, renewed, 1));
        proxy_stall(t->proxy, "renew");
        assert_true(wait_for_renewals(client, stats_of(client).renewed, 1));
    }
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_half_open_subscriber_is_noticed_by_the_ping),
        FAULT_TEST(a_half_open_subscriber_is_noticed_as_soon_when_commands_may_take_longer),
        FAULT_TEST(a_half_open_connection_of_the_io_thread_ends_no_wait),
        FAULT_TEST(a_release_that_a_half_open_subscriber_missed_is_found_by_recheck),
        FAULT_TEST(a_half_open_lane_is_noticed_within_the_command_timeout),
        FAULT_TEST(an_idle_lane_that_became_half_open_costs_one_call),
        FAULT_TEST(half_open_renewals_are_noticed_before_the_lease_ends),
    };

    return FAULT_TESTS_RUN_TCP(tests);
}
