/*
 * A plain lock whose commands are not answered, or run late. Redis has no levels of it, so nothing
 * needs correcting, but a stranger's or a newer hold must stay as it is.
 *
 * Its argument:
 *
 *     (none)     CLIENT KILL prevents late commands
 *     no-kill    they do run
 */
#include "faults.h"

#include "support/plain_peer.h"

#include <stdio.h>
#include <string.h>

static const enum proxy_deed cuts[] = {PROXY_CUT, PROXY_CUT_UNANSWERED};
static const enum proxy_deed losses[] = {PROXY_SWALLOW, PROXY_LOSE};
static bool can_kill = true;

static struct relock_client *client_with(struct faults *t, uint64_t lease_ms,
                                         uint64_t command_timeout_ms)
{
    faults_worker(t, can_kill ? "~* &* +@all" : "~* &* +@all -client +client|info");
    return faults_client(t, &(struct relock_options){.user = WORKER,
                                                     .password = PASSWORD,
                                                     .watchdog_timeout_ms = lease_ms,
                                                     .command_timeout_ms = command_timeout_ms});
}

static struct relock_lock *plainlock(struct faults *t, struct relock_client *client)
{
    return fixture_lock_of(t->f, client, "orders", relock_plainlock_new);
}

static struct relock_lock *lock_of(struct faults *t)
{
    return plainlock(t, client_with(t, LONG_MS, short_ms()));
}

/* For tests in which each command is answered in the end. */
static struct relock_lock *patient_lock_of(struct faults *t)
{
    return plainlock(t, client_with(t, LONG_MS, slow_ms(SOON_MS)));
}

/* The holder in Redis; valid until the next call but one. */
static const char *token_of(struct faults *t)
{
    static char tokens[2][64];
    static unsigned n;
    char *token = tokens[n++ % 2];

    snprintf(token, sizeof(tokens[0]), "%s", probe_text(t->f->probe, "GET orders"));
    return token;
}

static void is_held(struct relock_lock *lock, unsigned levels)
{
    struct relock_grant grant;

    assert_result(relock_check(lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, levels);
}

static void is_free(struct faults *t)
{
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    assert_int_equal(losses_count(t->f->losses), 0);
}

static void stranger_still_has_it(struct faults *t)
{
    assert_string_equal(token_of(t), PLAIN_PEER);
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
}

/* ---- not answered -------------------------------------------------------------------------- */

static void an_acquire_that_is_cut_off_is_repeated_with_its_token(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        proxy_next(t->proxy, cuts[i], "plain_lock 1 orders");
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_int_equal(proxy_count(t->proxy, "plain_lock 1 orders"), 2 * (i + 1));
        is_held(lock, 1);
        assert_int_equal(strlen(token_of(t)), 40);
        assert_result(relock_unlock(lock), RELOCK_OK);
        is_free(t);
    }
}

static void an_acquire_without_an_answer_is_not_held_and_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        proxy_next(t->proxy, losses[i], "plain_lock 1 orders");
        assert_result(relock_lock(lock), RELOCK_E_CONN);
        assert_true(proxy_counts(t->proxy, "plain_unlock 1 orders * 0", i + 1));
        is_free(t);
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    }
}

static void an_acquire_that_is_refused_after_it_was_cut_off_leaves_the_stranger_alone(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    proxy_next(t->proxy, PROXY_CUT, "plain_lock 1 orders");
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_true(proxy_counts(t->proxy, "plain_unlock 1 orders * 0", 1));
    stranger_still_has_it(t);
}

static void a_level_counts_locally_though_its_command_is_lost(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);

    assert_result(relock_lock(lock), RELOCK_OK);
    for (size_t i = 0; i < 2; i++) {
        proxy_next(t->proxy, cuts[i], "plain_lock 1 orders * * 2");
        assert_result(relock_lock(lock), RELOCK_OK);
        is_held(lock, 2);
        proxy_next(t->proxy, cuts[i], "plain_unlock 1 orders * 1");
        assert_result(relock_unlock(lock), RELOCK_OK);
        is_held(lock, 1);

        proxy_next(t->proxy, losses[i], "plain_lock 1 orders * * 2");
        assert_result(relock_lock(lock), RELOCK_E_CONN);
        is_held(lock, 1);
        assert_result(relock_lock(lock), RELOCK_OK);
        proxy_next(t->proxy, losses[i], "plain_unlock 1 orders * 1");
        assert_result(relock_unlock(lock), RELOCK_E_CONN);
        is_held(lock, 1);
    }
    assert_result(relock_unlock(lock), RELOCK_OK);
    is_free(t);
}

static void a_last_unlock_that_is_cut_off_is_ok(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        proxy_next(t->proxy, cuts[i], "plain_unlock 1 orders * 0");
        assert_result(relock_unlock(lock), RELOCK_OK);
        is_free(t);
    }
}

static void a_last_unlock_that_is_cut_off_is_ok_though_a_stranger_has_the_lock(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = patient_lock_of(t);
    struct actor *owner = actor_start();
    struct proxy_rule *repeat;

    assert_result(actor_lock(owner, lock), RELOCK_OK);
    proxy_next(t->proxy, PROXY_CUT_UNANSWERED, "plain_unlock 1 orders * 0");
    repeat = proxy_next(t->proxy, PROXY_HOLD, "plain_unlock 1 orders * 0");
    actor_begin(owner, (actor_step_fn *)relock_unlock, lock);
    assert_true(proxy_met(repeat, 1));
    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    proxy_let_go(repeat);
    assert_result(actor_result(owner), RELOCK_OK);
    stranger_still_has_it(t);
}

