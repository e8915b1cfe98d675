/*
 * Invalid input: names, arguments, keys of another type. Each has its result, and no call is half
 * done.
 */
#include "support/actor.h"
#include "support/fixture.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NAME 4096
#define TEN_YEARS_MS (10ull * 366 * 24 * 3600 * 1000)

static char *long_name(size_t len)
{
    char *name = malloc(len + 1);

    if (!name)
        abort();
    memset(name, 'n', len);
    name[len] = '\0';
    return name;
}

static void a_name_is_1_to_4096_bytes(void **state)
{
    static const size_t too_long[] = {MAX_NAME + 1, 65536};
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *untouched = (void *)&too_long, *lock = untouched;
    char *name = long_name(MAX_NAME);

    assert_result(relock_lock_new(client, "", &lock), RELOCK_E_INVALID);
    assert_ptr_equal(lock, untouched);
    for (size_t i = 0; i < 2; i++) {
        char *longer = long_name(too_long[i]);

        assert_result(relock_lock_new(client, longer, &lock), RELOCK_E_INVALID);
        assert_ptr_equal(lock, untouched);
        free(longer);
    }

    lock = fixture_lock(f, client, name);
    assert_string_equal(relock_lock_name(lock), name);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS %s", name), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    free(name);
}

static void a_name_is_any_bytes(void **state)
{
    static const char *const names[] = {"a",
                                        " ",
                                        "\"quoted\"\r\n",
                                        "$5\r\n*1\r\n",
                                        "100%s%n",
                                        "\x01\x7f\xff\xc0\x80",
                                        "r\u00e9serv\u00e9",
                                        "{}",
                                        "}{"};
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct relock_lock *lock = fixture_lock(f, client, names[i]);
        struct actor *waiting = actor_start();

        assert_string_equal(relock_lock_name(lock), names[i]);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_int_equal(probe_int(f->probe, "EXISTS %s", names[i]), 1);
        actor_begin_lock(waiting, lock);
        assert_true(wait_for_waiters(client, 1));
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_gets_in(waiting, lock);
    }
}

