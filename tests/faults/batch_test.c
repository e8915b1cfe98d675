/*
 * Renewals of many locks by one script, when one of these locks ends, or the script does not get
 * through. Leases outlast each test: it has all locks renewed at once, as hand-offs do with theirs.
 * Without tracking, only renewals find a loss.
 */
#include "faults.h"
#include "renew_now.h"
#include "support/kinds.h"

#include <stdio.h>

#define N_LOCKS 40
#define LEASE_MS 30000
#define INTERVAL_MS (LEASE_MS * 3 / 10)
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

    with_time.watchdog_timeout_ms = slow_ms(LEASE_MS);
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

static bool are_tracked(void *arg)
{
    struct relock_client *client = arg;
    bool are;

    relock_mutex_lock(&client->mutex);
    are = client->guarded.n_tracked == client->guarded.stats.holds;
    relock_mutex_unlock(&client->mutex);
    return are;
}

/* No command is in flight. It would put off the next renewal. */
static bool are_idle(void *arg)
{
    struct relock_client *client = arg;
    struct relock_hold *hold;
    bool are = true;

    relock_mutex_lock(&client->mutex);
    RELOCK_HOLDS_FOREACH(client, hold)
    are = are && hold->command == RELOCK_HOLD_NOTHING_SENT;
    relock_mutex_unlock(&client->mutex);
    return are;
}

static struct many tracked_many(struct faults *t)
{
    struct many many = many_of(t, &(struct relock_options){0});

    assert_true(wait_until(are_tracked, many.client, SOON_MS));
    assert_true(wait_until(are_idle, many.client, SOON_MS));
    return many;
}

static void assert_renewed(const struct many *many, uint64_t n)
{
    uint64_t renewed = stats_of(many->client).renewed;

    renew_now(many->client);
    assert_true(wait_for_renewals(many->client, renewed, n));
}

static void release_all_but_one(const struct many *many)
{
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many->locks[i]), i == 7 ? RELOCK_LOST : RELOCK_OK);
}

/* All are held but the one of this number, which is lost for that reason. */
static void assert_only_one_lost(struct faults *t, const struct many *many, int reason)
{
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_string_equal(losses_get(t->f->losses, 0).name, ONE);
    assert_int_equal(losses_get(t->f->losses, 0).reason, reason);
    assert_renewed(many, N_LOCKS - 1);
    release_all_but_one(many);
    assert_int_equal(losses_count(t->f->losses), 1);
}

static void release_all(struct faults *t, const struct many *many)
{
    for (size_t i = 0; i < N_LOCKS; i++)
        assert_result(relock_unlock(many->locks[i]), RELOCK_OK);
    assert_int_equal(losses_count(t->f->losses), 0);
}

/* ---- one of them --------------------------------------------------------------------------- */

static void a_hold_that_is_gone_is_lost_alone(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    renew_now(many.client);
    assert_only_one_lost(t, &many, RELOCK_LOST_GONE);
    assert_int_equal(proxy_count(t->proxy, "renew_many"), 2);
    assert_int_equal(proxy_count(t->proxy, "renew 1"), 1);
}

static void a_hold_that_is_replaced_is_lost_alone(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    kind_replace(t->f, ONE, 0);
    renew_now(many.client);
    assert_only_one_lost(t, &many, RELOCK_LOST_TAKEN);
    assert_int_equal(proxy_count(t->proxy, "renew 1"), 0);
    kind_assert_replaced(t->f, ONE, 0);
}

/* The script of many says whose the lock is, so Redis is not asked again. */
static void a_hold_that_is_taken_is_lost_alone_and_at_once(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    assert_true(kind_peer_usurp(t->f, ONE));
    renew_now(many.client);
    assert_only_one_lost(t, &many, RELOCK_LOST_TAKEN);
    assert_int_equal(proxy_count(t->proxy, "renew 1"), 0);
    assert_true(kind_peer_unlock(t->f, ONE));
}

/* A proxy may send the script to a server that has only its first key. */
static void a_hold_that_a_batch_did_not_find_is_asked_for_alone(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    struct proxy_rule *alone = proxy_next(t->proxy, PROXY_HOLD, "renew 1 " ONE);

    assert_int_equal(probe_int(t->f->probe, "RENAME " ONE " elsewhere"), 0);
    renew_now(many.client);
    assert_true(proxy_met(alone, 1));
    assert_int_equal(losses_count(t->f->losses), 0);
    assert_int_equal(probe_int(t->f->probe, "RENAME elsewhere " ONE), 0);
    proxy_let_go(alone);
    assert_true(log_wait(t->f->log, "did not find a lock that is there", SOON_MS));
    assert_renewed(&many, N_LOCKS);
    assert_int_equal(proxy_count(t->proxy, "renew_many"), 1);
    assert_int_equal(proxy_count(t->proxy, "renew 1 " ONE), 2);
    assert_int_equal(log_count(t->f->log, "renews many locks failed"), 1);
    release_all(t, &many);
}

