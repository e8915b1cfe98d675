/*
 * A held read/write lock and a command that is not answered: the next command corrects the state in
 * Redis.
 */
#include "rw_faults.h"

static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};

/* ---- deeper levels ------------------------------------------------------------------------- */

static void levels_that_are_cut_off_count_once(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, slow_ms(SOON_MS));
    for (size_t i = 0; i < 4; i++) {
        const struct side *now = &side[i % 2];

        assert_result(relock_lock(now->lock), RELOCK_OK);
        (void)rw_next(t, cuts[i / 2], now, "lock 1 orders * * 2");
        assert_result(relock_lock(now->lock), RELOCK_OK);
        rw_has_levels(t, now, 2, 2);
        (void)rw_next(t, cuts[i / 2], now, "unlock 1 orders * 1");
        assert_result(relock_unlock(now->lock), RELOCK_OK);
        rw_has_levels(t, now, 1, 1);
        assert_result(relock_unlock(now->lock), RELOCK_OK);
        rw_is_free(t);
    }
}

/* The hold stays as it was, whatever happened in Redis; the next command corrects Redis. */
static void a_nested_acquire_without_an_answer_is_corrected_by_the_next_command(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, short_ms());
    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(side[i].lock), RELOCK_OK);
        (void)rw_next(t, PROXY_SWALLOW, &side[i], "lock 1 orders * * 2");
        assert_result(relock_lock(side[i].lock), RELOCK_E_CONN);
        rw_has_levels(t, &side[i], 1, 2);
        assert_result(relock_extend(side[i].lock, 0, LONG_MS), RELOCK_OK);
        rw_has_levels(t, &side[i], 1, 1);

        (void)rw_next(t, PROXY_LOSE, &side[i], "lock 1 orders * * 2");
        assert_result(relock_lock(side[i].lock), RELOCK_E_CONN);
        rw_has_levels(t, &side[i], 1, 1);
        assert_result(relock_lock(side[i].lock), RELOCK_OK);
        rw_has_levels(t, &side[i], 2, 2);
        assert_result(relock_unlock(side[i].lock), RELOCK_OK);

        (void)rw_next(t, PROXY_SWALLOW, &side[i], "lock 1 orders * * 2");
        assert_result(relock_lock(side[i].lock), RELOCK_E_CONN);
        rw_has_levels(t, &side[i], 1, 2);
        assert_result(relock_unlock(side[i].lock), RELOCK_OK);
        rw_is_free(t);
    }
}

static void a_partial_unlock_without_an_answer_is_corrected_by_the_next_command(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, short_ms());
    for (size_t i = 0; i < 2; i++) {
        for (int level = 0; level < 3; level++)
            assert_result(relock_lock(side[i].lock), RELOCK_OK);
        (void)rw_next(t, PROXY_SWALLOW, &side[i], "unlock 1 orders * 2");
        assert_result(relock_unlock(side[i].lock), RELOCK_E_CONN);
        rw_has_levels(t, &side[i], 2, 2);
        (void)rw_next(t, PROXY_LOSE, &side[i], "unlock 1 orders * 1");
        assert_result(relock_unlock(side[i].lock), RELOCK_E_CONN);
        rw_has_levels(t, &side[i], 1, 2);
        assert_result(relock_lock(side[i].lock), RELOCK_OK);
        rw_has_levels(t, &side[i], 2, 2);
        assert_result(relock_unlock(side[i].lock), RELOCK_OK);
        rw_has_levels(t, &side[i], 1, 1);
        assert_result(relock_unlock(side[i].lock), RELOCK_OK);
        rw_is_free(t);
    }
}

/* ---- keeping and asking -------------------------------------------------------------------- */

static void an_extension_without_an_answer_leaves_the_lease_as_it_was_or_longer(void **state)
{
    struct faults *t = *state;
    struct side side[2];

    (void)rw_sides(t, side, short_ms());
    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(side[i].lock), RELOCK_OK);
        proxy_next(t->proxy, PROXY_CUT_UNANSWERED, side[i].extend);
        assert_result(relock_extend(side[i].lock, 0, 3 * (uint64_t)LONG_MS), RELOCK_OK);
        assert_true(relock_valid_ms(side[i].lock) > 2 * (uint64_t)LONG_MS);
        proxy_next(t->proxy, PROXY_SWALLOW, side[i].extend);
        assert_result(relock_extend(side[i].lock, 0, 9 * (uint64_t)LONG_MS), RELOCK_E_CONN);
        assert_true(relock_valid_ms(side[i].lock) > 2 * (uint64_t)LONG_MS);
        assert_true(relock_valid_ms(side[i].lock) <= 3 * (uint64_t)LONG_MS);
        assert_true(probe_pttl(t->f->probe, "orders") > 8 * (long long)LONG_MS);
        rw_has_levels(t, &side[i], 1, 1);
        assert_result(relock_unlock(side[i].lock), RELOCK_OK);
        rw_is_free(t);
    }
}

static void renewals_of_both_sides_survive_the_loss_of_replies(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.watchdog_timeout_ms = outlast_ms(3000)});
    struct sides ours = sides_of(t->f, client);
    static const char *const renewals[] = {"renew 1 orders", "read_renew 1 orders"};

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    for (size_t i = 0; i < 4; i++) {
        struct proxy_rule *rule =
            proxy_next(t->proxy, i < 2 ? PROXY_SWALLOW : PROXY_CUT_UNANSWERED, renewals[i % 2]);

        assert_true(proxy_met(rule, 1));
        assert_true(wait_for_renewals(client, stats_of(client).renewed, 2));
    }
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_int_equal(stats_of(client).lost, 0);
    rw_is_free(t);
}

static void queries_and_force_that_are_cut_off_are_repeated(void **state)
{
    struct faults *t = *state;
    struct side side[2];
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct relock_lock *held[] = {theirs.read, theirs.write};

    (void)rw_sides(t, side, slow_ms(SOON_MS));
    for (size_t i = 0; i < 4; i++) {
        assert_result(relock_lock(held[i % 2]), RELOCK_OK);
        proxy_next(t->proxy, cuts[i / 2], "rw_inspect 1 orders");
        assert_int_equal(sides_holder(side[i % 2].lock).n_holders, 1);
        proxy_next(t->proxy, cuts[i / 2], "rw_force_unlock 1 orders");
        assert_result(relock_force_unlock(side[i % 2].lock), RELOCK_OK);
        rw_is_free(t);
        assert_result(relock_unlock(held[i % 2]), RELOCK_LOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(levels_that_are_cut_off_count_once),
        FAULT_TEST(a_nested_acquire_without_an_answer_is_corrected_by_the_next_command),
        FAULT_TEST(a_partial_unlock_without_an_answer_is_corrected_by_the_next_command),
        FAULT_TEST(an_extension_without_an_answer_leaves_the_lease_as_it_was_or_longer),
        FAULT_TEST(renewals_of_both_sides_survive_the_loss_of_replies),
        FAULT_TEST(queries_and_force_that_are_cut_off_are_repeated),
    };

    return FAULT_TESTS_RUN(tests);
}
