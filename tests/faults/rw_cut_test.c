/*
 * Readers and writers that wait and hold while connections end, the server is down, or the user may
 * not publish.
 */
#include "faults.h"
#include "support/sides.h"

#define N_WAITERS 16

/* Half of them read, half write. */
static void begin_to_wait(struct faults *t, struct relock_client *client, struct sides ours,
                          struct actor *waiting[N_WAITERS])
{
    for (int i = 0; i < N_WAITERS; i++) {
        waiting[i] = actor_start();
        actor_begin(waiting[i], actor_take_turn, i % 2 == 0 ? ours.read : ours.write);
    }
    assert_true(wait_for_waiters(client, N_WAITERS));
    assert_true(probe_wait_subscribers(t->f->probe, SIDES_CHANNEL, 1));
}

/* The same behind a writer of another client. */
static void begin_to_wait_for_writer(struct faults *t, struct relock_client *client,
                                     struct sides theirs, struct actor *waiting[N_WAITERS])
{
    assert_result(relock_lock(theirs.write), RELOCK_OK);
    begin_to_wait(t, client, sides_of(t->f, client), waiting);
}

static void all_get_in(struct faults *t, struct relock_client *client,
                       struct actor *waiting[N_WAITERS])
{
    assert_results(waiting, N_WAITERS, RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

/* Nothing ends by time: a waiter that gets in was woken, or reconnected. */
static struct relock_client *distant_client(struct faults *t)
{
    return faults_connected_client(
        t, &(struct relock_options){.recheck_ms = LONG_MS,
                                    .watchdog_timeout_ms = LONG_MS,
                                    .command_timeout_ms = slow_ms(SOON_MS)});
}

static void waiters_of_both_sides_go_on_when_their_connections_are_cut(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = distant_client(t);
    struct sides ours = sides_of(t->f, client);
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct relock_lock *held[] = {theirs.write, theirs.read};
    struct actor *waiting[N_WAITERS];

    for (size_t i = 0; i < 2; i++) {
        uint64_t reconnects = stats_of(client).reconnects;

        assert_result(relock_lock(held[i]), RELOCK_OK);
        if (i == 0) {
            begin_to_wait(t, client, ours, waiting);
        } else { /* readers do not wait for readers */
            for (int j = 0; j < N_WAITERS; j++)
                actor_begin(waiting[j], actor_take_turn, ours.write);
            assert_true(wait_for_waiters(client, N_WAITERS));
            assert_true(probe_wait_subscribers(t->f->probe, SIDES_CHANNEL, 1));
        }
        proxy_cut(t->proxy, "");
        assert_true(wait_for_reconnects(client, reconnects + 2));
        assert_true(probe_wait_subscribers(t->f->probe, SIDES_CHANNEL, 1));
        assert_int_equal(stats_of(client).waiters, N_WAITERS);
        assert_result(relock_unlock(held[i]), RELOCK_OK);
        all_get_in(t, client, waiting);
    }
}

/* Connections are cut while the lock changes owners: unanswered commands are corrected. */
static void waiters_of_both_sides_go_on_while_their_connections_are_cut(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = distant_client(t);
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct actor *waiting[N_WAITERS];

    begin_to_wait_for_writer(t, client, theirs, waiting);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    for (int i = 0; i < 10; i++) {
        proxy_cut(t->proxy, "");
        let_pass(10);
    }
    all_get_in(t, client, waiting);
}

/* The message that would have woken them was published while they were not subscribed. */
static void a_release_during_a_broken_subscription_wakes_both_sides(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = distant_client(t);
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct actor *waiting[N_WAITERS];

    begin_to_wait_for_writer(t, client, theirs, waiting);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_true(probe_wait_subscribers(t->f->probe, SIDES_CHANNEL, 0));
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    proxy_refuse(t->proxy, false);
    all_get_in(t, client, waiting);
}

static void waits_of_both_sides_end_when_the_server_is_gone(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_client(
        t, &(struct relock_options){.recheck_ms = LONG_MS, .command_timeout_ms = short_ms()});
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct actor *waiting[N_WAITERS];

    begin_to_wait_for_writer(t, client, theirs, waiting);
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_results(waiting, N_WAITERS, RELOCK_E_CONN);
    proxy_refuse(t->proxy, false);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
}

static void holds_of_both_sides_survive_their_connections(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, 3000);
    struct sides ours = sides_of(t->f, client);

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    for (int i = 0; i < 4; i++) {
        nothing_is_lost_for(t, client, slow_ms(500));
        proxy_cut(t->proxy, "");
    }
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 4));
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_int_equal(stats_of(client).lost, 0);
}

/* ---- rights -------------------------------------------------------------------------------- */

static struct relock_client *silent_client(struct faults *t)
{
    faults_worker(t, "~* &* +@all -publish");
    return faults_client(t, &(struct relock_options){.user = WORKER,
                                                     .password = PASSWORD,
                                                     .recheck_ms = LONG_MS,
                                                     .watchdog_timeout_ms = LONG_MS});
}

static void without_the_right_to_publish_each_side_is_released_and_the_log_warns(void **state)
{
    struct faults *t = *state;
    struct sides ours = sides_of(t->f, silent_client(t));

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    log_clear(t->f->log);
    assert_result(relock_unlock(ours.write), RELOCK_OK); /* a downgrade */
    assert_true(log_wait_n(t->f->log, "the server refused PUBLISH", 1, SOON_MS));
    assert_true(relock_is_mine(ours.read));
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_true(log_wait_n(t->f->log, "the server refused PUBLISH", 2, SOON_MS));
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_true(log_wait_n(t->f->log, "the server refused PUBLISH", 3, SOON_MS));
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

/* The release is not published, and waiters of this process know that. */
static void a_release_that_is_not_published_admits_local_waiters(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = silent_client(t);
    struct sides ours = sides_of(t->f, client);
    struct actor *reader = actor_start(), *writer = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    actor_begin_lock(reader, ours.read);
    assert_true(wait_for_waiters(client, 1));
    assert_true(probe_wait_subscribers(t->f->probe, SIDES_CHANNEL, 1));
    actor_begin_lock(writer, ours.write);
    assert_true(wait_for_waiters(client, 2));
    assert_true(proxy_counts(t->proxy, "read_lock 1 orders", 3));
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_true(actor_is_busy(writer));
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    assert_gets_in(writer, ours.write);
    assert_int_equal(stats_of(client).rechecks, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(waiters_of_both_sides_go_on_when_their_connections_are_cut),
        FAULT_TEST(waiters_of_both_sides_go_on_while_their_connections_are_cut),
        FAULT_TEST(a_release_during_a_broken_subscription_wakes_both_sides),
        FAULT_TEST(waits_of_both_sides_end_when_the_server_is_gone),
        FAULT_TEST(holds_of_both_sides_survive_their_connections),
        FAULT_TEST(without_the_right_to_publish_each_side_is_released_and_the_log_warns),
        FAULT_TEST(a_release_that_is_not_published_admits_local_waiters),
    };

    return FAULT_TESTS_RUN(tests);
}
