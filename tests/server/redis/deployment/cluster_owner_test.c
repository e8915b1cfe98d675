/*
 * A slot without an owner, and one about whose owner two nodes do not agree: each of them refers to
 * the other. Both happen when a move is done by hand, or its tool dies. Calls are refused
 * meanwhile, and end at their deadline.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/cluster_view.h"
#include "support/stats.h"

#include <stdlib.h>
#include <string.h>

#define NAME "orders"
#define SHORT_MS 500
#define LONG_MS 60000
#define LEASE_MS 8000 /* a lock that a failover brings back ends while the fixture cleans up */
#define FEW 1000 /* refusals of a call that pauses; without pauses, there are more in SHORT_MS */

static struct relock_client *client_for(struct clustered *c, uint64_t command_timeout_ms)
{
    return clustered_client(
        c, &(struct relock_options){.command_timeout_ms = slow_ms(command_timeout_ms),
                                    .watchdog_timeout_ms = slow_ms(LEASE_MS)});
}

static struct relock_lock *lock_for(struct clustered *c, uint64_t command_timeout_ms)
{
    return fixture_lock(c->f, client_for(c, command_timeout_ms), NAME);
}

/* ---- refusals ------------------------------------------------------------------------------ */

struct refusals {
    struct clustered *c;
    long long n;
};

/* The errors that all nodes have returned. */
static long long count_refusals(struct clustered *c)
{
    long long n = 0;

    for (size_t i = 0; i < c->cluster->n; i++)
        n += cluster_n_refusals(c->cluster, i);
    return n;
}

static bool has_refused(void *arg)
{
    const struct refusals *refusals = arg;

    return count_refusals(refusals->c) >= refusals->n;
}

/* The call is refused again and again, and goes on. */
static void is_refused(struct clustered *c, struct actor *caller)
{
    struct refusals refusals = {c, count_refusals(c) + 3};

    assert_true(wait_until(has_refused, &refusals, SOON_MS));
    assert_true(actor_is_busy(caller));
}

struct failed {
    int result;
    uint64_t took_ms;
    long long n_refusals;
};

/* What comes of a call with SHORT_MS, which is not asserted before the cluster is mended. */
static struct failed call_briefly(struct clustered *c, struct relock_lock *lock)
{
    struct failed failed;

    do {
        uint64_t began_ms = now_ms();
        long long n_before = count_refusals(c);

        log_clear(c->f->log);
        failed.result = relock_lock(lock);
        failed.took_ms = now_ms() - began_ms;
        failed.n_refusals = count_refusals(c) - n_before;
        (void)log_wait(c->f->log, "not acquired", SOON_MS);
    } while (failed.result == RELOCK_E_CONN); /* the machine stood still in the last attempt */
    return failed;
}

/* It ended at its deadline, without a storm of commands, and one line says why and what helps. */
static void has_failed(struct clustered *c, const struct failed *failed, const char *cause,
                       const char *remedy)
{
    assert_result(failed->result, RELOCK_E_SERVER);
    assert_in_range(failed->took_ms, 0, slow_ms(SHORT_MS + 5000));
    assert_in_range(failed->n_refusals, 1, FEW);
    assert_int_equal(log_count(c->f->log, "not acquired"), 1);
    assert_int_equal(log_count(c->f->log, cause), 1);
    assert_int_equal(log_count(c->f->log, remedy), 1);
}

/* ---- a slot without an owner --------------------------------------------------------------- */

struct ownership {
    struct cluster *cluster;
    int slot;
    size_t to;
};

/* Takes it from all. A message that its owner sent before may still name it, so it asks again. */
static bool is_unowned(void *arg)
{
    const struct ownership *it = arg;
    bool is_owned = false;

    for (size_t i = 0; i < it->cluster->n; i++) {
        struct cluster_view view;

        if (!cluster_view_of(it->cluster, i, &view) || view.owner[it->slot] < 0)
            continue;
        is_owned = true;
        (void)probe_text(it->cluster->node[i].probe, "CLUSTER DELSLOTS %d", it->slot);
    }
    return !is_owned;
}

static void take_slot(struct clustered *c, int slot)
{
    assert_true(wait_until(is_unowned, &(struct ownership){c->cluster, slot, 0}, SOON_MS));
}

/* If the machine stands still for longer than the nodes' time-out, a replica takes over from `to`.
 * The new epoch makes all believe the new owner, even if one still knows an earlier one. */
static bool is_given(void *arg)
{
    const struct ownership *it = arg;
    struct cluster_view view;
    size_t master;

    cluster_view_any(it->cluster, &view);
    if (view.master[it->to] < 0)
        return false;
    master = (size_t)view.master[it->to];
    if (!cluster_view_of(it->cluster, master, &view))
        return false;
    if (view.owner[it->slot] < 0) {
        (void)probe_text(it->cluster->node[master].probe, "CLUSTER ADDSLOTS %d", it->slot);
        (void)probe_text(it->cluster->node[master].probe, "CLUSTER BUMPEPOCH");
    }
    return cluster_is_settled(it->cluster);
}

