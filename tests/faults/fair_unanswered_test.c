/*
 * A fair lock whose commands are not answered: the caller's result stays true, no place is left in
 * the queue, and the next waiter is woken. Only the last tests wait for a recheck.
 *
 * Its argument is that of faults_take_rights(). The cases that a
 * fair lock shares with others are in unanswered_test.c.
 */
#include "faults.h"
#include "support/fair_queue.h"

#define RECHECK_MS 500 /* after three of these without a retry, a waiter counts as dead */

static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};

static struct relock_client *client_with(struct faults *t, uint64_t recheck_ms,
                                         uint64_t command_timeout_ms)
{
    return faults_worker_client(t,
                                &(struct relock_options){.watchdog_timeout_ms = LONG_MS,
                                                         .recheck_ms = recheck_ms,
                                                         .command_timeout_ms = command_timeout_ms});
}

/* A client that bypasses the proxy. */
static struct relock_client *sound_client(struct faults *t)
{
    return fixture_client(
        t->f, &(struct relock_options){.watchdog_timeout_ms = LONG_MS, .recheck_ms = LONG_MS});
}

/* ---- in the queue -------------------------------------------------------------------------- */

/* The lock is held. The first waiter goes through the proxy, the second does not. */
struct line {
    struct relock_lock *held, *lock;
    struct actor *first, *second;
};

static void line_up(struct faults *t, struct line *line, uint64_t recheck_ms,
                    uint64_t command_timeout_ms)
{
    size_t n_asked = proxy_count(t->proxy, "fair_lock 1 orders");

    line->held = fair_handle(t->f, sound_client(t));
    line->lock = fair_handle(t->f, client_with(t, recheck_ms, command_timeout_ms));
    line->first = actor_start();
    line->second = actor_start();
    assert_result(relock_lock(line->held), RELOCK_OK);
    fair_queue_begin(t->f, line->first, line->lock, 1);
    fair_queue_begin(t->f, line->second, line->held, 2);
    /* it has retried after its subscription */
    assert_true(proxy_counts(t->proxy, "fair_lock 1 orders", n_asked + 2));
}

static void the_second_gets_in(struct faults *t, struct line *line)
{
    assert_gets_in(line->second, line->held);
    faults_assert_free(t);
}

static void an_attempt_that_is_cut_off_keeps_its_place(void **state)
{
    struct faults *t = *state;

    for (size_t i = 0; i < 2; i++) {
        struct line line;
        struct proxy_rule *rule;

        line_up(t, &line, outlast_ms(RECHECK_MS), slow_ms(SOON_MS));
        rule = proxy_next(t->proxy, cuts[i], "fair_lock 1 orders");
        assert_true(proxy_met(rule, 1));
        assert_true(proxy_next_place(t->proxy, proxy_place(rule), "fair_lock 1 orders") > 0);
        assert_true(fair_queue_wait(t->f, 2));
        assert_result(relock_unlock(line.held), RELOCK_OK);
        assert_result(actor_result(line.first), RELOCK_OK);
        assert_true(actor_is_busy(line.second));
        assert_result(actor_unlock(line.first, line.lock), RELOCK_OK);
        the_second_gets_in(t, &line);
    }
}

static void an_attempt_without_an_answer_leaves_the_queue(void **state)
{
    struct faults *t = *state;

    for (size_t i = 0; i < 2; i++) {
        struct line line;

        line_up(t, &line, outlast_ms(RECHECK_MS), short_ms());
        proxy_next(t->proxy, losses[i], "fair_lock 1 orders");
        assert_result(actor_result(line.first), RELOCK_E_CONN);
        assert_true(fair_queue_wait(t->f, 1));
        assert_result(relock_unlock(line.held), RELOCK_OK);
        the_second_gets_in(t, &line);
    }
}

/* The reply to the grant is lost: the waiter does not know that it has the lock, or has it once. */
static void a_grant_without_an_answer_is_released_and_the_next_waiter_is_woken(void **state)
{
    struct faults *t = *state;

    for (size_t i = 0; i < 2; i++) {
        struct line line;

        line_up(t, &line, LONG_MS, short_ms());
        proxy_next(t->proxy, losses[i], "fair_lock 1 orders");
        assert_result(relock_unlock(line.held), RELOCK_OK);
        assert_result(actor_result(line.first), RELOCK_E_CONN);
        the_second_gets_in(t, &line);
        assert_result(actor_unlock(line.first, line.lock), RELOCK_NOT_OWNER);
    }
}

static void a_grant_that_is_cut_off_counts_once(void **state)
{
    struct faults *t = *state;

    for (size_t i = 0; i < 2; i++) {
        struct line line;

        line_up(t, &line, LONG_MS, slow_ms(SOON_MS));
        proxy_next(t->proxy, cuts[i], "fair_lock 1 orders");
        assert_result(relock_unlock(line.held), RELOCK_OK);
        assert_result(actor_result(line.first), RELOCK_OK);
        assert_int_equal(probe_only_value(t->f->probe, "orders"), 1);
        assert_result(actor_unlock(line.first, line.lock), RELOCK_OK);
        the_second_gets_in(t, &line);
    }
}

