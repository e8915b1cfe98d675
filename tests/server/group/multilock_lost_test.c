/* Multi locks: the first lost member loses the multi lock, which is reported once. */
#include "support/multi.h"
#include "support/peer.h"

#include <semaphore.h>

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */

/* ---- the report ---------------------------------------------------------------------------- */

static void on_lost_names_the_member_the_owner_and_the_levels(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct relock_grant grant;
    struct loss loss;

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_acquire(t.both, NULL, &grant), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL a"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    loss = losses_get(f->losses, 0);
    assert_string_equal(loss.name, "a");
    assert_true(loss.owner == grant.owner);
    assert_int_equal(loss.reason, RELOCK_LOST_GONE);
    assert_int_equal(loss.hold_count, 2);
    assert_true(log_wait(f->log, "a: owner", SOON_MS));
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
}

static void members_that_are_lost_together_are_reported_once(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b a"), 2);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    let_pass(slow_ms(LEASE_MS / 2)); /* both have been looked at */
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
}

static void a_member_that_another_took_is_reported_as_taken(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_true(peer_usurp(f->probe, "b", PEER, PEER_LEASE_MS));
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "b");
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_true(peer_unlock(f->probe, "b", PEER));
}

/* On a machine so slow that the lease has ended, acquires again. */
static int take_in_time(struct relock_lock *lock, const struct relock_how *how)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);
    int r;

    do
        r = relock_acquire(lock, how, NULL);
    while (r == RELOCK_E_CONN && now_ms() < deadline_ms);
    return r;
}

/* Either the caller, which checks all the time, finds it first, or the watchdog. */
static void a_lease_that_ran_out_is_reported_as_expired(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct relock_how how = {.wait_ms = SOON_MS, .lease_ms = slow_ms(100)};

    for (size_t i = 0; i < 10; i++) {
        assert_result(take_in_time(t.both, &how), RELOCK_OK);
        while (relock_is_mine(t.both))
            continue;
        assert_true(losses_wait(f->losses, i + 1, SOON_MS));
        assert_int_equal(losses_get(f->losses, i).reason, RELOCK_LOST_EXPIRED);
        assert_result(relock_unlock(t.both), RELOCK_LOST);
    }
}

static void a_release_that_discovers_a_lost_member_names_it(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_true(peer_usurp(f->probe, "b", PEER, PEER_LEASE_MS));
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "b");
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
    assert_true(peer_unlock(f->probe, "b", PEER));
}

/* ---- its receiver -------------------------------------------------------------------------- */