static void a_name_is_copied(void **state)
{
    struct fixture *f = *state;
    char name[] = "orders";
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), name);

    name[0] = 'X';
    assert_string_equal(relock_lock_name(lock), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The line with these words was written since the last call. */
static void assert_logged(struct fixture *f, int result, const char *words)
{
    assert_result(result, RELOCK_E_INVALID);
    assert_true(log_wait(f->log, words, SOON_MS));
    assert_int_equal(log_count(f->log, "invalid argument"), 1);
    log_clear(f->log);
}

static bool drop_lock(const struct relock_lock_info *info, void *arg)
{
    (void)info;
    (void)arg;
    return true;
}

static void drop_grant(int result, const struct relock_grant *grant, void *arg)
{
    (void)result;
    (void)grant;
    (void)arg;
}

/* For handles that are NULL, which have no log, see unit/api_test.c. */
static void each_invalid_argument_of_a_client_is_logged_with_its_reason(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    char *name = long_name(MAX_NAME + 1), text[8];
    struct relock_lock *made;
    size_t len;

    log_clear(f->log);
    assert_logged(f, relock_lock_new(client, NULL, &made), "the name of a lock is NULL");
    assert_logged(f, relock_fairlock_new(client, "", &made), "the name of a lock is empty");
    assert_logged(f, relock_rdlock_new(client, name, &made), "longer than 4096 bytes");
    assert_logged(f, relock_plainlock_new(client, "orders", NULL), "`lock` is NULL");
    assert_logged(f, relock_client_stats(client, NULL, 1), "`stats` is NULL");
    assert_logged(f, relock_stats_print(client, NULL, NULL, 1, &len), "`text` or `len` is NULL");
    assert_logged(f, relock_stats_print(client, NULL, text, 8, NULL), "`text` or `len` is NULL");
    assert_logged(f, relock_client_set_password(client, NULL, NULL), "the password is NULL");
    assert_logged(f, relock_client_set_password(client, NULL, ""), "or empty");
    assert_logged(f, relock_client_ready(client, ""), "the name of a lock is empty");
    assert_logged(f, relock_events_new(client, NULL), "`events` is NULL");
    assert_logged(f, relock_locks(client, NULL, drop_lock, NULL), "`pattern` is NULL or empty");
    assert_logged(f, relock_locks(client, "", drop_lock, NULL), "`pattern` is NULL or empty");
    assert_logged(f, relock_locks(client, "*", NULL, NULL), "relock_locks: `fn` is NULL");
    assert_logged(f, relock_waiters(client, "orders", NULL, NULL), "relock_waiters: `fn` is NULL");
    assert_logged(f, relock_nested_waits(client, NULL, NULL), "relock_nested_waits: `fn`");
    assert_logged(f, relock_servers(client, NULL, NULL), "relock_servers: `fn` is NULL");
    free(name);
}

static void each_invalid_argument_of_a_lock_is_logged_with_its_reason(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_client *other = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders"), *made = NULL;
    struct relock_lock *const twice[] = {lock, lock, lock}, *const holey[] = {lock, NULL, lock};
    struct relock_events *events, *others;

    assert_result(relock_events_new(client, &events), RELOCK_OK);
    assert_result(relock_events_new(other, &others), RELOCK_OK);
    log_clear(f->log);
    assert_logged(f, relock_acquire(lock, &(struct relock_how){.flags = 2}, NULL),
                  "orders: invalid argument: `flags` of struct relock_how");
    assert_logged(f, relock_acquire(lock, &(struct relock_how){.reserved = {0, 1}}, NULL),
                  "orders: invalid argument: `reserved` of struct relock_how");
    assert_logged(f, relock_acquire(lock, &(struct relock_how){.lease_ms = 29}, NULL),
                  "`lease_ms` is below 30");
    assert_logged(f, relock_acquire(lock, &(struct relock_how){.lease_ms = TEN_YEARS_MS}, NULL),
                  "`lease_ms` is above ten years");
    assert_logged(f, relock_extend(lock, 0, 0), "relock_extend: `lease_ms` is 0");
    assert_logged(f, relock_force_unlock_held(lock, NULL), "`held` is NULL");
    assert_logged(f, relock_who_holds(lock, NULL), "`holder` is NULL");
    assert_logged(f, relock_is_locked(lock, NULL), "`locked` is NULL");
    assert_logged(f, relock_hold_count(lock, NULL), "`count` is NULL");
    assert_logged(f, relock_ttl_ms(lock, NULL), "`ttl_ms` is NULL");
    assert_logged(f, relock_fairlock_set_patience(lock, 999), "`patience_ms` is below a second");
    assert_logged(f, relock_spinlock_set_pauses(lock, 2, 1), "`min_ms` is 0 or above `max_ms`");
    assert_logged(f, relock_multilock_new(twice, 2, &made), "two members are this lock");
    assert_logged(f, relock_multilock_new(holey, 2, &made), "a member is NULL");
    assert_logged(f, relock_multilock_new(twice, 1, NULL), "relock_multilock_new: `lock` is NULL");
    assert_logged(f, relock_redlock_new(twice, 2, &made), "`n` is not 3, 5, 7 or 9");
    assert_logged(f, relock_redlock_new(twice, 3, &made), "two members have the same client");
    assert_logged(f, relock_redlock_new(holey, 3, &made), "a member is NULL");
    assert_logged(f, relock_redlock_new(twice, 3, NULL), "relock_redlock_new: `lock` is NULL");
    assert_logged(f, relock_acquire_async(lock, NULL, NULL, drop_grant, NULL), "`events` is NULL");
    assert_logged(f, relock_acquire_async(lock, NULL, others, drop_grant, NULL), "another client");
    assert_logged(f, relock_acquire_async(NULL, NULL, events, drop_grant, NULL), "`lock` is NULL");
    assert_logged(f, relock_acquire_async(lock, NULL, events, NULL, NULL), "`fn` is NULL");
    assert_logged(
        f,
        relock_acquire_async(lock, &(struct relock_how){.lease_ms = 1}, events, drop_grant, NULL),
        "`lease_ms` is below 30");
    assert_logged(f, relock_release_async(lock, 0, events, NULL, NULL), "pass grant->owner");
    assert_null(made);
    assert_int_equal(probe_n_keys(f->probe), 0);
    relock_events_free(events);
    relock_events_free(others);
}

static void a_client_that_was_freed_logs_no_invalid_argument(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    fixture_free_client(f, client);
    log_clear(f->log);
    assert_result(relock_is_locked(lock, NULL), RELOCK_E_INVALID);
    assert_int_equal(log_count(f->log, ""), 0);
}

static void a_missing_place_for_the_client_is_logged(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = fixture_options(f, NULL);

    assert_result(relock_client_new(&options, NULL), RELOCK_E_INVALID);
    assert_int_equal(log_count(f->log, "no client was made: invalid options: `client` is NULL"), 1);
}

static void reserved_fields_must_be_zero(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant = {.hold_count = 7};

    for (size_t i = 0; i < sizeof(((struct relock_how *)0)->reserved) / sizeof(uint64_t); i++) {
        struct relock_how how = {.wait_ms = 10};

        how.reserved[i] = 1;
        assert_result(relock_acquire(lock, &how, &grant), RELOCK_E_INVALID);
        assert_int_equal(grant.hold_count, 0);
    }
    for (size_t i = 0; i < sizeof(((struct relock_options *)0)->reserved) / sizeof(uint64_t); i++) {
        struct relock_options options = fixture_options(f, NULL);
        struct relock_client *client;

        options.reserved[i] = 1;
        assert_result(relock_client_new(&options, &client), RELOCK_E_INVALID);
    }
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_lease_beyond_ten_years_is_invalid(void **state)
{
    static const uint64_t leases[] = {TEN_YEARS_MS, UINT64_MAX / 2, UINT64_MAX};
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant = {.hold_count = 7};

    for (size_t i = 0; i < 3; i++) {
        struct relock_how how = {.lease_ms = leases[i]};

        assert_result(relock_acquire(lock, &how, &grant), RELOCK_E_INVALID);
        assert_int_equal(grant.hold_count, 0);
    }
    assert_int_equal(probe_n_keys(f->probe), 0);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 0), RELOCK_E_INVALID);
    for (size_t i = 0; i < 3; i++)
        assert_result(relock_extend(lock, 0, leases[i]), RELOCK_E_INVALID);
    assert_true(probe_pttl(f->probe, "orders") <= 30000);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_lease_of_years_is_a_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.lease_ms = TEN_YEARS_MS / 2};

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > (long long)(TEN_YEARS_MS / 3));
    assert_true(relock_valid_ms(lock) > TEN_YEARS_MS / 3);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_lease_has_at_least_30_ms(void **state)
{
    static const uint64_t too_short[] = {1, 29};
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant = {.hold_count = 7};
    int r;

    for (size_t i = 0; i < 2; i++) {
        struct relock_how how = {.lease_ms = too_short[i]};

        assert_result(relock_acquire(lock, &how, &grant), RELOCK_E_INVALID);
        assert_int_equal(grant.hold_count, 0);
    }
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    /* A loaded machine may get the grant too late. */
    r = relock_acquire(lock, &(struct relock_how){.lease_ms = 30}, NULL);
    assert_true(r == RELOCK_OK || r == RELOCK_E_CONN);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    if (r == RELOCK_OK)
        assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void a_key_of_another_type_is_refused_and_left_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_holder holder;

    probe_int(f->probe, "SET orders text");
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "WRONGTYPE", SOON_MS));
    assert_result(relock_lock(lock), RELOCK_E_SERVER);
    assert_result(relock_timedlock(lock, 1000), RELOCK_E_SERVER);
    assert_result(relock_who_holds(lock, &holder), RELOCK_E_SERVER);
    assert_result(relock_check(lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_string_equal(probe_text(f->probe, "GET orders"), "text");
    assert_int_equal(stats_of(client).holds, 0);
    assert_int_equal(stats_of(client).waiters, 0);

    probe_int(f->probe, "DEL orders");
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void names_are_escaped_in_the_log(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock =
        fixture_lock(f, fixture_client(f, NULL), "evil\r\nERROR all is lost\x1b[2J");

    probe_int(f->probe, "SET %s text", "evil\r\nERROR all is lost\x1b[2J");
    assert_result(relock_trylock(lock), RELOCK_E_SERVER);
    assert_true(log_wait(f->log, "evil", SOON_MS));
    assert_int_equal(log_count(f->log, "\n"), 0);
    assert_int_equal(log_count(f->log, "\r"), 0);
    assert_int_equal(log_count(f->log, "\x1b"), 0);
    probe_int(f->probe, "DEL %s", "evil\r\nERROR all is lost\x1b[2J");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_name_is_1_to_4096_bytes),
        SERVER_TEST(a_name_is_any_bytes),
        SERVER_TEST(a_name_is_copied),
        SERVER_TEST(each_invalid_argument_of_a_client_is_logged_with_its_reason),
        SERVER_TEST(each_invalid_argument_of_a_lock_is_logged_with_its_reason),
        SERVER_TEST(a_client_that_was_freed_logs_no_invalid_argument),
        SERVER_TEST(a_missing_place_for_the_client_is_logged),
        SERVER_TEST(reserved_fields_must_be_zero),
        SERVER_TEST(a_lease_beyond_ten_years_is_invalid),
        SERVER_TEST(a_lease_of_years_is_a_lease),
        SERVER_TEST(a_lease_has_at_least_30_ms),
        SERVER_TEST(a_key_of_another_type_is_refused_and_left_alone),
        SERVER_TEST(names_are_escaped_in_the_log),
    };

    return SERVER_TESTS_RUN(tests);
}
