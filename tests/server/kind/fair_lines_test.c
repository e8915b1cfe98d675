/* Fair locks: tries, failures and losses that must leave no place and no waiter behind. */
#include "support/fair_queue.h"
#include "support/peer.h"

#define OWNER 1000000007 /* no thread */

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
    fair_queue_begin(f, waiting, lock, 1);
    assert_string_equal(probe_text(f->probe, "SET " FAIR_DEADLINES " text"), "OK");
    assert_result(actor_result(waiting), RELOCK_E_SERVER);
    assert_int_equal(probe_int(f->probe, "DEL " FAIR_DEADLINES), 1);
    assert_true(fair_queue_wait(f, 0));
    assert_true(peer_unlock(f->probe, "orders", PEER));
}

/* Nothing is published, and the waiter is far from its recheck. */
static void a_waiter_gets_the_lock_when_the_local_hold_is_lost(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *lock = fair_handle(f, patient_client(f, 60000));
    struct actor *waiting = actor_start();
    long long before;

    assert_result(relock_lock(lock), RELOCK_OK); /* Redis knows the script then */
    before = probe_script_calls(f->probe);
    actor_begin_lock(waiting, lock);
    assert_true(
        probe_wait_script_calls(f->probe, before + 2, SOON_MS)); /* and again when subscribed */
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
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    for (int i = 0; i < 2; i++)
        assert_result(relock_release(lock, OWNER), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_try_takes_no_place),
        SERVER_TEST(a_wait_that_fails_leaves_no_place),
        SERVER_TEST(a_waiter_gets_the_lock_when_the_local_hold_is_lost),
        SERVER_TEST(a_lock_granted_to_one_thread_is_held_by_all_threads_of_the_owner),
    };

    return SERVER_TESTS_RUN(tests);
}
