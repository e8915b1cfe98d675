/* Locks that are kept while something fails: recalls, subscribers, releases, servers. */
#include "faults.h"

#include "support/keeping.h"

#define KEEP_MS 1500
#define INBOX "SUBSCRIBE" /* there is no other channel */

static struct relock_client *keeping(struct faults *t, uint64_t keep_ms)
{
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.keep_ms = keep_ms, .recheck_ms = LONG_MS});

    keeping_await(client);
    return client;
}

/* Not through the proxy. Nothing but a message ends its waits. */
static struct relock_lock *lock_elsewhere(struct faults *t)
{
    return fixture_lock(t->f, fixture_client(t->f, &(struct relock_options){.recheck_ms = LONG_MS}),
                        "orders");
}

static void a_recall_that_overtakes_the_grant_counts(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = keeping(t, LONG_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *theirs = lock_elsewhere(t);
    struct actor *ours = actor_start(), *waiting = actor_start();
    struct proxy_rule *granted = proxy_next(t->proxy, PROXY_HOLD_REPLY, "lock 1 orders");

    actor_begin_lock(ours, lock);
    assert_int_equal(proxy_fate(granted), PROXY_ANSWERED);
    actor_begin_lock(waiting, theirs);
    assert_true(wait_for_recalls(client, 1));
    proxy_let_go(granted);
    assert_gets_in(ours, lock);
    assert_gets_in(waiting, theirs);
}

static void kept_locks_are_given_back_when_the_subscriber_is_lost(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = keeping(t, LONG_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *held = fixture_lock(t->f, client, "held");

    keeping_fill(client, lock);
    assert_result(relock_lock(held), RELOCK_OK);
    proxy_cut(t->proxy, INBOX);
    assert_true(keeping_wait(client, 0));
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
    /* A recall may have been missed. */
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "EXISTS held"), 0);
    keeping_await(client); /* with the next subscription */
}

static void without_a_subscription_nothing_is_kept(void **state)
{
    struct faults *t = *state;
    struct proxy_rule *subscribe = proxy_next(t->proxy, PROXY_HOLD, INBOX);
    struct relock_client *client =
        faults_client(t, &(struct relock_options){.keep_ms = LONG_MS, .recheck_ms = LONG_MS});
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *early = fixture_lock(t->f, client, "early");

    assert_true(proxy_met(subscribe, 1));
    assert_result(relock_lock(early), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "EXISTS orders"), 0);
    proxy_let_go(subscribe);
    keeping_await(client);
    /* It was asked for before, so its recall may have been missed. */
    assert_result(relock_unlock(early), RELOCK_OK);
    assert_int_equal(probe_int(t->f->probe, "EXISTS early"), 0);
}

/* The connection stays, and nothing comes over it. */
static void a_recall_that_is_lost_costs_keep_ms_at_most(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = keeping(t, KEEP_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *theirs = lock_elsewhere(t);

    proxy_stall(t->proxy, INBOX);
    keeping_fill(client, lock);
    assert_result(relock_timedlock(theirs, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_int_equal(stats_of(client).recalled, 0);
    assert_result(relock_unlock(theirs), RELOCK_OK);
    proxy_flow(t->proxy);
}

static void a_lock_that_is_being_given_back_is_not_acquired_from_memory(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = keeping(t, LONG_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *theirs = lock_elsewhere(t);
    struct proxy_rule *release;
    uint64_t reused;

    keeping_fill(client, lock);
    reused = stats_of(client).reused;
    release = proxy_next(t->proxy, PROXY_HOLD, "unlock 1 orders");
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_true(proxy_met(release, 1));
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_int_equal(stats_of(client).reused, reused);
    proxy_let_go(release);
    assert_true(probe_wait_no_key(t->f->probe, "orders", SOON_MS));
}

static void a_release_that_is_cut_off_is_repeated(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = keeping(t, LONG_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");
    struct relock_lock *theirs = lock_elsewhere(t);
    struct proxy_rule *release;

    keeping_fill(client, lock);
    release = proxy_next(t->proxy, PROXY_CUT, "unlock 1 orders");
    assert_result(relock_timedlock(theirs, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_true(proxy_met(release, 1));
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

static void a_restart_without_data_ends_kept_locks_in_silence(void **state)
{
    struct faults *t = *state;
    struct relock_client *client = keeping(t, LONG_MS);
    struct relock_lock *lock = fixture_lock(t->f, client, "orders");

    keeping_fill(client, lock);
    server_restart(t->f->server);
    assert_true(keeping_wait(client, 0));
    assert_int_equal(losses_count(t->f->losses), 0);
    keeping_await(client);
    keeping_fill(client, lock);
    assert_int_equal(stats_of(client).lost, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(a_recall_that_overtakes_the_grant_counts),
        FAULT_TEST(kept_locks_are_given_back_when_the_subscriber_is_lost),
        FAULT_TEST(without_a_subscription_nothing_is_kept),
        FAULT_TEST(a_recall_that_is_lost_costs_keep_ms_at_most),
        FAULT_TEST(a_lock_that_is_being_given_back_is_not_acquired_from_memory),
        FAULT_TEST(a_release_that_is_cut_off_is_repeated),
        FAULT_TEST(a_restart_without_data_ends_kept_locks_in_silence),
    };

    return FAULT_TESTS_RUN(tests);
}
