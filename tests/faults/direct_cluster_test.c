/*
 * Waiters that read their messages themselves in a cluster, whose nodes have a connection each.
 * Only messages wake them, no recheck.
 */
#include "io_thread.h"
#include "support/actor.h"
#include "support/cluster_fixture.h"

#include <stdio.h>

#define NAME "orders"

/* A client waits for a lock of another program. */
struct wait {
    struct clustered *c;
    struct relock_client *client;
    struct relock_lock *lock;
    struct actor *actor;
    char name[32];
    int slot;
    uint64_t n_waits; /* of the client, before */
};

static struct relock_client *waiting_client(struct clustered *c)
{
    return clustered_client(c, &(struct relock_options){.recheck_ms = NEVER_MS,
                                                        .command_timeout_ms = slow_ms(SOON_MS)});
}

static bool waits_again(void *arg)
{
    const struct wait *wait = arg;

    return stats_of(wait->client).waits > wait->n_waits;
}

/* The other program has it, without a lease. */
static void hold(struct clustered *c, const char *name)
{
    assert_int_equal(probe_int(cluster_probe(c->cluster, name), "HSET %s someone:1 1", name), 1);
}

/* Returns when it waits for the second time: once for the subscription, then for the release. */
static struct wait begin_to_wait(struct clustered *c, struct relock_client *client,
                                 const char *name)
{
    struct wait wait = {.c = c, .client = client, .slot = cluster_slot(c->cluster, name)};

    (void)snprintf(wait.name, sizeof(wait.name), "%s", name);
    hold(c, name);
    wait.lock = fixture_lock(c->f, client, name);
    wait.actor = actor_start();
    wait.n_waits = stats_of(client).waits + 1;
    actor_begin_lock(wait.actor, wait.lock);
    assert_true(wait_until(waits_again, &wait, SOON_MS));
    return wait;
}

/* As the other program does it: with sharded channels if there are any. */
static void release(const struct wait *wait)
{
    static const char script[] =
        "redis.call('del', KEYS[1])"
        "local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}' "
        "local channel = 'redisson_lock__channel:' .. tag "
        "local sent = redis.pcall('spublish', channel, '0')"
        "if type(sent) == 'table' then redis.call('publish', channel, '0') end "
        "return 1";

    assert_int_equal(
        probe_int(cluster_probe(wait->c->cluster, wait->name), "EVAL %s 1 %s", script, wait->name),
        1);
}

static void gets_in(const struct wait *wait)
{
    assert_gets_in(wait->actor, wait->lock);
    assert_int_equal(stats_of(wait->client).rechecks, 0);
}

/* After the move of a slot: while it was half moved, the waiter may have rechecked. */
static void gets_in_after_moves(const struct wait *wait)
{
    assert_gets_in(wait->actor, wait->lock);
}

/* Where a client has a connection to the owner of the slot. */
static const char *url_of(const struct wait *wait)
{
    static char url[64];

    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d",
                   cluster_port(wait->c->cluster, cluster_owner(wait->c->cluster, wait->slot)));
    return url;
}

static bool is_subscribed(void *arg)
{
    static const char script[] = "local channel = 'redisson_lock__channel:{' .. KEYS[1] .. '}'"
                                 "local n = redis.pcall('pubsub', 'shardnumsub', channel)[2] or 0 "
                                 "return n + redis.call('pubsub', 'numsub', channel)[2]";
    const struct wait *wait = arg;

    return probe_int(cluster_probe(wait->c->cluster, wait->name), "EVAL %s 1 %s", script,
                     wait->name) == 1;
}

static void stop_where_it_polls(const struct wait *wait)
{
    assert_true(io_thread_stop_waiter(url_of(wait)));
    assert_true(io_thread_go_on());
}

/* Returns when it polls the connection for messages. It also polls for the reply to a command, but
 * waits anew after that. */
static struct wait begin_to_poll(struct clustered *c, struct relock_client *client,
                                 const char *name)
{
    struct wait wait = begin_to_wait(c, client, name);

    assert_true(wait_until(is_subscribed, &wait, SOON_MS));
    do {
        wait.n_waits = stats_of(client).waits;
        stop_where_it_polls(&wait);
        stop_where_it_polls(&wait);
    } while (waits_again(&wait));
    return wait;
}

static void a_waiter_gets_the_lock_while_the_io_thread_stands_still(void **state)
{
    struct clustered *c = *state;
    struct wait wait = begin_to_poll(c, waiting_client(c), NAME);

    assert_true(io_thread_stop(url_of(&wait)));
    release(&wait);
    assert_result(actor_result(wait.actor), RELOCK_OK);
    assert_true(io_thread_go_on());
    assert_result(actor_unlock(wait.actor, wait.lock), RELOCK_OK);
    assert_int_equal(stats_of(wait.client).rechecks, 0);
}

