/*
 * Read/write locks whose commands are not answered, where one side or owner meets another. What
 * each side does by itself is in unanswered_test.c.
 */
#include "faults.h"

#include "support/sides.h"

static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};

/* Handles of a client with leases that do not end in a test: a missing key was released. */
static struct sides sides_with(struct faults *t, uint64_t command_timeout_ms)
{
    return sides_of(t->f, faults_calm_client(t, command_timeout_ms));
}

/* The read level is released, and the writer keeps its hold. */
static void a_read_without_an_answer_leaves_its_writer_alone(void **state)
{
    struct faults *t = *state;
    struct sides ours = sides_with(t, short_ms());

    assert_result(relock_lock(ours.write), RELOCK_OK);
    for (size_t i = 0; i < 2; i++) {
        size_t given_back = proxy_count(t->proxy, "read_unlock 1 orders * 0") + 1;

        proxy_next(t->proxy, losses[i], "read_lock 1 orders");
        assert_result(relock_lock(ours.read), RELOCK_E_CONN);
        assert_true(proxy_counts(t->proxy, "read_unlock 1 orders * 0", given_back));
        assert_result(relock_trylock(ours.read), RELOCK_OK);
        assert_result(relock_unlock(ours.read), RELOCK_OK);
    }
    assert_int_equal(sides_holder(ours.write).hold_count, 1);
    assert_int_equal(probe_n_keys(t->f->probe), 1);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    faults_assert_free(t);
}

/* Another side of the same owner, or another owner, still holds: the first attempt ran all the
 * same. */
static void an_unlock_that_is_cut_off_beside_other_holds_is_ok(void **state)
{
    struct faults *t = *state;
    struct sides ours = sides_with(t, slow_ms(SOON_MS));
    struct sides theirs = sides_of(t->f, fixture_client(t->f, NULL));

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(ours.write), RELOCK_OK);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "write_unlock 1 orders * 0");
        assert_result(relock_unlock(ours.write), RELOCK_OK);
        assert_int_equal(sides_holder(ours.read).hold_count, 1);
        assert_result(relock_trylock(theirs.read), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "read_unlock 1 orders * 0");
        assert_result(relock_unlock(ours.read), RELOCK_OK);
        assert_int_equal(sides_holder(theirs.read).n_holders, 1);
        assert_result(relock_unlock(theirs.read), RELOCK_OK);
        faults_assert_free(t);
    }
}

/* The downgrade happens, now or by settling: other readers are admitted, and ours stays. */
static void a_downgrade_without_an_answer_happens(void **state)
{
    struct faults *t = *state;
    struct sides ours = sides_with(t, short_ms());
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
        faults_assert_free(t);
    }
}

static void renewals_of_both_sides_survive_the_loss_of_replies(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = faults_watchful_client(t, 5000);
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
    faults_assert_free(t);
}

static void queries_and_force_that_are_cut_off_are_repeated(void **state)
{
    struct faults *t = *state;
    struct sides ours = sides_with(t, slow_ms(SOON_MS));
    struct sides theirs = sides_of(t->f, woken_client(t->f)); /* it does not look for losses */
    struct relock_lock *asking[] = {ours.read, ours.write};
    struct relock_lock *held[] = {theirs.read, theirs.write};

    for (size_t i = 0; i < 4; i++) {
        assert_result(relock_lock(held[i % 2]), RELOCK_OK);
        proxy_next(t->proxy, cuts[i / 2], "rw_inspect 1 orders");
        assert_int_equal(sides_holder(asking[i % 2]).n_holders, 1);
        proxy_next(t->proxy, cuts[i / 2], "rw_force_unlock 1 orders");
        assert_result(relock_force_unlock(asking[i % 2]), RELOCK_OK);
        faults_assert_free(t);
        assert_result(relock_unlock(held[i % 2]), RELOCK_LOST);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_read_without_an_answer_leaves_its_writer_alone),
        FAULT_TEST(an_unlock_that_is_cut_off_beside_other_holds_is_ok),
        FAULT_TEST(a_downgrade_without_an_answer_happens),
        FAULT_TEST(renewals_of_both_sides_survive_the_loss_of_replies),
        FAULT_TEST(queries_and_force_that_are_cut_off_are_repeated),
    };

    return FAULT_TESTS_RUN(tests);
}
