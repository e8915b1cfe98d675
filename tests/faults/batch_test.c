/*
 * Renewals of many locks by one script, when one of these locks ends, or the script does not get
 * through. Locks that are acquired one after the other are soon renewed by one script: their
 * renewals come forward to meet. Without tracking, only renewals find a loss.
 */
#include "faults.h"
#include "support/kinds.h"

#include <stdio.h>

#define N_LOCKS 40
#define LEASE_MS 3000
#define ONE "orders7"

struct many {
    struct relock_client *client;
    struct relock_lock *locks[N_LOCKS];
};

static struct many many_of(struct faults *t, const struct relock_options *options)
{
    struct relock_options with_time = *options;
    struct many many;
    char name[32];

    with_time.watchdog_timeout_ms =
        options->watchdog_timeout_ms ? options->watchdog_timeout_ms : outlast_ms(LEASE_MS);
    with_time.command_timeout_ms = slow_ms(10000);
    with_time.recheck_ms = LONG_MS;
    many.client = with_time.user ? faults_worker_client(t, &with_time)
                                 : faults_connected_client(t, &with_time);
    for (size_t i = 0; i < N_LOCKS; i++) {
        snprintf(name, sizeof(name), "orders%zu", i);
        many.locks[i] = kind_lock(t->f, many.client, name);
        assert_result(relock_lock(many.locks[i]), RELOCK_OK);
    }
    return many;
}

static struct many untracked_many(struct faults *t)
{
    return many_of(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING});
}

/* All are held but the one of this number, which is lost for that reason. */
static void assert_only_one_lost(struct faults *t, const struct many *many, int reason)
{
    uint64_t renewed;

    assert_true(losses_wait(t->f->losses, 1, slow_ms(SOON_MS)));
    assert_string_equal(losses_get(t->f->losses, 0).name, ONE);
    assert_int_equal(losses_get(t->f->losses, 0).reason, reason);
    renewed = stats_of(many->client).renewed;
    assert_true(wait_for_renewals(many->client, renewed, 2 * (uint64_t)N_LOCKS));
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many->locks[i]), i == 7 ? RELOCK_LOST : RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 1);
}

static void release_all(struct faults *t, const struct many *many)
{
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many->locks[i]), RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 0);
}

static bool batches(struct faults *t, size_t n)
{
    return proxy_counts(t->proxy, "renew_many", n);
}

/* ---- one of them --------------------------------------------------------------------------- */

static void a_hold_that_is_gone_is_lost_alone(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    assert_true(batches(t, 1));
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    assert_only_one_lost(t, &many, RELOCK_LOST_GONE);
}

static void a_hold_that_is_replaced_is_lost_alone(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    assert_true(batches(t, 1));
    kind_replace(t->f, ONE, 0);
    assert_only_one_lost(t, &many, RELOCK_LOST_TAKEN);
    assert_int_equal(proxy_count(t->proxy, "renew 1 " ONE), 0);
    kind_assert_replaced(t->f, ONE, 0);
}

/* The script of many says whose the lock is, so Redis is not asked again. */
static void a_hold_that_is_taken_is_lost_alone_and_at_once(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    assert_true(batches(t, 1));
    assert_true(kind_peer_usurp(t->f, ONE));
    assert_only_one_lost(t, &many, RELOCK_LOST_TAKEN);
    assert_int_equal(proxy_count(t->proxy, "renew 1 " ONE), 0);
    assert_true(kind_peer_unlock(t->f, ONE));
}

/* A proxy may send the script to a server that has only its first key. */
static void a_hold_that_a_batch_did_not_find_is_asked_for_alone(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD, "renew_many");
    struct proxy_rule *alone;
    struct many many = untracked_many(t);

    assert_true(proxy_met(batch, 1));
    alone = proxy_next(t->proxy, PROXY_HOLD, "renew 1 " ONE);
    assert_int_equal(probe_int(t->f->probe, "RENAME " ONE " elsewhere"), 0);
    proxy_let_go(batch);
    assert_true(proxy_met(alone, 1));
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_int_equal(probe_int(t->f->probe, "RENAME elsewhere " ONE), 0);
    proxy_let_go(alone);
    assert_true(log_wait(t->f->log, "did not find a lock that is there", SOON_MS));
    assert_true(proxy_counts(t->proxy, "renew 1 " ONE, 3));
    assert_int_equal(log_count(t->f->log, "renews many locks failed"), 1);
    release_all(t, &many);
}

