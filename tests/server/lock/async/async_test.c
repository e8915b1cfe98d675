/* Asynchronous calls: the same rules, and the callbacks on a thread of the program. */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/peer.h"
#include "support/reactor.h"

#define WAITS (&(struct relock_how){.wait_ms = NEVER_MS, .permits = kind_now()->permits})

static void a_lock_is_acquired_and_released(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome outcome;
    struct relock_grant grant;

    assert_result(outcome_acquire(lock, NULL, events, &outcome), RELOCK_OK);
    assert_result(reactor_await(events, &outcome), RELOCK_OK);
    assert_true(outcome.grant.owner > 0 && outcome.grant.valid_ms > 0);
    assert_int_equal(outcome.grant.hold_count, 1);
    assert_int_equal(outcome.grant.fencing_token > 0, kind_now() == &kinds[KIND_FENCED]);
    assert_result(relock_check(lock, outcome.grant.owner, &grant), RELOCK_OK);
    assert_true(kind_has_levels(f, "orders", 1));
    assert_false(relock_is_mine(lock)); /* no thread has it */
    assert_false(reactor_is_due(events));

    assert_result(reactor_release(lock, outcome.grant.owner, events), RELOCK_OK);
    assert_result(relock_check(lock, outcome.grant.owner, NULL), RELOCK_NOT_OWNER);
    assert_string_equal(kind_holder(f, "orders"), "");
    assert_null(relock_events_free(events));
}

