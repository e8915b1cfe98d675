/* A hold that ends without a release: how soon the program learns it, and with which reason. */
#include "support/child.h"
#include "support/fixture.h"
#include "support/peer.h"

#include <signal.h>
#include <stdlib.h>

#define LEASE_MS 900
#define HELD_MS 2000  /* a lease within which a thread may be delayed */
#define SLACK_MS 5000 /* of a machine that stands still now and then */
#define CAP_MS 2000
#define CAPPED_MS 1600 /* a lease that must be renewed to reach the cap */

/* Two levels with a long first lease, renewed as often as the client does: no renewal is too late.
 */
static struct relock_grant hold(struct relock_lock *lock)
{
    struct relock_grant grant;

    assert_result(acquire_for(lock, NEVER_MS), RELOCK_OK);
    assert_result(relock_acquire(lock, NULL, &grant), RELOCK_OK);
    return grant;
}

/* Waits for the first loss, and checks that it was reported at the next renewal. */
static struct loss await_loss(struct fixture *f, uint64_t since_ms)
{
    struct loss loss;

    assert_true(losses_wait(f->losses, 1, SOON_MS));
    loss = losses_get(f->losses, 0);
    assert_true(loss.at_ms - since_ms <= slow_ms(LEASE_MS / 3 + SLACK_MS));
    return loss;
}

static void give_up_lost(struct relock_lock *lock)
{
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
}

static void a_deleted_key_is_reported_as_gone(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct relock_grant grant = hold(lock);
    uint64_t since_ms = now_ms();
    struct loss loss;

    probe_int(f->probe, "DEL orders");

    loss = await_loss(f, since_ms);
    assert_int_equal(loss.reason, RELOCK_LOST_GONE);
    assert_string_equal(loss.name, "orders");
    assert_true(loss.owner == grant.owner);
    assert_int_equal(loss.hold_count, 2);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_int_equal(stats_of(client).lost, 1);
    give_up_lost(lock);
}

static void a_key_that_another_took_is_reported_as_taken(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, watchful_client(f, LEASE_MS), "orders");
    uint64_t since_ms;
    struct loss loss;

    hold(lock);
    since_ms = now_ms();
    assert_true(peer_usurp(f->probe, "orders", PEER, PEER_LEASE_MS));

    loss = await_loss(f, since_ms);
    assert_int_equal(loss.reason, RELOCK_LOST_TAKEN);
    assert_int_equal(loss.hold_count, 2);
    assert_int_equal(relock_valid_ms(lock), 0);
    give_up_lost(lock);
    assert_string_equal(probe_only_field(f->probe, "orders"), PEER);
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static void a_forced_unlock_is_reported_to_the_holder(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, watchful_client(f, LEASE_MS), "orders");
    struct relock_lock *operators = fixture_lock(f, fixture_client(f, NULL), "orders");

    uint64_t since_ms;

    hold(lock);
    since_ms = now_ms();
    assert_result(relock_force_unlock(operators), RELOCK_OK);
    assert_int_equal(await_loss(f, since_ms).reason, RELOCK_LOST_GONE);
    give_up_lost(lock);
}