static void give_slot(struct clustered *c, int slot, size_t to)
{
    assert_true(
        wait_until(is_given, &(struct ownership){c->cluster, slot, to}, 2 * CLUSTER_FAILOVER_MS));
}

/* While the caller knows the old owner. */
static void a_call_waits_for(struct clustered *c, int slot, size_t new_owner)
{
    struct relock_lock *lock = lock_for(c, LONG_MS);
    struct actor *caller = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    take_slot(c, slot);
    actor_begin_lock(caller, lock);
    is_refused(c, caller);
    give_slot(c, slot, new_owner);
    assert_gets_in(caller, lock);
    actor_end_all();
}

static void a_call_waits_until_its_slot_has_a_node(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, NAME);

    a_call_waits_for(c, slot, cluster_owner(c->cluster, slot));
}

static void a_call_finds_the_new_owner_of_a_slot_that_had_none(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, NAME);

    a_call_waits_for(c, slot, clustered_other(c, slot));
}

static void a_call_ends_at_its_deadline_while_its_slot_has_no_node(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, NAME);
    size_t owner = cluster_owner(c->cluster, slot);
    struct relock_lock *lock = lock_for(c, SHORT_MS);
    struct failed failed;

    take_slot(c, slot);
    failed = call_briefly(c, lock);
    give_slot(c, slot, owner);
    has_failed(c, &failed, ": CLUSTERDOWN Hash slot not served: a slot has no master that runs",
               "start one, or assign the slot");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* The key stays at the node, which refuses renewals. */
static void a_hold_survives_while_its_slot_has_no_node(void **state)
{
    struct clustered *c = *state;
    int slot = cluster_slot(c->cluster, NAME);
    size_t owner = cluster_owner(c->cluster, slot);
    struct relock_client *client = client_for(c, LONG_MS);
    struct relock_lock *lock = fixture_lock(c->f, client, NAME);
    struct refusals refusals = {.c = c};
    uint64_t n_renewed;

    assert_result(relock_lock(lock), RELOCK_OK);
    take_slot(c, slot);
    refusals.n = count_refusals(c) + 1;
    assert_true(wait_until(has_refused, &refusals, SOON_MS));
    n_renewed = stats_of(client).renewed;
    give_slot(c, slot, owner);
    assert_true(wait_for_renewals(client, n_renewed, 1));
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(stats_of(client).lost, 0);
}

/* ---- nodes that do not agree --------------------------------------------------------------- */

static bool refers(struct clustered *c, size_t i)
{
    const char *reply = probe_text(c->cluster->node[i].probe, "GET " NAME);

    return strstr(reply, "MOVED ") != NULL;
}

/* A move whose tool tells the old owner first, and then dies: the new one waits for ASKING. */
static size_t begin_to_disagree(struct clustered *c, int slot)
{
    size_t from = cluster_owner(c->cluster, slot), to = clustered_other(c, slot);

    cluster_move_open(c->cluster, slot, to);
    cluster_must(probe_int(c->cluster->node[from].probe, "CLUSTER SETSLOT %d NODE %s", slot,
                           c->cluster->node[to].id) == 0,
                 "the old owner keeps the slot");
    assert_true(refers(c, from));
    assert_true(refers(c, to));
    return to;
}

static void end_to_disagree(struct clustered *c, int slot, size_t to)
{
    cluster_move_close(c->cluster, slot, to);
    cluster_await(c->cluster);
}

static void a_call_waits_until_the_nodes_agree(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_for(c, LONG_MS);
    struct actor *caller = actor_start();
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = begin_to_disagree(c, slot);

    actor_begin_lock(caller, lock);
    is_refused(c, caller);
    end_to_disagree(c, slot, to);
    assert_gets_in(caller, lock);
    actor_end_all();
}

static void a_call_ends_at_its_deadline_while_two_nodes_refer_to_each_other(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_for(c, SHORT_MS);
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = begin_to_disagree(c, slot);
    struct failed failed = call_briefly(c, lock);

    end_to_disagree(c, slot, to);
    has_failed(c, &failed, ": MOVED ", "the nodes do not agree: complete the move");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_call_waits_until_its_slot_has_a_node),
        CLUSTER_TEST(a_call_finds_the_new_owner_of_a_slot_that_had_none),
        CLUSTER_TEST(a_call_ends_at_its_deadline_while_its_slot_has_no_node),
        CLUSTER_TEST(a_hold_survives_while_its_slot_has_no_node),
        CLUSTER_TEST(a_call_waits_until_the_nodes_agree),
        CLUSTER_TEST(a_call_ends_at_its_deadline_while_two_nodes_refer_to_each_other),
    };

    return CLUSTER_TESTS_RUN(tests);
}
