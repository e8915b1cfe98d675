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

/* For handles that are NULL see unit/api_test.c. */
static void null_names_and_results_are_invalid(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders"), *made;

    assert_result(relock_lock_new(client, NULL, &made), RELOCK_E_INVALID);
    assert_result(relock_lock_new(client, "orders", NULL), RELOCK_E_INVALID);
    assert_result(relock_client_stats(client, NULL, sizeof(struct relock_stats)), RELOCK_E_INVALID);
    assert_result(relock_force_unlock_held(lock, NULL), RELOCK_E_INVALID);
    assert_result(relock_who_holds(lock, NULL), RELOCK_E_INVALID);
    assert_result(relock_is_locked(lock, NULL), RELOCK_E_INVALID);
    assert_result(relock_hold_count(lock, NULL), RELOCK_E_INVALID);
    assert_result(relock_ttl_ms(lock, NULL), RELOCK_E_INVALID);
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

/* The lease ends before the reply arrives, so the caller would hold nothing. */
static void a_lease_too_short_to_be_certain_is_not_held(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.lease_ms = 1};
    struct relock_grant grant = {.hold_count = 7};

    assert_result(relock_acquire(lock, &how, &grant), RELOCK_E_CONN);
    assert_int_equal(grant.hold_count, 0);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
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
        SERVER_TEST(null_names_and_results_are_invalid),
        SERVER_TEST(reserved_fields_must_be_zero),
        SERVER_TEST(a_lease_beyond_ten_years_is_invalid),
        SERVER_TEST(a_lease_of_years_is_a_lease),
        SERVER_TEST(a_lease_too_short_to_be_certain_is_not_held),
        SERVER_TEST(a_key_of_another_type_is_refused_and_left_alone),
        SERVER_TEST(names_are_escaped_in_the_log),
    };

    return SERVER_TESTS_RUN(tests);
}
