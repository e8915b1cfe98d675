/* Late replies. Certainty counts from the send of the command. A reply belongs to the hold for
 * which the command was sent, and revives no lost hold. */
#include "faults.h"

#define LATE_MS 400
#define RELEASE_MS 1300 /* a release is answered within this time, also on a slow machine */

/* The delay of a reply. Renewals are repeated after three tenths of the lease. */
static struct relock_client *client_with_lease(struct faults *t, uint64_t lease_ms)
{
    return faults_client(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING,
                                                     .watchdog_timeout_ms = lease_ms,
                                                     .recheck_ms = LONG_MS,
                                                     .command_timeout_ms = slow_ms(SOON_MS)});
}

struct step {
    struct relock_lock *lock;
    uint64_t lease_ms;
};

static int extend(void *arg)
{
    struct step *step = arg;

    return relock_extend(step->lock, 0, step->lease_ms);
}

struct extension {
    struct relock_lock *lock;
    uint64_t owner;
};

static int extend_for(void *arg)
{
    struct extension *extension = arg;

    return relock_extend(extension->lock, extension->owner, 1000);
}

/* ---- what is certain ----------------------------------------------------------------------- */

static void is_certain_since_it_was_asked(struct actor *owner, struct proxy_rule *answer,
                                          const struct step *step)
{
    assert_int_equal(proxy_fate(answer), PROXY_ANSWERED);
    let_pass(LATE_MS);
    proxy_let_go(answer);
    assert_result(actor_result(owner), RELOCK_OK);
    assert_result(actor_check(owner, step->lock), RELOCK_OK);
    assert_true(actor_grant(owner).valid_ms <= step->lease_ms - LATE_MS);
}

static void a_late_answer_makes_no_hold_certain_for_longer(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, client_with_lease(t, LONG_MS), "orders");
    struct step step = {lock, slow_ms(5000)};
    struct relock_how how = {.lease_ms = step.lease_ms};
    struct actor *owner = actor_start();
    struct proxy_rule *answer;

    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders * * 1");
    actor_begin_acquire(owner, lock, &how);
    is_certain_since_it_was_asked(owner, answer, &step);

    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "extend 1 orders");
    actor_begin(owner, extend, &step);
    is_certain_since_it_was_asked(owner, answer, &step);

    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders * * 2");
    actor_begin_acquire(owner, lock, &how);
    is_certain_since_it_was_asked(owner, answer, &step);

    assert_result(actor_unlock(owner, lock), RELOCK_OK);
    assert_result(actor_unlock(owner, lock), RELOCK_OK);
}

/* This thread holds the lock, and the reply to its first renewal is in flight. */
static struct relock_client *hold_until_renewal(struct faults *t, uint64_t lease_ms,
                                                struct relock_lock **lock,
                                                struct proxy_rule **answer)
{
    struct relock_client *client = client_with_lease(t, lease_ms);

    *lock = fixture_lock(t->f, client, "orders");
    *answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "renew 1 orders");
    assert_result(relock_lock(*lock), RELOCK_OK);
    assert_int_equal(proxy_fate(*answer), PROXY_ANSWERED);
    return client;
}

