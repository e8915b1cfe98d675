/* One name is one kind on a client, and RELOCK_NON_REENTRANT means the same on each kind. */
#include "support/actor.h"
#include "support/kinds.h"

#include <string.h>

static const struct relock_how once = {.flags = RELOCK_NON_REENTRANT};

static int make(enum kind_no kind, struct relock_client *client, const char *name,
                struct relock_lock **lock)
{
    return kinds[kind].constructor(client, name, lock);
}

/* ---- one name, one kind -------------------------------------------------------------------- */

static void a_handle_of_one_kind_keeps_the_others_off_its_name(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    for (enum kind_no other = 0; other < KINDS_N; other++) {
        struct relock_lock *untouched = lock;

        if (&kinds[other] == kind_now())
            continue;
        assert_result(make(other, client, "orders", &untouched), RELOCK_E_INVALID);
        assert_ptr_equal(untouched, lock);
    }
    (void)kind_lock(f, client, "orders"); /* a second handle of the same kind is allowed */
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void names_and_clients_are_independent_of_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *another = fixture_client(f, NULL);

    (void)kind_lock(f, client, "orders");
    for (enum kind_no other = 0; other < KINDS_N; other++) {
        (void)fixture_lock_of(f, client, kinds[other].name, kinds[other].constructor);
        fixture_free_lock(f, fixture_lock_of(f, another, "orders", kinds[other].constructor));
    }
}

static void a_name_is_free_for_every_kind_once_its_handles_are_freed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    for (enum kind_no other = 0; other < KINDS_N; other++) {
        struct relock_lock *one = kind_lock(f, client, "orders");
        struct relock_lock *two = kind_lock(f, client, "orders");
        struct relock_lock *lock;

        assert_result(relock_lock(one), RELOCK_OK);
        assert_result(relock_unlock(two), RELOCK_OK);
        fixture_free_lock(f, one);
        if (&kinds[other] != kind_now())
            assert_result(make(other, client, "orders", &lock), RELOCK_E_INVALID);
        fixture_free_lock(f, two);

        lock = fixture_lock_of(f, client, "orders", kinds[other].constructor);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        fixture_free_lock(f, lock);
    }
}

static void a_hold_without_a_handle_still_has_its_kind(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    fixture_free_lock(f, lock);
    for (enum kind_no other = 0; other < KINDS_N; other++) {
        if (&kinds[other] != kind_now())
            assert_result(make(other, client, "orders", &lock), RELOCK_E_INVALID);
    }
    lock = kind_lock(f, client, "orders");
    assert_result(relock_unlock(lock), RELOCK_OK);
}

struct attempt {
    struct fixture *f;
    struct relock_client *client;
    enum kind_no kind;
};

static bool can_be_made(void *arg)
{
    struct attempt *attempt = arg;
    struct relock_lock *lock;

    if (make(attempt->kind, attempt->client, "orders", &lock) != RELOCK_OK)
        return false;
    relock_lock_free(lock);
    return true;
}

/* The subscription of a wait lingers for a moment, and is of the kind that it was made for. */
static void a_name_that_was_waited_for_is_soon_free_for_every_kind(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_true(kind_peer_lock(f, "orders"));
    assert_result(fixture_timedlock(lock, 30), RELOCK_TIMEOUT);
    fixture_free_lock(f, lock);
    for (enum kind_no other = 0; other < KINDS_N; other++)
        assert_true(wait_until(can_be_made, &(struct attempt){f, client, other}, SOON_MS));
    assert_true(kind_peer_unlock(f, "orders"));
}

