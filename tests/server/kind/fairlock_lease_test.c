/*
 * A fair lock whose holders let their leases run out. Nothing is published then, so the first
 * waiter must know the remaining lease of the present holder. No test here lasts until a recheck.
 */
#include "support/actor.h"
#include "support/fair_queue.h"
#include "support/peer.h"

#define LEASE_MS 500
#define SLACK_MS 6000 /* of a machine that stands still now and then */
#define N_OWNERS 4

static const struct relock_options no_rechecks = {.recheck_ms = NEVER_MS};

static struct relock_lock *handle(struct fixture *f)
{
    return fair_handle(f, fixture_client(f, &no_rechecks));
}

/* A waiter tries, subscribes, tries again, and sleeps. */
static void wait_for_sleep(struct fixture *f, long long calls_before)
{
    assert_true(probe_wait_script_calls(f->probe, calls_before + 2, SOON_MS));
}

/* ---- nobody releases ----------------------------------------------------------------------- */

struct attempt {
    struct relock_lock *lock;
    uint64_t acquired_ms;
};

static int acquire_and_keep(void *arg)
{
    struct attempt *attempt = arg;
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .lease_ms = LEASE_MS};
    int r = fixture_acquire(attempt->lock, &how);

    attempt->acquired_ms = now_ms();
    return r;
}

/* Each waits until a lease ends, and learns the lease of the next holder. */
static void waiters_follow_each_other_by_their_leases_alone(void **state)
{
    struct fixture *f = *state;
    struct attempt attempts[N_OWNERS];
    struct actor *actors[N_OWNERS];
    uint64_t began_ms = now_ms();

    for (int i = 0; i < N_OWNERS; i++) {
        attempts[i].lock = handle(f);
        actors[i] = actor_start();
        actor_begin(actors[i], acquire_and_keep, &attempts[i]);
    }
    for (int i = 0; i < N_OWNERS; i++)
        assert_result(actor_result_within(actors[i], N_OWNERS * (LEASE_MS + SLACK_MS)), RELOCK_OK);
    for (int i = 0; i < N_OWNERS; i++) {
        int n_before = 0;

        for (int j = 0; j < N_OWNERS; j++)
            n_before += attempts[j].acquired_ms < attempts[i].acquired_ms;
        print_message("%d. after %llu ms\n", n_before + 1,
                      (unsigned long long)(attempts[i].acquired_ms - began_ms));
    }
    assert_true(probe_wait_no_key(f->probe, "orders", LEASE_MS + SLACK_MS));
    for (int i = 0; i < N_OWNERS; i++)
        assert_result(actor_unlock(actors[i], attempts[i].lock), RELOCK_LOST);
}

/* ---- the first waiter learns of a short lease ---------------------------------------------- */

/* The first two in the queue of a lock that `held` holds, renewed. */
struct pair {
    struct relock_lock *held, *locks[2];
    struct actor *actors[2];
    struct relock_how how[2];
};

static void line_up(struct fixture *f, struct pair *pair)
{
    pair->held = handle(f);
    assert_result(relock_lock(pair->held), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        long long before = probe_script_calls(f->probe);

        pair->locks[i] = handle(f);
        pair->actors[i] = actor_start();
        actor_begin_acquire(pair->actors[i], pair->locks[i], &pair->how[i]);
        assert_true(fair_queue_wait(f, i + 1));
        wait_for_sleep(f, before);
    }
}

static void the_second_gets_in(struct pair *pair)
{
    assert_result(actor_result_within(pair->actors[1], LEASE_MS + SLACK_MS), RELOCK_OK);
    assert_result(actor_unlock(pair->actors[1], pair->locks[1]), RELOCK_OK);
}

static void a_waiter_that_becomes_first_by_a_grant_learns_a_short_lease(void **state)
{
    struct fixture *f = *state;
    struct pair pair = {.how = {{.wait_ms = RELOCK_FOREVER, .lease_ms = outlast_ms(3 * LEASE_MS)},
                                {.wait_ms = RELOCK_FOREVER}}};

    line_up(f, &pair);
    assert_result(relock_unlock(pair.held), RELOCK_OK);
    assert_result(actor_result(pair.actors[0]), RELOCK_OK);
    the_second_gets_in(&pair);
    assert_result(actor_unlock(pair.actors[0], pair.locks[0]), RELOCK_LOST);
}

/* It knows the lease of an earlier holder. The waiter that knew the present lease is gone. */
static void a_waiter_that_becomes_first_when_the_first_leaves_learns_a_short_lease(void **state)
{
    struct fixture *f = *state;
    struct pair pair = {.how = {{.wait_ms = RELOCK_FOREVER}, {.wait_ms = RELOCK_FOREVER}}};

    assert_result(relock_cancel_new(&pair.how[0].cancel), RELOCK_OK);
    line_up(f, &pair);
    assert_true(peer_usurp(f->probe, "orders", PEER, outlast_ms(LEASE_MS)));
    relock_cancel_fire(pair.how[0].cancel);
    assert_result(actor_result(pair.actors[0]), RELOCK_CANCELLED);
    the_second_gets_in(&pair);
    assert_result(relock_unlock(pair.held), RELOCK_LOST);
    relock_cancel_free(pair.how[0].cancel);
}

/* ---- a holder that publishes nothing, as Redisson's ---------------------------------------- */

#define ABSENT "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:43"

/* It finds the lock free behind another waiter, which then acquires the lock. */
static void a_waiter_that_saw_the_lock_free_learns_the_new_lease(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = handle(f);
    struct actor *waiting = actor_start();

    fair_queue_add_dead(f, ABSENT, NEVER_MS);
    fair_queue_begin(f, waiting, lock, 2);
    let_pass(LEASE_MS / 4);
    assert_true(actor_is_busy(waiting));
    assert_true(peer_lock(f->probe, "orders", ABSENT, LEASE_MS));
    fair_queue_remove(f, ABSENT);
    assert_result(actor_result_within(waiting, LEASE_MS + SLACK_MS), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

/* ---- the end of the wait ------------------------------------------------------------------- */

/* It learned of a lease that ends after its deadline, and of nothing later. */
static void a_waiter_retries_once_more_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = handle(f);
    struct actor *waiting = actor_start();
    long long before;

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(relock_trylock(lock), RELOCK_BUSY); /* Redis knows the script then */
    before = probe_script_calls(f->probe);
    actor_begin_timedlock(waiting, lock, (int64_t)outlast_ms(4000));
    wait_for_sleep(f, before);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_gets_in(waiting, lock);
}

static void a_last_retry_in_vain_leaves_the_queue_in_time(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = handle(f);
    uint64_t began_ms = now_ms();

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_result(fixture_timedlock(lock, 300), RELOCK_TIMEOUT);
    assert_took(began_ms, 300, slow_ms(SLACK_MS));
    assert_true(fair_queue_wait(f, 0));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(waiters_follow_each_other_by_their_leases_alone),
        SERVER_TEST(a_waiter_that_becomes_first_by_a_grant_learns_a_short_lease),
        SERVER_TEST(a_waiter_that_becomes_first_when_the_first_leaves_learns_a_short_lease),
        SERVER_TEST(a_waiter_that_saw_the_lock_free_learns_the_new_lease),
        SERVER_TEST(a_waiter_retries_once_more_at_its_deadline),
        SERVER_TEST(a_last_retry_in_vain_leaves_the_queue_in_time),
    };

    return SERVER_TESTS_RUN(tests);
}