static void a_late_answer_to_a_renewal_makes_no_hold_certain_for_longer(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock;
    struct proxy_rule *answer;
    uint64_t lease_ms = outlast_ms(8000); /* it is renewed after three tenths */
    struct relock_client *client = hold_until_renewal(t, lease_ms, &lock, &answer);
    uint64_t asked_ms = now_ms(), looked_ms; /* sent then, or before */

    let_pass(LATE_MS);
    proxy_let_go(answer);
    assert_true(wait_for_renewals(client, 0, 1));
    looked_ms = now_ms();
    assert_true(looked_ms + relock_valid_ms(lock) <= asked_ms + lease_ms);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* ---- for which hold ------------------------------------------------------------------------ */

static void a_late_answer_to_a_renewal_is_not_for_the_next_hold(void **state)
{
    struct faults *t = *state;
    struct relock_how how = {.lease_ms = slow_ms(3000)};
    struct relock_lock *lock;
    struct proxy_rule *answer;

    (void)hold_until_renewal(t, slow_ms(6000), &lock, &answer);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    proxy_let_go(answer);
    let_pass(100); /* the reply has arrived */
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_true(relock_valid_ms(lock) < how.lease_ms);
    assert_true(probe_pttl(t->f->probe, "orders") <= (long long)how.lease_ms);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The reply proves that the hold existed when the previous hand-off was to be verified, and no
 * more. */
static void a_late_answer_does_not_verify_a_hold_that_was_handed_off_since(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING,
                                                  .watchdog_timeout_ms = LONG_MS,
                                                  .handoff_ms = LONG_MS,
                                                  .command_timeout_ms = slow_ms(SOON_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "renew 1 orders");
    struct actor *second = actor_start(), *third = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_for_login(t->f->probe)); /* hand-offs are verified over the second one */
    actor_begin_lock(second, lock);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_acquire(third, lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER});
    assert_true(wait_for_waiters(client, 2));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_int_equal(proxy_fate(answer), PROXY_ANSWERED);
    assert_int_equal(probe_int(t->f->probe, "DEL orders"), 1);
    assert_result(actor_unlock(second, lock), RELOCK_OK);
    assert_result(actor_result(third), RELOCK_OK);
    assert_int_equal(stats_of(client).passed_on, 2);
    proxy_let_go(answer);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_true(losses_get(t->f->losses, 0).owner == actor_grant(third).owner);
    assert_result(actor_unlock(third, lock), RELOCK_LOST);
}

/* ---- after a loss -------------------------------------------------------------------------- */

/* A hold that must be lost while a command is in flight, and not before. */
#define LOST_AFTER_MS 1500

/* Redis granted it in time and for longer, but the owner has been told that the lock is lost. */
static void stays_lost(struct faults *t, struct actor *owner, struct relock_lock *lock,
                       struct proxy_rule *answer)
{
    assert_int_equal(proxy_fate(answer), PROXY_ANSWERED);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    proxy_let_go(answer);
    assert_result(actor_result(owner), RELOCK_LOST);
    assert_result(actor_check(owner, lock), RELOCK_LOST);
    assert_int_equal(actor_grant(owner).valid_ms, 0);
    assert_result(actor_unlock(owner, lock), RELOCK_LOST);
    assert_result(actor_unlock(owner, lock), RELOCK_NOT_OWNER);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
}

static void a_level_that_is_granted_late_brings_no_hold_back(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, client_with_lease(t, LONG_MS), "orders");
    struct relock_how how = {.lease_ms = outlast_ms(LOST_AFTER_MS)};
    struct actor *owner = actor_start();
    struct proxy_rule *answer;

    assert_result(actor_acquire(owner, lock, &how), RELOCK_OK);
    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders * * 2");
    actor_begin_lock(owner, lock);
    stays_lost(t, owner, lock, answer);
}

static void an_extension_that_is_granted_late_brings_no_hold_back(void **state)
{
    struct faults *t = *state;
    struct relock_lock *lock = fixture_lock(t->f, client_with_lease(t, LONG_MS), "orders");
    struct relock_how how = {.lease_ms = outlast_ms(LOST_AFTER_MS)};
    struct step step = {lock, LONG_MS};
    struct actor *owner = actor_start();
    struct proxy_rule *answer;

    assert_result(actor_acquire(owner, lock, &how), RELOCK_OK);
    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "extend 1 orders");
    actor_begin(owner, extend, &step);
    stays_lost(t, owner, lock, answer);
}