static void the_client_of_the_first_given_member_reports_the_loss(void **state)
{
    struct fixture *f = *state;
    struct losses *others = losses_new();
    struct relock_client *first = watchful_client(f, LEASE_MS);
    struct relock_client *second = fixture_client(
        f, &(struct relock_options){
               .watchdog_timeout_ms = slow_ms(LEASE_MS), .on_lost = losses_write, .arg = others});
    struct relock_lock *a = fixture_lock(f, second, "a");
    struct relock_lock *b = fixture_lock(f, first, "b");
    struct relock_lock *both = fixture_multi(f, b, a, NULL);

    assert_result(relock_lock(both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL a"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "a");
    assert_result(relock_unlock(both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
    assert_int_equal(losses_count(others), 0);
    fixture_free_client(f, second);
    losses_free(others);
}

static void the_callback_of_the_first_level_is_called_instead(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct losses *own = losses_new(), *inner = losses_new();

    assert_result(acquire_reporting(t.both, losses_write, own), RELOCK_OK);
    assert_result(acquire_reporting(t.both, losses_write, inner), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_true(losses_wait(own, 1, SOON_MS));
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(own), 1);
    assert_int_equal(losses_count(inner), 0);
    assert_int_equal(losses_count(f->losses), 0);
    losses_free(own);
    losses_free(inner);
}

static void two_multi_locks_that_share_a_lost_member_are_reported_once_each(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct relock_lock *c = fixture_lock(f, t.client, "c");
    struct relock_lock *other = fixture_multi(f, c, t.b, NULL);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(other), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_true(losses_wait(f->losses, 2, SOON_MS));
    assert_result(relock_unlock(other), RELOCK_LOST);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 2);
}

/* As if there were no multi lock. */
static void a_member_that_was_held_before_is_reported_beside_the_multi_lock(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct losses *own = losses_new();

    assert_result(acquire_reporting(t.b, losses_write, own), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_true(losses_wait(own, 1, SOON_MS));
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_result(relock_unlock(t.b), RELOCK_LOST);
    assert_int_equal(losses_count(own), 1);
    assert_int_equal(losses_count(f->losses), 1);
    losses_free(own);
}

/* The callback of the first level counts, and that is the one of the whole. */
static void a_member_that_is_nested_in_is_reported_by_the_multi_lock_alone(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct losses *own = losses_new();

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(acquire_reporting(t.b, losses_write, own), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(t.b), RELOCK_LOST);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(own), 0);
    assert_int_equal(losses_count(f->losses), 1);
    losses_free(own);
}

static void a_level_that_outlives_the_multi_lock_reports_the_loss(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.b), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(t.b), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
}

/* ---- until all levels are released --------------------------------------------------------- */

static void every_call_reports_the_loss_until_all_levels_are_released(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct relock_grant grant;

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));

    for (unsigned level = 2; level > 0; level--) {
        assert_result(relock_check(t.both, 0, &grant), RELOCK_LOST);
        assert_int_equal(grant.hold_count, level);
        assert_int_equal(grant.valid_ms, 0);
        assert_int_equal(relock_valid_ms(t.both), 0);
        assert_result(relock_extend(t.both, 0, 60000), RELOCK_LOST);
        assert_result(relock_trylock(t.both), RELOCK_LOST);
        assert_result(relock_lock(t.both), RELOCK_LOST);
        assert_true(relock_is_mine(t.a)); /* that one was not lost, and its levels count */
        assert_int_equal(probe_only_value(f->probe, "a"), level);
        assert_result(relock_unlock(t.both), RELOCK_LOST);
    }
    assert_result(relock_unlock(t.both), RELOCK_NOT_OWNER);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_trylock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_OK);
    assert_int_equal(losses_count(f->losses), 1);
}

/* As for every lock, only its result reports a loss that the last release finds. */
static void a_loss_found_by_the_last_release_is_its_result(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL a"), 1);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_result(relock_unlock(t.both), RELOCK_NOT_OWNER);
    assert_int_equal(losses_count(f->losses), 0);
    assert_int_equal(stats_of(t.client).lost, 1);
}

/* Any call may release a level of a member. One too many is missed by the multi lock. */
static void a_member_that_is_released_beside_the_multi_lock_is_lost(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.b), RELOCK_OK);
    assert_result(relock_check(t.both, 0, NULL), RELOCK_LOST);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(f->losses, 0).name, "b");
    assert_result(relock_unlock(t.both), RELOCK_LOST);

    assert_result(relock_lock(t.both), RELOCK_OK);
    assert_result(relock_unlock(t.b), RELOCK_OK);
    assert_result(relock_unlock(t.both), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 1);
}

static void a_member_whose_client_is_freed_is_lost(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct relock_lock *a = fixture_lock(f, client, "a");

    for (size_t asks = 0; asks < 2; asks++) {
        struct relock_client *other = fixture_client(f, NULL);
        struct relock_lock *b = fixture_lock(f, other, "b");
        struct relock_lock *both = fixture_multi(f, a, b, NULL);

        assert_result(relock_lock(both), RELOCK_OK);
        fixture_free_client(f, other);
        assert_int_equal(probe_int(f->probe, "EXISTS b"), 0);
        if (asks) {
            assert_result(relock_check(both, 0, NULL), RELOCK_LOST);
            assert_true(losses_wait(f->losses, 1, SOON_MS));
            assert_result(relock_lock(both), RELOCK_LOST);
        }
        assert_result(relock_unlock(both), RELOCK_LOST);
        assert_result(relock_lock(both), RELOCK_E_CLOSED);
        assert_int_equal(probe_n_keys(f->probe), 0);
    }
}

