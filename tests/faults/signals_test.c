/*
 * Signals that arrive while no waiter can use them, or two at once: the next waiter that may ask
 * uses them. Nothing here ends by time, except one lease, in a test that says so. With "no-line",
 * clients may not use the lines of locks.
 */
#include "faults.h"

static int try_once(void *lock)
{
    return relock_trylock(lock);
}

/* A refused try-lock does not wait, so nothing is subscribed: a waiter that came meanwhile has
 * to ask. */
static void a_waiter_that_arrives_during_a_refused_try_asks_for_itself(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *refused = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders");
    struct actor *trying = actor_start();
    struct actor *waiting = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    actor_begin(trying, try_once, lock);
    assert_int_equal(proxy_fate(refused), PROXY_ANSWERED);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_int_equal(proxy_count(t->proxy, "lock 1 orders"), 1);

    proxy_let_go(refused);
    assert_result(actor_result(trying), RELOCK_BUSY);
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    faults_gets_in_by_signals(client, waiting, lock);
}

/* Two threads of the process ask Redis at the same time. The granted one does not hand the lock
 * off to the other, whose reply is in flight. */
static void a_try_in_flight_is_handed_no_hold(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.handoff_ms = LONG_MS,
                                                  .recheck_ms = LONG_MS,
                                                  .command_timeout_ms = slow_ms(SOON_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *granted = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders");
    struct proxy_rule *refused = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders");
    struct actor *holding = actor_start();
    struct actor *trying = actor_start();

    actor_begin_lock(holding, lock);
    assert_int_equal(proxy_fate(granted), PROXY_ANSWERED);
    actor_begin(trying, try_once, lock);
    assert_int_equal(proxy_fate(refused), PROXY_ANSWERED);
    proxy_let_go(granted);
    assert_gets_in(holding, lock);
    proxy_let_go(refused);
    assert_result(actor_result(trying), RELOCK_BUSY);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
}

/* Another name of the same channel: it is subscribed already, so no acknowledgement follows. A
 * message before the waiter joined does not reach it. */
static void a_waiter_that_joins_a_channel_retries_once(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *first = fixture_lock(t->f, client, "orders");
    struct relock_lock *second = fixture_lock(t->f, client, "{orders}");
    struct proxy_rule *refused, *told;
    struct actor *there = actor_start();
    struct actor *joining = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    assert_true(peer_lock(t->f->probe, "{orders}", PEER, LONG_MS));
    actor_begin_lock(there, first);
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));

    refused = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 {orders}");
    actor_begin_lock(joining, second);
    assert_int_equal(proxy_fate(refused), PROXY_ANSWERED);
    told = proxy_next(t->proxy, PROXY_PASS, "lock 1 orders");
    assert_true(peer_unlock(t->f->probe, "{orders}", PEER));
    assert_int_equal(proxy_fate(told), PROXY_ANSWERED); /* the message has arrived */

    proxy_let_go(refused);
    faults_gets_in_by_signals(client, joining, second);
    assert_int_equal(proxy_count(t->proxy, "SUBSCRIBE " CHANNEL), 1);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    faults_gets_in_by_signals(client, there, first);
}

/* Messages between the last attempt and the new subscription are lost. */
static void an_acknowledgement_after_a_reconnect_is_a_signal(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *again;
    struct actor *waiting = faults_blocked(t, lock);

    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));
    again = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE " CHANNEL);
    proxy_cut(t->proxy, "SUBSCRIBE");
    /* Retries, because the subscriber was cut, and because the inbox is open again. */
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 4));
    assert_true(proxy_met(again, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER)); /* no subscriber receives this */

    proxy_let_go(again);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* The connection could have carried the message and is not back, so the waiter retries at its
 * end. */
