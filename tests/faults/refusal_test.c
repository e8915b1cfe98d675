/*
 * Refusals of a real server that may end soon: the library retries until the command timeout, then
 * returns RELOCK_E_SERVER with the server's own words in the log. For lasting refusals see
 * lasting_test.c.
 */
#include "faults.h"

#include "support/fair_queue.h"
#include "support/keeping.h"
#include "support/line.h"

#include <string.h>

#define LEASE_MS 3000
#define LATE_MS 7000 /* a delay that a shared machine may cause */

/* A handle of a client with this command timeout. */
static struct relock_lock *lock_of(struct faults *t, uint64_t command_timeout_ms)
{
    return fixture_lock(t->f,
                        faults_connected_client(
                            t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                        .command_timeout_ms = command_timeout_ms}),
                        "orders");
}

static void set_config(struct faults *t, const char *name, const char *value)
{
    assert_int_equal(probe_int(t->f->probe, "CONFIG SET %s %s", name, value), 0);
}

static void be_replica(struct faults *t)
{
    assert_int_equal(probe_int(t->f->probe, "REPLICAOF 127.0.0.1 1"), 0);
}

/* A replica that refuses commands without its master. */
static void be_orphan(struct faults *t)
{
    set_config(t, "replica-serve-stale-data", "no");
    be_replica(t);
}

static void be_master(struct faults *t)
{
    assert_int_equal(probe_int(t->f->probe, "REPLICAOF NO ONE"), 0);
}

struct trouble {
    const char *code; /* until the first reply */
    void (*begin)(struct faults *t);
    void (*end)(struct faults *t);
    bool is_told_by_login; /* on a new connection, which sends no command */
    const char *words;     /* in the log */
};

static const struct trouble busy = {"-BUSY", faults_be_busy, faults_be_busy_no_more, false, "BUSY"};
static const struct trouble masterdown = {"-MASTERDOWN", be_orphan, be_master, true,
                                          "this is a replica"};
static const struct trouble readonly = {"-READONLY", be_replica, be_master, true,
                                        "this is a replica"};

/* The reply that repeats for as long as the trouble lasts. */
static const char *seen_again(const struct trouble *trouble, const char *words)
{
    return trouble->is_told_by_login ? "HELLO" : words;
}

static void lock_waits_for_it_to_pass(struct faults *t, const struct trouble *trouble)
{
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));
    struct actor *owner = actor_start();
    const char *again = seen_again(trouble, trouble->code);
    size_t n_seen = proxy_count(t->proxy, again);

    trouble->begin(t);
    actor_begin_lock(owner, lock);
    assert_true(proxy_counts(t->proxy, trouble->code, 1));
    assert_true(proxy_counts(t->proxy, again, n_seen + 3));
    assert_true(actor_is_busy(owner));
    trouble->end(t);
    assert_result(actor_result(owner), RELOCK_OK);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 1);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
}

/* The result is RELOCK_E_CONN if the last attempt got no reply before the deadline. If that
 * broke the connection, it stays so: a busy server refuses logins. */
static int lock_until_refused(struct faults *t, const struct trouble *trouble, struct actor *owner,
                              struct relock_lock *lock)
{
    int r = RELOCK_E_CONN;

    for (int i = 0; i < 10 && r == RELOCK_E_CONN; i++) {
        if (i > 0) {
            trouble->end(t);
            assert_result(actor_lock(owner, lock), RELOCK_OK);
            assert_result(actor_unlock(owner, lock), RELOCK_OK);
        }
        trouble->begin(t);
        r = actor_lock(owner, lock);
    }
    return r;
}

