/*
 * What a cluster cannot do for now: it refuses while a slot has no master (CLUSTERDOWN), and while
 * the keys of a lock are at two nodes, where a command that names several keys gets TRYAGAIN. A
 * call waits until its deadline, and the line that reports its failure names cause and remedy.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"

#include <string.h>

#define NAME "orders"
#define QUEUE "redisson_lock_queue:{" NAME "}"
#define SHORT_MS 500
#define LONG_MS 60000

static struct relock_lock *lock_for(struct clustered *c, uint64_t command_timeout_ms,
                                    fixture_constructor_fn *make)
{
    struct relock_options options = {.command_timeout_ms = slow_ms(command_timeout_ms),
                                     .watchdog_timeout_ms = slow_ms(LONG_MS)};

    return fixture_lock_of(c->f, clustered_client(c, &options), NAME, make);
}

/* The call is refused again and again, and goes on. */
static void is_refused(struct clustered *c, size_t node, struct actor *caller)
{
    assert_true(cluster_wait_refusals(c->cluster, node, 3));
    assert_true(actor_is_busy(caller));
}

/* It ends at its deadline, and one line says why and what helps. */
static void fails_in_time(struct clustered *c, struct relock_lock *lock, const char *cause,
                          const char *remedy)
{
    uint64_t began_ms;
    int r;

    do {
        log_clear(c->f->log);
        began_ms = now_ms();
        r = relock_lock(lock);
        assert_true(log_wait(c->f->log, "not acquired", SOON_MS));
    } while (r == RELOCK_E_CONN); /* the machine stood still during the last attempt */
    assert_result(r, RELOCK_E_SERVER);
    assert_took(began_ms, 0, slow_ms(SHORT_MS + 5000));
    assert_int_equal(log_count(c->f->log, "not acquired"), 1);
    assert_int_equal(log_count(c->f->log, cause), 1);
    assert_int_equal(log_count(c->f->log, remedy), 1);
}

/* ---- CLUSTERDOWN --------------------------------------------------------------------------- */

static bool is_down(void *probe)
{
    return strstr(probe_text(probe, "CLUSTER INFO"), "cluster_state:fail") != NULL;
}

/* Another master and its replica die. Returns the node that has the slot, which refuses then. */
static size_t break_cluster(struct clustered *c)
{
    int slot = cluster_slot(c->cluster, NAME);
    size_t owner = cluster_owner(c->cluster, slot);
    size_t master = clustered_other(c, slot);
    size_t replica = cluster_replica(c->cluster, master);

    server_kill(c->cluster->node[replica].server);
    server_kill(c->cluster->node[master].server);
    assert_true(wait_until(is_down, c->cluster->node[owner].probe, CLUSTER_FAILOVER_MS));
    return owner;
}

static void a_call_ends_at_its_deadline_while_a_cluster_is_down(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_for(c, SHORT_MS, relock_lock_new);

    assert_result(fixture_acquire(lock, &(struct relock_how){.wait_ms = RELOCK_FOREVER}),
                  RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    (void)break_cluster(c);
    fails_in_time(c, lock, ": CLUSTERDOWN The cluster is down: a slot has no master that runs",
                  "start one, or assign the slot");
}

static void a_call_waits_until_a_cluster_is_up_again(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = lock_for(c, LONG_MS, relock_lock_new);
    struct relock_lock *held = lock_for(c, LONG_MS, relock_lock_new);
    struct actor *caller = actor_start();
    size_t node;

    assert_result(relock_lock(held), RELOCK_OK);
    node = break_cluster(c);
    actor_begin_lock(caller, lock);
    is_refused(c, node, caller);
    cluster_mend(c->cluster);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(caller, lock);
    actor_end_all();
}

/* ---- keys at two nodes --------------------------------------------------------------------- */

struct split {
    struct relock_lock *held, *awaited;
    struct actor *waiter;
    int slot;
    size_t from, to;
};

static bool has_waiter(void *probe)
{
    return probe_int(probe, "LLEN " QUEUE) == 1;
}

/* A fair lock is held, and a waiter is in its queue. Then only the queue is at the new node. */
static struct split begin_split(struct clustered *c)
{
    struct split split = {
        .held = lock_for(c, LONG_MS, relock_fairlock_new),
        .awaited = lock_for(c, LONG_MS, relock_fairlock_new),
        .waiter = actor_start(),
        .slot = cluster_slot(c->cluster, NAME),
    };
    struct probe *probe;

    split.from = cluster_owner(c->cluster, split.slot);
    probe = c->cluster->node[split.from].probe;
    split.to = clustered_other(c, split.slot);
    assert_result(relock_lock(split.held), RELOCK_OK);
    actor_begin_lock(split.waiter, split.awaited);
    assert_true(wait_until(has_waiter, probe, SOON_MS));
    cluster_move_open(c->cluster, split.slot, split.to);
    cluster_move_key(c->cluster, QUEUE, split.to);
    assert_memory_equal(probe_list(probe, "EXISTS " NAME " " QUEUE), "TRYAGAIN ", 9);
    return split;
}

static void end_split(struct clustered *c, struct split *split)
{
    cluster_move_keys(c->cluster, split->slot, split->to);
    cluster_move_close(c->cluster, split->slot, split->to);
    assert_result(relock_unlock(split->held), RELOCK_OK);
    assert_gets_in(split->waiter, split->awaited);
}

static void a_call_ends_at_its_deadline_while_its_keys_are_at_two_nodes(void **state)
{
    struct clustered *c = *state;
    struct split split = begin_split(c);
    struct relock_lock *lock = lock_for(c, SHORT_MS, relock_fairlock_new);

    fails_in_time(c, lock, ": the slot is half moved, and the keys of the lock are at two nodes",
                  "complete the move, or abandon it");
    end_split(c, &split);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    actor_end_all();
}

static int acquire_and_release(void *lock)
{
    int r = relock_lock(lock);

    return r == RELOCK_OK ? relock_unlock(lock) : r;
}

/* Until the waiter has subscribed at the new node, scripts take it for gone, so the caller may go
 * first. */
static void a_call_waits_until_its_keys_are_at_one_node(void **state)
{
    struct clustered *c = *state;
    struct split split = begin_split(c);
    struct relock_lock *lock = lock_for(c, LONG_MS, relock_fairlock_new);
    struct actor *caller = actor_start();

    actor_begin(caller, acquire_and_release, lock);
    is_refused(c, split.from, caller);
    end_split(c, &split);
    assert_result(actor_result(caller), RELOCK_OK);
    actor_end_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_call_ends_at_its_deadline_while_a_cluster_is_down),
        CLUSTER_TEST(a_call_waits_until_a_cluster_is_up_again),
        CLUSTER_TEST(a_call_ends_at_its_deadline_while_its_keys_are_at_two_nodes),
        CLUSTER_TEST(a_call_waits_until_its_keys_are_at_one_node),
    };

    return CLUSTER_TESTS_RUN(tests);
}
