/*
 * Kept locks in a cluster: the client hears recalls at one node, whichever node has the lock.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/keeping.h"
#include "support/kinds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "orders"
#define MANY 1000
#define LONG_LEASE_MS 30000 /* longer than a failover takes */

/* With this query behind the url. Its locks are kept for an hour, and nothing but a message wakes
 * its waiters. */
static struct relock_client *client_of(struct clustered *c, const char *query, uint64_t keep_ms)
{
    struct relock_options options = {.keep_ms = keep_ms,
                                     .recheck_ms = NEVER_MS,
                                     .command_timeout_ms = slow_ms(2000),
                                     .watchdog_timeout_ms = slow_ms(LONG_LEASE_MS)};
    char url[300];

    options.url = url;
    (void)snprintf(url, sizeof(url), "%s%s", clustered_options(c, NULL).url, query);
    if (c->cluster->tls_url[0])
        options.tls_ca_file = c->cluster->ca_file;
    return clustered_client(c, &options);
}

static struct relock_client *keeping_by(struct clustered *c, const char *query)
{
    struct relock_client *client = client_of(c, query, NEVER_MS);

    keeping_await(client);
    return client;
}

static const char *inbox_of(struct relock_client *client)
{
    static char inbox[64];

    (void)snprintf(inbox, sizeof(inbox), "relock_client:{%s}", relock_client_id(client));
    return inbox;
}

/* How many subscribers the inbox has at a node that runs. */
static long long n_subscribers(struct clustered *c, size_t node, const char *inbox)
{
    const char *reply;

    if (!cluster_is_up(c->cluster, node))
        return 0;
    reply = probe_list(c->cluster->node[node].probe, "PUBSUB NUMSUB %s", inbox);
    return atoll(strrchr(reply, ' ') + 1);
}

static long long n_subscriptions(struct clustered *c, const char *inbox)
{
    long long n = 0;

    for (size_t i = 0; i < c->cluster->n; i++)
        n += n_subscribers(c, i, inbox);
    return n;
}

/* The node at which the client hears recalls. */
static size_t hearing_node(struct clustered *c, struct relock_client *client)
{
    for (size_t i = 0; i < c->cluster->n; i++)
        if (n_subscribers(c, i, inbox_of(client)) > 0)
            return i;
    fail_msg("the client is not subscribed to its inbox");
    return 0;
}

/* Keeps a lock, and hears recalls at another node than that of the lock. */
struct kept {
    struct relock_client *client, *others;
    struct relock_lock *lock, *theirs;
    int slot;
    size_t owner; /* of the slot */
    size_t hears; /* the other node */
};

static struct kept keep_at_two_nodes(struct clustered *c)
{
    struct kept kept = {.slot = cluster_slot(c->cluster, NAME)};

    kept.owner = cluster_owner(c->cluster, kept.slot);
    do {
        if (kept.client)
            fixture_free_client(c->f, kept.client);
        kept.client = keeping_by(c, "");
        kept.hears = hearing_node(c, kept.client);
    } while (kept.hears == kept.owner);
    kept.others = client_of(c, "", 0);
    kept.lock = fixture_lock(c->f, kept.client, NAME);
    kept.theirs = fixture_lock(c->f, kept.others, NAME);
    keeping_fill(kept.client, kept.lock);
    return kept;
}

static void is_recalled(const struct kept *kept)
{
    assert_int_equal(stats_of(kept->client).kept, 1);
    assert_result(relock_timedlock(kept->theirs, NEVER_MS), RELOCK_OK);
    assert_int_equal(stats_of(kept->client).kept, 0);
    assert_int_equal(stats_of(kept->client).recalled, 1);
    assert_result(relock_unlock(kept->theirs), RELOCK_OK);
}

static long long n_writes(struct clustered *c)
{
    struct probe *probe = cluster_probe(c->cluster, NAME);

    return probe_calls(probe, "hset") + probe_calls(probe, "del");
}

