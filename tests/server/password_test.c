/* Credentials that change while a client works, and the probe whether it can work. */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/stats.h"

#define LEASE_MS 1500

/* Of one user, who keeps the connections that he has: Redis asks for the password at login. */
static void rotate(struct probe *probe, const char *user, const char *old, const char *new)
{
    assert_int_equal(probe_int(probe, "ACL SETUSER %s >%s", user, new), 0);
    assert_int_equal(probe_int(probe, "ACL SETUSER %s <%s", user, old), 0);
}

static struct relock_client *client_of(struct fixture *f, const char *user, const char *password)
{
    return fixture_client(f, &(struct relock_options){.user = user,
                                                      .password = password,
                                                      .recheck_ms = NEVER_MS,
                                                      .watchdog_timeout_ms = slow_ms(LEASE_MS)});
}

static void no_password_was_logged(struct log *log)
{
    assert_int_equal(log_count(log, "secret"), 0);
}

/* ---- relock_client_set_password ------------------------------------------------------------ */

/* The connections are replaced one by one, and for a moment there may be none. */
static bool are_cut(void *arg)
{
    return probe_int(arg, "CLIENT KILL USER locker") > 0;
}

static void a_changed_password_is_used_by_all_connections(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *waiting = actor_start();
    uint64_t renewed;

    assert_true(probe_make_user(f->probe, "locker", "secret1", "~* &* +@all"));
    client = client_of(f, "locker", "secret1");
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    rotate(f->probe, "locker", "secret1", "secret2");
    assert_result(relock_client_set_password(client, "locker", "secret2"), RELOCK_OK);

    /* Now each of them has to log in. */
    assert_true(wait_until(are_cut, f->probe, SOON_MS));
    renewed = stats_of(client).renewed;
    assert_true(wait_for_renewals(client, renewed, 2));
    assert_true(actor_is_busy(waiting));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
    assert_int_equal(stats_of(client).lost, 0);
    no_password_was_logged(f->log);
}

static bool is_gone(void *arg)
{
    return probe_n_clients(arg, " user=locker ") == 0;
}

/* The one for calls, and one of the I/O thread. */
static bool are_there(void *arg)
{
    return probe_n_clients(arg, " user=locker ") >= 2;
}

static bool are_back(void *arg)
{
    return probe_n_clients(arg, " user=other ") >= 2;
}

static void no_connection_of_the_old_user_is_left(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *lock;

    assert_true(probe_make_user(f->probe, "locker", "secret1", "~* &* +@all"));
    assert_true(probe_make_user(f->probe, "other", "secret2", "~* &* +@all"));
    client = client_of(f, "locker", "secret1");
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_until(are_there, f->probe, SOON_MS));
    assert_result(relock_client_set_password(client, "other", "secret2"), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK); /* the connection for calls is made anew */
    assert_true(wait_until(is_gone, f->probe, SOON_MS));
    assert_true(wait_until(are_back, f->probe, SOON_MS));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_wrong_password_changes_nothing(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *lock;

    assert_true(probe_make_user(f->probe, "locker", "secret1", "~* &* +@all"));
    client = client_of(f, "locker", "secret1");
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_client_set_password(client, "locker", "secret2"), RELOCK_E_AUTH);
    assert_result(relock_client_set_password(client, "nobody", "secret1"), RELOCK_E_AUTH);
    assert_true(log_wait(f->log, "the new password is not used", SOON_MS));
    assert_true(probe_int(f->probe, "CLIENT KILL USER locker") > 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(wait_for_reconnects(client, 1));
    no_password_was_logged(f->log);
}

static void an_unreachable_server_does_not_keep_the_old_password(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, NULL, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    server_kill(f->server);
    assert_result(relock_client_set_password(client, "locker", "secret1"), RELOCK_E_CONN);
    server_restart(f->server);
    assert_true(probe_make_user(f->probe, "locker", "secret1", "~* &* +@all"));
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_true(probe_n_clients(f->probe, " user=locker ") >= 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_password_that_is_none_is_invalid(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, NULL, NULL);

    assert_result(relock_client_set_password(NULL, "locker", "secret1"), RELOCK_E_INVALID);
    assert_result(relock_client_set_password(client, "locker", NULL), RELOCK_E_INVALID);
    assert_result(relock_client_set_password(client, "locker", ""), RELOCK_E_INVALID);
}

/* ---- relock_client_ready ------------------------------------------------------------------- */

struct ready {
    struct relock_client *client;
    int result;
};

static bool is_ready(void *arg)
{
    const struct ready *ready = arg;

    return relock_client_ready(ready->client, "ready") == ready->result;
}

static void a_client_is_ready_when_it_can_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, NULL, NULL);
    struct relock_client *other = client_of(f, NULL, NULL);
    struct relock_lock *lock = fixture_lock(f, other, "ready");
    struct ready ready = {client, RELOCK_OK};

    assert_true(wait_until(is_ready, &ready, SOON_MS));
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_true(stats_of(client).acquires[-RELOCK_OK] > 0);
    assert_int_equal(stats_of(client).releases[-RELOCK_OK], stats_of(client).acquires[-RELOCK_OK]);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_client_ready(client, "ready"), RELOCK_OK); /* two probes at a time */
    assert_result(relock_unlock(lock), RELOCK_OK);

    server_kill(f->server);
    ready.result = RELOCK_E_CONN;
    assert_true(wait_until(is_ready, &ready, SOON_MS));
    server_restart(f->server);
    ready.result = RELOCK_OK;
    assert_true(wait_until(is_ready, &ready, SOON_MS));
    relock_client_shutdown(client);
    assert_result(relock_client_ready(client, NULL), RELOCK_E_CLOSED);
    assert_result(relock_client_ready(NULL, NULL), RELOCK_E_INVALID);
}

static void a_client_without_rights_is_not_ready(void **state)
{
    struct fixture *f = *state;
    struct ready ready = {.result = RELOCK_OK};

    assert_true(probe_make_user(f->probe, "locker", "secret1", "~* &* +@all"));
    ready.client = client_of(f, "locker", "secret1");
    assert_true(wait_until(is_ready, &ready, SOON_MS));
    assert_int_equal(probe_int(f->probe, "ACL SETUSER locker -hset"), 0);
    assert_result(relock_client_ready(ready.client, "ready"), RELOCK_E_AUTH);
    assert_result(relock_client_ready(ready.client, NULL), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "ACL SETUSER locker +hset"), 0);
    assert_result(relock_client_ready(ready.client, "ready"), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_changed_password_is_used_by_all_connections),
        SERVER_TEST(no_connection_of_the_old_user_is_left),
        SERVER_TEST(a_wrong_password_changes_nothing),
        SERVER_TEST(an_unreachable_server_does_not_keep_the_old_password),
        SERVER_TEST(a_password_that_is_none_is_invalid),
        SERVER_TEST(a_client_is_ready_when_it_can_lock),
        SERVER_TEST(a_client_without_rights_is_not_ready),
    };

    return SERVER_TESTS_RUN(tests);
}
