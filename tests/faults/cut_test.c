/* Connections that end while much depends on them: waiters, subscriptions, renewals. */
#include "faults.h"

#include <stdio.h>

#define N_WAITERS 50
#define N_HOLDS 100
#define N_LOCKS 5
#define MAX_CONNECTIONS (8 + 2 + 1) /* lanes; renewals and subscriptions; the probe's */

static void begin_to_wait(struct relock_client *client, struct relock_lock *lock,
                          struct actor *waiting[N_WAITERS])
{
    actors_begin(waiting, N_WAITERS, actor_take_turn, lock);
    assert_true(wait_for_waiters(client, N_WAITERS));
}

static void all_got_in(struct relock_client *client, struct actor *waiting[N_WAITERS])
{
    for (int i = 0; i < N_WAITERS; i++)
        assert_result(actor_result_within(waiting[i], 3 * SOON_MS), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* Redis may take a moment to notice the end of a connection. */
static bool has_few_connections(void *arg)
{
    return probe_n_clients(arg, "") <= MAX_CONNECTIONS;
}

static void fifty_waiters_go_on_when_their_connections_are_cut(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_connected_client(t, &(struct relock_options){.recheck_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting[N_WAITERS];

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    begin_to_wait(client, lock, waiting);
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    proxy_cut(t->proxy, "");
    assert_true(wait_for_reconnects(client, 2)); /* the connections of renewals and of messages */
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    assert_int_equal(stats_of(client).waiters, N_WAITERS);

    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    all_got_in(client, waiting);
    assert_true(probe_wait_lock_channels(t->f->probe, 0));
}

/* Connections are cut while the lock changes owners: unanswered commands are corrected. */
static void fifty_waiters_go_on_while_their_connections_are_cut(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){
               .recheck_ms = LONG_MS, .watchdog_timeout_ms = LONG_MS, .handoff_ms = 1});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting[N_WAITERS];

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    begin_to_wait(client, lock, waiting);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    for (int i = 0; i < 20; i++) {
        proxy_cut(t->proxy, "");
        let_pass(10);
    }
    all_got_in(client, waiting);
}

static void a_waiter_outlasts_a_server_that_refuses_connections(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){.recheck_ms = LONG_MS, .command_timeout_ms = slow_ms(SOON_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting[N_WAITERS];

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    begin_to_wait(client, lock, waiting);
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    let_pass(500);
    assert_int_equal(stats_of(client).waiters, N_WAITERS);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    proxy_refuse(t->proxy, false);
    all_got_in(client, waiting);
}

static void subscriptions_and_connections_do_not_add_up(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.recheck_ms = LONG_MS});
    struct relock_lock *locks[N_LOCKS];
    struct actor *waiting[N_LOCKS];
    char name[16], channel[64];

    for (int i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_lock(t->f->probe, name, PEER, LONG_MS));
        locks[i] = fixture_lock(t->f, client, name);
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], locks[i]);
    }
    for (int round = 0; round < 10; round++) {
        for (int i = 0; i < N_LOCKS; i++) {
            snprintf(channel, sizeof(channel), "redisson_lock__channel:{orders:%d}", i);
            assert_true(probe_wait_subscribers(t->f->probe, channel, 1));
        }
        assert_true(wait_until(has_few_connections, t->f->probe, SOON_MS));
        proxy_cut(t->proxy, round % 2 == 0 ? "SUBSCRIBE" : "");
    }
    for (int i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_unlock(t->f->probe, name, PEER));
        assert_gets_in(waiting[i], locks[i]);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_true(probe_wait_lock_channels(t->f->probe, 0));
    assert_true(wait_until(has_few_connections, t->f->probe, SOON_MS));
}

/* ---- renewals ------------------------------------------------------------------------------ */

#define LEASE_MS 3000 /* a lost reply is noticed after six tenths */
#define CUT_AFTER_MS 500

