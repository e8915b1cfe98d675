/*
 * Client tracking: a hold that is gone is found at once, long before the next renewal. What that
 * costs: tracking_costs_test.c. Waiters for plain locks: watched_test.c.
 */
#include "support/actor.h"
#include "support/keeping.h"
#include "support/kinds.h"
#include "support/peer.h"
#include "support/reactor.h"
#include "support/rights.h"
#include "support/tracked.h"

#include <stdio.h>

#define AT_ONCE_MS 3000 /* a machine that stands still; the next renewal is an hour away */
#define SHORT_MS 400    /* a third of a lease */

/* With the keys of the levels of a reader. */
static void delete_lock(struct fixture *f)
{
    if (kind_now() == &kinds[KIND_READ])
        probe_text(f->probe, "FLUSHALL");
    else
        probe_int(f->probe, "DEL orders");
}

static void assert_lost_at_once(struct fixture *f, struct relock_lock *lock, int reason)
{
    struct loss loss;

    assert_true(losses_wait(f->losses, 1, slow_ms(AT_ONCE_MS)));
    loss = losses_get(f->losses, 0);
    assert_int_equal(loss.reason, reason);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* ---- losses -------------------------------------------------------------------------------- */

static void a_deleted_lock_is_lost_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    tracked_hold(f, lock, NULL);
    delete_lock(f);
    assert_lost_at_once(f, lock, RELOCK_LOST_GONE);
    assert_int_equal(stats_of(client).renewed, 0);
}

static void a_lock_is_lost_at_once_when_all_keys_are_flushed(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");

    tracked_hold(f, lock, NULL);
    probe_text(f->probe, "FLUSHALL");
    assert_lost_at_once(f, lock, RELOCK_LOST_GONE);
}

static void a_lock_that_another_takes_is_lost_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");

    tracked_hold(f, lock, NULL);
    assert_true(kind_peer_usurp(f, "orders"));
    assert_lost_at_once(f, lock, RELOCK_LOST_TAKEN);
    assert_true(kind_peer_unlock(f, "orders"));
}

static void a_lock_that_becomes_another_type_is_lost_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");

    tracked_hold(f, lock, NULL);
    kind_replace(f, "orders", 0);
    assert_lost_at_once(f, lock, RELOCK_LOST_TAKEN);
    kind_assert_replaced(f, "orders", 0);
}

static void a_forced_unlock_is_noticed_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");
    struct relock_lock *operators = kind_lock(f, tracked_client(f, 0), "orders");

    tracked_hold(f, lock, NULL);
    assert_result(relock_force_unlock(operators), RELOCK_OK);
    assert_lost_at_once(f, lock, RELOCK_LOST_GONE);
}

/* The lease in Redis is made shorter, so it ends there long before it ends here. */
static void a_lease_that_ends_early_in_redis_is_noticed_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");

    tracked_hold(f, lock, NULL);
    probe_int(f->probe, "PEXPIRE orders 300");
    assert_lost_at_once(f, lock, RELOCK_LOST_GONE);
}

static void a_fixed_lease_is_tracked_and_not_extended(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    long long pttl;

    tracked_hold(f, lock, &(struct relock_how){.lease_ms = NEVER_MS / 2});
    pttl = probe_pttl(f->probe, "orders");
    assert_true(pttl > 0 && pttl <= (long long)NEVER_MS / 2);
    delete_lock(f);
    assert_lost_at_once(f, lock, RELOCK_LOST_GONE);
    assert_int_equal(stats_of(client).renewed, 0);
}

static void a_nested_lock_is_lost_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, tracked_client(f, 0), "orders");

    tracked_hold(f, lock, NULL);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    let_pass(50); /* any number of reports and checks later */
    delete_lock(f);
    assert_lost_at_once(f, lock, RELOCK_LOST_GONE);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* A renewal writes, which ends the tracking, and reads, which begins it again. One follows a
 * hand-off. */
