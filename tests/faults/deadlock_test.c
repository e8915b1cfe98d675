/*
 * Two clients wait for each other, and the commands that publish or follow this fail: the deadlock
 * is found all the same, nothing else is, and no hash is left.
 */
#include "faults/faults.h"
#include "support/ring.h"

#include <stdio.h>
#include <string.h>

#define BEAT_OF "EVAL return(tonumber(redis.call('hget',KEYS[1],'beat'))) 1 %s"
#define HOLD_MAX 32
#define LEASE_MS 5000 /* after three tenths, a connection that owes an answer is replaced */

/* The first client reaches the server through the proxy, the second one directly. */
struct two {
    struct ring ring;
    char hash[64];       /* of the first client */
    char hold[HOLD_MAX]; /* of its actor */
};

/* Its number is the field in the hash of the client. */
static void copy_hold(struct faults *t, struct relock_client *client, const char *lock,
                      char out[HOLD_MAX])
{
    snprintf(out, HOLD_MAX, "%s",
             probe_only_field(t->f->probe, lock) + strlen(relock_client_id(client)) + 1);
}

static struct two two_with(struct faults *t, uint64_t lease_ms)
{
    struct relock_options options = {
        .watchdog_timeout_ms = lease_ms, .recheck_ms = LONG_MS, .deadlock_ms = DEADLOCK_MS};
    struct relock_client *clients[] = {faults_connected_client(t, &options),
                                       fixture_client(t->f, &options)};
    struct two two = {.ring = ring_of(t->f, clients, 2)};

    copy_hold(t, clients[0], "ring:0", two.hold);
    snprintf(two.hash, sizeof(two.hash), "relock_waits:{%s}", relock_client_id(clients[0]));
    return two;
}

static struct two two_of(struct faults *t)
{
    return two_with(t, LONG_MS);
}

static void begin(struct two *two, int nth)
{
    actor_begin_lock(two->ring.actors[nth], two->ring.wants[nth]);
}

static void assert_that_one_is_refused(struct faults *t, struct two *two)
{
    (void)ring_assert_one_is_refused(&two->ring);
    assert_true(wait_for_no_keys(t->f->probe));
}

/* This happens to the next command of the first client; the second one begins to wait then. */
static void play(struct faults *t, enum proxy_deed deed, const char *command)
{
    struct two two = two_of(t);
    struct proxy_rule *rule = proxy_next(t->proxy, deed, command);

    begin(&two, 0);
    begin(&two, 1);
    assert_true(proxy_met(rule, 1));
    assert_that_one_is_refused(t, &two);
}

static void a_hash_that_is_cut_off_is_sent_again(void **state)
{
    play(*state, PROXY_CUT, "publish_waits");
}

static void a_hash_without_an_answer_is_sent_again(void **state)
{
    play(*state, PROXY_CUT_UNANSWERED, "publish_waits");
}

static void play_while_busy(struct faults *t, const char *command)
{
    struct two two = two_of(t);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, command);

    begin(&two, 0);
    begin(&two, 1);
    faults_meet_busy(t, rule);
    assert_that_one_is_refused(t, &two);
}

static void a_hash_that_a_busy_server_refused_is_sent_again(void **state)
{
    play_while_busy(*state, "publish_waits");
}

static void a_look_that_a_busy_server_refused_is_taken_again(void **state)
{
    play_while_busy(*state, "waits_behind");
}

/* Only an answer lets the beat grow: else two of them would prove nothing. */
static void a_hash_without_an_answer_keeps_its_beat(void **state)
{
    struct faults *t = *state;
    struct two two = two_of(t);
    struct proxy_rule *rule = proxy_each(t->proxy, PROXY_CUT_UNANSWERED, "publish_waits");

    begin(&two, 0);
    assert_true(proxy_met(rule, 3));
    assert_int_equal(probe_int(t->f->probe, BEAT_OF, two.hash), 1);
    proxy_let_go(rule);
    begin(&two, 1);
    assert_that_one_is_refused(t, &two);
}