/* The renewal is repeated every three tenths of the lease, by a thread that may be late. */
static void a_renewal_that_is_answered_late_brings_no_hold_back(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = client_with_lease(t, slow_ms(4000));
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *answers = proxy_each(t->proxy, PROXY_HOLD_REPLY, "renew 1 orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(losses_wait(t->f->losses, 1, SOON_MS));
    assert_true(proxy_met(answers, 1));
    proxy_let_go(answers);
    let_pass(100); /* the reply has arrived */
    assert_result(relock_check(lock, 0, NULL), RELOCK_LOST);
    assert_int_equal(stats_of(client).renewed, 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
}

/* The waiter is giving back a grant that came too late. Its call is about to fail, so nobody may
 * hand the lock off to it: it would hold the lock for ever without knowing. */
static void a_waiter_that_releases_a_late_grant_gets_no_hand_off(void **state)
{
    struct faults *t = *state;
    uint64_t lease_ms = outlast_ms(1500);
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING,
                                                  .watchdog_timeout_ms = lease_ms,
                                                  .recheck_ms = LONG_MS,
                                                  .handoff_ms = SOON_MS,
                                                  .connections = 2,
                                                  .command_timeout_ms = slow_ms(SOON_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct proxy_rule *late = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders");
    struct proxy_rule *given_back = proxy_next(t->proxy, PROXY_HOLD_REPLY, "unlock 1 orders * 0");
    struct actor *waiter = actor_start();
    struct actor *other = actor_start();

    actor_begin_timedlock(waiter, lock, SOON_MS);
    assert_int_equal(proxy_fate(late), PROXY_ANSWERED);
    let_pass(lease_ms);
    proxy_let_go(late);
    assert_int_equal(proxy_fate(given_back), PROXY_ANSWERED);

    assert_result(actor_trylock(other, lock), RELOCK_OK);
    assert_result(actor_unlock(other, lock), RELOCK_OK);
    proxy_let_go(given_back);

    assert_result(actor_result(waiter), RELOCK_E_CONN);
    assert_result(actor_check(waiter, lock), RELOCK_NOT_OWNER);
    assert_int_equal(stats_of(client).holds, 0);
    assert_result(actor_trylock(other, lock), RELOCK_OK);
    assert_result(actor_unlock(other, lock), RELOCK_OK);
}

/* While an extension is in flight, another thread gives a level of the same owner back without
 * being able to tell Redis. The reply to the extension does not mean that Redis knows. */
static void a_level_dropped_during_an_extension_is_not_handed_off(void **state)
{
    struct faults *t = *state;
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.flags = RELOCK_NO_TRACKING,
                                                  .handoff_ms = LONG_MS,
                                                  .release_timeout_ms = outlast_ms(RELEASE_MS),
                                                  .command_timeout_ms = slow_ms(SOON_MS)});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_how how = {.owner = relock_owner_new()};
    struct extension extension = {lock, how.owner};
    struct actor *extending = actor_start();
    struct actor *waiter = actor_start();
    struct proxy_rule *answer;

    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    assert_result(relock_acquire(lock, &how, NULL), RELOCK_OK);
    answer = proxy_next(t->proxy, PROXY_HOLD_REPLY, "extend 1 orders");
    actor_begin(extending, extend_for, &extension);
    assert_int_equal(proxy_fate(answer), PROXY_ANSWERED);
    assert_result(relock_release(lock, how.owner), RELOCK_E_CONN);
    proxy_let_go(answer);
    assert_result(actor_result(extending), RELOCK_OK);

    actor_begin_lock(waiter, lock);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_release(lock, how.owner), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_int_equal(probe_only_value(t->f->probe, "orders"), 1);
    assert_result(actor_unlock(waiter, lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_late_answer_makes_no_hold_certain_for_longer),
        FAULT_TEST(a_late_answer_to_a_renewal_makes_no_hold_certain_for_longer),
        FAULT_TEST(a_late_answer_to_a_renewal_is_not_for_the_next_hold),
        FAULT_TEST(a_late_answer_does_not_verify_a_hold_that_was_handed_off_since),
        FAULT_TEST(a_level_that_is_granted_late_brings_no_hold_back),
        FAULT_TEST(an_extension_that_is_granted_late_brings_no_hold_back),
        FAULT_TEST(a_renewal_that_is_answered_late_brings_no_hold_back),
        FAULT_TEST(a_waiter_that_releases_a_late_grant_gets_no_hand_off),
        FAULT_TEST(a_level_dropped_during_an_extension_is_not_handed_off),
    };

    return FAULT_TESTS_RUN(tests);
}
