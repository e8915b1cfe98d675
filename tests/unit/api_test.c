/* The public header and the installed library. No server. */
#include <relock.h>

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static void (*volatile named)(void); /* volatile: otherwise the linker need not look */

/* symbols_test.py checks that the table is complete. */
static void every_public_function_is_in_the_library(void **state)
{
    (void)state;

#define NAMED(function) named = (void (*)(void))(function)
    NAMED(relock_acquire);
    NAMED(relock_acquire_async);
    NAMED(relock_cancel_fire);
    NAMED(relock_cancel_free);
    NAMED(relock_cancel_new);
    NAMED(relock_check);
    NAMED(relock_client_free);
    NAMED(relock_client_id);
    NAMED(relock_client_new);
    NAMED(relock_client_ready);
    NAMED(relock_client_set_password);
    NAMED(relock_client_shutdown);
    NAMED(relock_client_stats);
    NAMED(relock_events_dispatch);
    NAMED(relock_events_fd);
    NAMED(relock_events_free);
    NAMED(relock_events_new);
    NAMED(relock_extend);
    NAMED(relock_fairlock_new);
    NAMED(relock_fairlock_set_patience);
    NAMED(relock_fencedlock_new);
    NAMED(relock_force_unlock);
    NAMED(relock_force_unlock_held);
    NAMED(relock_force_unlock_permit);
    NAMED(relock_hold_count);
    NAMED(relock_hold_count_of);
    NAMED(relock_is_locked);
    NAMED(relock_is_mine);
    NAMED(relock_latch_count);
    NAMED(relock_latch_count_down);
    NAMED(relock_latch_delete);
    NAMED(relock_latch_free);
    NAMED(relock_latch_new);
    NAMED(relock_latch_try_set);
    NAMED(relock_latch_wait);
    NAMED(relock_lock);
    NAMED(relock_lock_free);
    NAMED(relock_lock_name);
    NAMED(relock_lock_new);
    NAMED(relock_locks);
    NAMED(relock_multilock_new);
    NAMED(relock_owner_new);
    NAMED(relock_owner_self);
    NAMED(relock_plainlock_like);
    NAMED(relock_plainlock_new);
    NAMED(relock_rdlock_new);
    NAMED(relock_redlock_new);
    NAMED(relock_release);
    NAMED(relock_release_async);
    NAMED(relock_semaphore_add);
    NAMED(relock_semaphore_init);
    NAMED(relock_semaphore_new);
    NAMED(relock_semaphore_read);
    NAMED(relock_semaphore_set);
    NAMED(relock_servers);
    NAMED(relock_spinlock_new);
    NAMED(relock_spinlock_set_pauses);
    NAMED(relock_stats_print);
    NAMED(relock_strerror);
    NAMED(relock_timedlock);
    NAMED(relock_trylock);
    NAMED(relock_ttl_ms);
    NAMED(relock_unleased_acquire);
    NAMED(relock_unleased_add);
    NAMED(relock_unleased_available);
    NAMED(relock_unleased_drain);
    NAMED(relock_unleased_free);
    NAMED(relock_unleased_new);
    NAMED(relock_unleased_release);
    NAMED(relock_unleased_try_set);
    NAMED(relock_unlock);
    NAMED(relock_valid_ms);
    NAMED(relock_waiters);
    NAMED(relock_nested_waits);
    NAMED(relock_who_holds);
    NAMED(relock_wrlock_new);
#undef NAMED
    assert_true(named != NULL);
}

