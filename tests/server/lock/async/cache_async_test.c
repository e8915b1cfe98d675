/* Calls without a thread: they get a kept lock, leave one, or go on after its release. */
#include "support/keeping.h"
#include "support/kinds.h"
#include "support/reactor.h"

#define SHORT_MS 300  /* a deadline that passes in a test */
#define LEASE_MS 2000 /* outlives a second in which a machine stands still */
#define LONG_MS 3600000

static void calls_without_a_thread_get_and_leave_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = keeping_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how fixed = {.lease_ms = 5000};
    uint64_t owner;

    keeping_fill(client, lock);
    for (int i = 0; i < 2; i++) {
        assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_OK);
        assert_result(relock_check(lock, owner, NULL), RELOCK_OK);
        assert_result(reactor_release(lock, owner, events), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).reused, 2);
    assert_int_equal(stats_of(client).kept, 1);

    /* Their release is sent before the attempt, over the same connection. */
    assert_result(reactor_acquire(lock, &fixed, events, &owner), RELOCK_OK);
    assert_in_range(probe_pttl(f->probe, "orders"), 1, 5000);
    assert_result(reactor_release(lock, owner, events), RELOCK_OK);
    assert_string_equal(kind_holder(f, "orders"), "");
    assert_null(relock_events_free(events));
}

/* A kept lock that was acquired again is renewed some milliseconds later. The server does not
 * answer, so that the renewal is under way when the calls come. They cannot use the kept hold. */
static void calls_without_a_thread_wait_for_the_renewal_of_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.command_timeout_ms = 3 * SOON_MS});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how fixed = {.lease_ms = 2 * SOON_MS};
    struct outcome first, second;

    keeping_fill(client, lock);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 1);
    server_pause(f->server);
    let_pass(100);
    assert_int_equal(outcome_acquire(lock, &fixed, events, &first), RELOCK_OK);
    assert_int_equal(outcome_acquire(lock, &fixed, events, &second), RELOCK_OK);
    let_pass(20);
    server_resume(f->server);
    assert_result(reactor_await(events, &first), RELOCK_OK);
    assert_result(reactor_await(events, &second), RELOCK_BUSY);
    assert_result(reactor_release(lock, first.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

/* The lock is kept, and the server answers no command about it from now on. */
static void keep_without_answers(struct fixture *f, struct relock_client *client,
                                 struct relock_lock *lock)
{
    keeping_fill(client, lock);
    server_pause(f->server);
    assert_result(relock_lock(lock), RELOCK_OK); /* from memory: a renewal follows */
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(100);
}

static struct relock_client *client_with_time(struct fixture *f)
{
    return keeping_client(f, &(struct relock_options){.command_timeout_ms = 3 * SOON_MS,
                                                      .watchdog_timeout_ms = LONG_MS});
}

static void calls_without_a_thread_stay_behind_a_kept_lock_until_their_deadline(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with_time(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how fixed = {.lease_ms = LEASE_MS, .wait_ms = SHORT_MS};
    struct outcome outcome;

    keep_without_answers(f, client, lock);
    assert_int_equal(outcome_acquire(lock, &fixed, events, &outcome), RELOCK_OK);
    assert_result(reactor_await(events, &outcome), RELOCK_E_CONN);
    server_resume(f->server);
    assert_null(relock_events_free(events));
}

static void a_shutdown_ends_calls_without_a_thread_behind_a_kept_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = client_with_time(f);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how fixed = {.lease_ms = LEASE_MS, .wait_ms = NEVER_MS};
    struct outcome first, second;

    keep_without_answers(f, client, lock);
    assert_int_equal(outcome_acquire(lock, &fixed, events, &first), RELOCK_OK);
    assert_int_equal(outcome_acquire(lock, &fixed, events, &second), RELOCK_OK);
    let_pass(100);
    relock_client_shutdown(client);
    assert_result(reactor_await(events, &first), RELOCK_E_CLOSED);
    assert_result(reactor_await(events, &second), RELOCK_E_CLOSED);
    server_resume(f->server);
    assert_null(relock_events_free(events));
}

static void a_call_without_a_thread_that_gets_no_hand_off_is_not_kept_waiting(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.recheck_ms = NEVER_MS});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how fixed = {.wait_ms = RELOCK_FOREVER, .lease_ms = 25000};
    struct outcome outcome;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(outcome_acquire(lock, &fixed, events, &outcome), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 0);
    assert_result(reactor_await(events, &outcome), RELOCK_OK);
    assert_result(reactor_release(lock, outcome.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(calls_without_a_thread_get_and_leave_a_kept_lock, reentrant),
        KINDS_TEST_OF(calls_without_a_thread_get_and_leave_a_kept_lock, spin),
        KINDS_TEST_OF(calls_without_a_thread_wait_for_the_renewal_of_a_kept_lock, reentrant),
        KINDS_TEST_OF(calls_without_a_thread_wait_for_the_renewal_of_a_kept_lock, spin),
        SERVER_TEST(calls_without_a_thread_stay_behind_a_kept_lock_until_their_deadline),
        SERVER_TEST(a_shutdown_ends_calls_without_a_thread_behind_a_kept_lock),
        SERVER_TEST(a_call_without_a_thread_that_gets_no_hand_off_is_not_kept_waiting),
    };

    return SERVER_TESTS_RUN(tests);
}