static void lock_is_refused_if_it_stays(struct faults *t, const struct trouble *trouble)
{
    struct relock_lock *lock = lock_of(t, 2 * short_ms());
    struct actor *owner = actor_start();

    assert_result(lock_until_refused(t, trouble, owner, lock), RELOCK_E_SERVER);
    assert_no_later(actor_took_ms(owner), 2 * short_ms() + slow_ms(LATE_MS));
    assert_true(log_wait(t->f->log, trouble->words, SOON_MS));
    assert_result(actor_unlock(owner, lock), RELOCK_NOT_OWNER);
    trouble->end(t);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

/* The level is released, and Redis is told as soon as it accepts commands again. */
static void unlock_is_made_up_for(struct faults *t, const struct trouble *trouble)
{
    struct relock_lock *lock = lock_of(t, short_ms());
    const char *again = seen_again(trouble, "unlock 1 orders * 0");
    size_t n_seen;
    int r;

    assert_result(relock_lock(lock), RELOCK_OK);
    trouble->begin(t);
    r = relock_unlock(lock);
    if (r != RELOCK_E_CONN)
        assert_result(r, RELOCK_E_SERVER);
    assert_true(proxy_counts(t->proxy, trouble->code, 1));
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    n_seen = proxy_count(t->proxy, again);
    assert_true(proxy_counts(t->proxy, again, n_seen + 2));
    trouble->end(t);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
}

/* Otherwise a client that waits no more would stand in the line. */
static void departure_is_made_up_for(struct faults *t, const struct trouble *trouble)
{
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct proxy_rule *departure = proxy_next(t->proxy, PROXY_PASS, "line_leave 1 orders");
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_acquire(waiting, lock, &how);
    assert_true(line_wait(t->f, 1));
    trouble->begin(t);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_int_equal(proxy_fate(departure), PROXY_ANSWERED);
    assert_true(proxy_counts(t->proxy, trouble->code, 1));
    trouble->end(t);
    assert_true(line_wait(t->f, 0));
    assert_result(relock_unlock(held), RELOCK_OK);
    relock_cancel_free(how.cancel);
}

/* Otherwise those behind it would wait until it counts as dead. */
static void a_place_in_a_queue_is_left_after_a_refusal_that_outlasts_the_lease(void **state)
{
    struct faults *t = *state;
    struct relock_options options = {.watchdog_timeout_ms = LONG_MS, .recheck_ms = LONG_MS};
    struct relock_lock *held = fair_handle(t->f, fixture_client(t->f, &options));
    struct relock_lock *lock = fair_handle(t->f, faults_connected_client(t, &options));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .lease_ms = 100};
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_acquire(waiting, lock, &how);
    assert_true(fair_queue_wait(t->f, 1) && fair_queue_wait_listens(t->f, 0));
    faults_be_busy(t);
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_true(proxy_counts(t->proxy, "-BUSY", 1));
    let_pass(2 * how.lease_ms);
    faults_be_busy_no_more(t);
    assert_true(fair_queue_wait(t->f, 0));
    assert_result(relock_unlock(held), RELOCK_OK);
    relock_cancel_free(how.cancel);
}

static void a_kept_lock_that_a_busy_server_did_not_take_back_is_given_back_later(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                  .command_timeout_ms = slow_ms(SOON_MS),
                                                  .keep_ms = LONG_MS});
    struct relock_lock *kept = fixture_lock(t->f, client, "orders");
    struct relock_lock *lock = fixture_lock(t->f, line_client(t->f), "orders");
    struct proxy_rule *release = proxy_next(t->proxy, PROXY_HOLD, "unlock 1 orders * 0");
    struct actor *waiting = actor_start();

    keeping_await(client);
    assert_result(relock_lock(kept), RELOCK_OK);
    assert_result(relock_unlock(kept), RELOCK_OK);
    assert_true(keeping_wait(client, 1));
    actor_begin_lock(waiting, lock);
    faults_meet_busy(t, release);
    assert_gets_in(waiting, lock);
}

/* Otherwise the client would have no inbox until the connection ends. */
static void a_subscription_that_a_busy_server_refused_is_repeated(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));
    struct proxy_rule *subscribe = proxy_next(t->proxy, PROXY_HOLD, "SUBSCRIBE");
    struct actor *waiting = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    faults_meet_busy(t, subscribe);
    assert_true(line_wait(t->f, 1));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting, lock);
}

/* Otherwise the server would have the subscription until the connection ends. */
static void an_unsubscribe_that_a_busy_server_refused_is_made_up_for(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fixture_lock(t->f, line_client(t->f), "orders");
    struct relock_lock *lock = lock_of(t, slow_ms(SOON_MS));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct proxy_rule *unsubscribe = proxy_next(t->proxy, PROXY_HOLD, "UNSUBSCRIBE");
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_acquire(waiting, lock, &how);
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 1));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    faults_meet_busy(t, unsubscribe);
    assert_true(probe_wait_subscribers(t->f->probe, CHANNEL, 0));
    assert_result(relock_unlock(held), RELOCK_OK);
    relock_cancel_free(how.cancel);
}

struct seen {
    struct relock_client *client;
    int64_t held_ms; /* or -1 */
};

static bool note(const struct relock_lock_info *info, void *arg)
{
    ((struct seen *)arg)->held_ms = info->held_ms;
    return true;
}

static bool is_recorded(void *arg)
{
    struct seen *seen = arg;

    assert_result(relock_locks(seen->client, "orders", note, seen), RELOCK_OK);
    return seen->held_ms >= 0;
}

