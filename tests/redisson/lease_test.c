/*
 * Leases in both libraries: each renews its own holds, and each takes over a lock whose lease ran
 * out in the other.
 */
#include "duet.h"

#include <signal.h>
#include <stdlib.h>

static void a_renewed_hold_of_either_library_outlives_its_lease(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_watched_client(d);
    struct relock_lock *theirs = duet_lock(d, client, "theirs");
    struct relock_lock *ours = duet_lock(d, client, "ours");
    uint64_t until_ms = deadline_in(2 * WATCHDOG_MS + WATCHDOG_MS / 2);

    assert_string_equal(duet_do(d, "ann", "lock theirs"), "ok");
    assert_result(relock_lock(ours), RELOCK_OK);
    for (; now_ms() < until_ms; let_pass(100)) {
        assert_true(probe_pttl(duet_probe(d, "theirs"), "theirs") <=
                    (long long)slow_ms(WATCHDOG_MS));
        assert_result(relock_trylock(theirs), RELOCK_BUSY);
        assert_string_equal(duet_do(d, "bob", "try ours"), "no");
    }
    assert_string_equal(duet_do(d, "ann", "unlock theirs"), "ok");
    assert_result(relock_trylock(theirs), RELOCK_OK);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    assert_result(relock_unlock(ours), RELOCK_OK);
}

static void a_fixed_lease_ends_for_the_other_side(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct relock_lock *theirs = duet_lock(d, client, "theirs");
    struct relock_lock *ours = duet_lock(d, client, "ours");
    const struct relock_how how = {.lease_ms = 700};
    unsigned waiting;

    assert_string_equal(duet_do(d, "ann", "lock theirs 700"), "ok");
    assert_result(relock_timedlock(theirs, LONG_MS), RELOCK_OK);
    assert_string_equal(duet_do(d, "ann", "mine theirs"), "no");
    assert_string_equal(duet_do(d, "ann", "unlock theirs"), "not-owner");
    assert_result(relock_unlock(theirs), RELOCK_OK);

    assert_result(fixture_acquire(ours, &how), RELOCK_OK);
    waiting = duet_begin(d, "ann", "lock ours");
    assert_string_equal(duet_answer(d, waiting), "ok");
    assert_result(relock_check(ours, 0, NULL), RELOCK_LOST);
    assert_result(relock_unlock(ours), RELOCK_LOST);
    assert_string_equal(duet_do(d, "ann", "unlock ours"), "ok");
}

/* No message is published: the waiter comes soon after the lease has ended. */
static void we_get_the_lock_of_a_dead_redisson_after_its_lease(void **state)
{
    struct duet *d = *state;
    struct relock_client *client = duet_client(d);
    struct relock_lock *lock = duet_lock(d, client, "orders");
    struct actor *waiting = actor_start();
    uint64_t alive_ms;

    assert_string_equal(duet_do(d, "ann", "lock orders"), "ok");
    actor_begin_lock(waiting, lock);
    assert_true(duet_sleeps(d, client));
    alive_ms = now_ms();
    if (duet_is(d, "reentrant"))
        assert_true(player_dies(d->player));
    else
        player_kill(d->player);
    /* At least two thirds of the lease remained. */
    assert_true(actor_is_busy(waiting) || now_ms() > alive_ms + slow_ms(WATCHDOG_MS) / 2);
    assert_result(actor_result_within(waiting, WATCHDOG_MS + SOON_MS), RELOCK_OK);
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

static void redisson_gets_the_lock_of_our_dead_process_after_its_lease(void **state)
{
    struct duet *d = *state;
    struct child *child = duet_start_holder(d, d->kind->make);
    unsigned waiting;

    assert_string_equal(duet_do(d, "ann", "try orders"), "no");
    waiting = duet_begin(d, "ann", "lock orders");
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
    assert_string_equal(duet_answer(d, waiting), "ok");
    assert_string_equal(duet_do(d, "ann", "unlock orders"), "ok");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUET_TEST(a_renewed_hold_of_either_library_outlives_its_lease),
        DUET_TEST(a_fixed_lease_ends_for_the_other_side),
        DUET_TEST(we_get_the_lock_of_a_dead_redisson_after_its_lease),
        DUET_TEST(redisson_gets_the_lock_of_our_dead_process_after_its_lease),
    };

    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