/* A second copy: compiled programs contain these values, and people grep for these texts. */
static const struct {
    int value, expected;
    const char *text;
} results[] = {
    {RELOCK_OK, 0, "success"},
    {RELOCK_BUSY, -1, "not available: in use, reserved for a waiter, or not yet open"},
    {RELOCK_TIMEOUT, -2, "timed out: still in use, reserved for a waiter, or not yet open"},
    {RELOCK_CANCELLED, -3, "the wait was cancelled"},
    {RELOCK_LOST, -4, "the hold was lost: its lease expired, or its key was deleted or taken"},
    {RELOCK_NOT_OWNER, -5, "this owner does not hold the lock"},
    {RELOCK_E_NOMEM, -11, "out of memory"},
    {RELOCK_E_INVALID, -12, "invalid argument"},
    {RELOCK_E_CONN, -13, "Redis is unreachable or did not answer in time"},
    {RELOCK_E_SERVER, -14, "Redis returned an error or is a replica"},
    {RELOCK_E_AUTH, -15, "authentication failed or an ACL right is missing"},
    {RELOCK_E_REPLICAS, -16, "too few replicas acknowledged the lock"},
    {RELOCK_E_CLOSED, -17, "the client was shut down or freed"},
    {RELOCK_E_FORKED, -18, "the client was made before fork() and this is the child"},
    {RELOCK_E_DEADLOCK, -19, "this call would deadlock"},
    {RELOCK_E_UNSUPPORTED, -20, "not supported by this kind of lock, server or build"},
    {RELOCK_E_NO_PERMITS, -21, "the number of permits of the semaphore was never set"},
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void every_result_keeps_its_value_and_has_its_text(void **state)
{
    size_t n_results = 0;

    (void)state;

#define XX(name, value, text) n_results++;
    RELOCK_STATUS_MAP(XX)
#undef XX
    assert_int_equal(n_results, COUNT(results));

    for (size_t i = 0; i < COUNT(results); i++) {
        assert_int_equal(results[i].value, results[i].expected);
        assert_string_equal(relock_strerror(results[i].value), results[i].text);
    }
}

static void an_unknown_result_has_a_text_too(void **state)
{
    static const int unknown[] = {1, -6, -10, -22, -9999, INT32_MAX, INT32_MIN};

    (void)state;

    for (size_t i = 0; i < COUNT(unknown); i++) {
        assert_non_null(relock_strerror(unknown[i]));
        assert_string_not_equal(relock_strerror(unknown[i]), "");
        assert_string_not_equal(relock_strerror(unknown[i]), "success");
    }
}

static void null_handles_are_refused(void **state)
{
    struct relock_lock *lock = NULL;
    struct relock_stats stats;
    struct relock_grant grant;
    struct relock_holder holder;
    int64_t ttl_ms;
    unsigned count;
    bool locked;

    (void)state;

    assert_int_equal(relock_client_new(NULL, NULL), RELOCK_E_INVALID);
    assert_int_equal(relock_client_stats(NULL, &stats, sizeof(stats)), RELOCK_E_INVALID);
    assert_int_equal(relock_lock_new(NULL, "name", &lock), RELOCK_E_INVALID);
    assert_null(lock);

    assert_int_equal(relock_lock(NULL), RELOCK_E_INVALID);
    assert_int_equal(relock_trylock(NULL), RELOCK_E_INVALID);
    assert_int_equal(relock_timedlock(NULL, 1), RELOCK_E_INVALID);
    assert_int_equal(relock_acquire(NULL, NULL, NULL), RELOCK_E_INVALID);
    assert_int_equal(relock_unlock(NULL), RELOCK_E_INVALID);
    assert_int_equal(relock_release(NULL, 0), RELOCK_E_INVALID);
    assert_int_equal(relock_extend(NULL, 0, 1000), RELOCK_E_INVALID);
    assert_int_equal(relock_force_unlock(NULL), RELOCK_E_INVALID);

    assert_int_equal(relock_check(NULL, 0, NULL), RELOCK_E_INVALID);
    assert_int_equal(relock_check(NULL, 0, &grant), RELOCK_E_INVALID);
    assert_int_equal(relock_valid_ms(NULL), 0);
    assert_false(relock_is_mine(NULL));

    assert_int_equal(relock_who_holds(NULL, &holder), RELOCK_E_INVALID);
    assert_int_equal(relock_is_locked(NULL, &locked), RELOCK_E_INVALID);
    assert_int_equal(relock_hold_count(NULL, &count), RELOCK_E_INVALID);
    assert_int_equal(relock_hold_count_of(NULL, 0, &count), RELOCK_E_INVALID);
    assert_int_equal(relock_ttl_ms(NULL, &ttl_ms), RELOCK_E_INVALID);

    assert_int_equal(relock_cancel_new(NULL), RELOCK_E_INVALID);
    relock_client_shutdown(NULL);
    relock_cancel_fire(NULL);
}

static void a_refused_acquire_leaves_a_zero_grant(void **state)
{
    static const struct relock_grant zero;
    struct relock_grant grant;

    (void)state;

    memset(&grant, 0xff, sizeof(grant));
    assert_int_equal(relock_acquire(NULL, NULL, &grant), RELOCK_E_INVALID);
    assert_memory_equal(&grant, &zero, sizeof(grant));

    memset(&grant, 0xff, sizeof(grant));
    assert_int_equal(relock_check(NULL, 0, &grant), RELOCK_E_INVALID);
    assert_memory_equal(&grant, &zero, sizeof(grant));
}

static void functions_that_free_take_null_and_return_null(void **state)
{
    (void)state;

    assert_null(relock_client_free(NULL));
    assert_null(relock_lock_free(NULL));
    assert_null(relock_cancel_free(NULL));
    assert_null(relock_events_free(NULL));
}

static void a_scope_ignores_a_null_lock(void **state)
{
    (void)state;

    RELOCK_SCOPE(NULL);
}

static void owners_are_never_zero_and_never_the_same(void **state)
{
    uint64_t before = 0;

    (void)state;
    for (int i = 0; i < 1000; i++) {
        uint64_t owner = relock_owner_new();

        assert_true(owner != 0);
        assert_true(owner != before);
        before = owner;
    }
}

static void a_cancel_needs_no_client(void **state)
{
    struct relock_cancel *cancel = NULL;

    (void)state;

    assert_int_equal(relock_cancel_new(&cancel), RELOCK_OK);
    assert_non_null(cancel);
    relock_cancel_fire(cancel);
    relock_cancel_fire(cancel);
    assert_null(relock_cancel_free(cancel));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_public_function_is_in_the_library),
        cmocka_unit_test(every_result_keeps_its_value_and_has_its_text),
        cmocka_unit_test(an_unknown_result_has_a_text_too),
        cmocka_unit_test(null_handles_are_refused),
        cmocka_unit_test(a_refused_acquire_leaves_a_zero_grant),
        cmocka_unit_test(functions_that_free_take_null_and_return_null),
        cmocka_unit_test(a_scope_ignores_a_null_lock),
        cmocka_unit_test(owners_are_never_zero_and_never_the_same),
        cmocka_unit_test(a_cancel_needs_no_client),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