/* Otherwise nobody would be told for a minute since when locks are held. */
static void a_record_that_a_busy_server_refused_is_written_soon(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_connected_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                            .command_timeout_ms = slow_ms(SOON_MS),
                                                            .deadlock_ms = 100});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct seen seen = {.client = fixture_client(t->f, NULL)};
    struct proxy_rule *record = proxy_next(t->proxy, PROXY_HOLD, "since_write");

    assert_result(relock_lock(lock), RELOCK_OK);
    faults_meet_busy(t, record);
    assert_true(wait_until(is_recorded, &seen, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static bool has_failed_to_renew(void *client)
{
    return stats_of(client).renewal_failures > 0;
}

static void hold_survives_it(struct faults *t, const struct trouble *trouble)
{
    struct relock_client *client = faults_connected_client(
        t, &(struct relock_options){.watchdog_timeout_ms = outlast_ms(LEASE_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    trouble->begin(t);
    assert_true(proxy_counts(t->proxy, trouble->code, 1));
    assert_true(wait_until(has_failed_to_renew, client, SOON_MS));
    trouble->end(t);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 2));
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_busy_server_is_waited_for(void **state)
{
    lock_waits_for_it_to_pass(*state, &busy);
}

static void a_server_that_stays_busy_refuses(void **state)
{
    lock_is_refused_if_it_stays(*state, &busy);
}

static void an_unlock_that_a_busy_server_refused_is_completed_later(void **state)
{
    unlock_is_made_up_for(*state, &busy);
}

static void a_departure_that_a_busy_server_refused_is_repeated(void **state)
{
    departure_is_made_up_for(*state, &busy);
}

static void a_hold_survives_a_busy_server(void **state)
{
    hold_survives_it(*state, &busy);
}

/* Releases one of two levels. The command is held back and times out; if it runs late, it sets
 * the count to 1. */
static struct proxy_rule *release_in_vain(struct faults *t, struct actor *owner,
                                          struct relock_lock *lock)
{
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "unlock 1 orders * 1");

    assert_result(actor_unlock(owner, lock), RELOCK_E_CONN);
    return rule;
}

/* The owner has two levels again; the old command must not run. */
static void is_in_time_no_more(struct faults *t, struct actor *owner, struct relock_lock *lock,
                               struct proxy_rule *late)
{
    proxy_let_go(late);
    assert_int_equal(proxy_fate(late), PROXY_ENDED);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 2);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
}

/* First another owner uses the broken connection, so that the kill goes over a connection that
 * was open before the server was busy: a busy server refuses logins. */
static void a_kill_that_a_busy_server_refused_is_repeated(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, 2 * short_ms());
    struct relock_lock *others = fixture_lock(t->f, t->f->clients[0], "invoices");
    struct proxy_rule *answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 invoices");
    struct actor *owner = actor_start();
    struct actor *other = actor_start();
    struct proxy_rule *late, *login;

    actor_begin_lock(other, others);
    assert_int_equal(proxy_fate(answer), PROXY_ANSWERED);
    assert_result(actor_lock(owner, lock), RELOCK_OK); /* over its own connection */
    proxy_let_go(answer);
    assert_result(actor_result(other), RELOCK_OK);
    assert_result(actor_lock(owner, lock), RELOCK_OK);
    late = release_in_vain(t, owner, lock);
    login = proxy_next(t->proxy, PROXY_HOLD, "CLIENT INFO");
    actor_begin_lock(other, others);
    assert_true(proxy_met(login, 1));

    faults_be_busy(t);
    actor_begin_lock(owner, lock);
    assert_true(proxy_counts(t->proxy, "CLIENT KILL", 1));
    assert_true(proxy_counts(t->proxy, "-BUSY", 2));
    faults_be_busy_no_more(t);
    assert_result(actor_result(owner), RELOCK_OK);
    is_in_time_no_more(t, owner, lock, late);

    proxy_let_go(login);
    assert_gets_in(other, others);
    assert_result(actor_unlock(other, others), RELOCK_OK);
}

/* The script ends between the two commands that settle a hold: the first is refused, the second
 * not.
 */
static void settling_repeats_a_kill_that_a_busy_server_refused(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, short_ms());
    struct proxy_rule *late = proxy_next(t->proxy, PROXY_HOLD, "lock 1 orders");
    struct proxy_rule *release = proxy_next(t->proxy, PROXY_HOLD, "unlock 1 orders * 0");
    struct proxy_rule *kill = proxy_next(t->proxy, PROXY_PASS, "CLIENT KILL");
    struct actor *owner = actor_start();

    actor_begin_lock(owner, lock);
    assert_true(proxy_met(late, 1));
    faults_be_busy(t);
    assert_true(proxy_met(release, 1));
    assert_int_equal(proxy_fate(kill), PROXY_ANSWERED);
    assert_true(proxy_counts(t->proxy, "-BUSY", 1));
    faults_be_busy_no_more(t);
    proxy_let_go(release);
    assert_int_equal(proxy_fate(release), PROXY_ANSWERED);
    assert_result(actor_result(owner), RELOCK_E_CONN);
    assert_true(proxy_counts(t->proxy, "CLIENT KILL", 2));
    proxy_let_go(late);
    assert_int_equal(proxy_fate(late), PROXY_ENDED);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

/* The client must know the id of the connection. */
static void a_connection_that_a_busy_server_took_can_be_killed(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t, 2 * short_ms());
    struct actor *owner = actor_start();
    struct proxy_rule *late;

    faults_be_busy(t);
    proxy_cut(t->proxy, "");
    actor_begin_lock(owner, lock);
    assert_true(proxy_counts(t->proxy, "-BUSY", 3));
    faults_be_busy_no_more(t);
    assert_result(actor_result(owner), RELOCK_OK);
    assert_result(actor_lock(owner, lock), RELOCK_OK);
    late = release_in_vain(t, owner, lock);
    assert_result(actor_lock(owner, lock), RELOCK_OK);
    is_in_time_no_more(t, owner, lock, late);
}