/* The answer to the renewal of this hold alone would not come for long. */
static void a_loss_that_a_batch_found_does_not_wait_for_a_connection(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    struct proxy_rule *alone = proxy_next(t->proxy, PROXY_HOLD, "renew 1 " ONE);

    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    renew_now(many.client);
    assert_true(proxy_met(alone, 1));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(t->f->losses, 0).reason, RELOCK_LOST_GONE);
    proxy_refuse(t->proxy, false);
    release_all_but_one(&many);
}

/* As if they had been held for max_hold_ms. */
static void reach_the_cap(const struct many *many)
{
    struct relock_client *client = many->client;
    struct relock_hold *hold;

    relock_mutex_lock(&client->mutex);
    RELOCK_HOLDS_FOREACH(client, hold)
    hold->cap_ms = relock_clock_now_ms();
    relock_mutex_unlock(&client->mutex);
}

/* Nothing renews it any more, but its end is found. */
static void a_hold_past_its_cap_is_only_checked(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD, "renew_many");

    renew_now(many.client);
    assert_true(proxy_met(batch, 1));
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    reach_the_cap(&many);
    proxy_let_go(batch);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(t->f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_int_equal(proxy_count(t->proxy, "check 1 " ONE), 1);
    assert_int_equal(proxy_count(t->proxy, "renew 1"), 0);
    release_all_but_one(&many);
}

/* ---- refused ------------------------------------------------------------------------------- */

static void a_batch_that_is_refused_is_renewed_one_by_one(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    size_t n;

    proxy_each(t->proxy, PROXY_REFUSE, "renew_many");
    assert_renewed(&many, N_LOCKS);
    assert_true(log_wait(t->f->log, "renews many locks failed: " PROXY_REFUSAL, SOON_MS));
    n = proxy_count(t->proxy, "renew_many");
    assert_renewed(&many, N_LOCKS);
    assert_int_equal(proxy_count(t->proxy, "renew_many"), n);
    assert_true(proxy_count(t->proxy, "renew 1") >= 2 * (size_t)N_LOCKS);
    assert_int_equal(log_count(t->f->log, "renews many locks failed"), 1);
    release_all(t, &many);
}

/* Commands that the server has refused for a right since ACL LOG RESET, all for the same one. */
static size_t n_refused(struct faults *t)
{
    const char *log = probe_list(t->f->probe, "ACL LOG");
    unsigned n = 0;

    assert_int_equal(sscanf(log, "count %u", &n), 1);
    return n;
}

static void a_key_without_a_right_keeps_no_other_from_being_renewed(void **state)
{
    struct faults *t = *state;
    struct many many;

    faults_worker(t, "~* &* +@all");
    many = many_of(t, &(struct relock_options){.user = WORKER, .flags = RELOCK_NO_TRACKING});
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " resetkeys ~orders8 ~orders1*"
                                            " ~orders2* ~orders3* ~orders4 ~orders5 ~orders6"
                                            " ~orders9 ~orders0"),
                     0);
    assert_renewed(&many, N_LOCKS - 1);
    assert_true(log_wait(t->f->log, ONE ": owner", SOON_MS)); /* renewal refused */
    assert_renewed(&many, N_LOCKS - 1);
    assert_int_equal(probe_int(t->f->probe, "ACL SETUSER " WORKER " ~*"), 0);
    assert_renewed(&many, N_LOCKS);
    assert_int_equal(log_count(t->f->log, "renews many locks failed"), 1);
    release_all(t, &many);
}

/* Nor would a user of 0.9 have it, with the rights that were documented then. */
static void without_the_right_to_pexpireat_a_batch_renews_all_locks(void **state)
{
    struct faults *t = *state;
    struct many many;

    faults_worker(t, "~* &* +@all -pexpireat");
    many = many_of(t, &(struct relock_options){.user = WORKER, .flags = RELOCK_NO_TRACKING});
    assert_int_equal(probe_int(t->f->probe, "ACL LOG RESET"), 0);
    assert_renewed(&many, N_LOCKS);
    assert_true(proxy_count(t->proxy, "renew_many") > 0);
    assert_int_equal(proxy_count(t->proxy, "renew 1"), 0);
    assert_true(n_refused(t) <= proxy_count(t->proxy, "renew_many"));
    assert_int_equal(log_count(t->f->log, "pexpireat"), 0);
    release_all(t, &many);
}

