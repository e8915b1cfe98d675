/*
 * Waiters sleep until the release is published. Where a test is about the message, the client
 * rechecks so rarely that nothing else can have woken it.
 */
#include "support/child.h"
#include "support/waiter.h"

#include <stdio.h>
#include <stdlib.h>

#define N_PASSES 1000LL
#define N_NAMES 300 /* more than the 250 of Redisson, at which it begins to fail */

static void a_waiter_wakes_on_the_published_release(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *ours = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_lock *theirs = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(ours), RELOCK_OK);
    actor_begin_lock(waiting, theirs);
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));
    assert_true(wait_for_waiters(client, 1));

    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_int_equal(stats_of(client).acquired, 1);
    assert_int_equal(stats_of(client).contended, 1);
    assert_result(actor_unlock(waiting, theirs), RELOCK_OK);
}

static void a_process_is_served_in_the_order_of_arrival(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[5];

    assert_result(relock_lock(lock), RELOCK_OK);
    for (int i = 0; i < 5; i++) {
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], lock);
        assert_true(wait_for_waiters(client, (uint64_t)i + 1));
    }

    assert_result(relock_unlock(lock), RELOCK_OK);
    for (int i = 0; i < 5; i++) {
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        assert_int_equal(stats_of(client).waiters, 4 - i);
        assert_result(actor_unlock(waiting[i], lock), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

static void many_waiters_are_one_subscription(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting[16];

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actors_begin(waiting, 16, actor_take_turn, lock);
    assert_true(wait_for_waiters(client, 16));
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));

    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_results(waiting, 16, RELOCK_OK);
}

static void the_subscription_goes_when_nobody_has_waited_for_a_while(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(fixture_timedlock(lock, (int64_t)slow_ms(200)), RELOCK_TIMEOUT);
    assert_true(probe_wait_lock_channels(f->probe, 0));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

/* The holder died: its lease ends without a message. */
static void the_end_of_the_lease_wakes_a_waiter(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_true(peer_lock(f->probe, "orders", PEER, 700));
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_int_equal(stats_of(client).wakes, 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The key was deleted by hand, long before its lease ended. */
static void a_waiter_retries_every_recheck_ms(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, &(struct relock_options){.recheck_ms = 300});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));
    probe_int(f->probe, "DEL orders");

    assert_gets_in(waiting, lock);
}

static void a_waiter_waits_for_a_holder_without_a_lease_too(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    probe_int(f->probe, "HSET orders %s 1", PEER);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(f->probe, "redisson_lock__channel:{orders}", 1));
    waiter_gets_in(f, waiting, lock);
}

