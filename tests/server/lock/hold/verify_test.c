/*
 * A hold that broke, by force or by hand, and is handed off before the library knows: its next
 * owner learns it soon, and hand-offs stay cheap.
 */
#include "support/actor.h"
#include "support/fixture.h"
#include "support/kinds.h"

#define N_THREADS 4
#define LONG_MS 3600000 /* hand-off budget, and a lease that is not renewed during the test */
#define VERIFY_MS 5     /* from a hand-off to the command that verifies the hold */

static void the_next_owner_learns_that_its_hold_was_broken(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(
        f, &(struct relock_options){
               .handoff_ms = LONG_MS, .watchdog_timeout_ms = LONG_MS, .flags = RELOCK_NO_TRACKING});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_lock *theirs = kind_lock(f, fixture_client(f, NULL), "orders");
    struct losses *losses = losses_new();
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .on_lost = losses_write, .arg = losses};
    struct actor *next = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_acquire(next, lock, &how);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_force_unlock(theirs), RELOCK_OK);
    assert_result(relock_trylock(theirs), RELOCK_OK);

    assert_result(relock_unlock(lock), RELOCK_OK); /* which does not ask Redis */
    assert_result(actor_result(next), RELOCK_OK);
    assert_int_equal(stats_of(client).passed_on, 1);
    assert_true(losses_wait(losses, 1, SOON_MS));
    assert_true(losses_get(losses, 0).owner == actor_grant(next).owner);
    assert_int_equal(losses_get(losses, 0).reason, RELOCK_LOST_TAKEN);
    assert_result(actor_check(next, lock), RELOCK_LOST);
    assert_result(actor_unlock(next, lock), RELOCK_LOST);
    assert_int_equal(losses_count(f->losses), 0); /* of the first owner */
    assert_result(relock_unlock(theirs), RELOCK_OK);
    losses_free(losses);
}

static void a_waiter_behind_a_broken_hold_gets_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS,
                                                   .watchdog_timeout_ms = LONG_MS,
                                                   .recheck_ms = LONG_MS,
                                                   .flags = RELOCK_NO_TRACKING});
    struct relock_lock *lock = fixture_lock(f, client, "orders");
    struct actor *next = actor_start(), *last = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_lock(next, lock);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_lock(last, lock);
    assert_true(wait_for_waiters(client, 2));
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(next), RELOCK_OK);
    assert_result(actor_result(last), RELOCK_OK);
    assert_int_equal(stats_of(client).passed_on, 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_result(actor_unlock(next, lock), RELOCK_LOST);
    assert_result(actor_unlock(last, lock), RELOCK_OK);
}

/* ---- the cost ------------------------------------------------------------------------------ */

struct crowd {
    struct relock_lock *lock;
    uint64_t until_ms;
};

static int lock_for_a_while(void *arg)
{
    struct crowd *crowd = arg;
    int r = RELOCK_OK;

    while (now_ms() < crowd->until_ms && r == RELOCK_OK) {
        r = relock_lock(crowd->lock);
        if (r == RELOCK_OK)
            r = relock_unlock(crowd->lock);
    }
    return r;
}

static void hand_offs_share_a_verification(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.handoff_ms = LONG_MS});
    struct crowd crowd = {fixture_lock(f, client, "orders"), deadline_in(300)};
    uint64_t began_ms = now_ms();
    struct actor *actors[N_THREADS];
    struct relock_stats stats;

    actors_begin(actors, N_THREADS, lock_for_a_while, &crowd);
    assert_results(actors, N_THREADS, RELOCK_OK);
    stats = stats_of(client);
    print_message("%d hand-offs, %d verifications\n", (int)stats.passed_on, (int)stats.renewed);
    assert_true(stats.passed_on > 0);
    assert_true(stats.renewed <= (now_ms() - began_ms) / VERIFY_MS + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST_OF(the_next_owner_learns_that_its_hold_was_broken, reentrant),
        KINDS_TEST_OF(the_next_owner_learns_that_its_hold_was_broken, spin),
        KINDS_TEST_OF(the_next_owner_learns_that_its_hold_was_broken, plain),
        SERVER_TEST(a_waiter_behind_a_broken_hold_gets_the_lock),
        SERVER_TEST(hand_offs_share_a_verification),
    };

    return SERVER_TESTS_RUN(tests);
}
