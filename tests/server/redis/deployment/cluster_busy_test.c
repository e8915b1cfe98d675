/*
 * A node of a cluster refuses a command that the I/O thread sends once, because it is busy, or the
 * command is lost: subscriptions, and the message of a release for those who listen where the slot
 * was.
 */
#include "support/actor.h"
#include "support/busy.h"
#include "support/cluster_line.h"
#include "support/numbers.h"
#include "support/probe_counts.h"

#include <stdio.h>

#define NAME "orders"
#define CHANNEL "redisson_lock__channel:{" NAME "}"

static struct actor *looping; /* or NULL */
static struct probe *busy;    /* leads to the server that it keeps busy */

static void be_busy(struct cluster_node *node)
{
    looping = busy_begin(node->server, node->probe);
    busy = node->probe;
}

static void be_busy_no_more(void)
{
    if (looping)
        busy_end(busy, looping);
    looping = NULL;
}

/* Only messages wake a waiter, and no check of a hold asks the nodes meanwhile. */
static struct relock_client *client_of(struct clustered *c, const char *user)
{
    return clustered_client(c, &(struct relock_options){.url = c->cluster->url,
                                                        .user = user,
                                                        .password = user ? "secret" : NULL,
                                                        .watchdog_timeout_ms = NEVER_MS,
                                                        .recheck_ms = NEVER_MS,
                                                        .command_timeout_ms = slow_ms(20000),
                                                        .flags = RELOCK_NO_TRACKING});
}

static struct cluster_node *node_of(struct clustered *c)
{
    return &c->cluster->node[cluster_owner(c->cluster, cluster_slot(c->cluster, NAME))];
}

/* For wait_until(), of the probe of the node. */
static bool is_in_line(void *probe)
{
    return probe_int(probe, "LLEN " CLUSTER_LINE) == 1;
}

static bool is_heard(void *probe)
{
    return probe_n_sharded_channels(probe) == 1;
}

static bool is_not_heard(void *probe)
{
    return probe_n_sharded_channels(probe) == 0;
}

/* ---- subscriptions -------------------------------------------------------------------------- */

/* The command reaches a node that is busy. */
static void is_refused(struct cluster_node *node, struct proxy_rule *command)
{
    assert_true(proxy_met(command, 1));
    be_busy(node);
    proxy_let_go(command);
    assert_true(proxy_counts(node->proxy, "-BUSY", 1));
    be_busy_no_more();
}

static void a_subscription_that_a_busy_node_refused_is_repeated(void **state)
{
    struct clustered *c = *state;
    struct cluster_node *node = node_of(c);
    struct relock_lock *held = fixture_lock(c->f, client_of(c, NULL), NAME);
    struct relock_lock *wanted = fixture_lock(c->f, client_of(c, NULL), NAME);
    struct proxy_rule *subscribe = proxy_next(node->proxy, PROXY_HOLD, "SSUBSCRIBE");
    struct actor *waiter = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiter, wanted);
    is_refused(node, subscribe);
    assert_true(wait_until(is_in_line, node->probe, SOON_MS));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiter, wanted);
    actor_end_all();
}

static void an_unsubscribe_that_a_busy_node_refused_is_made_up_for(void **state)
{
    struct clustered *c = *state;
    struct cluster_node *node = node_of(c);
    struct relock_lock *held = fixture_lock(c->f, client_of(c, NULL), NAME);
    struct relock_lock *wanted = fixture_lock(c->f, client_of(c, NULL), NAME);
    struct proxy_rule *unsubscribe = proxy_next(node->proxy, PROXY_HOLD, "SUNSUBSCRIBE " CHANNEL);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *waiter = actor_start();

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_acquire(waiter, wanted, &how);
    assert_true(wait_until(is_heard, node->probe, SOON_MS));
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(waiter), RELOCK_CANCELLED);
    is_refused(node, unsubscribe);
    assert_true(wait_until(is_not_heard, node->probe, SOON_MS));
    assert_result(relock_unlock(held), RELOCK_OK);
    relock_cancel_free(how.cancel);
    actor_end_all();
}

/* ---- a slot that is half moved -------------------------------------------------------------- */

struct half_moved {
    struct relock_lock *held, *wanted;
    struct actor *waiter; /* outside of the line */
    struct cluster_node *old;
};