static long long published_at(struct faults *t, const struct two *two, const char *hold)
{
    return probe_int(t->f->probe, "HGET %s %s", two->hash, hold);
}

/* The other wait is published while this one is sent again: it stays the younger one. */
static void a_wait_that_is_sent_again_keeps_its_time(void **state)
{
    struct faults *t = *state;
    struct two two = two_of(t);
    struct proxy_rule *rule = proxy_each(t->proxy, PROXY_CUT_UNANSWERED, "publish_waits");
    char hash[64];
    long long at_us;

    begin(&two, 0);
    assert_true(probe_wait_key(t->f->probe, two.hash));
    at_us = published_at(t, &two, two.hold);
    begin(&two, 1);
    snprintf(hash, sizeof(hash), "relock_waits:{%s}", relock_client_id(two.ring.clients[1]));
    assert_true(probe_wait_key(t->f->probe, hash));
    assert_true(proxy_met(rule, proxy_count(t->proxy, "publish_waits") + 2));
    assert_int_equal(published_at(t, &two, two.hold), at_us);
    proxy_let_go(rule);
    assert_int_equal(ring_assert_one_is_refused(&two.ring), 1);
    assert_true(wait_for_no_keys(t->f->probe));
}

struct later {
    struct faults *t;
    const struct two *two;
    char hold[HOLD_MAX];
};

static bool is_published(void *arg)
{
    const struct later *later = arg;

    return published_at(later->t, later->two, later->hold) > 0;
}

/* Another owner of the client waits. With the time of the first one it would be too old. */
static void a_wait_that_begins_then_gets_a_time_of_its_own(void **state)
{
    struct faults *t = *state;
    struct two two = two_of(t);
    struct proxy_rule *rule = proxy_each(t->proxy, PROXY_CUT_UNANSWERED, "publish_waits");
    struct relock_lock *has = fixture_lock(t->f, two.ring.clients[0], "later");
    struct later later = {.t = t, .two = &two};
    struct actor *actor = actor_start();
    long long at_us;

    assert_result(actor_lock(actor, has), RELOCK_OK);
    copy_hold(t, two.ring.clients[0], "later", later.hold);
    begin(&two, 0);
    assert_true(probe_wait_key(t->f->probe, two.hash));
    at_us = published_at(t, &two, two.hold);
    actor_begin_lock(actor, two.ring.wants[0]);
    assert_true(wait_for_waiters(two.ring.clients[0], 2));
    assert_true(proxy_met(rule, proxy_count(t->proxy, "publish_waits") + 3)); /* 250 ms each */
    proxy_let_go(rule);
    assert_true(wait_until(is_published, &later, SOON_MS));
    assert_true(published_at(t, &two, later.hold) > at_us);
    assert_int_equal(published_at(t, &two, two.hold), at_us);
    assert_result(actor_unlock(two.ring.actors[1], two.ring.has[1]), RELOCK_OK);
    assert_result(actor_result(two.ring.actors[0]), RELOCK_OK);
    assert_result(actor_unlock(two.ring.actors[0], two.ring.wants[0]), RELOCK_OK);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_result(actor_unlock(actor, two.ring.wants[0]), RELOCK_OK);
    assert_result(actor_unlock(actor, has), RELOCK_OK);
    assert_result(actor_unlock(two.ring.actors[0], two.ring.has[0]), RELOCK_OK);
    assert_true(wait_for_no_keys(t->f->probe));
}

static void a_look_that_is_cut_off_is_taken_again(void **state)
{
    play(*state, PROXY_CUT, "waits_behind");
}

