/* Users, passwords and rights. After any failure no line of the log holds a password. */
#include "support/actor.h"
#include "support/fixture.h"

#include <stdio.h>
#include <string.h>

#define USER "locker"
#define PASSWORD "s3cret@w:rd/%"                /* as it is */
#define PASSWORD_IN_URL "s3cret%40w%3Ard%2F%25" /* as a url has it */
#define DEFAULT_PASSWORD "of-the-default-user"

static int connect_with(struct fixture *f, const char *user, const char *password)
{
    struct relock_options options =
        fixture_options(f, &(struct relock_options){.user = user, .password = password});
    struct relock_client *client = NULL;
    int r = relock_client_new(&options, &client);

    relock_client_free(client);
    return r;
}

static void the_log_holds_no_password(struct fixture *f)
{
    static const char *const secrets[] = {PASSWORD, PASSWORD_IN_URL, DEFAULT_PASSWORD, "s3cret",
                                          "wr0ng"};

    for (size_t i = 0; i < sizeof(secrets) / sizeof(*secrets); i++)
        assert_int_equal(log_count(f->log, secrets[i]), 0);
}

static void set_password(struct fixture *f, const char *password)
{
    assert_int_equal(probe_int(f->probe, "CONFIG SET requirepass %s", password), 0);
}

static void a_user_with_a_password_gets_in(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.user = USER, .password = PASSWORD};
    struct relock_lock *lock;

    assert_true(probe_make_user(f->probe, USER, PASSWORD, "~* &* +@all"));
    lock = fixture_lock(f, fixture_client(f, &options), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(probe_n_clients(f->probe, " user=" USER " ") >= 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    the_log_holds_no_password(f);
}

static void a_url_holds_user_and_password_escaped(void **state)
{
    struct fixture *f = *state;
    char url[256];
    struct relock_lock *lock;

    assert_true(probe_make_user(f->probe, USER, PASSWORD, "~* &* +@all"));
    snprintf(url, sizeof(url), "redis://%s:%s@127.0.0.1:%d", USER, PASSWORD_IN_URL,
             f->server->port);
    lock = fixture_lock(f, fixture_client(f, &(struct relock_options){.url = url}), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(probe_n_clients(f->probe, " user=" USER " ") >= 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    the_log_holds_no_password(f);
}

static void options_override_the_url(void **state)
{
    struct fixture *f = *state;
    char url[256];
    struct relock_client *client;

    assert_true(probe_make_user(f->probe, USER, PASSWORD, "~* &* +@all"));
    snprintf(url, sizeof(url), "redis://nobody:wr0ng@127.0.0.1:%d", f->server->port);
    client =
        fixture_client(f, &(struct relock_options){.url = url, .user = USER, .password = PASSWORD});
    assert_true(probe_n_clients(f->probe, " user=" USER " ") >= 1);
    fixture_free_client(f, client);
    the_log_holds_no_password(f);
}

static void a_wrong_user_or_password_returns_auth(void **state)
{
    struct fixture *f = *state;
    char url[256];
    struct relock_options options;
    struct relock_client *client;

    assert_true(probe_make_user(f->probe, USER, PASSWORD, "~* &* +@all"));
    assert_result(connect_with(f, USER, "wr0ng"), RELOCK_E_AUTH);
    assert_result(connect_with(f, "nobody", PASSWORD), RELOCK_E_AUTH);
    assert_true(log_count_grave(f->log, RELOCK_LOG_ERROR) > 0);

    snprintf(url, sizeof(url), "redis://%s:wr0ng@127.0.0.1:%d", USER, f->server->port);
    options = fixture_options(f, &(struct relock_options){.url = url});
    assert_result(relock_client_new(&options, &client), RELOCK_E_AUTH);
    the_log_holds_no_password(f);
}

/* A lazy client tolerates an unreachable server, but not a refusal. */
static void a_wrong_password_returns_auth_to_a_lazy_client_too(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = fixture_options(
        f, &(struct relock_options){.user = USER, .password = "wr0ng", .flags = RELOCK_LAZY});
    struct relock_client *client = NULL;

    assert_true(probe_make_user(f->probe, USER, PASSWORD, "~* &* +@all"));
    assert_result(relock_client_new(&options, &client), RELOCK_E_AUTH);
    assert_null(client);
    the_log_holds_no_password(f);
}

static void a_password_without_a_user_is_that_of_the_default_user(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;

    set_password(f, DEFAULT_PASSWORD);
    assert_result(connect_with(f, NULL, NULL), RELOCK_E_AUTH);
    assert_result(connect_with(f, NULL, "wr0ng"), RELOCK_E_AUTH);
    lock = fixture_lock(
        f, fixture_client(f, &(struct relock_options){.password = DEFAULT_PASSWORD}), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    set_password(f, "");
    the_log_holds_no_password(f);
}

static void a_new_connection_logs_in_again(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.user = USER, .password = PASSWORD, .client_name = "billing"};
    struct relock_lock *lock;

    assert_true(probe_make_user(f->probe, USER, PASSWORD, "~* &* +@all"));
    lock = fixture_lock(f, fixture_client(f, &options), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    probe_int(f->probe, "CLIENT KILL USER " USER);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(probe_n_clients(f->probe, " name=billing:") >= 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    the_log_holds_no_password(f);
}

/* The documented rights suffice, even without CLIENT KILL. */
static void a_user_with_just_the_rights_of_a_locker_can_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.user = USER, .password = PASSWORD};
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *other = actor_start();

    assert_true(probe_make_user(
        f->probe, USER, PASSWORD,
        "~orders &redisson_lock__channel:* -@all +ping +eval +evalsha +script|load "
        "+subscribe +unsubscribe +hexists +exists +hset +hget +hgetall +pttl +pexpire "
        "+del +publish +client|setname +client|id +select +hello +auth"));
    client = fixture_client(f, &options);
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 60000), RELOCK_OK);
    actor_begin_lock(other, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(other, lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_user_with_a_password_gets_in),
        SERVER_TEST(a_url_holds_user_and_password_escaped),
        SERVER_TEST(options_override_the_url),
        SERVER_TEST(a_wrong_user_or_password_returns_auth),
        SERVER_TEST(a_wrong_password_returns_auth_to_a_lazy_client_too),
        SERVER_TEST(a_password_without_a_user_is_that_of_the_default_user),
        SERVER_TEST(a_new_connection_logs_in_again),
        SERVER_TEST(a_user_with_just_the_rights_of_a_locker_can_lock),
    };

    return cmocka_run_group_tests(tests, fixture_start_tcp, fixture_stop);
}
