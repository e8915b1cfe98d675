/*
 * Client tracking in a cluster: the node that owns the slot of a held lock reports its changes, and
 * when it has moved, the new owner does. The old node reports that the key has left, and the next
 * command tells the client of the move.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/tracked.h"

#define NAME "orders"
#define LEASE_MS 30000  /* a renewal each 10 s */
#define AT_ONCE_MS 5000 /* much sooner than the next renewal of a lock that is tracked */

struct tracked {
    struct probe *probe;
    long long before;
};

/* How many checks the node has tracked. */
static struct tracked tracked_of(struct clustered *c, size_t node)
{
    struct probe *probe = c->cluster->node[node].probe;

    return (struct tracked){probe, tracked_count(probe)};
}

static bool has_tracked(void *arg)
{
    const struct tracked *tracked = arg;

    return tracked_count(tracked->probe) > tracked->before;
}

static void await_tracked(struct tracked *tracked)
{
    assert_true(wait_until(has_tracked, tracked, slow_ms(LEASE_MS)));
}

/* One renewal is enough: it tells the client of the move. */
static void await_tracked_anew(struct relock_client *client, struct tracked *tracked)
{
    uint64_t renewed = stats_of(client).renewed;

    await_tracked(tracked);
    assert_true(stats_of(client).renewed <= renewed + 1);
}

/* Acquires the lock, for `lease_ms` if that is not 0, and waits until the owner of its slot guards
 * it. */
static struct clustered_lock hold_tracked_for(struct clustered *c, uint64_t lease_ms)
{
    const struct relock_how how = {.wait_ms = RELOCK_FOREVER, .lease_ms = lease_ms};
    struct clustered_lock hold = clustered_lock(c, LEASE_MS);
    struct tracked tracked = tracked_of(c, hold.owner);

    assert_result(relock_acquire(hold.lock, &how, NULL), RELOCK_OK);
    await_tracked(&tracked);
    return hold;
}

static struct clustered_lock hold_tracked(struct clustered *c)
{
    return hold_tracked_for(c, 0);
}

static void assert_lost_when_deleted(struct clustered *c, struct relock_lock *lock)
{
    assert_int_equal(losses_count(c->f->losses), 0);
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "DEL " NAME), 1);
    assert_true(losses_wait(c->f->losses, 1, slow_ms(AT_ONCE_MS)));
    assert_int_equal(losses_get(c->f->losses, 0).reason, RELOCK_LOST_GONE);
    assert_int_equal(relock_valid_ms(lock), 0);
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

static void a_deleted_lock_is_lost_at_once(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = hold_tracked(c);

    assert_lost_when_deleted(c, hold.lock);
}

static void a_lock_whose_slot_moved_is_lost_at_once(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = hold_tracked(c);
    size_t to = clustered_other(c, hold.slot);
    struct tracked tracked = tracked_of(c, to);

    cluster_move(c->cluster, hold.slot, to);
    await_tracked_anew(hold.client, &tracked);
    assert_lost_when_deleted(c, hold.lock);
}

static void a_lock_is_lost_at_once_after_a_planned_failover(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = hold_tracked(c);
    struct tracked tracked = tracked_of(c, cluster_replica(c->cluster, hold.owner));

    (void)cluster_fail_over(c->cluster, hold.owner);
    await_tracked_anew(hold.client, &tracked);
    assert_lost_when_deleted(c, hold.lock);
}

/* Another lock tells the client of the failover. The old node has no slots then, so the client
 * closes its connections to it. */
static void a_fixed_lease_is_lost_at_once_after_a_planned_failover(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = hold_tracked_for(c, slow_ms(10 * LEASE_MS));
    struct relock_lock *other = fixture_lock(c->f, hold.client, "{" NAME "}:other");
    struct tracked tracked = tracked_of(c, cluster_replica(c->cluster, hold.owner));

    (void)cluster_fail_over(c->cluster, hold.owner);
    assert_result(relock_lock(other), RELOCK_OK);
    assert_result(relock_unlock(other), RELOCK_OK);
    await_tracked(&tracked);
    assert_lost_when_deleted(c, hold.lock);
}

static bool was_asked(void *arg)
{
    const struct tracked *askings = arg;

    return probe_calls(askings->probe, "asking") > askings->before;
}

