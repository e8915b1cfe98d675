/*
 * A user without all rights: if locking needs the right, the call returns RELOCK_E_AUTH; otherwise
 * it works and the log warns.
 */
#include "faults.h"
#include "support/reactor.h"

#define LEASE_MS 3000

static struct relock_client *worker_client(struct faults *t, const char *rights)
{
    faults_worker(t, rights);
    return faults_client(t, &(struct relock_options){.user = WORKER,
                                                     .password = PASSWORD,
                                                     .watchdog_timeout_ms = outlast_ms(LEASE_MS)});
}

static void a_denied_key_is_reported(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = worker_client(t, "~invoices &* +@all");
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *other = fixture_lock(t->f, client, "invoices");
    bool locked;

    assert_result(relock_lock(lock), RELOCK_E_AUTH);
    assert_result(relock_trylock(lock), RELOCK_E_AUTH);
    assert_result(relock_is_locked(lock, &locked), RELOCK_E_AUTH);
    assert_result(relock_force_unlock(lock), RELOCK_E_AUTH);
    assert_true(log_wait(t->f->log, "NOPERM", SOON_MS));
    assert_true(log_count(t->f->log, "orders") > 0);
    assert_int_equal(log_count(t->f->log, PASSWORD), 0);
    assert_int_equal(stats_of(client).holds, 0);
    assert_result(relock_lock(other), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
}

static void is_told_to_lack_rights(struct faults *t, const char *rights)
{
    struct relock_client *client = worker_client(t, rights);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    assert_result(relock_trylock(lock), RELOCK_E_AUTH);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

static void a_denied_command_is_reported(void **state)
{
    is_told_to_lack_rights(*state, "~* &* +@all -evalsha");
}

static void a_command_denied_inside_a_script_is_reported(void **state)
{
    is_told_to_lack_rights(*state, "~* &* +@all -hset");
    is_told_to_lack_rights(*state,
                           "~* &* +@all -pexpire"); /* otherwise it would be held for ever */
}

/* The reason is for the program that repairs the rights. */
static void a_refused_asynchronous_release_names_its_script(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = worker_client(t, "~* &* +@all -del -hdel");
    struct relock_events *events = reactor_events(client);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    uint64_t owner;

    assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_OK);
    assert_result(reactor_release(lock, owner, events), RELOCK_E_AUTH);
    assert_true(log_wait(t->f->log, "which the script unlock.lua needs", SOON_MS));
    assert_null(relock_events_free(events));
}

static void rights_that_come_back_before_the_lease_ends_lose_no_hold(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = worker_client(t, "~* &* +@all");
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " resetkeys"), 0);
    assert_true(log_wait(t->f->log, "NOPERM", SOON_MS));
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " ~*"), 0);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 2));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 0);
}