/* The reply arrives after the lease that it grants: not held, and the next waiter is woken. */
static void a_grant_that_comes_too_late_is_released(void **state)
{
    struct faults *t = *state;
    struct relock_how how = {.lease_ms = slow_ms(300), .wait_ms = RELOCK_FOREVER};
    struct relock_lock *held = fair_handle(t->f, sound_client(t));
    struct relock_lock *lock = fair_handle(t->f, client_with(t, LONG_MS, short_ms()));
    struct actor *first = actor_start();
    struct proxy_rule *rule;

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_acquire(first, lock, &how);
    assert_true(fair_queue_wait(t->f, 1));
    assert_true(proxy_counts(t->proxy, "fair_lock 1 orders", 2));
    rule = proxy_next(t->proxy, PROXY_HOLD_REPLY, "fair_lock 1 orders");
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    let_pass(slow_ms(310));
    proxy_let_go(rule);
    assert_result(actor_result(first), RELOCK_E_CONN);
    assert_true(proxy_counts(t->proxy, "fair_unlock 1 orders * 0", 1));
    faults_assert_free(t);
}

/* ---- leaving ------------------------------------------------------------------------------- */

static void a_release_without_an_answer_wakes_the_next(void **state)
{
    static const enum proxy_deed deeds[] = {PROXY_SWALLOW, PROXY_LOSE, PROXY_CUT,
                                            PROXY_CUT_UNANSWERED};
    struct faults *t = *state;
    struct relock_lock *locks[] = {fair_handle(t->f, client_with(t, LONG_MS, short_ms())),
                                   fair_handle(t->f, client_with(t, LONG_MS, slow_ms(SOON_MS)))};
    struct relock_lock *theirs = fair_handle(t->f, sound_client(t));
    struct actor *next = actor_start();

    for (size_t i = 0; i < 4; i++) {
        struct relock_lock *lock = locks[i / 2];

        assert_result(relock_lock(lock), RELOCK_OK);
        fair_queue_begin(t->f, next, theirs, 1);
        proxy_next(t->proxy, deeds[i], "fair_unlock 1 orders * 0");
        assert_result(relock_unlock(lock), i < 2 ? RELOCK_E_CONN : RELOCK_OK);
        assert_gets_in(next, theirs);
        faults_assert_free(t);
    }
}

static void leaving_the_queue_is_repeated_until_it_succeeds(void **state)
{
    static const enum proxy_deed deeds[] = {PROXY_SWALLOW, PROXY_LOSE, PROXY_CUT,
                                            PROXY_CUT_UNANSWERED};
    struct faults *t = *state;
    struct relock_lock *held = fair_handle(t->f, sound_client(t));
    struct relock_lock *lock = fair_handle(t->f, client_with(t, LONG_MS, short_ms()));

    assert_result(relock_lock(held), RELOCK_OK);
    for (size_t i = 0; i < 4; i++) {
        struct proxy_rule *rule = proxy_next(t->proxy, deeds[i], "fair_unlock 1 orders * 0");

        assert_result(fixture_timedlock(lock, 50), RELOCK_TIMEOUT);
        assert_true(proxy_met(rule, 1));
        assert_true(fair_queue_wait(t->f, 0));
    }
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* It runs long after its caller has gone: it leaves no place, or one that is soon dropped. */
static void a_late_attempt_blocks_the_queue_only_briefly(void **state)
{
    struct faults *t = *state;
    struct relock_lock *held = fair_handle(t->f, sound_client(t));
    struct relock_lock *lock =
        fair_handle(t->f, client_with(t, outlast_ms(RECHECK_MS), short_ms()));
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "fair_lock 1 orders");

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_true(proxy_counts(t->proxy, "fair_unlock 1 orders * 0", 1));
    faults_run_late(rule);
    assert_int_equal(probe_int(t->f->probe, "LLEN " FAIR_QUEUE),
                     faults_rights() == CAN_KILL ? 0 : 1);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(relock_timedlock(held, (int64_t)slow_ms(3 * RECHECK_MS + SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(held), RELOCK_OK);
    faults_assert_free(t);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(an_attempt_that_is_cut_off_keeps_its_place),
        FAULT_TEST(an_attempt_without_an_answer_leaves_the_queue),
        FAULT_TEST(a_grant_without_an_answer_is_released_and_the_next_waiter_is_woken),
        FAULT_TEST(a_grant_that_is_cut_off_counts_once),
        FAULT_TEST(a_grant_that_comes_too_late_is_released),
        FAULT_TEST(a_release_without_an_answer_wakes_the_next),
        FAULT_TEST(leaving_the_queue_is_repeated_until_it_succeeds),
        FAULT_TEST(a_late_attempt_blocks_the_queue_only_briefly),
    };

    faults_take_rights(argc, argv);
    return FAULT_TESTS_RUN(tests);
}