static void a_renewed_lock_is_still_tracked(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){.watchdog_timeout_ms = NEVER_MS, .handoff_ms = NEVER_MS});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    tracked_hold(f, lock, NULL);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_true(wait_for_renewals(client, 0, 1));
    delete_lock(f);
    assert_true(losses_wait(f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_result(actor_unlock(waiting, lock), RELOCK_LOST);
}

/* The next renewal comes 3.6 s later. */
static void a_renewed_reader_is_still_tracked(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, 12000);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    tracked_hold(f, lock, NULL);
    assert_true(wait_for_renewals(client, 0, 1));
    delete_lock(f);
    assert_true(losses_wait(f->losses, 1, 3000));
    assert_int_equal(stats_of(client).renewed, 1);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* Each key that is tracked pushes another one out, which is reported as if it had changed. */
static void a_full_table_of_tracked_keys_causes_few_checks(void **state)
{
    enum { N = 40 };
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    long long before = tracked_count(f->probe);
    struct relock_lock *locks[N];
    char name[16];

    probe_text(f->probe, "CONFIG SET tracking-table-max-keys 10");
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "orders%d", i);
        locks[i] = fixture_lock(f, client, name);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    let_pass(2000);
    print_message("%d checks\n", (int)(tracked_count(f->probe) - before));
    assert_in_range(tracked_count(f->probe) - before, 1, 10 * N);
    assert_int_equal(losses_count(f->losses), 0);
    for (int i = 0; i < N; i++)
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
    probe_text(f->probe, "CONFIG SET tracking-table-max-keys 1000000");
}