/* The answer to the renewal of this hold alone would not come for long. */
static void a_loss_that_a_batch_found_does_not_wait_for_a_connection(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD, "renew_many");
    struct proxy_rule *alone;
    struct many many = many_of(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING,
                                                           .watchdog_timeout_ms = slow_ms(20000)});

    assert_true(proxy_met(batch, 1));
    alone = proxy_next(t->proxy, PROXY_HOLD, "renew 1 " ONE);
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    proxy_let_go(batch);
    assert_true(proxy_met(alone, 1));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_true(losses_wait(t->f->losses, 1, slow_ms(SOON_MS)));
    assert_int_equal(losses_get(t->f->losses, 0).reason, RELOCK_LOST_GONE);
    proxy_refuse(t->proxy, false);
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many.locks[i]), i == 7 ? RELOCK_LOST : RELOCK_OK);
}

/* Nothing renews it any more, but its end is found. */
static void a_hold_past_its_cap_is_only_checked(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD, "renew_many");
    uint64_t cap_ms = slow_ms(8000);
    uint64_t began_ms = now_ms();
    struct many many = many_of(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING,
                                                           .max_hold_ms = cap_ms,
                                                           .watchdog_timeout_ms = slow_ms(20000)});

    assert_true(proxy_met(batch, 1));
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    let_pass(began_ms + cap_ms + 500 - now_ms());
    proxy_let_go(batch);
    assert_true(losses_wait(t->f->losses, 1, slow_ms(SOON_MS)));
    assert_int_equal(losses_get(t->f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_int_equal(proxy_count(t->proxy, "check 1 " ONE), 1);
    assert_int_equal(proxy_count(t->proxy, "renew 1 " ONE), 0);
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many.locks[i]), i == 7 ? RELOCK_LOST : RELOCK_OK);
}

/* ---- refused ------------------------------------------------------------------------------- */

static void a_batch_that_is_refused_is_renewed_one_by_one(void **state)
{
    struct faults *t = *state;
    struct many many;
    size_t n;

    proxy_each(t->proxy, PROXY_REFUSE, "renew_many");
    many = untracked_many(t);
    assert_true(log_wait(t->f->log, "renews many locks failed: " PROXY_REFUSAL, slow_ms(SOON_MS)));
    n = proxy_count(t->proxy, "renew_many");
    assert_true(wait_for_renewals(many.client, stats_of(many.client).renewed, 3 * N_LOCKS));
    assert_true(proxy_count(t->proxy, "renew 1") >= 3 * (size_t)N_LOCKS);
    assert_int_equal(proxy_count(t->proxy, "renew_many"), n);
    assert_int_equal(log_count(t->f->log, "renews many locks failed"), 1);
    release_all(t, &many);
}

static void a_key_without_a_right_keeps_no_other_from_being_renewed(void **state)
{
    struct faults *t = *state;
    struct many many;

    faults_worker(t, "~* &* +@all");
    many = many_of(t, &(struct relock_options){.user = WORKER, .flags = RELOCK_NO_TRACKING});
    assert_true(batches(t, 1));
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " resetkeys ~orders8 ~orders1*"
                                            " ~orders2* ~orders3* ~orders4 ~orders5 ~orders6"
                                            " ~orders9 ~orders0"),
                     0);
    assert_true(log_wait(t->f->log, "renews many locks failed", slow_ms(SOON_MS)));
    assert_only_one_lost(t, &many, RELOCK_LOST_EXPIRED);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " ~*"), 0);
    assert_int_equal(log_count(t->f->log, "renews many locks failed"), 1);
}

/* ---- on the way ---------------------------------------------------------------------------- */

static void a_batch_that_is_cut_off_is_sent_again(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "renew_many");
    struct many many = untracked_many(t);

    assert_true(proxy_met(batch, 1));
    assert_true(wait_for_reconnects(many.client, 1));
    assert_true(wait_for_renewals(many.client, stats_of(many.client).renewed, 2 * N_LOCKS));
    release_all(t, &many);
}

static void a_release_does_not_wait_for_a_batch(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD, "renew_many");
    struct many many = many_of(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING,
                                                           .watchdog_timeout_ms = slow_ms(20000)});

    assert_true(proxy_met(batch, 1));
    for (size_t i = 0; i < N_LOCKS; i++) {
        assert_result(relock_extend(many.locks[i], 0, LEASE_MS), RELOCK_OK);
        assert_result(relock_unlock(many.locks[i]), RELOCK_OK);
        assert_result(relock_trylock(many.locks[i]), RELOCK_OK);
    }
    proxy_let_go(batch);
    assert_true(wait_for_renewals(many.client, 0, N_LOCKS));
    release_all(t, &many);
}