static void a_kept_lock_is_acquired_from_memory(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = keeping_by(c, "");
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);
    uint64_t acquired, reused;
    long long before;

    keeping_fill(client, lock);
    before = n_writes(c);
    acquired = stats_of(client).acquired;
    reused = stats_of(client).reused;
    for (int i = 0; i < 5; i++) {
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
    }
    assert_int_equal(n_writes(c), before);
    assert_int_equal(stats_of(client).acquired, acquired);
    assert_int_equal(stats_of(client).reused, reused + 5);
}

/* ---- recalls --------------------------------------------------------------------------------- */

static void a_waiter_gets_a_kept_lock_by(struct clustered *c, const char *query,
                                         fixture_constructor_fn *make)
{
    struct relock_client *client = keeping_by(c, query);
    struct relock_lock *lock = fixture_lock_of(c->f, client, NAME, make);
    struct relock_lock *theirs = fixture_lock_of(c->f, client_of(c, query, 0), NAME, make);

    keeping_fill(client, lock);
    assert_result(relock_timedlock(theirs, NEVER_MS), RELOCK_OK);
    assert_int_equal(stats_of(client).recalled, 1);
    assert_int_equal(stats_of(client).kept, 0);
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

static void a_waiter_of_another_client_gets_a_kept_lock(void **state)
{
    a_waiter_gets_a_kept_lock_by(*state, "", relock_lock_new);
    a_waiter_gets_a_kept_lock_by(*state, "", relock_spinlock_new);
}

static void a_waiter_of_another_client_gets_a_kept_lock_by_plain_channels(void **state)
{
    a_waiter_gets_a_kept_lock_by(*state, "?pubsub=plain", relock_lock_new);
    a_waiter_gets_a_kept_lock_by(*state, "?pubsub=plain", relock_spinlock_new);
}

static void a_recall_reaches_a_client_that_hears_it_at_another_node(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);

    is_recalled(&kept);
}

static void a_held_lock_is_released_after_a_recall(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);
    struct actor *waiting = actor_start();

    assert_result(relock_lock(kept.lock), RELOCK_OK);
    actor_begin_lock(waiting, kept.theirs);
    assert_true(wait_for_recalls(kept.client, 1));
    assert_result(relock_check(kept.lock, 0, NULL), RELOCK_OK); /* it stays until its release */
    assert_result(relock_unlock(kept.lock), RELOCK_OK);
    assert_gets_in(waiting, kept.theirs);
    assert_int_equal(stats_of(kept.client).kept, 0);
}

/* As every client that knows recalls sends it: PUBLISH, at the node of the lock. */
static void a_recall_is_heard_from_each_node(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = keeping_by(c, "");
    struct cluster_view view;
    char number[64], recall[128], name[32];

    cluster_view_any(c->cluster, &view);
    for (size_t i = 0; i < c->cluster->n; i++) {
        struct relock_lock *lock;

        if (view.master[i] != (signed char)i)
            continue;
        (void)snprintf(name, sizeof(name), "order:%zu", i); /* another one: the last rests */
        lock = fixture_lock(c->f, client, name);
        keeping_fill(client, lock);
        (void)snprintf(number, sizeof(number), "%s",
                       strchr(probe_only_field(cluster_probe(c->cluster, name), name), ':') + 1);
        (void)snprintf(recall, sizeof(recall), "recall:%s %s", number, name);
        (void)probe_int(c->cluster->node[i].probe, "PUBLISH %s %s", inbox_of(client), recall);
        assert_true(keeping_wait(client, 0));
    }
    assert_int_equal(stats_of(client).recalled, 3);
}

static void a_recall_with_a_prefix_finds_the_lock(void **state)
{
    struct clustered *c = *state;
    struct relock_options options = {.name_prefix = "{shop}:", .keep_ms = NEVER_MS};
    struct relock_client *client = clustered_client(c, &options);
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);
    struct relock_lock *theirs = fixture_lock(c->f, client_of(c, "", 0), "{shop}:" NAME);

    keeping_await(client);
    keeping_fill(client, lock);
    assert_result(relock_timedlock(theirs, NEVER_MS), RELOCK_OK);
    assert_int_equal(stats_of(client).recalled, 1);
    assert_result(relock_unlock(theirs), RELOCK_OK);
}

