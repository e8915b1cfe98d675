/* The queue of a fair lock while connections, rights or the server are lost. */
#include "faults.h"
#include "support/fair_queue.h"

#define RECHECK_MS 500 /* after three of these without a retry, a waiter counts as dead */
#define N_WAITERS 5

static struct relock_client *client_with(struct faults *t, uint64_t recheck_ms)
{
    return faults_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                     .recheck_ms = recheck_ms,
                                                     .command_timeout_ms = slow_ms(SOON_MS)});
}

static void get_in_in_order(struct relock_lock *lock, struct actor *waiting[N_WAITERS])
{
    for (int i = 0; i < N_WAITERS; i++) {
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        for (int j = i + 1; j < N_WAITERS; j++)
            assert_true(actor_is_busy(waiting[j]));
        assert_result(actor_unlock(waiting[i], lock), RELOCK_OK);
    }
}

/* Only messages wake the waiters: each is subscribed again, under its own number. */
static void a_queue_stays_in_order_when_its_connections_are_cut(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, LONG_MS);
    struct relock_lock *lock = fair_handle(t->f, client);
    struct relock_lock *held = fair_handle(t->f, fixture_client(t->f, NULL));
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(held), RELOCK_OK);
    fair_queue_line_up(t->f, waiting, N_WAITERS, lock);
    assert_true(probe_wait_lock_channels(t->f->probe, N_WAITERS));
    for (int i = 0; i < 3; i++) {
        proxy_cut(t->proxy, "");
        assert_true(probe_wait_lock_channels(t->f->probe, N_WAITERS));
    }
    assert_result(relock_unlock(held), RELOCK_OK);
    get_in_in_order(lock, waiting);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* No waiter received the message, so each retries once it is connected again. */
static void a_release_while_the_first_is_cut_off_is_not_missed(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, LONG_MS);
    struct relock_lock *lock = fair_handle(t->f, client);
    struct relock_lock *held = fair_handle(t->f, fixture_client(t->f, NULL));
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(held), RELOCK_OK);
    fair_queue_line_up(t->f, waiting, N_WAITERS, lock);
    assert_true(probe_wait_lock_channels(t->f->probe, N_WAITERS));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_result(relock_unlock(held), RELOCK_OK);
    let_pass(200);
    proxy_refuse(t->proxy, false);
    get_in_in_order(lock, waiting);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* Connections are cut repeatedly while the lock goes through the queue. */
static void all_waiters_get_the_lock_while_their_connections_are_cut(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fair_handle(t->f, client_with(t, LONG_MS));
    struct relock_lock *held = fair_handle(t->f, fixture_client(t->f, NULL));
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(held), RELOCK_OK);
    fair_queue_line_up(t->f, waiting, N_WAITERS, lock);
    assert_result(relock_unlock(held), RELOCK_OK);
    for (int i = 0; i < N_WAITERS; i++) {
        proxy_cut(t->proxy, "");
        assert_result(actor_result(waiting[i]), RELOCK_OK);
        proxy_cut(t->proxy, "");
        assert_result(actor_unlock(waiting[i], lock), RELOCK_OK);
    }
    assert_true(fair_queue_wait(t->f, 0));
}

/* The server loses its data: the lock is free and its queue empty. */
static void all_waiters_get_the_lock_when_the_server_is_restarted(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, outlast_ms(RECHECK_MS));
    struct relock_lock *lock = fair_handle(t->f, client);
    struct relock_lock *held = fair_handle(t->f, client_with(t, LONG_MS));
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(held), RELOCK_OK);
    fair_queue_line_up(t->f, waiting, N_WAITERS, lock);
    server_kill(t->f->server);
    let_pass(50);
    server_restart(t->f->server);
    fair_all_take_turns(lock, waiting, N_WAITERS);
    faults_release_forgotten(t, held);
}

/* ---- rights -------------------------------------------------------------------------------- */

static struct relock_client *mute_client(struct faults *t, uint64_t recheck_ms)
{
    faults_worker(t, "~* &* +@all -publish");
    return faults_client(t, &(struct relock_options){.user = WORKER,
                                                     .password = PASSWORD,
                                                     .watchdog_timeout_ms = LONG_MS,
                                                     .recheck_ms = recheck_ms});
}

/* The client knows that its release was not published, and its own waiters retry. */
static void without_the_right_to_publish_local_waiters_get_the_lock_at_once(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = mute_client(t, LONG_MS);
    struct relock_lock *lock = fair_handle(t->f, client);
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(lock), RELOCK_OK);
    fair_queue_line_up(t->f, waiting, N_WAITERS, lock);
    assert_result(relock_unlock(lock), RELOCK_OK);
    get_in_in_order(lock, waiting);
    assert_true(log_wait(t->f->log, "the server refused PUBLISH", SOON_MS));
    assert_int_equal(stats_of(client).rechecks, 0);
}

/*
 * By the time all have rechecked, each has also retried when it was subscribed. The release tells
 * nobody, so only the next recheck finds the free lock.
 */
static void without_the_right_to_publish_other_clients_get_the_lock_at_their_recheck(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, outlast_ms(RECHECK_MS));
    struct relock_lock *lock = fair_handle(t->f, client);
    struct relock_lock *held = fair_handle(t->f, mute_client(t, LONG_MS));
    struct actor *waiting[N_WAITERS];

    assert_result(relock_lock(held), RELOCK_OK);
    fair_queue_line_up(t->f, waiting, N_WAITERS, lock);
    assert_true(wait_for_rechecks(client, N_WAITERS));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_true(log_wait(t->f->log, "the server refused PUBLISH", SOON_MS));
    get_in_in_order(lock, waiting);
}

static void without_the_right_to_subscribe_a_waiter_polls(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fair_handle(t->f, fixture_client(t->f, NULL));
    struct relock_lock *lock;
    struct actor *waiting[N_WAITERS];

    faults_worker(t, "~* +@all");
    lock = fair_handle(
        t->f, faults_client(t, &(struct relock_options){.user = WORKER,
                                                        .password = PASSWORD,
                                                        .watchdog_timeout_ms = LONG_MS,
                                                        .recheck_ms = outlast_ms(RECHECK_MS)}));
    assert_result(relock_lock(held), RELOCK_OK);
    fair_queue_line_up(t->f, waiting, N_WAITERS, lock);
    assert_result(relock_unlock(held), RELOCK_OK);
    get_in_in_order(lock, waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_queue_stays_in_order_when_its_connections_are_cut),
        FAULT_TEST(a_release_while_the_first_is_cut_off_is_not_missed),
        FAULT_TEST(all_waiters_get_the_lock_while_their_connections_are_cut),
        FAULT_TEST(all_waiters_get_the_lock_when_the_server_is_restarted),
        FAULT_TEST(without_the_right_to_publish_local_waiters_get_the_lock_at_once),
        FAULT_TEST(without_the_right_to_publish_other_clients_get_the_lock_at_their_recheck),
        FAULT_TEST(without_the_right_to_subscribe_a_waiter_polls),
    };

    return FAULT_TESTS_RUN(tests);
}
