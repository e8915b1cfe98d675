/*
 * Waiters for plain locks: Redis reports that the lock is free, so they send nothing meanwhile. The
 * holder is a client of another library, which publishes nothing.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/plain_peer.h"
#include "support/reactor.h"
#include "support/rights.h"

#define CHANNEL "__redis__:invalidate"
#define AT_ONCE_MS 2000 /* a machine that stands still */
#define QUIET_MS 600

/* A client whose waiters never recheck. */
static struct relock_client *calm(struct fixture *f, unsigned flags)
{
    return fixture_client(f, &(struct relock_options){
                                 .recheck_ms = NEVER_MS,
                                 .watchdog_timeout_ms = NEVER_MS,
                                 .command_timeout_ms = slow_ms(10000),
                                 .flags = flags,
                             });
}

static void peer_locks(struct fixture *f)
{
    assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, NEVER_MS));
}

static bool is_quiet_for(struct probe *probe, uint64_t ms)
{
    long long before = probe_script_calls(probe);

    let_pass(ms);
    return probe_script_calls(probe) == before;
}

static bool is_quiet(void *probe)
{
    return is_quiet_for(probe, QUIET_MS);
}

static bool is_quiet_for_a_moment(void *probe)
{
    return is_quiet_for(probe, QUIET_MS / 3);
}

/* The waiter of a lock that is held sleeps, and sends nothing. */
static void assert_sleeps(struct fixture *f)
{
    assert_true(wait_until(is_quiet, f->probe, SOON_MS));
}

/* Another library holds the lock, and a thread begins to wait for it. */
static struct actor *begin_waiting(struct fixture *f, struct relock_lock *lock)
{
    struct actor *waiting = actor_start();

    peer_locks(f);
    actor_begin_lock(waiting, lock);
    return waiting;
}

/* They are for locks that nobody watches. */
static void a_waiter_sends_nothing_however_short_its_pauses_are(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, calm(f, 0));
    struct actor *waiting;

    assert_result(relock_spinlock_set_pauses(lock, 1, 1), RELOCK_OK);
    waiting = begin_waiting(f, lock);
    assert_sleeps(f);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static void assert_gets_it(struct actor *waiting, struct relock_lock *lock)
{
    uint64_t since_ms = now_ms();

    assert_result(actor_result(waiting), RELOCK_OK);
    print_message("after %d ms\n", (int)(actor_ended_ms(waiting) - since_ms));
    assert_true(actor_ended_ms(waiting) <= since_ms + slow_ms(AT_ONCE_MS));
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static void a_waiter_sends_nothing_until_the_lock_is_deleted(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = calm(f, 0);
    struct relock_lock *lock = plain_handle(f, client);

    for (int i = 0; i < 3; i++) {
        struct actor *waiting = begin_waiting(f, lock);
        uint64_t wakes;

        assert_sleeps(f);
        wakes = stats_of(client).wakes;
        assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
        assert_gets_it(waiting, lock);
        assert_int_equal(stats_of(client).wakes, wakes + 1);
    }
}

static void a_waiter_is_woken_when_the_lease_ends_early(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, calm(f, 0));
    struct actor *waiting = begin_waiting(f, lock);

    assert_sleeps(f);
    probe_int(f->probe, "PEXPIRE orders 300");
    assert_gets_it(waiting, lock);
}

static void a_waiter_is_woken_when_all_keys_are_flushed(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, calm(f, 0));
    struct actor *waiting = begin_waiting(f, lock);

    assert_sleeps(f);
    probe_text(f->probe, "FLUSHALL");
    assert_gets_it(waiting, lock);
}

/* Each extension is a change, and not the end of the wait. */
static void a_waiter_sleeps_on_when_the_lease_is_extended(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, calm(f, 0));
    struct actor *waiting = begin_waiting(f, lock);

    for (int i = 0; i < 3; i++) {
        assert_sleeps(f);
        probe_int(f->probe, "PEXPIRE orders %d", (int)NEVER_MS - i);
    }
    assert_sleeps(f);
    assert_true(actor_is_busy(waiting));
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_gets_it(waiting, lock);
}

static void all_waiters_of_two_processes_get_it(void **state)
{
    enum { N = 6 };
    struct fixture *f = *state;
    struct relock_lock *ours = plain_handle(f, calm(f, 0)), *theirs = plain_handle(f, calm(f, 0));
    struct actor *waiting[N];

    peer_locks(f);
    for (int i = 0; i < N; i++) {
        waiting[i] = actor_start();
        actor_begin_lock(waiting[i], i % 2 ? ours : theirs);
    }
    assert_sleeps(f);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    for (int n = 0; n < N;) { /* in the order in which they get it */
        for (int i = 0; i < N; i++) {
            if (!waiting[i] || actor_is_busy(waiting[i]))
                continue;
            assert_gets_it(waiting[i], i % 2 ? ours : theirs);
            waiting[i] = NULL;
            n++;
        }
        let_pass(1);
    }
}

/* ---- changes that Redis does not report to this client --------------------------------------- */

