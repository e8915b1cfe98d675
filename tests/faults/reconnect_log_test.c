/* The log of connections that break and come back: each reason once, then the reconnect. */
#include "faults.h"

#define LEASE_MS 10000

static void set_password(struct faults *t, const char *password)
{
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " resetpass >%s", password), 0);
}

static void kick(struct faults *t)
{
    probe_int(t->f->probe, "CLIENT KILL USER " WORKER);
}

/* No call is made, and the log still says why the client cannot log in. */
static void a_new_reason_is_logged_when_it_occurs(void **state)
{
    struct faults *t = *state;

    faults_worker(t, "~* &* +@all");
    (void)faults_connected_client(t, &(struct relock_options){.user = WORKER,
                                                              .password = PASSWORD,
                                                              .log_level = RELOCK_LOG_WARNING});
    assert_int_equal(log_count(t->f->log, ""), 0);
    set_password(t, "n3xt");
    kick(t);
    assert_true(log_wait(t->f->log, "AUTH: WRONGPASS", SOON_MS));
    assert_true(proxy_counts(t->proxy, "AUTH", 6));
    assert_true(log_wait_n(t->f->log, "AUTH: WRONGPASS", 1, SOON_MS));
    proxy_refuse(t->proxy, true); /* deletes the socket */
    assert_true(
        log_wait(t->f->log, faults_over_tcp(t) ? "Connection refused" : "No such file", SOON_MS));
    log_clear(t->f->log);
    proxy_refuse(t->proxy, false);
    assert_true(log_wait(t->f->log, "AUTH: WRONGPASS", SOON_MS));
}

static void a_reconnect_is_logged_without_a_call(void **state)
{
    struct faults *t = *state;

    faults_worker(t, "~* &* +@all");
    (void)faults_connected_client(t,
                                  &(struct relock_options){.user = WORKER, .password = PASSWORD});
    for (size_t i = 1; i <= 2; i++) {
        log_clear(t->f->log);
        kick(t);
        assert_true(log_wait(t->f->log, ": connected again", SOON_MS));
        assert_int_equal(log_count(t->f->log, "; reconnecting"), 1);
    }
}

static void a_first_connection_is_not_logged_as_a_reconnect(void **state)
{
    struct faults *t = *state;

    proxy_refuse(t->proxy, true);
    (void)faults_client(
        t, &(struct relock_options){.flags = RELOCK_LAZY, .connect_timeout_ms = short_ms()});
    assert_true(log_wait(t->f->log, "; reconnecting", SOON_MS));
    proxy_refuse(t->proxy, false);
    assert_true(log_wait(t->f->log, ": connected", SOON_MS));
    assert_int_equal(log_count(t->f->log, ": connected again"), 0);
}

/* Each login succeeds, and the first command fails. */
static void a_connection_that_keeps_failing_is_not_logged_each_time(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_connected_client(
        t, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                    .flags = RELOCK_NO_TRACKING,
                                    .log_level = RELOCK_LOG_INFO});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *rule;

    assert_result(relock_lock(lock), RELOCK_OK);
    rule = proxy_each(t->proxy, PROXY_CUT, "renew 1 orders");
    assert_true(proxy_met(rule, 6));
    assert_true(log_wait_n(t->f->log, "; reconnecting", 2, SOON_MS));
    assert_true(log_wait_n(t->f->log, ": connected again", 1, SOON_MS));
    proxy_let_go(rule);
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 1));
    assert_true(log_wait_n(t->f->log, ": connected again", 2, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_new_reason_is_logged_when_it_occurs),
        FAULT_TEST(a_reconnect_is_logged_without_a_call),
        FAULT_TEST(a_first_connection_is_not_logged_as_a_reconnect),
        FAULT_TEST(a_connection_that_keeps_failing_is_not_logged_each_time),
    };

    return FAULT_TESTS_RUN(tests);
}
