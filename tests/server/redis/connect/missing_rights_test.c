/*
 * A user without a right: the log names the command, our script and the page about rights, in the
 * same words for every server. A right that is not essential is logged once.
 */
#include "support/fixture.h"
#include "support/peer.h"

#include <stdio.h>

#define USER "locker"
#define PASSWORD "secret"
#define LEASE_MS 3000

static struct relock_client *client_with(struct fixture *f, const char *rights, unsigned flags)
{
    assert_true(probe_make_user(f->probe, USER, PASSWORD, rights));
    return fixture_client(f, &(struct relock_options){.user = USER,
                                                      .password = PASSWORD,
                                                      .client_name = "billing",
                                                      .watchdog_timeout_ms = LEASE_MS,
                                                      .flags = flags});
}

static struct relock_client *client_of(struct fixture *f, const char *rights)
{
    return client_with(f, rights, 0);
}

/* Acquires, nests, extends and releases, as far as the rights go. */
static void try_to_live(struct relock_lock *lock)
{
    struct relock_holder holder;
    bool is_locked;

    (void)!relock_trylock(lock);
    (void)!relock_trylock(lock);
    (void)!relock_extend(lock, 0, slow_ms(2 * LEASE_MS));
    (void)relock_is_locked(lock, &is_locked);
    (void)relock_who_holds(lock, &holder);
    while (relock_unlock(lock) != RELOCK_NOT_OWNER)
        ;
    (void)relock_force_unlock(lock);
}

/* The log names the denied command and our script. */
static void what_is_missing_is_named(struct fixture *f, const char *command,
                                     fixture_constructor_fn *constructor)
{
    char all_but_one[64], named[96];
    struct relock_client *client;

    snprintf(all_but_one, sizeof(all_but_one), "~* &* +@all -%s", command);
    snprintf(named, sizeof(named), "NOPERM: this user may not run '%s', which the script ",
             command);
    log_clear(f->log);
    client = client_of(f, all_but_one);
    try_to_live(fixture_lock_of(f, client, "orders", constructor));
    /* The pending releases reach Redis now. */
    assert_int_equal(probe_int(f->probe, "ACL SETUSER " USER " +%s", command), 0);
    fixture_free_client(f, client);
    assert_true(log_wait(f->log, named, SOON_MS));
    assert_int_equal(log_count(f->log, named),
                     log_count(f->log, ".lua needs; see docs/wire.md#rights"));
    assert_int_equal(log_count(f->log, "user_script"), 0);
    assert_int_equal(log_count(f->log, " script: "), 0);
    assert_int_equal(log_count(f->log, "The user executing"), 0);
    probe_int(f->probe, "FLUSHALL");
}

static void each_command_that_a_script_may_not_run_is_named(void **state)
{
    static const struct {
        fixture_constructor_fn *constructor;
        const char *commands;
    } kinds[] = {
        {relock_lock_new, "hexists hset hget hgetall pexpire pttl"},
        {relock_spinlock_new, "del hexists hset pexpire pttl"},
        {relock_plainlock_new, "del get pexpire pttl set"},
        {relock_fencedlock_new, "hexists hset incr persist pexpire pttl"},
        {relock_fairlock_new, "del hexists hset lindex pexpire pttl time"},
        {relock_rdlock_new, "del hdel hget hset pexpire pttl set"},
        {relock_wrlock_new, "del hexists hget hset pexpire pttl"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        const char *rest = kinds[i].commands;
        char command[32];

        for (int n; sscanf(rest, "%31s%n", command, &n) == 1; rest += n)
            what_is_missing_is_named(f, command, kinds[i].constructor);
    }
}

/* Without HMGET there is no line: server/line_rights. */
static void each_command_that_a_waiter_may_not_run_is_named(void **state)
{
    static const char *const commands[] = {"lpos", "rpush"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
        char all_but_one[64], named[96];
        struct relock_lock *lock;

        snprintf(all_but_one, sizeof(all_but_one), "~* &* +@all -%s", commands[i]);
        snprintf(named, sizeof(named),
                 "NOPERM: this user may not run '%s', which the script lock.lua needs",
                 commands[i]);
        lock = fixture_lock(f, client_of(f, all_but_one), "orders");
        assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
        assert_result(relock_lock(lock), RELOCK_E_AUTH);
        assert_true(log_wait(f->log, named, SOON_MS));
        probe_int(f->probe, "FLUSHALL");
    }
}

static void a_key_that_a_script_may_not_use_is_named_by_its_command(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_of(f, "~orders &* +@all");

    try_to_live(fixture_lock_of(f, client, "orders", relock_fencedlock_new));
    assert_true(log_wait(f->log,
                         "NOPERM: this user may not access the key of 'persist', which the script "
                         "fenced_lock.lua needs; see docs/wire.md#rights",
                         SOON_MS));
}

/* Each with the words of the server, and once for all connections. Without tracking, which would
 * add a line once a hold is older than 100 ms. */
static void an_optional_right_that_is_missing_is_logged_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        client_with(f, "~* &* +@all -client +client|kill", RELOCK_NO_TRACKING);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    for (int i = 0; i < 3; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        probe_int(f->probe, "CLIENT KILL TYPE normal SKIPME yes");
    }
    assert_true(log_wait_n(f->log, "CLIENT INFO: NOPERM", 1, SOON_MS));
    assert_true(log_wait_n(f->log, "CLIENT SETNAME: NOPERM", 1, SOON_MS));
    assert_int_equal(log_count(f->log, "; see docs/wire.md#rights"), 2);
}

static void a_missing_right_to_load_scripts_is_reported_at_the_start(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;

    assert_int_equal(probe_int(f->probe, "SCRIPT FLUSH"), 0);
    lock = fixture_lock(f, client_of(f, "~* &* +@all -script"), "orders");
    assert_true(log_wait_n(f->log, "SCRIPT LOAD: NOPERM", 1, SOON_MS));
    assert_int_equal(log_count(f->log, "without it scripts are sent whole by EVAL"), 1);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Neither alone is needed. */
static void a_user_who_may_not_send_scripts_at_all_learns_which_right_is_missing(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock;

    assert_int_equal(probe_int(f->probe, "SCRIPT FLUSH"), 0);
    lock = fixture_lock(f, client_of(f, "~* &* +@all -script -eval"), "orders");
    assert_result(relock_lock(lock), RELOCK_E_AUTH);
    assert_true(log_wait(f->log, "'eval'", SOON_MS));
    assert_int_equal(probe_int(f->probe, "ACL SETUSER " USER " +script"), 0);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FENCED_TEST(each_command_that_a_script_may_not_run_is_named),
        SERVER_TEST(each_command_that_a_waiter_may_not_run_is_named),
        FENCED_TEST(a_key_that_a_script_may_not_use_is_named_by_its_command),
        SERVER_TEST(an_optional_right_that_is_missing_is_logged_once),
        SERVER_TEST(a_missing_right_to_load_scripts_is_reported_at_the_start),
        SERVER_TEST(a_user_who_may_not_send_scripts_at_all_learns_which_right_is_missing),
    };

    return SERVER_TESTS_RUN(tests);
}
