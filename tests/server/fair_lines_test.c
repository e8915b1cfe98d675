/* Fair locks: the place of a waiter, and several queues in one process. */
#include "support/fair_queue.h"
#include "support/peer.h"

static void a_waiter_that_gives_up_leaves_the_queue(void **state)
{
    struct fixture *f = *state;
    struct relock_options slow = {.recheck_ms = slow_ms(20000)};
    struct relock_client *client = fixture_client(f, &slow);
    struct relock_lock *lock = fair_handle(f, client);
    struct actor *first = actor_start(), *second = actor_start();
    struct relock_cancel *cancel;

    assert_result(relock_cancel_new(&cancel), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin_acquire(first, lock,
                        &(struct relock_how){.wait_ms = RELOCK_FOREVER, .cancel = cancel});
    assert_true(fair_queue_wait(f, 1));
    actor_begin_lock(second, lock);
    assert_true(fair_queue_wait(f, 2));
    relock_cancel_fire(cancel);
    assert_result(actor_result(first), RELOCK_CANCELLED);
    assert_true(fair_queue_wait(f, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_gets_in(second, lock);
    assert_result(actor_timedlock(first, lock, SOON_MS), RELOCK_OK);
    assert_result(fixture_timedlock(lock, 20), RELOCK_TIMEOUT);
    assert_result(actor_unlock(first, lock), RELOCK_OK);
    assert_true(fair_queue_wait(f, 0));
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    relock_cancel_free(cancel);
}

/* ---- places -------------------------------------------------------------------------------- */

#define OWNER 1000000007 /* no thread */

/* The deadline of the last waiter in the queue. */
static long long deadline(struct fixture *f)
{
    return probe_int(f->probe, "EVAL %s 0",
                     "return redis.call('zrange', '" FAIR_DEADLINES "', -1, -1, 'withscores')[2]");
}

struct later {
    struct fixture *f;
    long long than;
};

static bool is_later(void *arg)
{
    struct later *later = arg;

    return deadline(later->f) >= later->than;
}

/* Otherwise it would be dropped as dead when it becomes first. */
static void a_waiter_renews_its_place_in_the_queue(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock =
        fair_handle(f, fixture_client(f, &(struct relock_options){.recheck_ms = 100}));
    struct actor *waiting = actor_start();
    struct later later = {.f = f};

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    assert_int_equal(probe_int(f->probe, "PERSIST orders"), 1); /* no lease that could end */
    actor_begin_lock(waiting, lock);
    assert_true(fair_queue_wait(f, 1));
    later.than = deadline(f) + 1000;
    assert_true(wait_until(is_later, &later, SOON_MS));
    assert_true(fair_queue_wait(f, 1));
    assert_true(peer_unlock(f->probe, "orders", PEER));
    assert_gets_in(waiting, lock);
}

static void a_try_takes_no_place(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *ours = fair_handle(f, patient_client(f, 60000)),
                       *theirs = fair_handle(f, patient_client(f, 60000));

    assert_result(relock_lock(theirs), RELOCK_OK);
    assert_result(relock_trylock(ours), RELOCK_BUSY);
    assert_true(fair_queue_wait(f, 0));
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

/* The waiter retries, and one retry fails. The place was taken by an earlier one. */
static void a_wait_that_fails_leaves_no_place(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock =
        fair_handle(f, fixture_client(f, &(struct relock_options){.recheck_ms = 100}));
    struct actor *waiting = actor_start();

    assert_true(peer_lock(f->probe, "orders", PEER, PEER_LEASE_MS));
    actor_begin_lock(waiting, lock);
    assert_true(fair_queue_wait(f, 1));
    assert_string_equal(probe_text(f->probe, "SET " FAIR_DEADLINES " text"), "OK");
    assert_result(actor_result(waiting), RELOCK_E_SERVER);
    assert_int_equal(probe_int(f->probe, "DEL " FAIR_DEADLINES), 1);
    assert_true(fair_queue_wait(f, 0));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

static bool have_asked(void *arg)
{
    struct later *later = arg;

    return probe_script_calls(later->f->probe) >= later->than;
}

/* Nothing is published, and the waiter is far from its recheck. */
static void a_waiter_gets_the_lock_when_the_local_hold_is_lost(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, patient_client(f, 60000));
    struct actor *waiting = actor_start();
    struct later asked = {.f = f};

    assert_result(relock_lock(lock), RELOCK_OK); /* Redis knows the script then */
    asked.than = probe_script_calls(f->probe) + 2;
    actor_begin_lock(waiting, lock);
    assert_true(wait_until(have_asked, &asked, SOON_MS)); /* and again when subscribed */
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_result(relock_trylock(lock), RELOCK_LOST);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

/* Two threads wait for one owner: when the first is granted the lock, the second adds a level. */
static void a_lock_granted_to_one_thread_is_held_by_all_threads_of_the_owner(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, patient_client(f, 60000));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = OWNER};
    struct actor *actors[2];

    assert_result(relock_lock(lock), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        actors[i] = actor_start();
        actor_begin_acquire(actors[i], lock, &how);
        assert_true(fair_queue_wait(f, i + 1));
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (unsigned i = 0; i < 2; i++) {
        assert_result(actor_result(actors[i]), RELOCK_OK);
        assert_int_equal(actor_grant(actors[i]).hold_count, i + 1);
    }
    assert_true(fair_queue_wait(f, 0));
    for (int i = 0; i < 2; i++)
        assert_result(relock_release(lock, OWNER), RELOCK_OK);
}

static void a_wait_ends_when_another_thread_of_the_owner_gets_the_lock(void **state)
{
    struct fixture *f = *state;
    struct relock_options slow = {.recheck_ms = slow_ms(20000)};
    struct relock_lock *lock = fair_handle(f, fixture_client(f, &slow));
    struct relock_lock *other = fair_handle(f, fixture_client(f, &slow));
    struct actor *owner = actor_start(), *helper = actor_start();
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    assert_result(actor_trylock(owner, lock), RELOCK_OK);
    assert_result(actor_check(owner, lock), RELOCK_OK);
    how.owner = actor_grant(owner).owner;
    assert_result(actor_unlock(owner, lock), RELOCK_OK);

    assert_result(relock_lock(other), RELOCK_OK);
    actor_begin_lock(owner, lock);
    assert_true(fair_queue_wait(f, 1));
    actor_begin_acquire(helper, lock, &how);
    assert_true(fair_queue_wait(f, 2));
    assert_result(relock_unlock(other), RELOCK_OK);
    assert_result(actor_result(owner), RELOCK_OK);
    assert_result(actor_result(helper), RELOCK_OK);
    assert_int_equal(actor_grant(helper).hold_count, 2);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    assert_true(fair_queue_wait(f, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_waiter_that_gives_up_leaves_the_queue),
        SERVER_TEST(a_waiter_renews_its_place_in_the_queue),
        SERVER_TEST(a_try_takes_no_place),
        SERVER_TEST(a_wait_that_fails_leaves_no_place),
        SERVER_TEST(a_waiter_gets_the_lock_when_the_local_hold_is_lost),
        SERVER_TEST(a_lock_granted_to_one_thread_is_held_by_all_threads_of_the_owner),
        SERVER_TEST(a_wait_ends_when_another_thread_of_the_owner_gets_the_lock),
    };

    return SERVER_TESTS_RUN(tests);
}
