/*
 * Signals that come while no waiter can use them, or from two sides at once: the next waiter that
 * may ask has them. Nothing here ends by time, except one lease, in a test that says so.
 */
#include "faults.h"

#define PASSING_MS 100

static int try_once(void *lock)
{
    return relock_trylock(lock);
}

/* It was refused, and as it does not wait nobody has subscribed: who came meanwhile has to. */
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

/* Two threads of the process ask Redis at the same time. The one that gets the lock does not hand
 * it off to the other, whose answer is on its way. */
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
    assert_result(actor_result(holding), RELOCK_OK);
    assert_result(actor_unlock(holding, lock), RELOCK_OK);
    proxy_let_go(refused);
    assert_result(actor_result(trying), RELOCK_BUSY);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
}

/* The acknowledgement of a subscription that was given up comes when there is a new one. It says
 * nothing of that: only the next one does. */
static void a_late_acknowledgement_is_not_taken_for_the_next_one(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.recheck_ms = LONG_MS,
                                                  .watchdog_timeout_ms = LONG_MS,
                                                  .command_timeout_ms = slow_ms(SOON_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *old = proxy_next(t->proxy, PROXY_HOLD_REPLY, "SUBSCRIBE " CHANNEL);
    struct proxy_rule *new = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE " CHANNEL);
    struct actor *waiting = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    assert_result(fixture_timedlock(lock, 50), RELOCK_TIMEOUT);
    assert_int_equal(proxy_fate(old), PROXY_ANSWERED);
    assert_true(proxy_counts(t->proxy, "UNSUBSCRIBE", 1));
    actor_begin_lock(waiting, lock);
    assert_true(proxy_met(new, 1));
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));

    proxy_let_go(old);
    let_pass(PASSING_MS); /* a retry because of this acknowledgement would be refused by then */
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 0));
    assert_true(peer_unlock(t->f->probe, "orders", PEER)); /* nobody hears it */
    proxy_let_go(new);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* The channel of another name is its own too, and is subscribed already: no acknowledgement is to
 * come. A release before it listened is in no message that it gets. */
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
    assert_int_equal(proxy_fate(told), PROXY_ANSWERED); /* the message has come */

    proxy_let_go(refused);
    faults_gets_in_by_signals(client, joining, second);
    assert_int_equal(proxy_count(t->proxy, "SUBSCRIBE"), 1);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    faults_gets_in_by_signals(client, there, first);
}

/* What was published between the last look and the new subscription is in no message. */
static void an_acknowledgement_after_a_reconnect_is_a_signal(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *asked, *again;
    struct actor *waiting = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    actor_begin_lock(waiting, lock);
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));
    again = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE " CHANNEL);
    asked = proxy_next(t->proxy, PROXY_PASS, "lock 1 orders");
    proxy_cut(t->proxy, "SUBSCRIBE");
    assert_int_equal(proxy_fate(asked), PROXY_ANSWERED); /* since the subscriber is gone */
    assert_true(proxy_met(again, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER)); /* nobody hears it */

    proxy_let_go(again);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* It told of the release, and is not back: who waits looks for itself. */
static void a_release_before_the_end_of_the_subscriber_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_patient_client(t);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *asked = proxy_each(t->proxy, PROXY_PASS, "lock 1 orders");
    struct actor *waiting = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    actor_begin_lock(waiting, lock);
    assert_true(proxy_met(asked, 2));
    assert_int_equal(proxy_fate(asked), PROXY_ANSWERED);
    proxy_stall(t->proxy, "SUBSCRIBE");
    proxy_refuse(t->proxy, true);
    assert_true(peer_unlock(t->f->probe, "orders", PEER)); /* nobody hears it */
    proxy_cut(t->proxy, "SUBSCRIBE");
    faults_gets_in_by_signals(client, waiting, lock);
    proxy_refuse(t->proxy, false);
}

/* The message overtakes the answer, so it comes while the owner that leaves is still there. */
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
    let_pass(100); /* the message is here */
    assert_true(actor_is_busy(waiting));

    proxy_let_go(answer);
    assert_result(actor_result(holding), RELOCK_OK);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* The message is lost, and by the time the owner has left the subscriber is back already. */
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
    again = proxy_next(t->proxy, PROXY_PASS, "SUBSCRIBE " CHANNEL);
    proxy_cut(t->proxy, "SUBSCRIBE");
    assert_int_equal(proxy_fate(again), PROXY_ANSWERED);
    let_pass(100); /* the acknowledgement is here */
    assert_true(actor_is_busy(waiting));

    proxy_let_go(answer);
    assert_result(actor_result(holding), RELOCK_OK);
    faults_gets_in_by_signals(client, waiting, lock);
}

/* Redis did not let go, so nobody announces anything: who waits has to ask when the lease ends. */
static void a_refused_release_admits_the_next_waiter_when_the_lease_ends(void **state)
{
    struct faults *t = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *holding, *waiting;

    faults_worker(t, "~* &* +@all");
    client = faults_client(t, &(struct relock_options){.user = WORKER,
                                                       .password = PASSWORD,
                                                       .recheck_ms = LONG_MS,
                                                       .watchdog_timeout_ms = outlast_ms(2500),
                                                       .handoff_ms = 1});
    lock = fixture_lock(t->f, client, "orders");
    faults_hold_and_wait(t, client, lock, &holding, &waiting);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " -del"), 0);
    assert_result(actor_unlock(holding, lock), RELOCK_E_AUTH);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " +del"), 0);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_waiter_that_arrives_during_a_refused_try_asks_for_itself),
        FAULT_TEST(a_try_in_flight_is_handed_no_hold),
        FAULT_TEST(a_late_acknowledgement_is_not_taken_for_the_next_one),
        FAULT_TEST(a_waiter_that_joins_a_channel_retries_once),
        FAULT_TEST(an_acknowledgement_after_a_reconnect_is_a_signal),
        FAULT_TEST(a_release_before_the_end_of_the_subscriber_is_not_missed),
        FAULT_TEST(a_message_before_the_answer_to_the_release_is_not_missed),
        FAULT_TEST(a_reconnect_during_a_release_is_not_missed),
        FAULT_TEST(a_refused_release_admits_the_next_waiter_when_the_lease_ends),
    };

    return FAULT_TESTS_RUN(tests);
}