static void one_subscription_serves_all_kept_locks(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = keeping_by(c, "");
    struct relock_lock *lock;
    char name[32];

    for (int i = 0; i < MANY; i++) {
        (void)snprintf(name, sizeof(name), "order:%d", i);
        assert_result(relock_lock_new(client, name, &lock), RELOCK_OK);
        assert_result(relock_lock(lock), RELOCK_OK);
        assert_result(relock_unlock(lock), RELOCK_OK);
        relock_lock_free(lock);
    }
    assert_int_equal(stats_of(client).kept, MANY);
    assert_int_equal(n_subscriptions(c, inbox_of(client)), 1);
    for (size_t i = 0; i < c->cluster->n; i++)
        assert_true(strlen(probe_list(c->cluster->node[i].probe, "PUBSUB CHANNELS relock_*")) < 64);
}

/* ---- rights ---------------------------------------------------------------------------------- */

static void every_node(struct clustered *c, const char *command)
{
    for (size_t i = 0; i < c->cluster->n; i++)
        (void)probe_text(c->cluster->node[i].probe, command);
}

/* What is asked for before the client can hear recalls is not kept: one may have been missed. */
static void a_lock_asked_for_before_the_inbox_was_open_is_not_kept(void **state)
{
    struct clustered *c = *state;
    struct relock_options options = {
        .keep_ms = NEVER_MS, .user = "keeper", .password = "secret", .recheck_ms = NEVER_MS};
    struct relock_client *client;
    struct relock_lock *lock, *early;

    every_node(c, "ACL SETUSER keeper reset on >secret ~* &redisson* &__redis__:* +@all");
    client = clustered_client(c, &options);
    early = fixture_lock(c->f, client, "early");
    lock = fixture_lock(c->f, client, NAME);
    assert_true(log_wait(c->f->log, "relock_client", SOON_MS));
    assert_result(relock_lock(early), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 0);

    every_node(c, "ACL SETUSER keeper &relock_client:{*");
    every_node(c, "CLIENT KILL USER keeper");
    keeping_await(client);
    assert_result(relock_unlock(early), RELOCK_OK);
    assert_int_equal(stats_of(client).kept, 0);
    assert_int_equal(probe_int(cluster_probe(c->cluster, "early"), "EXISTS early"), 0);
    keeping_fill(client, lock);
    fixture_free_client(c->f, client);
    every_node(c, "ACL DELUSER keeper");
}

/* ---- the node of the subscription -------------------------------------------------------------
 */

static bool is_free(void *arg)
{
    return probe_int(cluster_probe(arg, NAME), "EXISTS " NAME) == 0;
}

static void is_given_back(struct clustered *c, const struct kept *kept)
{
    assert_true(keeping_wait(kept->client, 0));
    assert_true(wait_until(is_free, c->cluster, SOON_MS));
    assert_int_equal(stats_of(kept->client).recalled, 0);
}

/* Also while no replica has replaced that node. */
static void kept_locks_are_given_back_when_the_node_of_the_subscription_dies(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);

    server_kill(c->cluster->node[kept.hears].server);
    assert_true(keeping_wait(kept.client, 0));
    cluster_await(c->cluster);
    is_given_back(c, &kept);
    keeping_await(kept.client);
    assert_int_equal(n_subscriptions(c, inbox_of(kept.client)), 1);
    keeping_fill(kept.client, kept.lock);
    assert_result(relock_timedlock(kept.theirs, NEVER_MS), RELOCK_OK);
    assert_result(relock_unlock(kept.theirs), RELOCK_OK);
}

static void kept_locks_are_given_back_when_the_node_of_the_subscription_is_replaced(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);

    server_pause(c->cluster->node[kept.hears].server);
    cluster_await(c->cluster);
    is_given_back(c, &kept);
    keeping_await(kept.client);
    keeping_fill(kept.client, kept.lock);
    assert_result(relock_timedlock(kept.theirs, NEVER_MS), RELOCK_OK);
    assert_result(relock_unlock(kept.theirs), RELOCK_OK);
}