/* The lease of the peer ends when the asynchronous call asks: its own command deletes the key. */
static void a_waiter_is_woken_by_an_asynchronous_release_of_its_own_client(void **state)
{
    enum { LEASE_MS = 700 };
    struct fixture *f = *state;
    struct relock_client *client = calm(f, 0);
    struct relock_lock *lock = plain_handle(f, client);
    struct relock_events *events = reactor_events(client);
    struct relock_how waits = {.wait_ms = NEVER_MS};
    struct actor *waiting = actor_start();

    for (int i = 0; i < 5; i++) {
        struct outcome first;

        assert_true(plain_peer_lock(f->probe, "orders", PLAIN_PEER, LEASE_MS));
        assert_result(outcome_acquire(lock, &waits, events, &first), RELOCK_OK);
        let_pass(LEASE_MS / 2); /* it sleeps */
        actor_begin_lock(waiting, lock);
        assert_result(reactor_await(events, &first), RELOCK_OK);
        let_pass(50); /* the lock is not handed off any more */
        assert_result(reactor_release(lock, first.grant.owner, events), RELOCK_OK);
        assert_gets_it(waiting, lock);
    }
    assert_null(relock_events_free(events));
}

/* The server refuses a release, and executes it when the I/O thread repeats it. */
static void a_waiter_is_woken_by_a_release_that_is_settled_later(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *waiting = actor_start();

    rights_give(f, "plain", NULL);
    client = rights_client(f, NEVER_MS, 0);
    lock = plain_handle(f, client);
    assert_result(relock_lock(lock), RELOCK_OK);
    probe_int(f->probe, "ACL SETUSER locker -del");
    assert_true(relock_unlock(lock) < 0);
    actor_begin_lock(waiting, lock);
    let_pass(2 * QUIET_MS); /* it sleeps; the release is repeated meanwhile */
    assert_true(actor_is_busy(waiting));
    probe_int(f->probe, "ACL SETUSER locker +del");
    assert_gets_it(waiting, lock);
}

static void a_waiter_ends_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, calm(f, 0));

    peer_locks(f);
    assert_result(fixture_timedlock(lock, QUIET_MS), RELOCK_TIMEOUT);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
}

/* So it does not wait for ever for a report that was lost. */
static void a_waiter_still_rechecks(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.recheck_ms = QUIET_MS});
    struct relock_lock *lock = plain_handle(f, client);
    struct actor *waiting = begin_waiting(f, lock);
    long long before;

    assert_true(wait_until(is_quiet_for_a_moment, f->probe, SOON_MS));
    before = probe_script_calls(f->probe);
    let_pass(5 * QUIET_MS / 2);
    assert_in_range(probe_script_calls(f->probe) - before, 1, 8);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_gets_it(waiting, lock);
}

static void without_tracking_a_waiter_polls(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = plain_handle(f, calm(f, RELOCK_NO_TRACKING));
    long long before = probe_script_calls(f->probe);
    struct actor *waiting = begin_waiting(f, lock);

    let_pass(3 * QUIET_MS);
    assert_true(probe_script_calls(f->probe) - before > 5);
    assert_int_equal(probe_subscribers(f->probe, CHANNEL), 0);
    assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
    assert_gets_it(waiting, lock);
}

/* One line says so, however long it waits and however often. */
static void without_the_right_a_waiter_polls(void **state)
{
    struct fixture *f = *state;
    struct actor *waiting = actor_start();
    struct relock_lock *lock;

    rights_give(f, "plain", "+client|tracking");
    lock = plain_handle(f, rights_client(f, NEVER_MS, 0));
    for (int i = 0; i < 2; i++) {
        long long before;

        peer_locks(f);
        before = probe_script_calls(f->probe);
        actor_begin_lock(waiting, lock);
        assert_true(log_wait(f->log, "waiters for plain locks poll", SOON_MS));
        let_pass(3 * QUIET_MS);
        assert_true(probe_script_calls(f->probe) - before > 5);
        assert_true(plain_peer_unlock(f->probe, "orders", PLAIN_PEER));
        assert_gets_it(waiting, lock);
    }
    assert_int_equal(log_count(f->log, "CLIENT TRACKING"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_waiter_sends_nothing_until_the_lock_is_deleted),
        SERVER_TEST(a_waiter_sends_nothing_however_short_its_pauses_are),
        SERVER_TEST(a_waiter_is_woken_when_the_lease_ends_early),
        SERVER_TEST(a_waiter_is_woken_when_all_keys_are_flushed),
        SERVER_TEST(a_waiter_sleeps_on_when_the_lease_is_extended),
        SERVER_TEST(all_waiters_of_two_processes_get_it),
        SERVER_TEST(a_waiter_is_woken_by_an_asynchronous_release_of_its_own_client),
        SERVER_TEST(a_waiter_is_woken_by_a_release_that_is_settled_later),
        SERVER_TEST(a_waiter_ends_at_its_deadline),
        SERVER_TEST(a_waiter_still_rechecks),
        SERVER_TEST(without_tracking_a_waiter_polls),
        SERVER_TEST(without_the_right_a_waiter_polls),
    };

    return SERVER_TESTS_RUN(tests);
}
