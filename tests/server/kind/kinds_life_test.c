/* Holds and waits, for every kind of lock. Each kind has a test of its own besides. */
#include "support/actor.h"
#include "support/kinds.h"

#include <string.h>

#define LEASE_MS 600    /* how soon the watchdog finds that a hold is gone */
#define RENEWED_MS 2000 /* a lease within which a thread may be delayed */
#define LONG_MS 20000
#define LONG_LEAST_MS 12000 /* how much of it remains on a slow machine */
#define WAIT_MS 150
#define SLACK_MS 4000 /* of a machine that stands still now and then */

/* Two levels with a long first lease, renewed as often as the client does: no thread is too late.
 */
static void take_for_long(struct relock_lock *lock)
{
    assert_result(acquire_for(lock, slow_ms(LONG_MS)), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
}

/* ---- leases -------------------------------------------------------------------------------- */

static void a_hold_is_renewed_until_it_is_released(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.watchdog_timeout_ms = slow_ms(RENEWED_MS)};
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    uint64_t until_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    until_ms = deadline_in(RENEWED_MS);
    while (now_ms() < until_ms || stats_of(client).renewed < 3) {
        long long pttl = probe_pttl(f->probe, "orders");

        assert_true(pttl > 0 && pttl <= (long long)slow_ms(RENEWED_MS));
        let_pass(5);
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_int_equal(losses_count(f->losses), 0);
}

static void the_end_of_a_fixed_lease_is_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    assert_result(fixture_acquire(lock, &(struct relock_how){.lease_ms = slow_ms(300)}), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_EXPIRED);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_result(relock_check(lock, 0, NULL), RELOCK_LOST);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_int_equal(stats_of(client).renewed, 0);
    assert_result(relock_lock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    assert_int_equal(losses_count(f->losses), 1);
}

static void extending_lengthens_and_never_shortens(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");

    assert_result(acquire_for(lock, slow_ms(2000)), RELOCK_OK);
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 1), RELOCK_OK);
    assert_result(acquire_for(lock, 50), RELOCK_OK);
    assert_true(probe_pttl(f->probe, "orders") > LONG_LEAST_MS);
    assert_true(relock_valid_ms(lock) > LONG_LEAST_MS);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_NOT_OWNER);
}

/* ---- losses -------------------------------------------------------------------------------- */

static void a_deleted_key_and_a_taken_key_are_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = kind_lock(f, client, "orders");

    take_for_long(lock);
    probe_int(f->probe, "DEL orders");
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_result(relock_check(lock, 0, NULL), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);

    take_for_long(lock);
    assert_true(kind_peer_usurp(f, "orders"));
    assert_true(losses_wait(f->losses, 2, SOON_MS));
    assert_int_equal(losses_get(f->losses, 1).reason, RELOCK_LOST_TAKEN);
    assert_int_equal(losses_get(f->losses, 1).hold_count, 2);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(stats_of(client).lost, 2);
    assert_true(kind_peer_unlock(f, "orders"));
}

static void a_level_finds_out_that_the_hold_is_gone(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_result(relock_lock(lock), RELOCK_LOST);
    assert_result(relock_lock(lock), RELOCK_LOST);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER); /* the refused calls were no levels */
}

static void a_waiter_behind_a_lost_hold_gets_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                   .recheck_ms = NEVER_MS});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = actor_start();

    take_for_long(lock);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    probe_int(f->probe, "DEL orders");
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static void force_frees_the_lock_for_the_waiter(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *another = fixture_client(f, NULL);
    struct relock_lock *ours = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, another, "orders");
    struct actor *waiting = actor_start();
    bool held = true;

    assert_result(relock_force_unlock_held(theirs, &held), RELOCK_OK); /* free: stays free */
    assert_false(held);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_result(relock_lock(ours), RELOCK_OK);
    assert_result(relock_lock(ours), RELOCK_OK);
    actor_begin_lock(waiting, theirs);
    assert_true(wait_for_waiters(another, 1));
    assert_result(relock_force_unlock_held(theirs, &held), RELOCK_OK);
    assert_true(held);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_unlock(ours), RELOCK_LOST);
    assert_result(relock_unlock(ours), RELOCK_LOST);
    assert_result(actor_check(waiting, theirs), RELOCK_OK);
    assert_result(actor_unlock(waiting, theirs), RELOCK_OK);
}