static void a_multi_lock_is_lost_at_once_with_a_member(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *bills = fixture_lock(f, client, "bills");
    struct relock_lock **both = fixture_place(f);

    assert_result(relock_multilock_new((struct relock_lock *[]){orders, bills}, 2, both),
                  RELOCK_OK);
    assert_result(relock_lock(*both), RELOCK_OK);
    assert_true(tracked_wait(f->probe, 2));
    probe_int(f->probe, "DEL bills");
    assert_true(losses_wait(f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_int_equal(relock_valid_ms(*both), 0);
    assert_result(relock_unlock(*both), RELOCK_LOST);
}

static void a_multi_lock_is_lost_at_once_when_a_member_becomes_another_type(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    struct relock_lock *orders = fixture_lock(f, client, "orders");
    struct relock_lock *bills = fixture_lock(f, client, "bills");
    struct relock_lock **both = fixture_place(f);
    long long before = tracked_count(f->probe);

    kind_choose(KIND_REENTRANT);
    assert_result(relock_multilock_new((struct relock_lock *[]){orders, bills}, 2, both),
                  RELOCK_OK);
    assert_result(relock_lock(*both), RELOCK_OK);
    assert_true(tracked_wait(f->probe, before + 1)); /* both by one script, or one of them */
    kind_replace(f, "bills", 0);
    assert_true(losses_wait(f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_string_equal(losses_get(f->losses, 0).name, "bills");
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(relock_unlock(*both), RELOCK_LOST);
    kind_assert_replaced(f, "bills", 0);
}

/* ---- kept locks ---------------------------------------------------------------------------- */

/* Its next owner does not get it from memory. */
static void a_kept_lock_that_is_deleted_is_not_kept(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        keeping_client(f, &(struct relock_options){.watchdog_timeout_ms = NEVER_MS,
                                                   .command_timeout_ms = slow_ms(10000)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t reused;

    tracked_hold(f, lock, NULL);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(keeping_wait(client, 1));
    reused = stats_of(client).reused;
    delete_lock(f);
    assert_true(keeping_wait(client, 0));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).reused, reused);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- without it ---------------------------------------------------------------------------- */

static void without_the_right_a_loss_is_found_by_a_renewal(void **state)
{
    struct fixture *f = *state;
    long long tracked = tracked_count(f->probe);
    struct relock_client *client;
    struct relock_lock *lock;

    rights_give(f, "reentrant", "+client|tracking");
    client = rights_client(f, 3 * SHORT_MS, 0);
    lock = fixture_lock(f, client, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(log_wait(f->log, "CLIENT TRACKING", SOON_MS));
    assert_true(wait_for_renewals(client, 0, 2));
    assert_int_equal(log_count(f->log, "CLIENT TRACKING"), 1);
    probe_int(f->probe, "DEL orders");
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(tracked_count(f->probe), tracked);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* Redis does not report the change to the connection that made it, and forgets the key. */
static void a_lock_with_an_asynchronous_level_is_lost_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    struct relock_how how = {.owner = relock_owner_new()};
    uint64_t owner;

    tracked_hold(f, lock, &how);
    let_pass(20); /* the lease has become shorter */
    assert_result(reactor_acquire(lock, &how, events, &owner), RELOCK_OK);
    let_pass(300);
    delete_lock(f);
    assert_true(losses_wait(f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_result(relock_release(lock, owner), RELOCK_LOST);
    assert_result(relock_release(lock, owner), RELOCK_LOST);
    assert_null(relock_events_free(events));
}

/* The other reader was not tracked, and nobody else has changed the lock. */
static void a_reader_beside_an_asynchronous_one_is_lost_at_once(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = tracked_client(f, 0);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_events *events = reactor_events(client);
    uint64_t owner;

    tracked_hold(f, lock, NULL);
    assert_result(reactor_acquire(lock, NULL, events, &owner), RELOCK_OK);
    assert_result(reactor_release(lock, owner, events), RELOCK_OK);
    let_pass(300);
    probe_int(f->probe, "DEL orders");
    assert_lost_at_once(f, lock, RELOCK_LOST_GONE);
    probe_text(f->probe, "FLUSHALL");
    assert_null(relock_events_free(events));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_deleted_lock_is_lost_at_once),
        KINDS_TEST_OF(a_deleted_lock_is_lost_at_once, read),
        KINDS_TEST_OF(a_deleted_lock_is_lost_at_once, write),
        KINDS_TEST(a_lock_is_lost_at_once_when_all_keys_are_flushed),
        KINDS_TEST_OF(a_lock_is_lost_at_once_when_all_keys_are_flushed, read),
        KINDS_TEST(a_lock_that_another_takes_is_lost_at_once),
        KINDS_TEST(a_lock_that_becomes_another_type_is_lost_at_once),
        KINDS_TEST_OF(a_lock_that_becomes_another_type_is_lost_at_once, read),
        KINDS_TEST_OF(a_lock_that_becomes_another_type_is_lost_at_once, write),
        KINDS_TEST(a_forced_unlock_is_noticed_at_once),
        KINDS_TEST_OF(a_forced_unlock_is_noticed_at_once, read),
        KINDS_TEST_OF(a_forced_unlock_is_noticed_at_once, write),
        KINDS_TEST(a_lease_that_ends_early_in_redis_is_noticed_at_once),
        KINDS_TEST(a_fixed_lease_is_tracked_and_not_extended),
        KINDS_TEST_OF(a_fixed_lease_is_tracked_and_not_extended, read),
        KINDS_TEST(a_nested_lock_is_lost_at_once),
        KINDS_TEST_OF(a_nested_lock_is_lost_at_once, read),
        KINDS_TEST_OF(a_nested_lock_is_lost_at_once, write),
        KINDS_TEST(a_lock_with_an_asynchronous_level_is_lost_at_once),
        KINDS_TEST_OF(a_reader_beside_an_asynchronous_one_is_lost_at_once, read),
        KINDS_TEST_OF(a_renewed_lock_is_still_tracked, reentrant),
        KINDS_TEST_OF(a_renewed_lock_is_still_tracked, spin),
        KINDS_TEST_OF(a_renewed_lock_is_still_tracked, plain),
        KINDS_TEST_OF(a_renewed_reader_is_still_tracked, read),
        SERVER_TEST(a_full_table_of_tracked_keys_causes_few_checks),
        SERVER_TEST(a_multi_lock_is_lost_at_once_with_a_member),
        SERVER_TEST(a_multi_lock_is_lost_at_once_when_a_member_becomes_another_type),
        SERVER_TEST(a_kept_lock_that_is_deleted_is_not_kept),
        SERVER_TEST(without_the_right_a_loss_is_found_by_a_renewal),
    };

    return cmocka_run_group_tests(tests, tracked_start, fixture_stop);
}
