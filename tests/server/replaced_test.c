/*
 * Another program replaces the key of a lock that is held by data of another type. The hold is
 * lost, and the first command of the owner or of the watchdog reports that. Without tracking, so
 * that this command is one of the test; with it: tracking_test.c.
 */
#include "support/kinds.h"
#include "support/reactor.h"

#define LEASE_MS 3000 /* renewed long before its end */

static struct relock_client *client_with(struct fixture *f, uint64_t lease_ms)
{
    return fixture_client(f, &(struct relock_options){
                                 .watchdog_timeout_ms = lease_ms,
                                 .flags = RELOCK_NO_TRACKING,
                             });
}

/* The data is as the other program left it. */
static void assert_lost(struct fixture *f, size_t n_losses, size_t nth)
{
    assert_true(losses_wait(f->losses, n_losses, SOON_MS));
    assert_int_equal(losses_get(f->losses, n_losses - 1).reason, RELOCK_LOST_TAKEN);
    assert_int_equal(log_count(f->log, "WRONGTYPE"), 0);
    kind_assert_replaced(f, "orders", nth);
}

/* ---- the first command --------------------------------------------------------------------- */

static void a_renewal_reports_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, slow_ms(LEASE_MS));
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    kind_replace(f, "orders", 0);
    assert_lost(f, 1, 0);
    assert_result(relock_check(lock, 0, NULL), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(log_count(f->log, "renewal refused"), 0);
}

static void another_level_reports_it(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, client_with(f, NEVER_MS), "orders");

    for (size_t i = 0; i < KIND_N_OTHER_TYPES; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        kind_replace(f, "orders", i);
        assert_result(relock_lock(lock), RELOCK_LOST);
        assert_lost(f, i + 1, i);
        assert_result(relock_unlock(lock), RELOCK_LOST);
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    }
}

static void an_extension_reports_it(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, client_with(f, NEVER_MS), "orders");

    for (size_t i = 0; i < KIND_N_OTHER_TYPES; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        kind_replace(f, "orders", i);
        assert_result(relock_extend(lock, 0, 2 * NEVER_MS), RELOCK_LOST);
        assert_lost(f, i + 1, i);
        assert_result(relock_unlock(lock), RELOCK_LOST);
    }
}

static void the_release_of_a_level_reports_it(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, client_with(f, NEVER_MS), "orders");

    for (size_t i = 0; i < KIND_N_OTHER_TYPES; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
        kind_replace(f, "orders", i);
        assert_result(relock_unlock(lock), RELOCK_LOST);
        assert_lost(f, i + 1, i);
        assert_result(relock_unlock(lock), RELOCK_LOST);
    }
}

/* It returns the loss, and so no callback does. Nothing is left to be released in Redis. */
static void the_last_release_reports_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, NEVER_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    for (size_t i = 0; i < KIND_N_OTHER_TYPES; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        kind_replace(f, "orders", i);
        assert_result(relock_unlock(lock), RELOCK_LOST);
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
        kind_assert_replaced(f, "orders", i);
    }
    assert_int_equal(stats_of(client).lost, KIND_N_OTHER_TYPES);
    assert_int_equal(losses_count(f->losses), 0);
    assert_int_equal(log_count(f->log, "WRONGTYPE"), 0);
}

static void asynchronous_calls_report_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, NEVER_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_new()};
    uint64_t unused;

    assert_result(reactor_acquire(lock, &how, events, &unused), RELOCK_OK);
    kind_replace(f, "orders", 0);
    assert_result(reactor_acquire(lock, &how, events, &unused), RELOCK_LOST);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_LOST);
    kind_assert_replaced(f, "orders", 0);

    assert_result(reactor_acquire(lock, &how, events, &unused), RELOCK_OK);
    kind_replace(f, "orders", 0);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_LOST);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_NOT_OWNER);
    kind_assert_replaced(f, "orders", 0);
    assert_int_equal(log_count(f->log, "WRONGTYPE"), 0);
    assert_null(relock_events_free(events));
}

/* ---- no hold ------------------------------------------------------------------------------- */

/* The owner has no hold that could be lost: an error, as always. */
static void a_first_level_is_refused_as_before(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, client_with(f, NEVER_MS), "orders");

    for (size_t i = 0; i < KIND_N_OTHER_TYPES; i++) {
        kind_replace(f, "orders", i);
        assert_result(relock_trylock(lock), RELOCK_E_SERVER);
        assert_result(relock_timedlock(lock, NEVER_MS), RELOCK_E_SERVER);
        assert_true(log_wait(f->log, "WRONGTYPE", SOON_MS));
        kind_assert_replaced(f, "orders", i);
    }
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

#define EACH_KIND(function) \
    KINDS_TEST(function), KINDS_TEST_OF(function, read), KINDS_TEST_OF(function, write)

int main(void)
{
    const struct CMUnitTest tests[] = {
        EACH_KIND(a_renewal_reports_it),
        EACH_KIND(another_level_reports_it),
        EACH_KIND(an_extension_reports_it),
        EACH_KIND(the_release_of_a_level_reports_it),
        EACH_KIND(the_last_release_reports_it),
        EACH_KIND(asynchronous_calls_report_it),
        EACH_KIND(a_first_level_is_refused_as_before),
    };

    return SERVER_TESTS_RUN(tests);
}