static void a_release_before_the_end_of_the_subscriber_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *asked = proxy_each(t->proxy, PROXY_PASS, "lock 1 orders");
    struct actor *waiting = faults_blocked(t, lock);

    assert_true(proxy_met(asked, 2));
    assert_int_equal(proxy_fate(asked), PROXY_ANSWERED);
    proxy_stall(t->proxy, "SUBSCRIBE");
    proxy_refuse(t->proxy, true);
    assert_true(peer_unlock(t->f->probe, "orders", PEER)); /* no subscriber receives this */
    proxy_cut(t->proxy, "SUBSCRIBE");
    faults_gets_in_by_signals(client, waiting, lock);
    proxy_refuse(t->proxy, false);
}

/* The message overtakes the reply, so it arrives while the local owner still holds. */
static void a_message_before_the_answer_to_the_release_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *answer;
    struct actor *holding, *waiting;

    faults_hold_and_wait(t, client, lock, &holding, &waiting);
    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "unlock 1 orders * 0");
    actor_begin(holding, (actor_step_fn *)relock_unlock, lock);
    assert_int_equal(proxy_fate(answer), PROXY_ANSWERED);
    let_pass(100); /* the message has arrived */
    assert_true(actor_is_busy(waiting));

    proxy_let_go(answer);
    assert_result(actor_result(holding), RELOCK_OK);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* The message is lost, and the subscriber is back before the owner has left. The waiter listens to
 * the channel of the lock only outside of its line. */
static void a_reconnect_during_a_release_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *answer, *again;
    struct actor *holding, *waiting;

    faults_hold_and_wait(t, client, lock, &holding, &waiting);
    proxy_stall(t->proxy, "SUBSCRIBE");
    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "unlock 1 orders * 0");
    actor_begin(holding, (actor_step_fn *)relock_unlock, lock);
    assert_int_equal(proxy_fate(answer), PROXY_ANSWERED);
    again = proxy_next(t->proxy, PROXY_PASS,
                       faults_rights() == NO_LINE ? "SUBSCRIBE " CHANNEL : "SUBSCRIBE");
    proxy_cut(t->proxy, "SUBSCRIBE");
    assert_int_equal(proxy_fate(again), PROXY_ANSWERED);
    let_pass(100); /* the acknowledgement has arrived */
    assert_true(actor_is_busy(waiting));

    proxy_let_go(answer);
    assert_result(actor_result(holding), RELOCK_OK);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* Redis refused the release and publishes nothing: the waiter has to retry when the lease ends.
 * With a line, a grant may need the right that is missing here. */
static void a_refused_release_admits_the_next_waiter_when_the_lease_ends(void **state)
{
    struct faults *t = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *holding, *waiting;

    client = faults_client(t, &(struct relock_options){.user = WORKER,
                                                       .password = PASSWORD,
                                                       .recheck_ms = LONG_MS,
                                                       .watchdog_timeout_ms = outlast_ms(2500),
                                                       .handoff_ms = 1});
    lock = fixture_lock(t->f, client, "orders");
    faults_hold_and_wait(t, client, lock, &holding, &waiting);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " -del -hdel"), 0);
    assert_result(actor_unlock(holding, lock), RELOCK_E_AUTH);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " +del +hdel"), 0);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

#define IN_BOTH                                                               \
    FAULT_TEST(a_waiter_that_arrives_during_a_refused_try_asks_for_itself),   \
        FAULT_TEST(a_try_in_flight_is_handed_no_hold),                        \
        FAULT_TEST(a_waiter_that_joins_a_channel_retries_once),               \
        FAULT_TEST(an_acknowledgement_after_a_reconnect_is_a_signal),         \
        FAULT_TEST(a_release_before_the_end_of_the_subscriber_is_not_missed), \
        FAULT_TEST(a_message_before_the_answer_to_the_release_is_not_missed), \
        FAULT_TEST(a_reconnect_during_a_release_is_not_missed)

int main(int argc, char **argv)
{
    const struct CMUnitTest with_line[] = {IN_BOTH};
    const struct CMUnitTest without_line[] = {
        IN_BOTH,
        FAULT_TEST(a_refused_release_admits_the_next_waiter_when_the_lease_ends),
    };

    faults_take_rights(argc, argv);
    return faults_rights() == NO_LINE ? FAULT_TESTS_RUN(without_line) : FAULT_TESTS_RUN(with_line);
}