static void two_calls_without_an_owner_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome one, two;

    assert_result(outcome_acquire(lock, WAITS, events, &one), RELOCK_OK);
    assert_result(outcome_acquire(lock, WAITS, events, &two), RELOCK_OK);
    assert_result(reactor_await(events, &one), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
    assert_int_equal(two.result, REACTOR_NOTHING);
    assert_result(reactor_release(lock, one.grant.owner, events), RELOCK_OK);
    assert_result(reactor_await(events, &two), RELOCK_OK);
    assert_true(one.grant.owner != two.grant.owner);
    assert_result(reactor_release(lock, two.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void an_owner_nests(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {
        .wait_ms = NEVER_MS, .owner = relock_owner_new(), .permits = kind_now()->permits};
    struct outcome got[3];
    unsigned levels = 0; /* bit n: a call has added level n, in any order */

    for (unsigned i = 0; i < 3; i++)
        assert_result(outcome_acquire(lock, &how, events, &got[i]), RELOCK_OK);
    for (unsigned i = 0; i < 3; i++) {
        assert_result(reactor_await(events, &got[i]), RELOCK_OK);
        levels |= 1U << got[i].grant.hold_count;
        assert_true(got[i].grant.valid_ms > 0);
        assert_true(got[i].grant.owner == how.owner);
    }
    assert_int_equal(levels, 1U << 1 | 1U << 2 | 1U << 3);
    assert_true(kind_has_levels(f, "orders", 3));
    for (unsigned i = 0; i < 3; i++)
        assert_result(outcome_release(lock, how.owner, events, &got[i]), RELOCK_OK);
    for (unsigned i = 0; i < 3; i++)
        assert_result(reactor_await(events, &got[i]), RELOCK_OK);
    assert_true(got[0].order < got[1].order && got[1].order < got[2].order);
    assert_result(reactor_release(lock, how.owner, events), RELOCK_NOT_OWNER);
    assert_null(relock_events_free(events));
}

static void a_wait_ends_when_another_process_releases(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, NEVER_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *elsewhere = kind_lock(f, patient_client(f, NEVER_MS), "orders");
    struct relock_events *events = reactor_events(client);
    struct outcome outcome;

    assert_result(relock_lock(elsewhere), RELOCK_OK);
    assert_result(outcome_acquire(lock, WAITS, events, &outcome), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(elsewhere), RELOCK_OK);
    assert_result(reactor_await(events, &outcome), RELOCK_OK);
    assert_result(reactor_release(lock, outcome.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void threads_and_calls_without_a_thread_hand_the_lock_to_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct actor *thread = actor_start();
    struct outcome outcome;

    assert_result(actor_lock(thread, lock), RELOCK_OK);
    assert_result(outcome_acquire(lock, WAITS, events, &outcome), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
    assert_result(actor_unlock(thread, lock), RELOCK_OK);
    assert_result(reactor_await(events, &outcome), RELOCK_OK);

    actor_begin_lock(thread, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(reactor_release(lock, outcome.grant.owner, events), RELOCK_OK);
    assert_gets_in(thread, lock);
    assert_null(relock_events_free(events));
}

/* As fixture_timedlock(). */
static int wait_out(struct relock_lock *lock, struct relock_events *events)
{
    struct relock_how how = {.wait_ms = outlast_ms(100)};
    uint64_t deadline_ms = deadline_in(SOON_MS);
    uint64_t owner;
    int r;

    do
        r = reactor_acquire(lock, &how, events, &owner);
    while (r == RELOCK_E_CONN && now_ms() < deadline_ms);
    return r;
}

static void an_attempt_is_busy_and_a_wait_times_out(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    uint64_t owner;

    assert_true(kind_peer_lock(f, "orders"));
    assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_BUSY);
    assert_true(owner == 0);
    assert_result(wait_out(lock, events), RELOCK_TIMEOUT);
    assert_true(kind_peer_unlock(f, "orders"));
    assert_null(relock_events_free(events));
}

static void a_cancel_ends_a_wait(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_cancel *cancel;
    struct outcome waits, comes_late;
    struct relock_how how = {.wait_ms = NEVER_MS, .permits = kind_now()->permits};

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    how.cancel = cancel;
    assert_true(kind_peer_lock(f, "orders"));
    assert_result(outcome_acquire(lock, &how, events, &waits), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
    relock_cancel_fire(cancel);
    assert_result(reactor_await(events, &waits), RELOCK_CANCELLED);
    assert_result(outcome_acquire(lock, &how, events, &comes_late), RELOCK_OK);
    assert_result(reactor_await(events, &comes_late), RELOCK_CANCELLED);
    relock_cancel_free(cancel);
    assert_true(kind_peer_unlock(f, "orders"));
    assert_null(relock_events_free(events));
}

static void the_sides_of_a_read_write_lock_exclude_each_other(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *read = fixture_lock_of(f, client, "orders", relock_rdlock_new);
    struct relock_lock *write = fixture_lock_of(f, client, "orders", relock_wrlock_new);
    struct relock_events *events = reactor_events(client);
    struct outcome reads[2], writes;

    for (unsigned i = 0; i < 2; i++) {
        assert_result(outcome_acquire(read, WAITS, events, &reads[i]), RELOCK_OK);
        assert_result(reactor_await(events, &reads[i]), RELOCK_OK);
    }
    assert_result(outcome_acquire(write, WAITS, events, &writes), RELOCK_OK);
    assert_true(wait_for_waiters(client, 1));
    for (unsigned i = 0; i < 2; i++) {
        assert_int_equal(writes.result, REACTOR_NOTHING);
        assert_result(reactor_release(read, reads[i].grant.owner, events), RELOCK_OK);
    }
    assert_result(reactor_await(events, &writes), RELOCK_OK);
    /* Its owner may read, too. */
    assert_result(
        outcome_acquire(read, &(struct relock_how){.owner = writes.grant.owner}, events, &reads[0]),
        RELOCK_OK);
    assert_result(reactor_await(events, &reads[0]), RELOCK_OK);
    assert_result(reactor_release(write, writes.grant.owner, events), RELOCK_OK);
    assert_result(reactor_release(read, reads[0].grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

#define N_WAITS 1000

static void a_thousand_waits_need_no_thread(void **state)
{
    static struct outcome waits[N_WAITS], released;
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct leaks before;

    assert_result(relock_lock(lock), RELOCK_OK);
    before = leaks_now();
    for (unsigned i = 0; i < N_WAITS; i++)
        assert_result(outcome_acquire(lock, WAITS, events, &waits[i]), RELOCK_OK);
    assert_true(wait_for_waiters(client, N_WAITS));
    assert_int_equal(leaks_now().n_threads, before.n_threads);

    assert_result(relock_unlock(lock), RELOCK_OK);
    for (unsigned i = 0; i < N_WAITS; i++) { /* in the order in which they came */
        assert_result(reactor_await(events, &waits[i]), RELOCK_OK);
        assert_result(outcome_release(lock, waits[i].grant.owner, events, &released), RELOCK_OK);
        assert_result(reactor_await(events, &released), RELOCK_OK);
    }
    assert_null(relock_events_free(events));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_lock_is_acquired_and_released),
        KINDS_TEST(two_calls_without_an_owner_exclude_each_other),
        SEMAPHORE_TEST(two_calls_without_an_owner_exclude_each_other),
        KINDS_TEST(an_owner_nests),
        KINDS_TEST(a_wait_ends_when_another_process_releases),
        KINDS_TEST(threads_and_calls_without_a_thread_hand_the_lock_to_each_other),
        SEMAPHORE_TEST(threads_and_calls_without_a_thread_hand_the_lock_to_each_other),
        KINDS_TEST(an_attempt_is_busy_and_a_wait_times_out),
        KINDS_TEST(a_cancel_ends_a_wait),
        SERVER_TEST(the_sides_of_a_read_write_lock_exclude_each_other),
        SERVER_TEST(a_thousand_waits_need_no_thread),
    };
    return SERVER_TESTS_RUN(tests);
}
