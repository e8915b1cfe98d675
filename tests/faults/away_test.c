/* A server that is unreachable for less than a lease, for longer, and while threads wait. */
#include "faults.h"

#include <stdatomic.h>
#include <stdio.h>

#define N_HOLDS 20
#define N_WAITERS 20
#define LATE_MS 8000 /* a delay that a shared machine may cause */
#define SHORT_LEASE_MS 6000

/* ---- holds --------------------------------------------------------------------------------- */

struct held {
    struct relock_lock *lock;
    struct actor *owner;
    atomic_int told, reason;
    atomic_bool was_certain; /* during the callback */
};

static void on_lost(const struct relock_lost *what, void *arg)
{
    struct held *held = arg;
    struct relock_grant grant;

    held->reason = what->reason;
    held->told++;
    if (relock_check(held->lock, what->owner, &grant) != RELOCK_LOST || grant.valid_ms > 0)
        held->was_certain = true;
}

static void hold(struct faults *t, struct relock_client *client, struct held held[N_HOLDS])
{
    for (int i = 0; i < N_HOLDS; i++) {
        struct relock_how how = {.on_lost = on_lost, .arg = &held[i]};
        char name[16];

        snprintf(name, sizeof(name), "orders:%d", i);
        held[i].lock = fixture_lock(t->f, client, name);
        held[i].owner = actor_start();
        assert_result(actor_acquire(held[i].owner, held[i].lock, &how), RELOCK_OK);
    }
}

static bool all_are_told(void *arg)
{
    struct held *held = arg;

    for (int i = 0; i < N_HOLDS; i++)
        if (held[i].told == 0)
            return false;
    return true;
}

/* Each holder was called back exactly once, when its hold was no longer certain. Its release
 * reports the loss again, and then the hold is gone. */
static void was_told_once(struct faults *t, struct held held[N_HOLDS])
{
    for (int i = 0; i < N_HOLDS; i++) {
        assert_result(actor_unlock(held[i].owner, held[i].lock), RELOCK_LOST);
        assert_result(actor_unlock(held[i].owner, held[i].lock), RELOCK_NOT_OWNER);
        assert_int_equal(held[i].told, 1);
        assert_false(held[i].was_certain);
    }
    assert_int_equal(losses_count(t->f->losses), 0); /* those of the client's callback */
}

static void a_server_that_stops_for_two_seconds_loses_no_hold(void **state)
{
    static const uint64_t leases_ms[] = {30000, SHORT_LEASE_MS};
    struct faults *t = *state;

    for (size_t i = 0; i < 2; i++) {
        struct relock_client *client = faults_client(
            t, &(struct relock_options){.watchdog_timeout_ms = outlast_ms(leases_ms[i]),
                                        .command_timeout_ms = slow_ms(SOON_MS)});
        struct relock_lock *lock = fixture_lock(t->f, client, "orders");
        struct actor *nested = actor_start();

        assert_result(actor_lock(nested, lock), RELOCK_OK);
        let_pass(500);
        server_pause(t->f->server);
        actor_begin_lock(nested, lock);
        nothing_is_lost_for(t, client, 2000); /* with the shorter lease, a renewal falls due */
        assert_true(actor_is_busy(nested));
        server_resume(t->f->server);

        assert_result(actor_result(nested), RELOCK_OK);
        assert_int_equal(probe_only_value(t->f->probe, "orders"), 2);
        if (leases_ms[i] < 30000)
            assert_true(wait_for_renewals(client, 0, 2));
        assert_result(actor_unlock(nested, lock), RELOCK_OK);
        assert_result(actor_unlock(nested, lock), RELOCK_OK);
        assert_int_equal(stats_of(client).lost, 0);
        assert_int_equal(losses_count(t->f->losses), 0);
    }
}

/* The server refuses connections, and comes back with its data. */
static void a_server_that_is_gone_for_two_seconds_loses_no_hold(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = outlast_ms(SHORT_LEASE_MS),
                                                  .command_timeout_ms = slow_ms(SOON_MS)});
    struct held held[N_HOLDS] = {0};

    hold(t, client, held);
    let_pass(500);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    nothing_is_lost_for(t, client, 2000);
    proxy_refuse(t->proxy, false);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 2 * N_HOLDS));
    for (int i = 0; i < N_HOLDS; i++) {
        assert_result(actor_unlock(held[i].owner, held[i].lock), RELOCK_OK);
        assert_int_equal(held[i].told, 0);
    }
}