static void without_the_right_to_subscribe_a_waiter_polls(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock;
    struct relock_client *client;
    struct actor *waiting;

    faults_worker(t, "~* +@all");
    client = faults_client(
        t,
        &(struct relock_options){.user = WORKER, .password = PASSWORD, .recheck_ms = slow_ms(200)});
    lock = fixture_lock(t->f, client, "orders");
    waiting = faults_blocked(t, lock);
    assert_true(log_wait(t->f->log, "not subscribed", SOON_MS));
    assert_true(wait_for_rechecks(client, 1));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_int_equal(stats_of(client).wakes, 0);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

/* Without tracking, which would warn of the right to subscribe once a hold is older than 100 ms. */
static void without_the_right_to_publish_an_unlock_succeeds_and_the_log_warns(void **state)
{
    struct relock_options options = {
        .user = WORKER, .password = PASSWORD, .flags = RELOCK_NO_TRACKING};
    struct faults *t = *state;
    struct relock_lock *lock;

    faults_worker(t, "~* +@all");
    lock = fixture_lock(t->f, faults_client(t, &options), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    log_clear(t->f->log);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
    assert_true(log_wait_n(t->f->log, "the server refused PUBLISH", 1, SOON_MS));
    assert_int_equal(log_count_grave(t->f->log, RELOCK_LOG_WARNING), 1);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* Where a release leaves work: for a caller that retries, and for the I/O thread that settles. */
static void a_missing_right_to_kill_is_logged_once(void **state)
{
    static const char rights[] = "~* &* +@all -client +client|info";
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, worker_client(t, rights), "orders");

    for (int i = 0; i < 2; i++) {
        proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "lock 1 orders");
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_true(log_wait_n(t->f->log, "CLIENT KILL: NOPERM", 1, SOON_MS));
    assert_int_equal(log_count(t->f->log, "lives until its lease ends; see docs/wire.md#rights"),
                     1);
}

static void a_missing_right_to_kill_is_logged_without_a_further_call(void **state)
{
    struct faults *t = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct proxy_rule *late;

    faults_worker(t, "~* &* +@all -client +client|info");
    client = faults_client(t, &(struct relock_options){.user = WORKER,
                                                       .password = PASSWORD,
                                                       .command_timeout_ms = short_ms()});
    lock = fixture_lock(t->f, client, "orders");
    late = proxy_next(t->proxy, PROXY_HOLD, "lock 1 orders");
    assert_result(relock_trylock(lock), RELOCK_E_CONN);
    assert_true(log_wait(t->f->log, "CLIENT KILL: NOPERM", SOON_MS));
    proxy_let_go(late);
    assert_int_equal(proxy_fate(late), PROXY_ANSWERED);
    assert_int_equal(probe_int(t->f->probe, "DEL orders"), 1);
}

/* The release is not published, and waiters of this process know that. */
static void an_unlock_that_is_not_published_admits_the_next_waiter(void **state)
{
    struct faults *t = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *first = actor_start();
    struct actor *second = actor_start();

    faults_worker(t, "~orders &* +@all -publish"); /* without a line */
    client = faults_client(t, &(struct relock_options){.user = WORKER,
                                                       .password = PASSWORD,
                                                       .watchdog_timeout_ms = LONG_MS,
                                                       .recheck_ms = LONG_MS,
                                                       .handoff_ms = 1});
    lock = fixture_lock(t->f, client, "orders");
    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    actor_begin_lock(first, lock);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_lock(second, lock);
    assert_true(wait_for_waiters(client, 2));
    assert_true(proxy_counts(t->proxy, "lock 1 orders", 2));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_result(actor_result(first), RELOCK_OK);
    let_pass(50); /* after this the hold is not handed off */
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_int_equal(stats_of(client).passed_on, 0);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_result(actor_unlock(second, lock), RELOCK_OK);
}

/* A level was released here and not in Redis: the next owner would have one level too many
 * there. */
static void a_hold_whose_count_differs_in_redis_is_not_handed_off(void **state)
{
    struct faults *t = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *first = actor_start();
    struct actor *second = actor_start();

    faults_worker(t, "~* &* +@all");
    client = faults_client(t, &(struct relock_options){.user = WORKER,
                                                       .password = PASSWORD,
                                                       .watchdog_timeout_ms = LONG_MS,
                                                       .recheck_ms = LONG_MS,
                                                       .handoff_ms = LONG_MS});
    lock = fixture_lock(t->f, client, "orders");
    assert_result(actor_lock(first, lock), RELOCK_OK);
    assert_result(actor_lock(first, lock), RELOCK_OK);
    actor_begin_lock(second, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " resetkeys"), 0);
    assert_result(actor_unlock(first, lock), RELOCK_E_AUTH);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " ~*"), 0);
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 1);
    assert_int_equal(stats_of(client).passed_on, 0);
    assert_result(actor_unlock(second, lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_denied_key_is_reported),
        FAULT_TEST(a_denied_command_is_reported),
        FAULT_TEST(a_command_denied_inside_a_script_is_reported),
        FAULT_TEST(a_refused_asynchronous_release_names_its_script),
        FAULT_TEST(rights_that_come_back_before_the_lease_ends_lose_no_hold),
        FAULT_TEST(without_the_right_to_subscribe_a_waiter_polls),
        FAULT_TEST(without_the_right_to_publish_an_unlock_succeeds_and_the_log_warns),
        FAULT_TEST(a_missing_right_to_kill_is_logged_once),
        FAULT_TEST(a_missing_right_to_kill_is_logged_without_a_further_call),
        FAULT_TEST(an_unlock_that_is_not_published_admits_the_next_waiter),
        FAULT_TEST(a_hold_whose_count_differs_in_redis_is_not_handed_off),
    };

    return FAULT_TESTS_RUN(tests);
}