/* Every beat is lost for a while. */
static void a_hash_that_is_not_confirmed_proves_nothing(void **state)
{
    struct faults *t = *state;
    struct two two = two_of(t);
    struct proxy_rule *rule;

    begin(&two, 0);
    assert_true(proxy_counts(t->proxy, "publish_waits", 2));
    rule = proxy_each(t->proxy, PROXY_HOLD, "publish_waits");
    assert_true(proxy_met(rule, 1));
    begin(&two, 1);
    let_pass(4 * DEADLOCK_MS);
    assert_true(actor_is_busy(two.ring.actors[0]) && actor_is_busy(two.ring.actors[1]));
    proxy_let_go(rule);
    assert_that_one_is_refused(t, &two);
}

/* A server that has forgotten the hash: a failover, or FLUSHALL. */
static void a_hash_that_is_gone_comes_back(void **state)
{
    struct faults *t = *state;
    struct two two = two_of(t);

    begin(&two, 0);
    assert_true(wait_for_waiters(two.ring.clients[0], 1));
    assert_true(proxy_counts(t->proxy, "publish_waits", 1));
    assert_int_equal(probe_int(t->f->probe, "DEL %s", two.hash) >= 0, 1);
    assert_true(proxy_counts(t->proxy, "publish_waits", 3));
    assert_true(probe_wait_key(t->f->probe, two.hash)); /* it has come, and may not have run */
    begin(&two, 1);
    assert_that_one_is_refused(t, &two);
}

/* It ran over a connection that had ended, after newer ones. */
static void a_late_hash_changes_nothing(void **state)
{
    struct faults *t = *state;
    struct two two = two_with(t, LEASE_MS);
    struct proxy_rule *rule = proxy_next(t->proxy, PROXY_HOLD, "publish_waits");
    long long beat;

    begin(&two, 0);
    assert_true(proxy_met(rule, 1));
    assert_true(proxy_counts(t->proxy, "publish_waits", 6));
    beat = probe_int(t->f->probe, BEAT_OF, two.hash);
    assert_true(beat > 1);
    proxy_let_go(rule);
    (void)proxy_fate(rule);
    assert_true(probe_int(t->f->probe, BEAT_OF, two.hash) >= beat);
    begin(&two, 1);
    assert_that_one_is_refused(t, &two);
}

/* The wait ends while the connection is down. */
static void a_hash_is_deleted_when_the_connection_is_back(void **state)
{
    struct faults *t = *state;
    struct two two = two_of(t);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    actor_begin_acquire(two.ring.actors[0], two.ring.wants[0], &how);
    assert_true(proxy_counts(t->proxy, "publish_waits", 2));
    proxy_refuse(t->proxy, true);
    proxy_cut(t->proxy, "");
    relock_cancel_fire(how.cancel);
    (void)actor_result(two.ring.actors[0]);
    proxy_refuse(t->proxy, false);
    assert_true(probe_wait_no_key(t->f->probe, two.hash, SOON_MS));
    assert_result(actor_unlock(two.ring.actors[0], two.ring.has[0]), RELOCK_OK);
    assert_result(actor_unlock(two.ring.actors[1], two.ring.has[1]), RELOCK_OK);
    assert_true(wait_for_no_keys(t->f->probe));
    relock_cancel_free(how.cancel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_hash_that_is_cut_off_is_sent_again),
        FAULT_TEST(a_hash_without_an_answer_is_sent_again),
        FAULT_TEST(a_hash_that_a_busy_server_refused_is_sent_again),
        FAULT_TEST(a_look_that_a_busy_server_refused_is_taken_again),
        FAULT_TEST(a_hash_without_an_answer_keeps_its_beat),
        FAULT_TEST(a_wait_that_is_sent_again_keeps_its_time),
        FAULT_TEST(a_wait_that_begins_then_gets_a_time_of_its_own),
        FAULT_TEST(a_look_that_is_cut_off_is_taken_again),
        FAULT_TEST(a_hash_that_is_not_confirmed_proves_nothing),
        FAULT_TEST(a_hash_that_is_gone_comes_back),
        FAULT_TEST(a_late_hash_changes_nothing),
        FAULT_TEST(a_hash_is_deleted_when_the_connection_is_back),
    };

    return FAULT_TESTS_RUN(tests);
}