/* The lock is at another node than its slot. */
static struct half_moved begin(struct clustered *c)
{
    int slot = cluster_slot(c->cluster, NAME);
    size_t owner = cluster_owner(c->cluster, slot), to = clustered_other(c, slot);
    struct half_moved lock = {.old = &c->cluster->node[owner], .waiter = actor_start()};

    for (size_t i = 0; i < c->cluster->n; i++)
        assert_true(probe_make_user(c->cluster->node[i].probe, "outsider", "secret",
                                    "~* &redisson* +@all"));
    lock.held = fixture_lock(c->f, client_of(c, NULL), NAME);
    lock.wanted = fixture_lock(c->f, client_of(c, "outsider"), NAME);
    assert_result(relock_lock(lock.held), RELOCK_OK);
    actor_begin_lock(lock.waiter, lock.wanted);
    assert_true(proxy_counts(lock.old->proxy, "SSUBSCRIBE " CHANNEL, 1));
    let_pass(300); /* it has asked once more, and sleeps */
    cluster_move_open(c->cluster, slot, to);
    cluster_move_key(c->cluster, NAME, to);
    return lock;
}

/* Released before the cluster is mended, which may leave the key where nobody looks for it. */
static void gets_in(struct clustered *c, const struct half_moved *lock)
{
    assert_gets_in(lock->waiter, lock->wanted);
    actor_end_all();
    cluster_mend(c->cluster);
}

static void a_message_that_a_busy_node_refused_is_repeated(void **state)
{
    struct clustered *c = *state;
    struct half_moved lock = begin(c);
    struct proxy_rule *echo = proxy_next(lock.old->proxy, PROXY_HOLD, "spublish");

    assert_result(relock_unlock(lock.held), RELOCK_OK);
    is_refused(lock.old, echo);
    gets_in(c, &lock);
}

static void a_message_that_is_cut_off_is_repeated(void **state)
{
    struct clustered *c = *state;
    struct half_moved lock = begin(c);
    struct proxy_rule *echo = proxy_next(lock.old->proxy, PROXY_CUT, "spublish");

    assert_result(relock_unlock(lock.held), RELOCK_OK);
    assert_true(proxy_met(echo, 1));
    gets_in(c, &lock);
}

/* The latch may be closed again by then, and the message would open it in Redisson's waiters. */
static void the_message_of_a_latch_that_a_busy_node_refused_is_not_repeated(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, "start");
    size_t owner = cluster_owner(c->cluster, slot), to = clustered_other(c, slot);
    struct cluster_node *old = &c->cluster->node[owner];
    struct relock_client *client = client_of(c, NULL);
    struct relock_latch *latch = latch_of(client, "start");
    struct proxy_rule *echo;

    assert_result(relock_latch_try_set(latch, 1, NULL), RELOCK_OK);
    cluster_move_open(c->cluster, slot, to);
    cluster_move_key(c->cluster, "start", to);
    echo = proxy_next(old->proxy, PROXY_HOLD, "spublish");
    assert_result(relock_latch_count_down(latch), RELOCK_OK);
    is_refused(old, echo);
    numbers_free();
    fixture_free_client(c->f, client); /* it sends what is left */
    assert_int_equal(proxy_count(old->proxy, "spublish"), 1);
    cluster_mend(c->cluster);
}

/* ---- the fixture --------------------------------------------------------------------------- */

static int start(void **state)
{
    return clustered_start_with(
        state, &(struct cluster_options){.masters = 3, .tls = true, .proxies = true});
}

/* Also after a failed test. */
static int end(void **state)
{
    struct clustered *c = *state;

    be_busy_no_more();
    for (size_t i = 0; i < c->cluster->n; i++)
        proxy_reset(c->cluster->node[i].proxy);
    return clustered_end(state);
}

#define BUSY_TEST(function) cmocka_unit_test_setup_teardown(function, clustered_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BUSY_TEST(a_subscription_that_a_busy_node_refused_is_repeated),
        BUSY_TEST(an_unsubscribe_that_a_busy_node_refused_is_made_up_for),
        BUSY_TEST(a_message_that_a_busy_node_refused_is_repeated),
        BUSY_TEST(a_message_that_is_cut_off_is_repeated),
        BUSY_TEST(the_message_of_a_latch_that_a_busy_node_refused_is_not_repeated),
    };

    return cmocka_run_group_tests(tests, start, clustered_stop);
}