static void every_kind_checks_its_arguments(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    fixture_constructor_fn *constructor = kind_now()->constructor;
    struct relock_lock *lock = NULL;
    char name[4096 + 2];

    memset(name, 'x', sizeof(name));
    name[4097] = '\0';
    assert_result(constructor(NULL, "orders", &lock), RELOCK_E_INVALID);
    assert_result(constructor(client, NULL, &lock), RELOCK_E_INVALID);
    assert_result(constructor(client, "orders", NULL), RELOCK_E_INVALID);
    assert_result(constructor(client, "", &lock), RELOCK_E_INVALID);
    assert_result(constructor(client, name, &lock), RELOCK_E_INVALID);
    assert_null(lock);

    name[4096] = '\0';
    lock = kind_lock(f, client, name);
    assert_string_equal(relock_lock_name(lock), name);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- RELOCK_NON_REENTRANT ------------------------------------------------------------------ */

static void a_second_level_is_refused_to_a_non_reentrant_call(void **state)
{
    struct fixture *f = *state;
    struct relock_how forever = {.flags = RELOCK_NON_REENTRANT, .wait_ms = RELOCK_FOREVER};
    struct relock_lock *lock = kind_lock(f, untracked_client(f), "orders");
    struct relock_grant grant;
    long long calls;

    for (int i = 0; i < 3; i++) {
        assert_result(relock_acquire(lock, &once, &grant), RELOCK_OK);
        assert_int_equal(grant.hold_count, 1);
        calls = probe_script_calls(f->probe);
        assert_result(relock_acquire(lock, &once, &grant), RELOCK_E_DEADLOCK);
        assert_true(log_wait_least(f->log, "this owner holds it already", 1, SOON_MS));
        assert_int_equal(grant.hold_count, 0);
        assert_result(relock_acquire(lock, &forever, &grant), RELOCK_E_DEADLOCK);
        assert_int_equal(grant.owner, 0);

        /* Nothing was sent, and the lock is still held once. */
        assert_int_equal(probe_script_calls(f->probe), calls);
        assert_true(kind_has_levels(f, "orders", 1));
        assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
        assert_int_equal(grant.hold_count, 1);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    }
}

static void the_flag_is_of_one_call_and_not_of_the_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_acquire(lock, &once, NULL), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_trylock(lock), RELOCK_OK);
    assert_result(relock_acquire(lock, &once, NULL), RELOCK_E_DEADLOCK);
    assert_true(kind_has_levels(f, "orders", 3));
    for (int level = 0; level < 3; level++)
        assert_result(relock_unlock(lock), RELOCK_OK);

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_acquire(lock, &once, NULL), RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_non_reentrant_call_is_refused_to_the_holding_owner_alone(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how how = {.flags = RELOCK_NON_REENTRANT, .owner = relock_owner_new()};
    struct actor *other = actor_start();

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(actor_acquire(other, lock, &how), RELOCK_E_DEADLOCK);
    assert_result(relock_acquire(lock, &once, NULL), RELOCK_BUSY);
    assert_result(actor_acquire(other, lock, &once), RELOCK_BUSY);
    how.wait_ms = 20;
    assert_result(actor_acquire(other, lock, &how), RELOCK_E_DEADLOCK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_NOT_OWNER);
}

/* Another thread of the same owner gets the lock first. */
static void a_non_reentrant_wait_is_refused_when_its_owner_gets_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_how how = {
        .flags = RELOCK_NON_REENTRANT, .owner = relock_owner_new(), .wait_ms = RELOCK_FOREVER};
    struct actor *one = actor_start(), *two = actor_start();
    int first, second;

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_acquire(one, lock, &how);
    actor_begin_acquire(two, lock, &how);
    assert_true(wait_for_waiters(client, 2));
    assert_result(relock_unlock(lock), RELOCK_OK);

    first = actor_result(one);
    second = actor_result(two);
    assert_true(first == RELOCK_OK || second == RELOCK_OK);
    assert_true(first == RELOCK_E_DEADLOCK || second == RELOCK_E_DEADLOCK);
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_result(relock_release(lock, how.owner), RELOCK_NOT_OWNER);
}

static void a_lost_hold_is_reported_before_a_refused_level(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");

    assert_result(fixture_acquire(lock, &(struct relock_how){.lease_ms = slow_ms(300)}), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS)); /* after the report */
    assert_result(relock_acquire(lock, &once, NULL), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_acquire(lock, &once, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void unknown_flags_are_invalid(void **state)
{
    static const uint64_t unknown[] = {2, UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");
    struct relock_grant grant = {.hold_count = 7};

    for (size_t i = 0; i < sizeof(unknown) / sizeof(*unknown); i++) {
        struct relock_how how = {.flags = unknown[i]};

        assert_result(relock_acquire(lock, &how, &grant), RELOCK_E_INVALID);
        assert_int_equal(grant.hold_count, 0);
        how.flags |= RELOCK_NON_REENTRANT;
        assert_result(relock_acquire(lock, &how, NULL), RELOCK_E_INVALID);
    }
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_handle_of_one_kind_keeps_the_others_off_its_name),
        KINDS_TEST(names_and_clients_are_independent_of_each_other),
        KINDS_TEST(a_name_is_free_for_every_kind_once_its_handles_are_freed),
        KINDS_TEST(a_hold_without_a_handle_still_has_its_kind),
        KINDS_TEST(a_name_that_was_waited_for_is_soon_free_for_every_kind),
        KINDS_TEST(every_kind_checks_its_arguments),
        KINDS_TEST(a_second_level_is_refused_to_a_non_reentrant_call),
        KINDS_TEST(the_flag_is_of_one_call_and_not_of_the_hold),
        KINDS_TEST(a_non_reentrant_call_is_refused_to_the_holding_owner_alone),
        KINDS_TEST(a_non_reentrant_wait_is_refused_when_its_owner_gets_the_lock),
        KINDS_TEST(a_lost_hold_is_reported_before_a_refused_level),
        KINDS_TEST(unknown_flags_are_invalid),
    };

    return SERVER_TESTS_RUN(tests);
}