static void hold_many(struct relock_client *client, struct relock_lock *locks[N_HOLDS])
{
    for (int i = 0; i < N_HOLDS; i++) {
        char name[16];

        snprintf(name, sizeof(name), "orders:%d", i);
        assert_result(relock_lock_new(client, name, &locks[i]), RELOCK_OK);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
}

/* Held all the time, and not by luck: each hold was renewed since. */
static void all_are_renewed_and_released(struct faults *t, struct relock_client *client,
                                         struct relock_lock *locks[N_HOLDS])
{
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 2 * N_HOLDS));
    for (int i = 0; i < N_HOLDS; i++) {
        assert_true(relock_valid_ms(locks[i]) > 0);
        assert_true(probe_pttl(t->f->probe, relock_lock_name(locks[i])) > 0);
    }
    for (int i = 0; i < N_HOLDS; i++) {
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        locks[i] = relock_lock_free(locks[i]);
    }
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_int_equal(stats_of(client).lost, 0);
}

static void a_hundred_holds_survive_their_connections(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *locks[N_HOLDS];

    hold_many(client, locks);
    for (int i = 0; i < 8; i++) {
        nothing_is_lost_for(t, client, slow_ms(CUT_AFTER_MS));
        proxy_cut(t->proxy, "");
    }
    all_are_renewed_and_released(t, client, locks);
}

/* Without tracking, whose checks run the same script: the cuts would meet them. */
static void a_hundred_holds_survive_renewals_that_are_cut_off(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = outlast_ms(LEASE_MS),
                                                  .flags = RELOCK_NO_TRACKING});
    struct relock_lock *locks[N_HOLDS];
    struct proxy_rule *rule;

    hold_many(client, locks);
    rule = proxy_each(t->proxy, PROXY_CUT_UNANSWERED, "renew_many");
    assert_true(proxy_met(rule, 3));
    proxy_let_go(rule);
    nothing_is_lost_for(t, client, outlast_ms(LEASE_MS));
    all_are_renewed_and_released(t, client, locks);
}

static void a_hundred_holds_survive_the_loss_of_replies_to_renewals(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *locks[N_HOLDS];

    hold_many(client, locks);
    for (int i = 0; i < 2; i++) {
        struct proxy_rule *rule = proxy_next(t->proxy, PROXY_SWALLOW, "renew_many");

        assert_true(proxy_met(rule, 1));
        nothing_is_lost_for(t, client, outlast_ms(LEASE_MS) * 3 / 4); /* when the lease would end */
        assert_true(stats_of(client).renewal_failures > 0);
    }
    all_are_renewed_and_released(t, client, locks);
}

/* NOSCRIPT, both for renewals and for calls. */
static void a_hundred_holds_survive_scripts_that_are_flushed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *locks[N_HOLDS];

    hold_many(client, locks);
    for (int i = 0; i < 10; i++) {
        nothing_is_lost_for(t, client, slow_ms(CUT_AFTER_MS / 2));
        assert_int_equal(probe_int(t->f->probe, "SCRIPT FLUSH"), 0);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
    }
    assert_true(proxy_counts(t->proxy, "-NOSCRIPT", 10));
    all_are_renewed_and_released(t, client, locks);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(fifty_waiters_go_on_when_their_connections_are_cut),
        FAULT_TEST(fifty_waiters_go_on_while_their_connections_are_cut),
        FAULT_TEST(a_waiter_outlasts_a_server_that_refuses_connections),
        FAULT_TEST(subscriptions_and_connections_do_not_add_up),
        FAULT_TEST(a_hundred_holds_survive_their_connections),
        FAULT_TEST(a_hundred_holds_survive_renewals_that_are_cut_off),
        FAULT_TEST(a_hundred_holds_survive_the_loss_of_replies_to_renewals),
        FAULT_TEST(a_hundred_holds_survive_scripts_that_are_flushed),
    };

    return FAULT_TESTS_RUN(tests);
}