/* It would refuse to renew each lock, too. One that is alone in an iteration is asked for alone. */
static void a_batch_that_a_busy_server_refuses_is_sent_again(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    faults_be_busy(t);
    renew_now(many.client);
    assert_true(proxy_counts(t->proxy, "-BUSY", 2));
    assert_true(log_wait(t->f->log, "renewal refused", SOON_MS));
    faults_be_busy_no_more(t);
    assert_true(wait_for_renewals(many.client, 0, N_LOCKS));
    assert_true(proxy_count(t->proxy, "renew 1") < N_LOCKS);
    assert_int_equal(log_count(t->f->log, "renews many locks failed"), 0);
    release_all(t, &many);
}

/* ---- on the way ---------------------------------------------------------------------------- */

/* At how many times the locks are renewed next. None is later than after a renewal now. */
static unsigned n_times(const struct many *many)
{
    struct relock_client *client = many->client;
    uint64_t until_ms = relock_clock_now_ms() + slow_ms(INTERVAL_MS);
    uint64_t times[N_LOCKS];
    struct relock_hold *hold;
    unsigned n = 0;

    relock_mutex_lock(&client->mutex);
    RELOCK_HOLDS_FOREACH(client, hold)
    {
        unsigned i = 0;

        while (i < n && times[i] != hold->renew_at_ms)
            i++;
        times[i] = hold->renew_at_ms;
        n += i == n;
        assert_true(hold->renew_at_ms <= until_ms);
    }
    relock_mutex_unlock(&client->mutex);
    return n;
}

static void a_batch_that_is_cut_off_is_sent_again(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);

    assert_renewed(&many, N_LOCKS);
    assert_int_equal(n_times(&many), 1);
    proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "renew_many");
    assert_renewed(&many, N_LOCKS);
    assert_int_equal(stats_of(many.client).reconnects, 1);
    assert_in_range(n_times(&many), 10, N_LOCKS); /* not at the same time for ever */
    release_all(t, &many);
}

static void a_release_does_not_wait_for_a_batch(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD, "renew_many");

    renew_now(many.client);
    assert_true(proxy_met(batch, 1));
    for (size_t i = 0; i < N_LOCKS; i++) {
        assert_result(relock_extend(many.locks[i], 0, LEASE_MS), RELOCK_OK);
        assert_result(relock_unlock(many.locks[i]), RELOCK_OK);
        assert_result(relock_trylock(many.locks[i]), RELOCK_OK);
    }
    proxy_let_go(batch);
    assert_renewed(&many, N_LOCKS);
    release_all(t, &many);
}

#define HELD_UP_MS 600 /* more than the drift that is taken off a lease */

/* The time on the way does not count as certain. */
static void a_batch_makes_holds_certain_from_before_it_was_sent(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    struct proxy_rule *batch = proxy_next(t->proxy, PROXY_HOLD_REPLY, "renew_many");
    uint64_t sent_ms;

    renew_now(many.client);
    assert_true(proxy_met(batch, 1));
    sent_ms = now_ms();
    let_pass(slow_ms(HELD_UP_MS));
    proxy_let_go(batch);
    assert_true(wait_for_renewals(many.client, 0, N_LOCKS));
    for (size_t i = 0; i < N_LOCKS; i++) {
        uint64_t asked_ms = now_ms();

        assert_true(asked_ms + relock_valid_ms(many.locks[i]) <=
                    sent_ms + slow_ms(LEASE_MS) + TWO_CLOCKS_MS);
    }
    release_all(t, &many);
}

/* The script runs a second time behind EXISTS, and its writes end the tracking. No renewal finds
 * the loss, but a report. */
static void locks_stay_tracked_after_a_batch_whose_script_was_loaded(void **state)
{
    struct faults *t = *state;
    struct many many = tracked_many(t);
    size_t n_loaded = proxy_count(t->proxy, "SCRIPT LOAD");
    uint64_t renewed;

    assert_int_equal(probe_int(t->f->probe, "SCRIPT FLUSH"), 0);
    assert_renewed(&many, N_LOCKS);
    assert_int_equal(proxy_count(t->proxy, "SCRIPT LOAD"), n_loaded + 1);
    assert_true(wait_until(are_tracked, many.client, SOON_MS)); /* by checks */
    renewed = stats_of(many.client).renewed;
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_int_equal(stats_of(many.client).renewed, renewed);
    release_all_but_one(&many);
}

