/*
 * Releases at awkward moments. Leases and rechecks are longer than any test, so a waiter that gets
 * the lock was woken. With "no-line", clients may not use the lines of locks.
 */
#include "faults.h"

static void a_release_before_the_subscription_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *subscribe = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE " CHANNEL);
    struct actor *waiting = faults_blocked(t, lock);

    assert_true(proxy_met(subscribe, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER)); /* no subscriber receives this */
    assert_int_equal(proxy_count(t->proxy, "lock 1 orders"), 1);
    assert_true(actor_is_busy(waiting));

    proxy_let_go(subscribe);
    faults_gets_in_by_signals(client, waiting, lock);
    assert_int_equal(proxy_count(t->proxy, "lock 1 orders"), 2);
}

static void a_release_before_the_subscription_is_acknowledged_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *subscribe = proxy_next(t->proxy, PROXY_HOLD_REPLY, "SUBSCRIBE " CHANNEL);
    struct actor *waiting = faults_blocked(t, lock);

    assert_int_equal(proxy_fate(subscribe), PROXY_ANSWERED);
    assert_true(peer_unlock(t->f->probe, "orders", PEER)); /* the message follows the reply */

    proxy_let_go(subscribe);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* For each refused attempt: the message arrives while its reply is in flight. */
static void a_release_during_a_try_that_is_refused_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *second;
    struct actor *waiting = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    proxy_next(t->proxy, PROXY_PASS, "lock 1 orders");
    second = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders");
    actor_begin_lock(waiting, lock);
    assert_int_equal(proxy_fate(second), PROXY_ANSWERED);
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));

    proxy_let_go(second);
    faults_gets_in_by_signals(client, waiting, lock);
    assert_int_equal(proxy_count(t->proxy, "lock 1 orders"), 3);
}

static void a_message_while_the_subscriber_is_disconnected_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting = faults_blocked(t, lock);

    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 0));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    let_pass(100);
    assert_true(actor_is_busy(waiting));

    proxy_refuse(t->proxy, false);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* The previous owner, in this process, relies on the message that it published. In a line it learns
 * its place from the reply. */
static void a_lost_message_of_our_own_release_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *holding, *waiting;

    faults_hold_and_wait(t, client, lock, &holding, &waiting);
    proxy_stall(t->proxy, "SUBSCRIBE");
    assert_result(actor_unlock(holding, lock), RELOCK_OK);
    let_pass(100);
    assert_true(actor_is_busy(waiting)); /* otherwise it did not rely on it */
    proxy_cut(t->proxy, "SUBSCRIBE");
    faults_gets_in_by_signals(client, waiting, lock);
    assert_int_equal(stats_of(client).passed_on, 0);
}

/* Then there is no message to rely on. */
static void a_local_release_while_the_subscriber_is_disconnected_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *holding, *waiting;

    faults_hold_and_wait(t, client, lock, &holding, &waiting);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "SUBSCRIBE");
    /* Between the two lines all waiters have learned of it. */
    assert_true(log_wait_least(t->f->log, "reconnecting", 2, SOON_MS));
    assert_result(actor_unlock(holding, lock), RELOCK_OK);
    faults_gets_in_by_signals(client, waiting, lock);
    assert_int_equal(stats_of(client).passed_on, 0);
}

/* It ended when no thread had waited for a while, and now one waits again. */
static void a_release_while_the_subscription_is_repeated_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *first = proxy_next(t->proxy, PROXY_PASS, "SUBSCRIBE " CHANNEL);
    struct proxy_rule *unsubscribe = proxy_next(t->proxy, PROXY_HOLD, "UNSUBSCRIBE " CHANNEL);
    struct proxy_rule *subscribe = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE " CHANNEL);
    struct actor *waiting = actor_start();
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(waiting, lock, &how);
    assert_int_equal(proxy_fate(first), PROXY_ANSWERED);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    relock_cancel_free(how.cancel);
    assert_true(proxy_met(unsubscribe, 1));
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    proxy_let_go(unsubscribe);
    assert_true(proxy_met(subscribe, 1));
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 0));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    proxy_let_go(subscribe);
    faults_gets_in_by_signals(client, waiting, lock);
}

