/* `cancel_on_lost`: the loss of a hold ends the waits that use its cancel. */
#include "support/actor.h"
#include "support/kinds.h"
#include "support/multi.h"

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */

/* Acquires the lock, deletes this key, and sees the end of a wait. The wait is on another client,
 * so nothing else could end it. */
static void assert_that_the_loss_ends_a_wait(struct fixture *f, struct relock_lock *lock,
                                             const char *key)
{
    struct relock_client *other = fixture_client(f, NULL);
    struct relock_lock *taken = fixture_lock(f, other, "ledger");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct relock_how waits = {.wait_ms = RELOCK_FOREVER};
    struct actor *waiting = actor_start();

    assert_result(relock_cancel_new(&how.cancel_on_lost), RELOCK_OK);
    waits.cancel = how.cancel_on_lost;
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_lock(taken), RELOCK_OK);
    actor_begin_acquire(waiting, taken, &waits);
    assert_true(wait_for_waiters(other, 1));
    assert_true(actor_is_busy(waiting));
    probe_int(f->probe, "DEL %s", key);
    assert_result(actor_result(waiting), RELOCK_CANCELLED);
    assert_result(relock_check(lock, 0, NULL), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_unlock(taken), RELOCK_OK);
    relock_cancel_free(how.cancel_on_lost);
}

static void a_loss_ends_the_waits_that_use_its_cancel(void **state)
{
    struct fixture *f = *state;

    assert_that_the_loss_ends_a_wait(f, kind_lock(f, watchful_client(f, LEASE_MS), "orders"),
                                     "orders");
}

static void a_released_hold_fires_no_cancel(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS),
                                                   .handoff_ms = NEVER_MS});
    struct relock_lock *lock = kind_lock(f, client, "orders");
    struct relock_how how = {.wait_ms = RELOCK_FOREVER}, inner = how;
    struct actor *next = actor_start();

    assert_result(relock_cancel_new(&how.cancel_on_lost), RELOCK_OK);
    assert_result(relock_cancel_new(&inner.cancel_on_lost), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &inner, NULL), RELOCK_OK); /* ignored: a further level */
    actor_begin_lock(next, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK); /* handed off, if the kind is */
    assert_result(actor_result(next), RELOCK_OK);
    probe_int(f->probe, "DEL orders");
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(actor_unlock(next, lock), RELOCK_LOST);

    how.cancel = how.cancel_on_lost;
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    how.cancel = inner.cancel_on_lost;
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    relock_cancel_free(how.cancel_on_lost);
    relock_cancel_free(inner.cancel_on_lost);
}

/* The loss of one member, found by the client of that member. */
static void the_loss_of_a_multi_lock_fires_its_cancel(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *a = fixture_lock(f, watchful_client(f, LEASE_MS), "a");
    struct relock_lock *b = fixture_lock(f, watchful_client(f, LEASE_MS), "b");

    assert_that_the_loss_ends_a_wait(f, fixture_multi(f, a, b, NULL), "b");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KINDS_TEST(a_loss_ends_the_waits_that_use_its_cancel),
        KINDS_TEST(a_released_hold_fires_no_cancel),
        SERVER_TEST(the_loss_of_a_multi_lock_fires_its_cancel),
    };

    return SERVER_TESTS_RUN(tests);
}