/* Redis is to report changes from EXISTS on. */
static void a_key_that_goes_between_a_batch_and_its_tracking_is_noticed(void **state)
{
    struct faults *t = *state;
    struct many many = tracked_many(t);
    struct proxy_rule *exists = proxy_next(t->proxy, PROXY_HOLD, "EXISTS");

    renew_now(many.client);
    assert_true(proxy_met(exists, 1));
    assert_int_equal(probe_int(t->f->probe, "DEL " ONE), 1);
    proxy_let_go(exists);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_int_equal(stats_of(many.client).renewed, N_LOCKS);
    release_all_but_one(&many);
}

/* ---- turns --------------------------------------------------------------------------------- */

#define TURN_HOLDS 32

/* All are due at the same time, from `after_ms` on in turns, and `ahead_ms` later without. Returns
 * when that is. */
static uint64_t renew_in_turns(const struct many *many, uint64_t after_ms, uint64_t ahead_ms)
{
    struct relock_client *client = many->client;
    uint64_t now_ms = relock_clock_now_ms();
    uint64_t due_ms = now_ms + after_ms + ahead_ms;
    struct relock_hold *hold;

    relock_mutex_lock(&client->mutex);
    client->guarded.batches.ahead_ms = ahead_ms;
    RELOCK_HOLDS_FOREACH(client, hold)
    {
        hold->renew_at_ms = due_ms;
        relock_holds_arm(client, hold, now_ms);
    }
    relock_mutex_unlock(&client->mutex);
    return due_ms;
}

/* They are due much later. */
static void each_turn_waits_for_the_answers_to_the_one_before(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    struct proxy_rule *first = proxy_next(t->proxy, PROXY_HOLD_REPLY, "renew_many");

    (void)renew_in_turns(&many, 100, slow_ms(SOON_MS));
    assert_true(proxy_met(first, 1));
    let_pass(100);
    assert_int_equal(proxy_count(t->proxy, "renew_many"), 1);
    proxy_let_go(first);
    assert_true(wait_for_renewals(many.client, 0, N_LOCKS));
    assert_int_equal(proxy_count(t->proxy, "renew_many"), (N_LOCKS + TURN_HOLDS - 1) / TURN_HOLDS);
    release_all(t, &many);
}

/* All that the first turn left are renewed when they are due, and not before, by one script. */
static void an_unanswered_turn_holds_up_no_renewal_that_is_due(void **state)
{
    struct faults *t = *state;
    struct many many = untracked_many(t);
    struct proxy_rule *first = proxy_next(t->proxy, PROXY_HOLD_REPLY, "renew_many");
    uint64_t due_ms = renew_in_turns(&many, 100, slow_ms(1000));

    assert_true(proxy_met(first, 1));
    assert_true(proxy_counts(t->proxy, "renew_many", 2));
    assert_true(now_ms() + TWO_CLOCKS_MS >= due_ms);
    assert_int_equal(stats_of(many.client).reconnects, 0); /* it was not for want of an answer */
    proxy_let_go(first);
    assert_true(wait_for_renewals(many.client, 0, N_LOCKS));
    assert_int_equal(proxy_count(t->proxy, "renew_many"), 2);
    release_all(t, &many);
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
        FAULT_TEST(without_the_right_to_pexpireat_a_batch_renews_all_locks),
        FAULT_TEST(a_batch_that_a_busy_server_refuses_is_sent_again),
        FAULT_TEST(a_batch_that_is_cut_off_is_sent_again),
        FAULT_TEST(a_release_does_not_wait_for_a_batch),
        FAULT_TEST(a_batch_makes_holds_certain_from_before_it_was_sent),
        FAULT_TEST(locks_stay_tracked_after_a_batch_whose_script_was_loaded),
        FAULT_TEST(a_key_that_goes_between_a_batch_and_its_tracking_is_noticed),
        FAULT_TEST(each_turn_waits_for_the_answers_to_the_one_before),
        FAULT_TEST(an_unanswered_turn_holds_up_no_renewal_that_is_due),
    };

    return FAULT_TESTS_RUN(tests);
}