/* The time on the way does not count as certain. Some locks may be in the next batch, two thirds of
 * a second later. */
static void a_batch_makes_holds_certain_from_before_it_was_sent(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD_REPLY, "renew_many");
    uint64_t lease_ms = slow_ms(20000);
    struct many many = many_of(
        t, &(struct relock_options){.flags = RELOCK_NO_TRACKING, .watchdog_timeout_ms = lease_ms});
    uint64_t sent_ms;

    assert_true(proxy_met(batch, 1));
    sent_ms = now_ms();
    let_pass(slow_ms(1500));
    proxy_let_go(batch);
    assert_true(wait_for_renewals(many.client, 0, 2));
    for (size_t i = 0; i < N_LOCKS; i++) {
        uint64_t valid_ms = relock_valid_ms(many.locks[i]);

        assert_in_range(valid_ms + now_ms() - sent_ms, 0, lease_ms + slow_ms(1000));
    }
    release_all(t, &many);
}

/* The script runs a second time behind EXISTS, and its writes end the tracking. No renewal finds
 * the loss, but a report. */
static void locks_stay_tracked_after_a_batch_whose_script_was_loaded(void **state)
{
    struct faults *t = *state;
    struct many many = many_of(t, &(struct relock_options){.watchdog_timeout_ms = slow_ms(20000)});
    uint64_t renewed;

    let_pass(1000); /* all are checked: the next ones are renewals */
    assert_int_equal(probe_int(t->f->probe, "SCRIPT FLUSH"), 0);
    assert_true(wait_for_renewals(many.client, 0, N_LOCKS));
    renewed = stats_of(many.client).renewed;
    assert_true(proxy_counts(t->proxy, "SCRIPT LOAD", 1));
    let_pass(1500); /* checks that have the locks tracked again */
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    assert_true(losses_wait(t->f->losses, 1, slow_ms(SOON_MS)));
    assert_int_equal(stats_of(many.client).renewed, renewed);
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many.locks[i]), i == 7 ? RELOCK_LOST : RELOCK_OK);
}

/* Redis is to report changes from EXISTS on. */
static void a_key_that_goes_between_a_batch_and_its_tracking_is_noticed(void **state)
{
    struct faults *t = *state;
    struct many many = many_of(t, &(struct relock_options){.watchdog_timeout_ms = slow_ms(20000)});
    struct proxy_rule *exists;
    uint64_t renewed;

    let_pass(1000); /* all are checked: the next ones are renewals */
    exists = proxy_next(t->proxy, PROXY_HOLD, "EXISTS");
    assert_true(proxy_met(exists, 1));
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    proxy_let_go(exists);
    assert_true(wait_for_renewals(many.client, 0, N_LOCKS));
    renewed = stats_of(many.client).renewed;
    assert_true(losses_wait(t->f->losses, 1, slow_ms(SOON_MS)));
    assert_int_equal(stats_of(many.client).renewed, renewed);
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many.locks[i]), i == 7 ? RELOCK_LOST : RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_hold_that_is_gone_is_lost_alone),
        FAULT_TEST(a_hold_that_is_replaced_is_lost_alone),
        FAULT_TEST(a_hold_that_is_taken_is_lost_alone_and_at_once),
        FAULT_TEST(a_hold_that_a_batch_did_not_find_is_asked_for_alone),
        FAULT_TEST(a_loss_that_a_batch_found_does_not_wait_for_a_connection),
        FAULT_TEST(a_hold_past_its_cap_is_only_checked),
        FAULT_TEST(a_batch_that_is_refused_is_renewed_one_by_one),
        FAULT_TEST(a_key_without_a_right_keeps_no_other_from_being_renewed),
        FAULT_TEST(a_batch_that_is_cut_off_is_sent_again),
        FAULT_TEST(a_release_does_not_wait_for_a_batch),
        FAULT_TEST(a_batch_makes_holds_certain_from_before_it_was_sent),
        FAULT_TEST(locks_stay_tracked_after_a_batch_whose_script_was_loaded),
        FAULT_TEST(a_key_that_goes_between_a_batch_and_its_tracking_is_noticed),
    };

    return FAULT_TESTS_RUN(tests);
}
