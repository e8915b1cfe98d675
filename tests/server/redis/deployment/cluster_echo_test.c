/*
 * A lock is released while its slot is half moved. The message for those who listen at the old node
 * is a command of its own there, which may be refused or lost.
 */
#include "support/actor.h"
#include "support/busy.h"
#include "support/cluster_fixture.h"

#include <stdio.h>

#define NAME "orders"

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
    assert_true(proxy_counts(lock.old->proxy, "SSUBSCRIBE redisson_lock__channel:{" NAME "}", 1));
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
    assert_true(proxy_met(echo, 1));
    be_busy(lock.old);
    proxy_let_go(echo);
    assert_true(proxy_counts(lock.old->proxy, "-BUSY", 1));
    be_busy_no_more();
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

#define ECHO_TEST(function) cmocka_unit_test_setup_teardown(function, clustered_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        ECHO_TEST(a_message_that_a_busy_node_refused_is_repeated),
        ECHO_TEST(a_message_that_is_cut_off_is_repeated),
    };

    return cmocka_run_group_tests(tests, start, clustered_stop);
}
