/*
 * Old commands of read/write locks that reach the server late, after those of late_test.c that
 * concern one side: they change nothing newer than they are.
 *
 * Its argument is that of faults_take_rights().
 */
#include "faults.h"
#include "support/sides.h"

static struct sides late_sides(struct faults *t)
{
    return sides_of(
        t->f, faults_worker_client(t, &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                               .recheck_ms = LONG_MS,
                                                               .command_timeout_ms = short_ms()}));
}

static void a_late_acquire_takes_nothing_from_a_writer(void **state)
{
    static const char *const acquires[] = {"read_lock 1 orders", "write_lock 1 orders"};
    struct faults *t = *state;
    struct sides ours = late_sides(t), theirs = sides_of(t->f, fixture_client(t->f, NULL));

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, acquires[i]);

        assert_result(relock_lock(i == 0 ? ours.read : ours.write), RELOCK_E_CONN);
        assert_result(relock_lock(theirs.write), RELOCK_OK);
        faults_late_changes_nothing(t, rule);
        assert_result(relock_unlock(theirs.write), RELOCK_OK);
    }
}

static void a_late_writer_takes_nothing_from_readers(void **state)
{
    struct faults *t = *state;
    struct sides ours = late_sides(t), theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "write_lock 1 orders");

    assert_result(relock_lock(ours.write), RELOCK_E_CONN);
    assert_result(relock_lock(theirs.read), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    faults_late_changes_nothing(t, rule);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

/* It names a write hold that has ended. */
static void a_late_read_under_a_write_hold_is_refused_by_the_next_writer(void **state)
{
    struct faults *t = *state;
    struct sides ours = late_sides(t), theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct proxy_rule *rule;

    assert_result(relock_lock(ours.write), RELOCK_OK);
    rule = proxy_next(t->proxy, PROXY_HOLD, "read_lock 1 orders");
    assert_result(relock_lock(ours.read), RELOCK_E_CONN);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_lock(theirs.write), RELOCK_OK);
    faults_late_changes_nothing(t, rule);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
}

/* If it runs, it adds a reader that no client renews: it blocks writers for its lease, no
 * longer. */
static void a_late_reader_beside_others_is_there_for_its_lease_at_most(void **state)
{
    struct faults *t = *state;
    struct sides ours = late_sides(t), theirs = sides_of(t->f, fixture_client(t->f, NULL));
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "read_lock 1 orders");
    struct relock_how how = {.lease_ms = slow_ms(1500)};

    assert_result(relock_acquire(ours.read, &how, NULL), RELOCK_E_CONN);
    assert_true(proxy_counts(t->proxy, "read_unlock 1 orders * 0", 1));
    assert_result(relock_lock(theirs.read), RELOCK_OK);
    faults_run_late(rule);
    assert_result(relock_check(ours.read, 0, NULL), RELOCK_NOT_OWNER);
    if (faults_rights() == CAN_KILL)
        assert_int_equal(sides_holder(theirs.read).n_holders, 1);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
    assert_result(relock_timedlock(ours.write, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
}

/* The same thread holds both sides again: these are other holds. */
static void a_late_unlock_of_either_side_frees_no_newer_hold(void **state)
{
    static const char *const unlocks[] = {"read_unlock 1 orders * 0", "write_unlock 1 orders * 0"};
    struct faults *t = *state;
    struct sides ours = late_sides(t);
    struct relock_lock *sides[] = {ours.read, ours.write};

    for (size_t i = 0; i < 2; i++) {
        struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, unlocks[i]);

        assert_result(relock_lock(sides[i]), RELOCK_OK);
        assert_result(relock_unlock(sides[i]), RELOCK_E_CONN);
        assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
        assert_result(relock_lock(ours.write), RELOCK_OK);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        faults_late_changes_nothing(t, rule);
        assert_result(relock_unlock(ours.write), RELOCK_OK);
        assert_result(relock_unlock(ours.read), RELOCK_OK);
    }
}

static void a_late_forced_unlock_frees_no_newer_hold_of_either_side(void **state)
{
    struct faults *t = *state;
    struct sides ours = late_sides(t), theirs = sides_of(t->f, fixture_client(t->f, NULL));

    for (size_t i = 0; i < 2; i++) {
        struct relock_lock *side = i == 0 ? ours.read : ours.write;
        struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "rw_force_unlock 1 orders");

        assert_result(relock_lock(i == 0 ? theirs.read : theirs.write), RELOCK_OK);
        assert_result(relock_force_unlock(side), RELOCK_E_CONN);
        assert_result(relock_unlock(i == 0 ? theirs.read : theirs.write), RELOCK_OK);
        assert_result(relock_lock(side), RELOCK_OK);
        proxy_let_go(rule);
        assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
        assert_int_equal(sides_holder(side).n_holders, 1);
        assert_result(relock_unlock(side), RELOCK_OK);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_late_acquire_takes_nothing_from_a_writer),
        FAULT_TEST(a_late_writer_takes_nothing_from_readers),
        FAULT_TEST(a_late_read_under_a_write_hold_is_refused_by_the_next_writer),
        FAULT_TEST(a_late_reader_beside_others_is_there_for_its_lease_at_most),
        FAULT_TEST(a_late_unlock_of_either_side_frees_no_newer_hold),
        FAULT_TEST(a_late_forced_unlock_frees_no_newer_hold_of_either_side),
    };

    faults_take_rights(argc, argv);
    return FAULT_TESTS_RUN(tests);
}