/* Any text, and without a release: the waiter retries. */
static void any_message_is_a_signal(void **state)
{
    static const char *const messages[] = {"0", "1", "", "2147483648", "{\"unlock\":true}"};
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    for (size_t i = 0; i < sizeof(messages) / sizeof(*messages); i++) {
        waiter_begin(f, waiting, lock);
        let_pass(20); /* it has retried by then, mostly */
        probe_int(f->probe, "DEL orders");
        probe_int(f->probe, "PUBLISH redisson_lock__channel:{orders} %s", messages[i]);
        assert_gets_in(waiting, lock);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* Fewer where programs run slowly. */
static int n_names(void)
{
    return N_NAMES / (int)slow_ms(1);
}

static bool has_channels(void *probe)
{
    return probe_n_lock_channels(probe) == n_names();
}

static void many_names_are_waited_for_over_one_connection(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *locks[N_NAMES];
    struct actor *waiting[N_NAMES];
    char name[24];

    for (int i = 0; i < n_names(); i++) {
        snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_lock(f->probe, name, PEER, NEVER_MS));
        assert_result(relock_lock_new(client, name, &locks[i]), RELOCK_OK);
        waiting[i] = actor_start();
        actor_begin(waiting[i], actor_take_turn, locks[i]);
    }
    assert_true(wait_until(has_channels, f->probe, 3 * SOON_MS));
    assert_true(probe_n_clients(f->probe, "") <= 8 + 2 + 1); /* lanes; ours; the probe's */
    for (int i = 0; i < n_names(); i++) {
        snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_unlock(f->probe, name, PEER));
    }
    for (int i = 0; i < n_names(); i++) {
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        relock_lock_free(locks[i]);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* A message without a free lock, as if another client had been faster. */
static void a_waiter_that_is_woken_in_vain_waits_on(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    for (int i = 0; i < 20; i++)
        probe_int(f->probe, "PUBLISH redisson_lock__channel:{orders} 0");
    let_pass(50);
    assert_true(actor_is_busy(waiting));
    waiter_gets_in(f, waiting, lock);
}

/* Waits for that turn; false if the last one was before it. */
static bool comes(struct probe *probe, long long turn)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    long long now;

    while ((now = probe_int(probe, "GET turn")) != turn && now < N_PASSES)
        child_must(now_ms() < deadline_ms);
    return now == turn;
}

/* Takes every second turn, and stays long enough for the other to come and wait. On a machine so
 * slow that it takes too long, the next turn is the last. Returns the number of its own. */
static int64_t take_turns(struct relock_lock *lock, struct probe *probe, long long which)
{
    uint64_t until_ms = deadline_in(2 * (uint64_t)SOON_MS);
    int64_t n = 0;

    for (long long turn = which; turn < N_PASSES && comes(probe, turn); turn += 2) {
        child_must(relock_lock(lock) == RELOCK_OK);
        probe_int(probe, "SET turn %lld", now_ms() < until_ms ? turn + 1 : N_PASSES);
        for (int i = 0; i < 10; i++)
            probe_int(probe, "DBSIZE");
        child_must(relock_unlock(lock) == RELOCK_OK);
        n++;
    }
    return n;
}

static int pass_to_and_fro(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct probe *probe = probe_open(f->server->socket);
    struct relock_client *client;
    struct relock_lock *lock;
    int64_t which, n;

    child_must(child_receive(parent, &which));
    client = child_client(f, &(struct relock_options){.recheck_ms = NEVER_MS});
    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);

    n = take_turns(lock, probe, which);

    child_must(child_send(parent, (int64_t)stats_of(client).rechecks));
    child_must(child_send(parent, (int64_t)stats_of(client).waits));
    child_must(child_send(parent, n));
    relock_client_free(client);
    relock_lock_free(lock);
    probe_close(probe);
    return EXIT_SUCCESS;
}

static void a_lock_moves_between_two_processes_by_messages_alone(void **state)
{
    struct fixture *f = *state;
    struct child *children[2];
    int64_t rechecks, waits, n, all_waits = 0, all = 0;

    probe_int(f->probe, "SET turn 0");
    for (int i = 0; i < 2; i++)
        children[i] = child_start(pass_to_and_fro, f);
    for (int i = 0; i < 2; i++)
        assert_true(child_send(children[i], i));
    for (int i = 0; i < 2; i++) {
        assert_true(child_receive_within(children[i], &rechecks, 6 * (uint64_t)SOON_MS));
        assert_true(child_receive(children[i], &waits));
        assert_true(child_receive(children[i], &n));
        assert_int_equal(child_wait(children[i], SOON_MS), EXIT_SUCCESS);
        assert_int_equal(rechecks, 0);
        all_waits += waits;
        all += n;
    }
    print_message("%d passes, %d waits\n", (int)all, (int)all_waits);
    assert_true(all_waits > all / 10); /* they did meet */
    probe_int(f->probe, "DEL turn");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_waiter_wakes_on_the_published_release),
        SERVER_TEST(a_process_is_served_in_the_order_of_arrival),
        SERVER_TEST(many_waiters_are_one_subscription),
        SERVER_TEST(the_subscription_goes_when_nobody_has_waited_for_a_while),
        SERVER_TEST(the_end_of_the_lease_wakes_a_waiter),
        SERVER_TEST(a_waiter_retries_every_recheck_ms),
        SERVER_TEST(a_waiter_waits_for_a_holder_without_a_lease_too),
        SERVER_TEST(any_message_is_a_signal),
        SERVER_TEST(many_names_are_waited_for_over_one_connection),
        SERVER_TEST(a_waiter_that_is_woken_in_vain_waits_on),
        SERVER_TEST(a_lock_moves_between_two_processes_by_messages_alone),
    };

    return SERVER_TESTS_RUN(tests);
}