/* The node was asked for one more command. */
static void await_asked(struct clustered *c, size_t node)
{
    struct probe *probe = c->cluster->node[node].probe;
    struct tracked askings = {probe, probe_calls(probe, "asking")};

    assert_true(wait_until(was_asked, &askings, SOON_MS));
}

/* No renewal tells the client of the move. The old node reports that the key has left, so a check
 * comes; but behind ASKING the new one tracks nothing. */
static void a_fixed_lease_whose_slot_moved_is_lost_at_once(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = hold_tracked_for(c, slow_ms(10 * LEASE_MS));
    size_t to = clustered_other(c, hold.slot);
    struct tracked tracked;

    cluster_move_open(c->cluster, hold.slot, to);
    cluster_move_keys(c->cluster, hold.slot, to);
    await_asked(c, to);
    tracked = tracked_of(c, to);
    cluster_move_close(c->cluster, hold.slot, to);
    await_tracked(&tracked);
    assert_lost_when_deleted(c, hold.lock);
    cluster_await(c->cluster);
}

/* The same for a lock that is deleted on its way. */
static void a_fixed_lease_that_is_deleted_at_the_new_node_is_lost(void **state)
{
    struct clustered *c = *state;
    struct clustered_lock hold = hold_tracked_for(c, slow_ms(10 * LEASE_MS));
    size_t to = clustered_other(c, hold.slot);
    struct probe *probe = c->cluster->node[to].probe;

    cluster_move_open(c->cluster, hold.slot, to);
    cluster_move_keys(c->cluster, hold.slot, to);
    await_asked(c, to);
    assert_memory_equal(probe_text(probe, "ASKING"), "OK", 2);
    assert_int_equal(probe_int(probe, "DEL " NAME), 1);
    assert_true(losses_wait(c->f->losses, 1, slow_ms(AT_ONCE_MS)));
    cluster_move_close(c->cluster, hold.slot, to);
    cluster_await(c->cluster);
    assert_result(relock_unlock(hold.lock), RELOCK_LOST);
}

/* A program that uses another library holds the lock, and its key is on its way. */
static void a_waiter_for_a_plain_lock_polls_while_its_slot_moves(void **state)
{
    struct clustered *c = *state;
    const struct relock_options options = {.recheck_ms = NEVER_MS, .command_timeout_ms = 20000};
    struct relock_lock *lock =
        fixture_lock_of(c->f, clustered_client(c, &options), NAME, relock_plainlock_new);
    struct actor *waiter = actor_start();
    int slot = cluster_slot(c->cluster, NAME);
    size_t from = cluster_owner(c->cluster, slot);
    size_t to = clustered_other(c, slot);
    struct tracked tracked = tracked_of(c, from);

    assert_int_equal(probe_int(tracked.probe, "SET " NAME " token PX %d", (int)NEVER_MS), 0);
    cluster_move_open(c->cluster, slot, to);
    cluster_move_keys(c->cluster, slot, to);
    actor_begin_lock(waiter, lock);
    for (int i = 0; i < 3; i++) { /* as the client thinks, until it hears that no node does */
        await_tracked(&tracked);
        await_asked(c, to);
        tracked = tracked_of(c, from);
    }
    cluster_move_close(c->cluster, slot, to);
    assert_int_equal(probe_int(c->cluster->node[to].probe, "DEL " NAME), 1);
    assert_gets_in(waiter, lock);
    actor_end_all();
    cluster_await(c->cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_deleted_lock_is_lost_at_once),
        CLUSTER_TEST(a_lock_whose_slot_moved_is_lost_at_once),
        CLUSTER_TEST(a_lock_is_lost_at_once_after_a_planned_failover),
        CLUSTER_TEST(a_fixed_lease_is_lost_at_once_after_a_planned_failover),
        CLUSTER_TEST(a_fixed_lease_whose_slot_moved_is_lost_at_once),
        CLUSTER_TEST(a_fixed_lease_that_is_deleted_at_the_new_node_is_lost),
        CLUSTER_TEST(a_waiter_for_a_plain_lock_polls_while_its_slot_moves),
    };

    return CLUSTER_TESTS_RUN(tests);
}
