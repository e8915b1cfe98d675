/* Clocks and timers that misbehave: a date that jumps, which must have no effect, and an I/O
 * thread or a process whose timers fire late. */
#include "faults.h"

#include "support/child.h"
#include "wall_clock.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>

#define LEASE_MS 2500
#define LATE_MS 8000 /* how late a wait may end on a shared machine; dates jump by days */

/* ---- the date ------------------------------------------------------------------------------ */

static atomic_bool jumping;

/* Jumps by days and decades, both ways, many times in each lease and each wait. */
static int jump(void *arg)
{
    static const int64_t days[] = {3, -3, 10000, -10000, 1, 0, -1};

    (void)arg;
    for (size_t i = 0; jumping; i++) {
        wall_clock_set_off(days[i % (sizeof(days) / sizeof(*days))] * WALL_DAY_S);
        let_pass(7);
    }
    wall_clock_set_off(0);
    return 0;
}

static void begin_to_jump(void)
{
    jumping = true;
    actor_begin(actor_start(), jump, NULL);
}

/* Also after a failed test. */
static int end_jumps(void **state)
{
    jumping = false;
    return faults_end(state);
}

static struct relock_client *client_with_lease(struct faults *t, uint64_t lease_ms)
{
    return faults_client(
        t, &(struct relock_options){.watchdog_timeout_ms = lease_ms, .recheck_ms = LONG_MS});
}

static void a_hold_is_renewed_while_the_date_jumps(void **state)
{
    struct faults *t = *state;
    uint64_t lease_ms = outlast_ms(LEASE_MS);
    struct relock_client *client = client_with_lease(t, lease_ms);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    uint64_t began_ms = now_ms();
    uint64_t renewed;

    assert_result(relock_lock(lock), RELOCK_OK);
    begin_to_jump();
    nothing_is_lost_for(t, client, lease_ms);
    assert_true(wait_for_renewals(client, 0, 3));
    assert_true(relock_valid_ms(lock) > 0 && relock_valid_ms(lock) <= lease_ms);
    renewed = stats_of(client).renewed; /* renewed every three tenths, not more often */
    assert_true(renewed <= 1 + (now_ms() - began_ms) / (lease_ms * 3 / 10));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_fixed_lease_ends_on_time_while_the_date_jumps(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, client_with_lease(t, LONG_MS), "orders");
    struct relock_how how = {.lease_ms = slow_ms(1000)};
    uint64_t began_ms;

    begin_to_jump();
    began_ms = now_ms();
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_true(now_ms() - began_ms >= how.lease_ms - how.lease_ms / 50 - 5);
    assert_no_later(now_ms() - began_ms, how.lease_ms + slow_ms(LATE_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void waits_end_on_time_while_the_date_jumps(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with_lease(t, LONG_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct actor *patient = actor_start(), *hasty = actor_start();

    assert_true(peer_lock(t->f->probe, "orders", PEER, LONG_MS));
    begin_to_jump();
    actor_begin_lock(patient, lock);
    assert_true(wait_for_waiters(client, 1));
    for (int i = 0; i < 3; i++) {
        assert_result(actor_wait_out(hasty, lock, 300), RELOCK_TIMEOUT);
        assert_true(actor_took_ms(hasty) >= 300 - 1); /* measured by another clock */
        assert_no_later(actor_took_ms(hasty), 300 + slow_ms(LATE_MS));
    }
    assert_true(actor_is_busy(patient));
    assert_true(peer_unlock(t->f->probe, "orders", PEER));
    assert_result(actor_result(patient), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
    assert_result(actor_unlock(patient, lock), RELOCK_OK);
}

/* The redis layer computes pauses, timeouts and pings: it must not use the date either. */
static void connections_are_restored_while_the_date_jumps(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, LEASE_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    if (getenv("RELOCK_TEST_TLS"))
        skip(); /* certificates are valid at the right date only */
    assert_result(relock_lock(lock), RELOCK_OK);
    begin_to_jump();
    for (int i = 0; i < 4; i++) {
        proxy_refuse(t->proxy, true);
        proxy_cut(t->proxy, "");
        let_pass(100);
        proxy_refuse(t->proxy, false);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_true(wait_for_renewals(client, stats_of(client).renewed, 1));
    }
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* libev reads the date, which shows that the test sees such calls and that the date jumps. */
static void the_library_never_reads_the_wall_clock(void **state)
{
    size_t before = wall_clock_asked_by_others("relock_lock");

    a_hold_is_renewed_while_the_date_jumps(state);
    assert_true(wall_clock_asked_by_others("relock_lock") > before);
    assert_int_equal(wall_clock_asked_by("relock_lock"), 0);
}

/* ---- timers that fire late ----------------------------------------------------------------- */

#define HELD_UP_MS 1000
#define HELD_UP_LEASE_MS 3000

static int hold_for_a_while(struct child *parent, void *arg)
{
    struct faults *t = arg;
    struct relock_options options = {.url = t->f->server->unix_url,
                                     .connect_timeout_ms = slow_ms(SOON_MS),
                                     .watchdog_timeout_ms = slow_ms(HELD_UP_LEASE_MS)};
    struct relock_client *client;
    struct relock_lock *lock;

    child_must(relock_client_new(&options, &client) == RELOCK_OK);
    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    child_must(child_receive_within(parent, &(int64_t){0}, 6 * (uint64_t)SOON_MS));
    child_must(relock_check(lock, 0, NULL) == RELOCK_OK);
    child_must(stats_of(client).renewed > 3);
    child_must(relock_unlock(lock) == RELOCK_OK);
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

/* All timers are late at once, and the clock of the leases went on. */
static void a_process_that_is_stopped_for_a_second_does_not_lose_a_hold_of_three(void **state)
{
    struct faults *t = *state;
    struct child *child;

    if (!child_can_have_threads())
        return;
    child = child_start(hold_for_a_while, t);
    assert_true(child_await(child));
    for (int i = 0; i < 4; i++) {
        child_signal(child, SIGSTOP);
        let_pass(slow_ms(HELD_UP_MS));
        child_signal(child, SIGCONT);
        assert_true(probe_pttl(t->f->probe, "orders") > 0);
        let_pass(slow_ms(
            700 + 130 * (uint64_t)i)); /* long enough for a renewal, which is mostly not due now */
    }
    assert_true(child_send(child, 1));
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
}

#define DATE_TEST(function) cmocka_unit_test_setup_teardown(function, faults_begin, end_jumps)

int main(void)
{
    const struct CMUnitTest tests[] = {
        DATE_TEST(a_hold_is_renewed_while_the_date_jumps),
        DATE_TEST(a_fixed_lease_ends_on_time_while_the_date_jumps),
        DATE_TEST(waits_end_on_time_while_the_date_jumps),
        DATE_TEST(connections_are_restored_while_the_date_jumps),
        DATE_TEST(the_library_never_reads_the_wall_clock),
        FAULT_TEST(a_process_that_is_stopped_for_a_second_does_not_lose_a_hold_of_three),
    };

    return FAULT_TESTS_RUN(tests);
}