static void a_loss_is_reported_once_and_ends_all_renewals(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t renewed;
    long long last;

    hold(lock);
    assert_true(peer_usurp(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    renewed = stats_of(client).renewed;

    last = probe_pttl(f->probe, "orders");
    for (uint64_t until_ms = deadline_in(2 * LEASE_MS); now_ms() < until_ms; let_pass(10)) {
        long long pttl = probe_pttl(f->probe, "orders");

        assert_true(pttl <= last);
        last = pttl;
    }
    assert_int_equal(stats_of(client).renewed, renewed);
    assert_int_equal(losses_count(f->losses), 1);
    assert_int_equal(stats_of(client).lost, 1);
    give_up_lost(lock);
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_int_equal(losses_count(f->losses), 1);
}

static void a_server_that_hangs_beyond_the_lease_is_reported_as_expired(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.watchdog_timeout_ms = slow_ms(HELD_MS)};
    struct relock_client *client = fixture_client(f, &options);
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t certain_ms, paused_ms, lost_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    certain_ms = now_ms();
    certain_ms += relock_valid_ms(lock);
    server_pause(f->server);
    paused_ms = now_ms();
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    server_resume(f->server);

    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_EXPIRED);
    lost_ms = losses_get(f->losses, 0).at_ms;
    assert_true(lost_ms + TWO_CLOCKS_MS >= certain_ms);
    assert_true(lost_ms <= paused_ms + slow_ms(HELD_MS + SLACK_MS));
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_true(stats_of(client).renewal_failures > 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
}

static void a_server_that_hangs_for_less_than_the_lease_loses_nothing(void **state)
{
    struct fixture *f = *state;
    uint64_t lease_ms = slow_ms(3000);
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = lease_ms});
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    server_pause(f->server);
    let_pass(lease_ms / 3); /* a renewal is due meanwhile */
    server_resume(f->server);
    assert_true(wait_for_renewals(client, 0, 4));
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_hold_that_reached_its_cap_is_reported_as_capped(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(CAPPED_MS),
                                                   .max_hold_ms = slow_ms(CAP_MS)});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    uint64_t began_ms = now_ms(), held_ms;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, 2 * SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_CAPPED);
    held_ms = losses_get(f->losses, 0).at_ms - began_ms;
    assert_true(held_ms >= slow_ms(CAP_MS) - TWO_CLOCKS_MS);
    assert_true(held_ms <= slow_ms(CAP_MS + CAPPED_MS + SLACK_MS));
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

/* If the last release finds the loss, only its result reports it. */
static void a_loss_found_by_the_last_release_is_not_called_back(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL); /* renews after ten seconds */
    struct relock_lock *lock = fixture_lock(f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(stats_of(client).lost, 1);
    fixture_free_client(f, client);
    assert_int_equal(losses_count(f->losses), 0);
}

static void a_loss_found_by_nesting_is_called_back_once(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_result(relock_lock(lock), RELOCK_LOST);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).hold_count, 1);
    assert_result(relock_trylock(lock), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
}

static int hold_and_be_stopped(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_client *client =
        child_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(HELD_MS)});
    struct relock_lock *lock;

    child_must(relock_lock_new(client, "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(relock_valid_ms(lock) > 0);
    child_must(child_send(parent, 1));
    child_must(child_await(parent));

    child_must(relock_valid_ms(lock) == 0);
    child_must(!relock_is_mine(lock));
    child_must(relock_check(lock, 0, NULL) == RELOCK_LOST);
    child_must(relock_unlock(lock) == RELOCK_LOST);
    relock_client_free(client);
    relock_lock_free(lock);
    return EXIT_SUCCESS;
}

static void a_process_that_was_stopped_knows_on_waking(void **state)
{
    struct fixture *f = *state;
    struct child *child = child_start(hold_and_be_stopped, f);
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, NULL), "orders");

    assert_true(child_await(child));
    child_signal(child, SIGSTOP);
    assert_result(relock_timedlock(lock, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);

    assert_true(child_send(child, 1)); /* the child reads it when it continues */
    child_signal(child, SIGCONT);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_deleted_key_is_reported_as_gone),
        SERVER_TEST(a_key_that_another_took_is_reported_as_taken),
        SERVER_TEST(a_forced_unlock_is_reported_to_the_holder),
        SERVER_TEST(a_loss_is_reported_once_and_ends_all_renewals),
        SERVER_TEST(a_server_that_hangs_beyond_the_lease_is_reported_as_expired),
        SERVER_TEST(a_server_that_hangs_for_less_than_the_lease_loses_nothing),
        SERVER_TEST(a_hold_that_reached_its_cap_is_reported_as_capped),
        SERVER_TEST(a_loss_found_by_the_last_release_is_not_called_back),
        SERVER_TEST(a_loss_found_by_nesting_is_called_back_once),
        SERVER_TEST(a_process_that_was_stopped_knows_on_waking),
    };

    return SERVER_TESTS_RUN(tests);
}
