/*
 * Another program replaces the key of a lock that is held by data of another type. The hold is
 * lost, and the first command of the owner or of the watchdog reports that. Without tracking, so
 * that this command is one of the test; with it: tracking_test.c.
 */
#include "support/actor.h"
#include "support/fair_queue.h"
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

/* ---- the name afterwards ------------------------------------------------------------------- */

struct attempt {
    struct relock_client *client;
    enum kind_no kind;
};

static bool can_be_made(void *arg)
{
    const struct attempt *attempt = arg;
    struct relock_lock *lock;

    if (kinds[attempt->kind].constructor(attempt->client, "orders", &lock) != RELOCK_OK)
        return false;
    relock_lock_free(lock);
    return true;
}

static void assert_soon_free(struct relock_client *client)
{
    for (enum kind_no kind = 0; kind < KINDS_AND_SIDES_N; kind++)
        assert_true(wait_until(can_be_made, &(struct attempt){client, kind}, SOON_MS));
}

/* The lease that was asked for ends long after the test. */
static void a_refused_name_is_soon_free_for_every_kind(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, NEVER_MS);

    for (size_t i = 0; i < KIND_N_OTHER_TYPES; i++) {
        struct relock_lock *lock = kind_lock(f, client, "orders");

        kind_replace(f, "orders", i);
        assert_result(relock_timedlock(lock, NEVER_MS), RELOCK_E_SERVER);
        fixture_free_lock(f, lock);
        assert_soon_free(client);
        kind_assert_replaced(f, "orders", i);
    }
}

/* It leaves the queue in Redis, though the key of the lock cannot be read. */
static void a_waiter_for_a_replaced_fair_lock_leaves_its_place(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with(f, NEVER_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = actor_start();
    struct relock_cancel *cancel;
    struct relock_how how = {.wait_ms = NEVER_MS};
    int r;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    assert_true(kind_peer_lock(f, "orders"));
    actor_begin_acquire(waiting, lock, &how);
    assert_true(fair_queue_wait(f, 1));
    kind_replace(f, "orders", 0);
    relock_cancel_fire(cancel);
    r = actor_result(waiting);
    assert_true(r == RELOCK_CANCELLED || r == RELOCK_E_SERVER); /* if it was just asking again */
    assert_null(relock_cancel_free(cancel));
    assert_true(fair_queue_wait(f, 0));
    fixture_free_lock(f, lock);
    assert_soon_free(client);
    kind_assert_replaced(f, "orders", 0);
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
        EACH_KIND(a_refused_name_is_soon_free_for_every_kind),
        KINDS_TEST_OF(a_waiter_for_a_replaced_fair_lock_leaves_its_place, fair),
    };

    return SERVER_TESTS_RUN(tests);
}
