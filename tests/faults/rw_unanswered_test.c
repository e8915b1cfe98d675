/*
 * Read/write locks that are taken and released without a reply. As in unanswered_test.c, for each
 * side: the caller's result stays true.
 */
#include "rw_faults.h"

static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};

/* ---- the first level ----------------------------------------------------------------------- */

static void an_acquire_that_is_cut_off_is_repeated_and_counts_once(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, slow_ms(SOON_MS));
    for (size_t i = 0; i < 4; i++) {
        struct proxy_rule *rule = rw_next(t, cuts[i / 2], &side[i % 2], "lock 1 orders");

        assert_result(relock_lock(side[i % 2].lock), RELOCK_OK);
        assert_true(proxy_met(rule, 1));
        rw_has_levels(t, &side[i % 2], 1, 1);
        assert_result(relock_unlock(side[i % 2].lock), RELOCK_OK);
        rw_is_free(t);
    }
}

static void an_acquire_without_an_answer_is_not_held_and_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, short_ms());
    for (size_t i = 0; i < 4; i++) {
        (void)rw_next(t, losses[i / 2], &side[i % 2], "lock 1 orders");
        assert_result(relock_lock(side[i % 2].lock), RELOCK_E_CONN);
        rw_is_free(t);
        rw_has_levels(t, &side[i % 2], 0, -1);
        assert_result(relock_unlock(side[i % 2].lock), RELOCK_NOT_OWNER);
        assert_result(relock_lock(side[1 - i % 2].lock),
                      RELOCK_OK); /* it does not block the other side */
        assert_result(relock_unlock(side[1 - i % 2].lock), RELOCK_OK);
    }
}

/* The read level is released, and the writer keeps its hold. */
static void a_read_without_an_answer_leaves_its_writer_alone(void **state)
{
    struct faults *t = *state;
    struct side side[2];
    struct sides ours = rw_sides(t, side, short_ms());

    assert_result(relock_lock(ours.write), RELOCK_OK);
    for (size_t i = 0; i < 2; i++) {
        size_t given_back = proxy_count(t->proxy, "read_unlock 1 orders * 0") + 1;

        proxy_next(t->proxy, losses[i], "read_lock 1 orders");
        assert_result(relock_lock(ours.read), RELOCK_E_CONN);
        assert_true(proxy_counts(t->proxy, "read_unlock 1 orders * 0", given_back));
        assert_result(relock_trylock(ours.read), RELOCK_OK);
        assert_result(relock_unlock(ours.read), RELOCK_OK);
    }
    rw_has_levels(t, &side[1], 1, 1);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    rw_is_free(t);
}

/* ---- the last level ------------------------------------------------------------------------ */

/* The repeat finds the hold gone if the first attempt ran. */
static void a_last_unlock_that_is_cut_off_is_ok(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, slow_ms(SOON_MS));
    for (size_t i = 0; i < 4; i++) {
        assert_result(relock_lock(side[i % 2].lock), RELOCK_OK);
        (void)rw_next(t, cuts[i / 2], &side[i % 2], "unlock 1 orders * 0");
        assert_result(relock_unlock(side[i % 2].lock), RELOCK_OK);
        rw_has_levels(t, &side[i % 2], 0, -1);
        rw_is_free(t);
    }
}

static void a_last_unlock_without_an_answer_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, short_ms());
    for (size_t i = 0; i < 4; i++) {
        assert_result(relock_lock(side[i % 2].lock), RELOCK_OK);
        (void)rw_next(t, losses[i / 2], &side[i % 2], "unlock 1 orders * 0");
        assert_result(relock_unlock(side[i % 2].lock), RELOCK_E_CONN);
        rw_is_free(t);
        assert_result(relock_unlock(side[i % 2].lock), RELOCK_NOT_OWNER);
        assert_result(relock_lock(side[1 - i % 2].lock), RELOCK_OK);
        assert_result(relock_unlock(side[1 - i % 2].lock), RELOCK_OK);
    }
}

/* Another side of the same owner, or another owner, still holds: the first attempt ran all the
 * same. */
static void an_unlock_that_is_cut_off_beside_other_holds_is_ok(void **state)
{
    struct faults *t = *state;
    struct side side[2];
    struct sides ours = rw_sides(t, side, slow_ms(SOON_MS));
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(ours.write), RELOCK_OK);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "write_unlock 1 orders * 0");
        assert_result(relock_unlock(ours.write), RELOCK_OK);
        rw_has_levels(t, &side[0], 1, 1);
        assert_result(relock_trylock(theirs.read), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "read_unlock 1 orders * 0");
        assert_result(relock_unlock(ours.read), RELOCK_OK);
        assert_int_equal(rw_count(t), 1);
        assert_result(relock_unlock(theirs.read), RELOCK_OK);
        rw_is_free(t);
    }
}

/* The downgrade happens, now or by settling: other readers are admitted, and ours stays. */
static void a_downgrade_without_an_answer_happens(void **state)
{
    struct faults *t = *state;
    struct side side[2];
    struct sides ours = rw_sides(t, side, short_ms());
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(ours.write), RELOCK_OK);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        proxy_next(t->proxy, losses[i], "write_unlock 1 orders * 0");
        assert_result(relock_unlock(ours.write), RELOCK_E_CONN);
        assert_result(relock_check(ours.read, 0, NULL), RELOCK_OK);
        assert_result(relock_timedlock(theirs.read, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
        assert_result(relock_unlock(theirs.read), RELOCK_OK);
        assert_result(relock_unlock(ours.read), RELOCK_OK);
        rw_is_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(an_acquire_that_is_cut_off_is_repeated_and_counts_once),
        FAULT_TEST(an_acquire_without_an_answer_is_not_held_and_leaves_nothing),
        FAULT_TEST(a_read_without_an_answer_leaves_its_writer_alone),
        FAULT_TEST(a_last_unlock_that_is_cut_off_is_ok),
        FAULT_TEST(a_last_unlock_without_an_answer_leaves_nothing),
        FAULT_TEST(an_unlock_that_is_cut_off_beside_other_holds_is_ok),
        FAULT_TEST(a_downgrade_without_an_answer_happens),
    };

    return FAULT_TESTS_RUN(tests);
}