static void a_last_unlock_without_an_answer_leaves_nothing(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        proxy_next(t->proxy, losses[i], "plain_unlock 1 orders * 0");
        assert_result(relock_unlock(lock), RELOCK_E_CONN);
        is_free(t);
        assert_result(relock_unlock(lock), RELOCK_NOT_OWNER);
    }
}

static void a_renewal_that_is_cut_off_is_retried(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with(t, outlast_ms(2600), slow_ms(SOON_MS));
    struct relock_lock *lock = plainlock(t, client);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_CUT, "plain_renew 1 orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(proxy_met(rule, 1));
    assert_true(wait_for_renewals(client, 0, 2));
    assert_true(relock_valid_ms(lock) > 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
    is_free(t);
}

/* ---- late ---------------------------------------------------------------------------------- */

static void a_late_acquire_takes_nothing_from_a_stranger(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "plain_lock 1 orders");

    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_true(proxy_counts(t->proxy, "plain_unlock 1 orders * 0", 1));
    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    faults_run_late(rule, can_kill);
    stranger_still_has_it(t);
}

static void a_late_acquire_is_not_the_next_hold_of_its_owner(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "plain_lock 1 orders");
    char token[64];

    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(token, sizeof(token), "%s", token_of(t));
    faults_run_late(rule, can_kill);
    assert_string_equal(token_of(t), token);
    is_held(lock, 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    is_free(t);
}

static void a_late_level_creates_no_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "plain_lock 1 orders * * 2");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_result(relock_unlock(lock), RELOCK_OK);
    faults_run_late(rule, can_kill);
    assert_int_equal(probe_n_keys(t->f->probe), 0);
}

static void a_late_unlock_frees_no_newer_hold_and_no_strangers(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);

    for (int of_stranger = 0; of_stranger < 2; of_stranger++) {
        struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "plain_unlock 1 orders * 0");
        char token[64];

        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_E_CONN);
        is_free(t);
        if (of_stranger)
            assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
        else
            assert_result(relock_lock(lock), RELOCK_OK);
        snprintf(token, sizeof(token), "%s", token_of(t));
        faults_run_late(rule, can_kill);
        assert_string_equal(token_of(t), token);
        if (of_stranger)
            stranger_still_has_it(t);
        else
            assert_result(relock_unlock(lock), RELOCK_OK);
    }
}

static void a_late_extension_prolongs_no_newer_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "plain_renew 1 orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_extend(lock, 0, 3 * (uint64_t)LONG_MS), RELOCK_E_CONN);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    faults_run_late(rule, can_kill);
    assert_true(probe_pttl(t->f->probe, "orders") <= LONG_MS);
    stranger_still_has_it(t);
}

static void a_late_settling_frees_no_newer_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *settling = proxy_next(t->proxy, PROXY_HOLD, "plain_unlock 1 orders * 0");
    char token[64];

    proxy_next(t->proxy, PROXY_LOSE, "plain_lock 1 orders");
    assert_result(relock_lock(lock), RELOCK_E_CONN);
    assert_true(proxy_met(settling, 1));
    assert_result(relock_lock(lock), RELOCK_OK);
    snprintf(token, sizeof(token), "%s", token_of(t));
    proxy_let_go(settling);
    assert_int_equal(proxy_fate(settling), PROXY_ANSWERED);
    assert_string_equal(token_of(t), token);
    assert_result(relock_unlock(lock), RELOCK_OK);
    is_free(t);
}

static void a_late_forced_unlock_frees_no_newer_hold(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = lock_of(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "plain_force_unlock 1 orders");

    assert_true(plain_peer_lock(t->f->probe, "orders", PLAIN_PEER, LONG_MS));
    assert_result(relock_force_unlock(lock), RELOCK_E_CONN);
    assert_true(plain_peer_unlock(t->f->probe, "orders", PLAIN_PEER));
    assert_result(relock_lock(lock), RELOCK_OK);
    proxy_let_go(rule);
    assert_int_equal(proxy_fate(rule), PROXY_ANSWERED);
    assert_int_equal(strlen(token_of(t)), 40);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(an_acquire_that_is_cut_off_is_repeated_with_its_token),
        FAULT_TEST(an_acquire_without_an_answer_is_not_held_and_leaves_nothing),
        FAULT_TEST(an_acquire_that_is_refused_after_it_was_cut_off_leaves_the_stranger_alone),
        FAULT_TEST(a_level_counts_locally_though_its_command_is_lost),
        FAULT_TEST(a_last_unlock_that_is_cut_off_is_ok),
        FAULT_TEST(a_last_unlock_that_is_cut_off_is_ok_though_a_stranger_has_the_lock),
        FAULT_TEST(a_last_unlock_without_an_answer_leaves_nothing),
        FAULT_TEST(a_renewal_that_is_cut_off_is_retried),
        FAULT_TEST(a_late_acquire_takes_nothing_from_a_stranger),
        FAULT_TEST(a_late_acquire_is_not_the_next_hold_of_its_owner),
        FAULT_TEST(a_late_level_creates_no_hold),
        FAULT_TEST(a_late_unlock_frees_no_newer_hold_and_no_strangers),
        FAULT_TEST(a_late_extension_prolongs_no_newer_hold),
        FAULT_TEST(a_late_settling_frees_no_newer_hold),
        FAULT_TEST(a_late_forced_unlock_frees_no_newer_hold),
    };

    can_kill = argc < 2 || strcmp(argv[1], "no-kill") != 0;
    return FAULT_TESTS_RUN(tests);
}