/* The network is down, the server is not: compares what the holders know with the server's keys. */
static void a_hold_is_uncertain_before_the_server_grants_it_to_another(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = slow_ms(900)});
    struct held held[N_HOLDS] = {0};
    int n_gone = 0;

    hold(t, client, held);
    proxy_refuse(t->proxy, true);
    proxy_stall(t->proxy, "");
    while (n_gone < N_HOLDS) {
        for (int i = n_gone = 0; i < N_HOLDS; i++) {
            struct relock_grant grant;

            if (probe_pttl(t->f->probe, relock_lock_name(held[i].lock)) != -2)
                continue;
            n_gone++;
            assert_result(actor_check(held[i].owner, held[i].lock), RELOCK_LOST);
            grant = actor_grant(held[i].owner);
            assert_int_equal(grant.valid_ms, 0);
            assert_int_equal(grant.hold_count, 1);
        }
    }
    assert_true(wait_until(all_are_told, held, SOON_MS));
    proxy_cut(t->proxy, "");
    proxy_refuse(t->proxy, false);
    was_told_once(t, held);
}

static void a_server_that_stops_beyond_the_lease_is_reported_once_to_each_holder(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = slow_ms(900)});
    struct held held[N_HOLDS] = {0};

    hold(t, client, held);
    server_pause(t->f->server);
    assert_true(wait_until(all_are_told, held, SOON_MS));
    let_pass(slow_ms(900)); /* time for a second callback */
    server_resume(t->f->server);
    was_told_once(t, held);
    assert_int_equal(stats_of(client).lost, N_HOLDS);
}

/* The lock is free and the old owner does not know it, so the new owner is right. The next
 * renewal finds out, before the lease ends. */
static void a_server_that_comes_back_empty_is_reported_to_holders_and_admits_waiters(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, SHORT_LEASE_MS);
    struct relock_client *others = faults_client(
        t, &(struct relock_options){.recheck_ms = LONG_MS, .watchdog_timeout_ms = LONG_MS});
    struct relock_lock *theirs = fixture_lock(t->f, others, "orders:0");
    struct actor *waiting = actor_start();
    struct held held[N_HOLDS] = {0};

    hold(t, client, held);
    actor_begin_lock(waiting, theirs);
    assert_true(proxy_counts(t->proxy, "lock 1 orders:0", 3));
    server_restart(t->f->server);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_true(wait_until(all_are_told, held, SOON_MS));
    for (int i = 0; i < N_HOLDS; i++)
        assert_int_not_equal(held[i].reason, RELOCK_LOST_EXPIRED);

    was_told_once(t, held);
    assert_result(actor_check(waiting, theirs), RELOCK_OK);
    assert_int_equal(probe_only_value(t->f->probe, "orders:0"), 1);
    assert_result(actor_unlock(waiting, theirs), RELOCK_OK);
}

/* ---- waits --------------------------------------------------------------------------------- */

/* All waits end together, after about the time of one command. One after the other they would
 * take N times as long. */
static void all_waits_end(struct actor *waiting[N_WAITERS])
{
    uint64_t began_ms = now_ms();

    assert_results(waiting, N_WAITERS, RELOCK_E_CONN);
    assert_no_later(now_ms() - began_ms, 3 * short_ms() + slow_ms(LATE_MS));
}

static void begin_to_wait(struct faults *t, struct relock_client *client,
                          struct actor *waiting[N_WAITERS])
{
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *asked = proxy_each(t->proxy, PROXY_PASS, "lock 1 orders");

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    actors_begin_lock(waiting, N_WAITERS, lock);
    assert_true(wait_for_waiters(client, N_WAITERS));
    assert_true(proxy_met(asked, 2));
    assert_int_equal(proxy_fate(asked), PROXY_ANSWERED); /* the head has no command in flight */
    proxy_let_go(asked);
}

static struct relock_client *waiting_client(struct faults *t, uint64_t recheck_ms)
{
    return faults_client(
        t, &(struct relock_options){.recheck_ms = recheck_ms, .command_timeout_ms = short_ms()});
}