/* ---- from the callback --------------------------------------------------------------------- */

struct seen {
    struct relock_lock *lock;
    sem_t done;
    int check, take, release, again, after;
};

static void give_up(const struct relock_lost *what, void *arg)
{
    struct seen *seen = arg;

    seen->check = relock_check(seen->lock, what->owner, NULL);
    seen->take = relock_trylock(seen->lock);
    seen->release = relock_release(seen->lock, what->owner);
    seen->again = relock_release(seen->lock, what->owner);
    seen->after = relock_check(seen->lock, what->owner, NULL);
    sem_post(&seen->done);
}

static bool is_done(void *arg)
{
    return sem_trywait(&((struct seen *)arg)->done) == 0;
}

/*
 * A failure of other libraries: the callback runs under the mutex of the lock, so an unlock in it
 * waits for itself, and the thread that renews with it.
 */
static void the_callback_may_release_the_lock(void **state)
{
    struct fixture *f = *state;
    struct multi_pair t = multi_pair_of(f, watchful_client(f, LEASE_MS));
    struct relock_client *there = beside_client(f, 0, NULL);
    struct relock_lock *all = fixture_multi(f, t.both, fixture_lock(f, there, "c"), NULL);
    struct relock_lock *d = fixture_lock(f, t.client, "d");
    struct relock_how how = {.owner = relock_owner_new(), .on_lost = give_up};
    struct seen seen = {.lock = all};

    sem_init(&seen.done, 0, 0);
    how.arg = &seen;
    assert_result(relock_lock(d), RELOCK_OK);
    assert_result(relock_acquire(all, &how, NULL), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL b"), 1);
    assert_true(wait_until(is_done, &seen, SOON_MS));
    assert_result(seen.check, RELOCK_LOST);
    assert_result(seen.take, RELOCK_E_DEADLOCK);
    assert_result(seen.release, RELOCK_LOST);
    assert_result(seen.again, RELOCK_E_DEADLOCK);
    assert_result(seen.after, RELOCK_NOT_OWNER);
    assert_true(probe_wait_no_key(f->probe, "a", SOON_MS));
    assert_true(probe_wait_no_key(beside_probe(0), "c", SOON_MS));

    let_pass(slow_ms(LEASE_MS * 5 / 4)); /* renewals go on */
    assert_true(relock_is_mine(d));
    assert_result(relock_unlock(d), RELOCK_OK);
    assert_result(relock_timedlock(all, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(all), RELOCK_OK);
    sem_destroy(&seen.done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        MULTI_TEST(on_lost_names_the_member_the_owner_and_the_levels),
        MULTI_TEST(members_that_are_lost_together_are_reported_once),
        MULTI_TEST(a_member_that_another_took_is_reported_as_taken),
        MULTI_TEST(a_lease_that_ran_out_is_reported_as_expired),
        MULTI_TEST(a_release_that_discovers_a_lost_member_names_it),
        MULTI_TEST(the_client_of_the_first_given_member_reports_the_loss),
        MULTI_TEST(the_callback_of_the_first_level_is_called_instead),
        MULTI_TEST(two_multi_locks_that_share_a_lost_member_are_reported_once_each),
        MULTI_TEST(a_member_that_was_held_before_is_reported_beside_the_multi_lock),
        MULTI_TEST(a_member_that_is_nested_in_is_reported_by_the_multi_lock_alone),
        MULTI_TEST(a_level_that_outlives_the_multi_lock_reports_the_loss),
        MULTI_TEST(every_call_reports_the_loss_until_all_levels_are_released),
        MULTI_TEST(a_loss_found_by_the_last_release_is_its_result),
        MULTI_TEST(a_member_that_is_released_beside_the_multi_lock_is_lost),
        MULTI_TEST(a_member_whose_client_is_freed_is_lost),
        MULTI_TEST(the_callback_may_release_the_lock),
    };
    return MULTI_TESTS_RUN(tests);
}