/* ---- endings ------------------------------------------------------------------------------- */

static void a_thread_that_ends_and_a_client_that_is_freed_release(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *careless = actor_start(), *waiting = actor_start();

    assert_result(actor_lock(careless, lock), RELOCK_OK);
    assert_result(actor_lock(careless, lock), RELOCK_OK);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    actor_end(careless);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(actor_lock(waiting, lock), RELOCK_OK);
    fixture_free_client(f, client);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
    assert_result(actor_unlock(waiting, lock), RELOCK_E_CLOSED);
    assert_int_equal(losses_count(f->losses), 0);
}

static void a_wait_ends_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");
    struct actor *other = actor_start();
    uint64_t began_ms;

    assert_true(kind_peer_lock(f, "orders"));
    began_ms = now_ms();
    assert_result(fixture_timedlock(lock, WAIT_MS), RELOCK_TIMEOUT);
    assert_took(began_ms, WAIT_MS, slow_ms(SLACK_MS));
    assert_result(fixture_timedlock(lock, 0), RELOCK_TIMEOUT);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(kind_peer_unlock(f, "orders"));

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(actor_wait_out(other, lock, WAIT_MS), RELOCK_TIMEOUT);
    assert_true(actor_took_ms(other) >= WAIT_MS - TWO_CLOCKS_MS);
    assert_no_later(actor_took_ms(other), WAIT_MS + slow_ms(SLACK_MS));
    assert_result(actor_trylock(other, lock), RELOCK_BUSY);
    assert_result(actor_unlock(other, lock), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_wait_ends_by_cancel_and_by_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *cancelled = actor_start(), *closed = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_true(kind_peer_lock(f, "orders"));
    actor_begin_acquire(cancelled, lock, &how);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_lock(closed, lock);
    assert_true(wait_for_waiters(client, 2));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(cancelled), RELOCK_CANCELLED);
    assert_int_equal(actor_grant(cancelled).hold_count, 0);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_CANCELLED);
    assert_true(actor_is_busy(closed));
    relock_client_shutdown(client);
    assert_result(actor_result(closed), RELOCK_E_CLOSED);
    assert_int_equal(stats_of(client).waiters, 0);
    assert_true(kind_peer_unlock(f, "orders"));
    relock_cancel_free(how.cancel);
}

/* ---- owners, queries ----------------------------------------------------------------------- */

static void a_call_with_an_explicit_owner_acts_for_it(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = kind_lock(f, fixture_client(f, NULL), "orders");
    struct relock_how one = {.owner = relock_owner_new()}, two = {.owner = relock_owner_new()};
    struct actor *other = actor_start();
    struct relock_grant grant;

    assert_result(actor_acquire(other, lock, &one), RELOCK_OK);
    assert_result(relock_acquire(lock, &one, &grant), RELOCK_OK);
    assert_true(grant.owner == one.owner);
    assert_int_equal(grant.hold_count, 2);
    assert_true(grant.fencing_token == actor_grant(other).fencing_token);
    assert_result(relock_acquire(lock, &two, NULL), RELOCK_BUSY);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(kind_has_levels(f, "orders", 2));
    assert_result(actor_unlock(other, lock), RELOCK_NOT_OWNER);
    actor_end(other); /* the hold of a named owner outlives the thread */
    assert_result(relock_check(lock, one.owner, NULL), RELOCK_OK);
    assert_result(relock_extend(lock, one.owner, LONG_MS), RELOCK_OK);
    assert_result(relock_release(lock, one.owner), RELOCK_OK);
    assert_result(relock_release(lock, two.owner), RELOCK_NOT_OWNER);
    assert_result(relock_release(lock, one.owner), RELOCK_OK);
}

