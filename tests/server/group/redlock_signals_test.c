/* Red locks: signals that a waiter must not miss, in each order in which it could miss them. */
#include "support/actor.h"
#include "support/red.h"

/* The lease is so long that a server has a second for its reply. */
#define LONG_LEASE_MS 60000

static struct red very_patient_red(struct servers *s)
{
    struct relock_options options = {
        .recheck_ms = NEVER_MS, .watchdog_timeout_ms = LONG_LEASE_MS, .flags = RELOCK_NO_TRACKING};
    struct red red = red_new_by_proxy(s, &options);

    red_settle(s, &red, s->n);
    return red;
}

/* Each server holds a command of `b` back, or its reply, until `a` has released the lock. */
static void a_release_is_not_missed(struct servers *s, struct red *a, struct red *b,
                                    enum proxy_deed deed, const char *command)
{
    struct proxy_rule *rules[SERVERS_MAX];
    struct actor *actor = actor_start();

    red_lock_on_all(s, a);
    for (size_t i = 0; i < s->n; i++)
        rules[i] = proxy_next(s->proxy[i], deed, command);
    actor_begin_lock(actor, b->lock);
    for (size_t i = 0; i < s->n; i++)
        assert_true(proxy_met(rules[i], 1));
    red_unlock(a);
    assert_true(red_wait_keys(s, 0));
    let_pass(50);
    for (size_t i = 0; i < s->n; i++)
        proxy_let_go(rules[i]);
    red_assert_gets_in(actor, b);
}

/* The refusals arrive after the messages of the release. The lock was waited for before, so its
 * subscriptions still exist. */
static void a_release_before_its_refusal_is_known_is_not_missed(void **state)
{
    struct servers *s = *state;
    struct red a = very_patient_red(s), b = very_patient_red(s);
    struct actor *actor = actor_start();

    assert_result(relock_lock(a.lock), RELOCK_OK);
    actor_begin_lock(actor, b.lock);
    red_assert_sleeps(s, &b, actor);
    red_unlock(&a);
    red_assert_gets_in(actor, &b);
    assert_true(red_wait_keys(s, 0));

    a_release_is_not_missed(s, &a, &b, PROXY_HOLD_REPLY, "EVALSHA");
}

static void a_release_before_the_subscriptions_is_not_missed(void **state)
{
    struct servers *s = *state;
    struct red a = very_patient_red(s), b = very_patient_red(s);

    a_release_is_not_missed(s, &a, &b, PROXY_HOLD, "SUBSCRIBE");
}

/* ---- strangers that hold some of the servers ----------------------------------------------- */

/* Strangers hold the lock on the servers before `late`. A message makes the waiter ask again, and
 * the reply of the server `late` is kept back; `n_before` commands were sent to it before. */
static struct proxy_rule *wait_for_late_reply(struct servers *s, struct red *red,
                                              struct actor *actor, size_t late, size_t *n_before)
{
    struct proxy_rule *rule;

    red_strangers_take(s, 0, late);
    actor_begin_lock(actor, red->lock);
    red_assert_sleeps(s, red, actor);
    rule = proxy_next(s->proxy[late], PROXY_HOLD_REPLY, "EVALSHA");
    *n_before = proxy_count(s->proxy[late], "EVALSHA");
    red_publish_release(s, 0);
    assert_true(proxy_met(rule, 1));
    return rule;
}

/* It may announce a vote that the waiter itself has released: such messages would wake it for ever.
 */
static void a_message_before_a_grant_is_no_signal(void **state)
{
    enum { IN_THE_WAY = 3 };
    struct servers *s = *state;
    struct red red = very_patient_red(s);
    struct actor *actor = actor_start();
    struct proxy_rule *rule;
    size_t n;

    rule = wait_for_late_reply(s, &red, actor, IN_THE_WAY, &n);
    red_publish_release(s, IN_THE_WAY);
    let_pass(50);
    proxy_let_go(rule);
    assert_true(proxy_counts(s->proxy[IN_THE_WAY], "EVALSHA", n + 2));
    assert_true(red_wait_quiet(s));
    /* And released. On a slow machine the message came after the reply, and was a signal: it asks
     * and releases once more, and on a slower one again. */
    assert_true(late_unless(proxy_count(s->proxy[IN_THE_WAY], "EVALSHA") <= n + 4));

    red_delete_keys(s, 0, 1);
    red_publish_release(s, 0);
    red_assert_gets_in(actor, &red);
    assert_true(red_wait_keys(s, 2));
    red_delete_keys(s, 1, IN_THE_WAY);
}

/* The waiter's own late vote, which it releases, refuses its next attempt. */
static void a_waiter_blocked_by_its_own_late_vote_is_woken_when_that_ends(void **state)
{
    enum { LATE = 3 };
    struct servers *s = *state;
    struct red red = very_patient_red(s);
    struct actor *actor = actor_start();
    struct proxy_rule *rule;
    size_t n;

    rule = wait_for_late_reply(s, &red, actor, LATE, &n);
    assert_true(red_wait_quiet(s));
    red_delete_keys(s, LATE - 1, LATE);
    red_publish_release(s, LATE - 1);
    assert_true(proxy_counts(s->proxy[LATE], "EVALSHA", n + 2));
    let_pass(50);
    proxy_let_go(rule);
    red_assert_gets_in(actor, &red);
    assert_true(red_wait_keys(s, 2));
    red_delete_keys(s, 0, 2);
}

/* Two grant, two refuse, and the fifth, which would grant, hangs: no message will come. */
static void a_waiter_with_some_votes_retries_by_itself(void **state)
{
    enum { LATE = 2 };
    struct servers *s = *state;
    struct red red = very_patient_red(s);
    struct actor *actor = actor_start();
    struct proxy_rule *rule;

    red_strangers_take(s, 0, LATE + 1);
    actor_begin_lock(actor, red.lock);
    red_assert_sleeps(s, &red, actor);
    rule = proxy_next(s->proxy[LATE], PROXY_HOLD_REPLY, "EVALSHA");
    red_delete_keys(s, LATE, LATE + 1);
    red_publish_release(s, LATE);
    assert_true(proxy_met(rule, 1));
    let_pass(1500); /* the waiter waits for it for a second */
    proxy_let_go(rule);
    red_assert_gets_in(actor, &red);
    assert_true(red_wait_keys(s, LATE));
    red_delete_keys(s, 0, LATE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVERS_TEST(a_release_before_its_refusal_is_known_is_not_missed),
        SERVERS_TEST(a_release_before_the_subscriptions_is_not_missed),
        SERVERS_TEST(a_message_before_a_grant_is_no_signal),
        SERVERS_TEST(a_waiter_blocked_by_its_own_late_vote_is_woken_when_that_ends),
        SERVERS_TEST(a_waiter_with_some_votes_retries_by_itself),
    };
    return SERVERS_TESTS_RUN(tests);
}
