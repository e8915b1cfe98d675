/* Leases in both libraries: each keeps its own holds alive, and late commands harm no hold. */
#include "duo.h"

static const struct relock_how for_ever = {.wait_ms = RELOCK_FOREVER, .lease_ms = LONG_MS};

static void a_hold_renewed_here_outlives_its_lease(void **state)
{
    struct duo *d = *state;
    uint64_t watchdog_ms = slow_ms(KEPT_MS), until_ms;
    struct relock_lock *lock;

    duo_set_watchdog(d, watchdog_ms);
    lock = duo_lock(d, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    until_ms = now_ms() + watchdog_ms + watchdog_ms / 4;
    for (; now_ms() < until_ms; let_pass(20))
        assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    assert_true(relock_is_mine(lock));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_hold_extended_here_outlives_its_lease(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");
    const struct relock_how how = {.lease_ms = slow_ms(KEPT_MS)};

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_OK);
    assert_true(duo_n_lasting(d, "orders", LONG_MS / 2, LONG_MS) >= duo_quorum(d));
    let_pass(slow_ms(KEPT_MS));
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_hold_extended_in_the_other_library_outlives_its_lease(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    assert_string_equal(duo_do(d, "ann", "lock orders ^"), "ok");
    assert_string_equal(duo_do(d, "ann", "extend orders 60000"), "ok");
    assert_true(duo_n_lasting(d, "orders", LONG_MS / 2, LONG_MS) >= duo_quorum(d));
    let_pass(slow_ms(KEPT_MS));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

static void a_late_release_in_the_other_library_does_not_free_our_hold(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    assert_string_equal(duo_do(d, "ann", "lock orders %"), "ok");
    assert_result(relock_acquire(lock, &for_ever, NULL), RELOCK_OK); /* after that lease */
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "not-owner");
    assert_true(relock_is_mine(lock));
    assert_true(duo_n_lasting(d, "orders", LONG_MS / 2, LONG_MS) >= duo_quorum(d));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_late_extension_in_the_other_library_does_not_touch_our_hold(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    assert_string_equal(duo_do(d, "ann", "lock orders %"), "ok");
    assert_true(duo_wait_none(d, "orders")); /* a vote that is left could be extended */
    assert_result(relock_acquire(lock, &for_ever, NULL), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "extend orders 3600000"), "not-owner");
    assert_true(duo_n_lasting(d, "orders", LONG_MS / 2, LONG_MS) >= duo_quorum(d));
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Our key has the value that the other library reads as its own. */
static bool is_theirs(struct duo *d)
{
    const char *token = duo_do(d, "ann", "token orders");

    return duo_n_with_value(d, "orders", token) >= duo_quorum(d);
}

/* After our lease. */
static void let_them_take_over(struct duo *d)
{
    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    assert_true(is_theirs(d));
}

static void a_late_release_here_does_not_free_the_other_librarys_hold(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");
    const struct relock_how how = {.lease_ms = slow_ms(SHORT_MS)};

    assert_result(fixture_acquire(lock, &how), RELOCK_OK);
    let_them_take_over(d);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(is_theirs(d));
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

static void a_late_extension_here_does_not_touch_the_other_librarys_hold(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");
    const struct relock_how how = {.lease_ms = slow_ms(SHORT_MS)};

    assert_result(fixture_acquire(lock, &how), RELOCK_OK);
    let_them_take_over(d);
    assert_result(relock_extend(lock, 0, 2 * LONG_MS), RELOCK_LOST);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(is_theirs(d));
    assert_true(duo_n_lasting(d, "orders", 1, LONG_MS) >= duo_quorum(d));
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

/* The renewal finds the loss. Tracking could find it between two deletions. The library would then
 * release the other keys, or write deleted ones again. */
static void a_hold_that_the_other_library_took_over_is_lost_and_reported(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock;

    duo_set_watchdog_alone(d, slow_ms(KEPT_MS));
    lock = duo_lock(d, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(duo_wait_all(d, "orders"));
    for (size_t i = 0; i < d->s->n; i++) /* a renewal may come between two of them, too */
        probe_int(d->s->probe[i], "DEL orders");
    let_them_take_over(d);
    assert_true(losses_wait(d->s->f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(is_theirs(d));
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUO_TEST(a_hold_renewed_here_outlives_its_lease),
        DUO_TEST(a_hold_extended_here_outlives_its_lease),
        DUO_TEST(a_hold_extended_in_the_other_library_outlives_its_lease),
        DUO_TEST(a_late_release_in_the_other_library_does_not_free_our_hold),
        DUO_TEST(a_late_extension_in_the_other_library_does_not_touch_our_hold),
        DUO_TEST(a_late_release_here_does_not_free_the_other_librarys_hold),
        DUO_TEST(a_late_extension_here_does_not_touch_the_other_librarys_hold),
        DUO_TEST(a_hold_that_the_other_library_took_over_is_lost_and_reported),
    };

    duo_choose(argc, argv);
    return DUO_TESTS_RUN(tests);
}