static void kept_locks_are_given_back_when_the_subscription_is_lost(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);
    struct relock_lock *held = fixture_lock(c->f, kept.client, "held");

    assert_result(relock_lock(held), RELOCK_OK);
    (void)probe_int(c->cluster->node[kept.hears].probe, "CLIENT KILL TYPE pubsub");
    is_given_back(c, &kept);
    /* A recall of it may have been missed. */
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_int_equal(stats_of(kept.client).kept, 0);
    keeping_await(kept.client);
}

/* It is no sharded channel, which would be ended there. */
static void locks_stay_kept_when_the_slot_of_the_inbox_moves(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);
    int slot = cluster_slot(c->cluster, inbox_of(kept.client));
    struct relock_lock *other = fixture_lock(c->f, kept.client, "other");

    cluster_move(c->cluster, slot, clustered_other(c, slot));
    cluster_move(c->cluster, kept.slot, clustered_other(c, kept.slot));
    /* It is redirected, and has the client read the map of the slots. */
    assert_result(relock_is_locked(kept.lock, &(bool){false}), RELOCK_OK);
    keeping_fill(kept.client, other);
    assert_int_equal(stats_of(kept.client).kept, 2);
    assert_int_equal(n_subscribers(c, kept.hears, inbox_of(kept.client)), 1);
    assert_int_equal(stats_of(kept.client).recalled, 0);
}

/* ---- the node of the lock ---------------------------------------------------------------------
 */

static void a_recall_finds_the_holder_where_the_slot_went(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);

    cluster_move(c->cluster, kept.slot, clustered_other(c, kept.slot));
    is_recalled(&kept);
}

static bool is_got(void *arg)
{
    return relock_trylock(arg) == RELOCK_OK;
}

static void a_recall_finds_the_holder_while_the_slot_is_half_moved(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);
    size_t to = clustered_other(c, kept.slot);

    cluster_move_open(c->cluster, kept.slot, to);
    cluster_move_key(c->cluster, NAME, to);
    assert_result(relock_trylock(kept.theirs), RELOCK_BUSY);
    assert_true(keeping_wait(kept.client, 0));
    assert_int_equal(stats_of(kept.client).recalled, 1);
    assert_true(wait_until(is_got, kept.theirs, SOON_MS));
    assert_result(relock_unlock(kept.theirs), RELOCK_OK);
}

static void a_recall_finds_the_holder_after_a_planned_failover(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);

    (void)cluster_fail_over(c->cluster, kept.owner);
    is_recalled(&kept);
}

static void a_recall_finds_the_holder_after_the_master_died(void **state)
{
    struct clustered *c = *state;
    struct kept kept = keep_at_two_nodes(c);

    clustered_kill(c, kept.owner);
    is_recalled(&kept);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_kept_lock_is_acquired_from_memory),
        CLUSTER_TEST(a_waiter_of_another_client_gets_a_kept_lock),
        CLUSTER_TEST(a_waiter_of_another_client_gets_a_kept_lock_by_plain_channels),
        CLUSTER_TEST(a_recall_reaches_a_client_that_hears_it_at_another_node),
        CLUSTER_TEST(a_held_lock_is_released_after_a_recall),
        CLUSTER_TEST(a_recall_is_heard_from_each_node),
        CLUSTER_TEST(a_recall_with_a_prefix_finds_the_lock),
        CLUSTER_TEST(one_subscription_serves_all_kept_locks),
        CLUSTER_TEST(a_lock_asked_for_before_the_inbox_was_open_is_not_kept),
        CLUSTER_TEST(kept_locks_are_given_back_when_the_node_of_the_subscription_dies),
        CLUSTER_TEST(kept_locks_are_given_back_when_the_node_of_the_subscription_is_replaced),
        CLUSTER_TEST(kept_locks_are_given_back_when_the_subscription_is_lost),
        CLUSTER_TEST(locks_stay_kept_when_the_slot_of_the_inbox_moves),
        CLUSTER_TEST(a_recall_finds_the_holder_where_the_slot_went),
        CLUSTER_TEST(a_recall_finds_the_holder_while_the_slot_is_half_moved),
        CLUSTER_TEST(a_recall_finds_the_holder_after_a_planned_failover),
        CLUSTER_TEST(a_recall_finds_the_holder_after_the_master_died),
    };

    return CLUSTER_TESTS_RUN(tests);
}