static void an_unanswered_subscription_is_repeated(void **state)
{
    static const enum proxy_deed losses[] = {PROXY_LOSE, PROXY_SWALLOW, PROXY_CUT,
                                             PROXY_CUT_UNANSWERED};
    struct faults *t = *state;

    for (size_t i = 0; i < sizeof(losses) / sizeof(*losses); i++) {
        struct relock_client *client = faults_client(
            t, &(struct relock_options){.recheck_ms = LONG_MS, .command_timeout_ms = short_ms()});
        struct relock_lock *lock = fixture_lock(t->f, client, "orders");
        struct proxy_rule *rule = proxy_next(t->proxy, losses[i], "SUBSCRIBE " CHANNEL);
        struct actor *waiting = actor_start();

        assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
        actor_begin_lock(waiting, lock);
        assert_true(proxy_met(rule, 1));
        assert_true(wait_for_reconnects(client, 1));
        assert_true(peer_unlock(t->f->probe, "orders", PEER));
        faults_gets_in_by_signals(client, waiting, lock);
        fixture_free_client(t->f, client);
    }
}

/* The failing attempt has used up the signal: a waiter that came meanwhile must not wait for
 * another. */
static void a_waiter_that_arrives_during_a_failing_try_asks_for_itself(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_calm_client(t, short_ms());
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *lost = proxy_next(t->proxy, PROXY_LOSE, "lock 1 orders");
    struct actor *first = actor_start();
    struct actor *second = actor_start();

    actor_begin_lock(first, lock);
    assert_true(proxy_met(lost, 1));
    let_pass(5); /* Redis counts milliseconds */
    actor_begin_lock(second, lock);
    assert_true(wait_for_waiters(client, 2));
    assert_result(actor_result(first), RELOCK_E_CONN);
    faults_gets_in_by_signals(client, second, lock);
}

/* Messages that arrive byte by byte are the same messages. */
static void a_waiter_wakes_on_messages_that_come_in_pieces(void **state)
{
    struct faults *t = *state;
    struct relock_options options = {.recheck_ms = LONG_MS,
                                     .watchdog_timeout_ms = LONG_MS,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .command_timeout_ms = slow_ms(SOON_MS),
                                     .handoff_ms = 1};
    struct relock_client *client = faults_client(t, &options);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting = actor_start();

    proxy_by_byte(t->proxy, true);
    proxy_cut(t->proxy, ""); /* the login as well */
    for (int i = 0; i < 3; i++) {
        assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
        actor_begin_lock(waiting, lock);
        assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
        assert_true(peer_unlock(t->f->probe, "orders", PEER));
        faults_gets_in_by_signals(client, waiting, lock);
    }
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 2);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

#define IN_BOTH                                                                         \
    FAULT_TEST(a_release_before_the_subscription_is_not_missed),                        \
        FAULT_TEST(a_release_before_the_subscription_is_acknowledged_is_not_missed),    \
        FAULT_TEST(a_release_during_a_try_that_is_refused_is_not_missed),               \
        FAULT_TEST(a_message_while_the_subscriber_is_disconnected_is_not_missed),       \
        FAULT_TEST(a_local_release_while_the_subscriber_is_disconnected_is_not_missed), \
        FAULT_TEST(a_release_while_the_subscription_is_repeated_is_not_missed),         \
        FAULT_TEST(an_unanswered_subscription_is_repeated),                             \
        FAULT_TEST(a_waiter_that_arrives_during_a_failing_try_asks_for_itself),         \
        FAULT_TEST(a_waiter_wakes_on_messages_that_come_in_pieces)

int main(int argc, char **argv)
{
    const struct CMUnitTest with_line[] = {IN_BOTH};
    const struct CMUnitTest without_line[] = {
        IN_BOTH,
        FAULT_TEST(a_lost_message_of_our_own_release_is_not_missed),
    };

    faults_take_rights(argc, argv);
    return faults_rights() == NO_LINE ? FAULT_TESTS_RUN(without_line) : FAULT_TESTS_RUN(with_line);
}