/* The head, which retries when the subscriber connection ends, or the I/O thread ends the waits. */
static void waits_end_together_when_the_server_is_gone(void **state)
{
    struct faults *t = *state;
    struct actor *waiting[N_WAITERS];

    begin_to_wait(t, waiting_client(t, LONG_MS), waiting);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    all_waits_end(waiting);
    proxy_refuse(t->proxy, false);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
}

/* The I/O thread reaches the server all the time, so the head has to end the waits. */
static void waits_end_together_when_only_the_io_thread_gets_through(void **state)
{
    struct faults *t = *state;
    struct actor *waiting[N_WAITERS];
    struct proxy_rule *cut;

    begin_to_wait(t, waiting_client(t, short_ms()), waiting);
    cut = proxy_each(t->proxy, PROXY_CUT, "lock 1 orders");
    all_waits_end(waiting);
    assert_true(proxy_met(cut, 1));
    proxy_let_go(cut);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
}

static bool all_are_busy(struct actor *waiting[N_WAITERS])
{
    for (int i = 0; i < N_WAITERS; i++)
        if (!actor_is_busy(waiting[i]))
            return false;
    return true;
}

/* Calls lose their connections and can make no other, so they get that of the I/O thread. */
static void waits_go_on_over_the_connection_of_the_io_thread(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = waiting_client(t, short_ms() / 4);
    struct actor *waiting[N_WAITERS];
    uint64_t n_rechecks;

    begin_to_wait(t, client, waiting);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "lock 1 orders");
    n_rechecks = stats_of(client).rechecks;
    let_pass(3 * short_ms());
    assert_true(all_are_busy(waiting));
    assert_true(stats_of(client).rechecks > n_rechecks + 1);
    relock_client_shutdown(client);
    assert_results(waiting, N_WAITERS, RELOCK_E_CLOSED);
    proxy_refuse(t->proxy, false);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
}

/* As behind a firewall that drops what is new. */
static void a_hold_outlives_its_connection_while_new_ones_get_no_answer(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){.watchdog_timeout_ms = slow_ms(SHORT_LEASE_MS / 3),
                                    .connect_timeout_ms = LONG_MS,
                                    .command_timeout_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *dropped;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_for_renewals(client, 0, 1));
    dropped = proxy_each(t->proxy, PROXY_HOLD, "HELLO");
    proxy_cut(t->proxy, "renew 1 orders");
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 5));
    assert_true(proxy_met(dropped, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 0);
}

static void waits_end_together_when_the_server_stands_still(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){.recheck_ms = short_ms(), .command_timeout_ms = short_ms()});
    struct actor *waiting[N_WAITERS];

    begin_to_wait(t, client, waiting);
    server_pause(t->f->server);
    all_waits_end(waiting);
    server_resume(t->f->server);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
}

static void a_timed_wait_ends_in_time_while_the_server_is_unreachable(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){.recheck_ms = 100, .command_timeout_ms = short_ms()});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *waiting = actor_start();
    int r;

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    server_pause(t->f->server);
    r = actor_timedlock(waiting, lock, (int64_t)short_ms());
    assert_true(r == RELOCK_TIMEOUT || r == RELOCK_E_CONN);
    assert_no_later(actor_took_ms(waiting), 2 * short_ms() + slow_ms(LATE_MS));
    server_resume(t->f->server);
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_server_that_stops_for_two_seconds_loses_no_hold),
        FAULT_TEST(a_server_that_is_gone_for_two_seconds_loses_no_hold),
        FAULT_TEST(a_hold_is_uncertain_before_the_server_grants_it_to_another),
        FAULT_TEST(a_server_that_stops_beyond_the_lease_is_reported_once_to_each_holder),
        FAULT_TEST(a_server_that_comes_back_empty_is_reported_to_holders_and_admits_waiters),
        FAULT_TEST(waits_end_together_when_the_server_is_gone),
        FAULT_TEST(waits_end_together_when_only_the_io_thread_gets_through),
        FAULT_TEST(waits_go_on_over_the_connection_of_the_io_thread),
        FAULT_TEST(a_hold_outlives_its_connection_while_new_ones_get_no_answer),
        FAULT_TEST(waits_end_together_when_the_server_stands_still),
        FAULT_TEST(a_timed_wait_ends_in_time_while_the_server_is_unreachable),
    };

    return FAULT_TESTS_RUN(tests);
}