static void queries_agree_with_redis(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_holder holder;
    unsigned count = 7;
    int64_t ttl_ms = 7;
    bool locked = true;

    memset(&holder, 0x55, sizeof(holder));
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.id, "");
    assert_int_equal(holder.ttl_ms, -2);
    assert_int_equal(holder.hold_count, 0);
    assert_int_equal(holder.n_holders, 0);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 0);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms, -2);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_who_holds(lock, &holder), RELOCK_OK);
    assert_string_equal(holder.id, kind_holder(f, "orders"));
    if (!kind_now()->is_string)
        assert_int_equal(strncmp(holder.id, relock_client_id(client), 36), 0);
    assert_int_equal(holder.hold_count, 2);
    assert_int_equal(holder.n_holders, 1);
    assert_true(holder.ttl_ms > 0 && holder.ttl_ms <= 30000);
    assert_result(relock_is_locked(lock, &locked), RELOCK_OK);
    assert_true(locked);
    assert_result(relock_hold_count(lock, &count), RELOCK_OK);
    assert_int_equal(count, 2);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    assert_true(ttl_ms > 0 && ttl_ms <= 30000);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_ttl_ms(lock, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms, -2);
}

static void stats_count_each_operation(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct actor *waiting = actor_start();
    struct relock_stats stats = stats_of(client);

    stats.connected = 0; /* already, or not yet */
    assert_memory_equal(&stats, &(struct relock_stats){0}, sizeof(stats));
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    stats = stats_of(client);
    assert_int_equal(stats.acquired, 1);
    assert_int_equal(stats.holds, 1);
    assert_int_equal(stats.contended, 0);
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(waiting, lock);
    stats = stats_of(client);
    assert_int_equal(stats.acquired + stats.passed_on, 2);
    assert_int_equal(stats.contended, 1);
    assert_int_equal(stats.holds, 0);
    assert_int_equal(stats.waiters, 0);
    assert_int_equal(stats.lost, 0);
}

static void a_grant_without_enough_replicas_is_not_held(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.min_replicas = 1, .replica_timeout_ms = 50});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    long long waits = probe_calls(f->probe, "wait");
    struct relock_grant grant;

    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_E_REPLICAS);
    assert_int_equal(grant.hold_count, 0);
    assert_true(grant.fencing_token == 0);
    assert_int_equal(probe_calls(f->probe, "wait"), waits + 1);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);

    /* A refusal is not worth a WAIT. */
    assert_true(kind_peer_lock(f, "orders"));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_int_equal(probe_calls(f->probe, "wait"), waits + 1);
    assert_true(kind_peer_unlock(f, "orders"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_hold_is_renewed_until_it_is_released),
        KINDS_TEST(the_end_of_a_fixed_lease_is_reported),
        KINDS_TEST(extending_lengthens_and_never_shortens),
        KINDS_TEST(a_deleted_key_and_a_taken_key_are_reported),
        KINDS_TEST(a_level_finds_out_that_the_hold_is_gone),
        KINDS_TEST(a_waiter_behind_a_lost_hold_gets_the_lock),
        KINDS_TEST(force_frees_the_lock_for_the_waiter),
        KINDS_TEST(a_thread_that_ends_and_a_client_that_is_freed_release),
        KINDS_TEST(a_wait_ends_at_its_deadline),
        KINDS_TEST(a_wait_ends_by_cancel_and_by_shutdown),
        KINDS_TEST(a_call_with_an_explicit_owner_acts_for_it),
        KINDS_TEST(queries_agree_with_redis),
        KINDS_TEST(stats_count_each_operation),
        KINDS_TEST(a_grant_without_enough_replicas_is_not_held),
    };

    return SERVER_TESTS_RUN(tests);
}