/* The lock of another master, whose messages come over another connection. */
static void name_elsewhere(struct clustered *c, int slot, char name[32])
{
    size_t owner = cluster_owner(c->cluster, slot);
    int i = 0;

    do
        (void)snprintf(name, 32, "parcels:%d", i++);
    while (cluster_owner(c->cluster, cluster_slot(c->cluster, name)) == owner);
}

/* A debugger may have stopped it, or it is in a handler of a signal. */
static void no_waiter_depends_on_one_that_stands_still(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = waiting_client(c);
    struct wait stopped = begin_to_poll(c, client, NAME), same, other;
    char name[32];

    assert_true(io_thread_stop_waiter(url_of(&stopped)));
    same = begin_to_wait(c, client, "{" NAME "}:same");
    release(&same);
    gets_in(&same);
    name_elsewhere(c, stopped.slot, name);
    other = begin_to_wait(c, client, name);
    release(&other);
    gets_in(&other);
    assert_true(io_thread_go_on());
    release(&stopped);
    gets_in(&stopped);
}

/* Alone again, it polls a connection of its own. */
static void a_waiter_reads_where_its_lock_is(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = waiting_client(c);
    struct wait first = begin_to_wait(c, client, NAME), other;
    char name[32];

    release(&first);
    gets_in(&first);
    name_elsewhere(c, first.slot, name);
    other = begin_to_poll(c, client, name);
    assert_true(io_thread_stop(url_of(&other)));
    release(&other);
    assert_result(actor_result(other.actor), RELOCK_OK);
    assert_true(io_thread_go_on());
    assert_result(actor_unlock(other.actor, other.lock), RELOCK_OK);
}

/* The end of the subscription comes where the waiter reads, and the I/O thread has to answer. */
static void a_waiter_that_reads_is_woken_where_the_slot_went(void **state)
{
    struct clustered *c = *state;
    struct wait wait = begin_to_poll(c, waiting_client(c), NAME);

    for (int i = 0; i < 3; i++) {
        wait.n_waits = stats_of(wait.client).waits;
        cluster_move(c->cluster, wait.slot, clustered_other(c, wait.slot));
        assert_true(wait_until(waits_again, &wait, SOON_MS));
    }
    release(&wait);
    gets_in_after_moves(&wait);
}

static void a_waiter_that_reads_is_woken_after_a_planned_failover(void **state)
{
    struct clustered *c = *state;
    struct wait wait = begin_to_poll(c, waiting_client(c), NAME);

    (void)cluster_fail_over(c->cluster, cluster_owner(c->cluster, wait.slot));
    release(&wait);
    gets_in(&wait);
}

static void a_waiter_that_reads_is_woken_after_its_master_died(void **state)
{
    struct clustered *c = *state;
    struct wait wait = begin_to_poll(c, waiting_client(c), NAME);

    clustered_kill(c, cluster_owner(c->cluster, wait.slot));
    release(&wait);
    gets_in(&wait);
}

/* The next connection mostly has the same descriptor. */
static void a_waiter_that_reads_hears_of_the_end_of_the_connection(void **state)
{
    struct clustered *c = *state;
    struct wait wait = begin_to_poll(c, waiting_client(c), NAME);
    struct probe *probe = cluster_probe(c->cluster, NAME);

    for (int i = 0; i < 3; i++) {
        wait.n_waits = stats_of(wait.client).waits;
        assert_int_equal(probe_int(probe, "CLIENT KILL TYPE pubsub"), 1);
        assert_true(wait_until(waits_again, &wait, SOON_MS)); /* it has asked again */
        assert_true(wait_until(is_subscribed, &wait, SOON_MS));
    }
    release(&wait);
    gets_in(&wait);
}

/* The waiter keeps a reference to the node at which it reads. */
static void a_waiter_that_reads_is_woken_after_its_node_has_left_the_cluster(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, NAME);
    size_t home = cluster_owner(c->cluster, slot), added = cluster_add(c->cluster);
    struct wait wait;

    cluster_move(c->cluster, slot, added);
    wait = begin_to_wait(c, waiting_client(c), NAME);
    cluster_move(c->cluster, slot, home);
    cluster_remove(c->cluster, added);
    let_pass(2500); /* the client looks each second for nodes to free */
    release(&wait);
    gets_in_after_moves(&wait);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_waiter_gets_the_lock_while_the_io_thread_stands_still),
        CLUSTER_TEST(no_waiter_depends_on_one_that_stands_still),
        CLUSTER_TEST(a_waiter_reads_where_its_lock_is),
        CLUSTER_TEST(a_waiter_that_reads_is_woken_where_the_slot_went),
        CLUSTER_TEST(a_waiter_that_reads_is_woken_after_a_planned_failover),
        CLUSTER_TEST(a_waiter_that_reads_is_woken_after_its_master_died),
        CLUSTER_TEST(a_waiter_that_reads_hears_of_the_end_of_the_connection),
        CLUSTER_TEST(a_waiter_that_reads_is_woken_after_its_node_has_left_the_cluster),
    };

    return CLUSTER_TESTS_RUN(tests);
}