static void a_replica_that_becomes_master_is_waited_for(void **state)
{
    lock_waits_for_it_to_pass(*state, &readonly);
}

static void a_replica_that_stays_one_refuses(void **state)
{
    lock_is_refused_if_it_stays(*state, &readonly);
}

static void an_unlock_that_a_replica_refused_is_completed_later(void **state)
{
    unlock_is_made_up_for(*state, &readonly);
}

static void a_departure_that_a_replica_refused_is_repeated(void **state)
{
    departure_is_made_up_for(*state, &readonly);
}

static void a_hold_survives_a_master_that_is_a_replica_for_a_while(void **state)
{
    hold_survives_it(*state, &readonly);
}

static void a_replica_without_its_master_is_waited_for(void **state)
{
    lock_waits_for_it_to_pass(*state, &masterdown);
}

static void a_replica_that_stays_without_its_master_refuses(void **state)
{
    lock_is_refused_if_it_stays(*state, &masterdown);
}

static void an_unlock_that_a_replica_without_its_master_refused_is_completed_later(void **state)
{
    unlock_is_made_up_for(*state, &masterdown);
}

static void a_departure_that_a_replica_without_its_master_refused_is_repeated(void **state)
{
    departure_is_made_up_for(*state, &masterdown);
}

static void a_hold_survives_a_replica_without_its_master(void **state)
{
    hold_survives_it(*state, &masterdown);
}

/* Also after a failed test. */
static int end_refusals(void **state)
{
    struct faults *t = *state;

    faults_be_busy_no_more(t);
    be_master(t);
    set_config(t, "replica-serve-stale-data", "yes");
    return faults_end(state);
}

#define REFUSAL_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, end_refusals)

int main(void)
{
    const struct CMUnitTest tests[] = {
        REFUSAL_TEST(a_busy_server_is_waited_for),
        REFUSAL_TEST(a_server_that_stays_busy_refuses),
        REFUSAL_TEST(an_unlock_that_a_busy_server_refused_is_completed_later),
        REFUSAL_TEST(a_departure_that_a_busy_server_refused_is_repeated),
        REFUSAL_TEST(a_place_in_a_queue_is_left_after_a_refusal_that_outlasts_the_lease),
        REFUSAL_TEST(a_kept_lock_that_a_busy_server_did_not_take_back_is_given_back_later),
        REFUSAL_TEST(a_subscription_that_a_busy_server_refused_is_repeated),
        REFUSAL_TEST(an_unsubscribe_that_a_busy_server_refused_is_made_up_for),
        REFUSAL_TEST(a_record_that_a_busy_server_refused_is_written_soon),
        REFUSAL_TEST(a_hold_survives_a_busy_server),
        REFUSAL_TEST(a_kill_that_a_busy_server_refused_is_repeated),
        REFUSAL_TEST(settling_repeats_a_kill_that_a_busy_server_refused),
        REFUSAL_TEST(a_connection_that_a_busy_server_took_can_be_killed),
        REFUSAL_TEST(a_replica_that_becomes_master_is_waited_for),
        REFUSAL_TEST(a_replica_that_stays_one_refuses),
        REFUSAL_TEST(an_unlock_that_a_replica_refused_is_completed_later),
        REFUSAL_TEST(a_departure_that_a_replica_refused_is_repeated),
        REFUSAL_TEST(a_hold_survives_a_master_that_is_a_replica_for_a_while),
        REFUSAL_TEST(a_replica_without_its_master_is_waited_for),
        REFUSAL_TEST(a_replica_that_stays_without_its_master_refuses),
        REFUSAL_TEST(an_unlock_that_a_replica_without_its_master_refused_is_completed_later),
        REFUSAL_TEST(a_departure_that_a_replica_without_its_master_refused_is_repeated),
        REFUSAL_TEST(a_hold_survives_a_replica_without_its_master),
    };

    return FAULT_TESTS_RUN(tests);
}
