/*
 * The queue of a fair lock in a cluster: a waiter that gives up leaves it, wherever the slot is by
 * then. A failover may bring a place back, which goes like that of a dead waiter.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"

#include <string.h>

#define NAME "orders"
#define QUEUE "redisson_lock_queue:{" NAME "}"
#define DEADLINES "redisson_lock_timeout:{" NAME "}"
#define LONG_LEASE_MS 60000
#define PATIENCE_MS 1000

struct queue {
    struct clustered *c;
    struct relock_lock *held, *wanted;
    struct actor *waiter;
    struct relock_cancel *cancel;
    int slot;
    size_t owner; /* of the slot, at first */
    long long n;  /* to wait for */
};

static bool has_length(void *arg)
{
    const struct queue *queue = arg;
    struct probe *probe = cluster_probe(queue->c->cluster, NAME);

    return probe_int(probe, "LLEN " QUEUE) == queue->n &&
           probe_int(probe, "ZCARD " DEADLINES) == queue->n;
}

static void await_length(struct queue *queue, long long n)
{
    queue->n = n;
    assert_true(wait_until(has_length, queue, CLUSTER_FAILOVER_MS));
}

/* The deadline of a waiter has a fraction when it has asked while it listened. */
static bool has_listened(void *arg)
{
    const struct queue *queue = arg;
    struct probe *probe = cluster_probe(queue->c->cluster, NAME);

    return strchr(probe_list(probe, "ZRANGE " DEADLINES " 0 -1 WITHSCORES"), '.') != NULL;
}

/* A client holds the lock, and another one waits in the queue and asks no more. The replica has
 * both. */
static struct queue begin(struct clustered *c)
{
    const struct relock_options options = {.watchdog_timeout_ms = slow_ms(LONG_LEASE_MS),
                                           .recheck_ms = slow_ms(LONG_LEASE_MS),
                                           .command_timeout_ms = CLUSTER_FAILOVER_MS};
    struct queue queue = {.c = c, .slot = cluster_slot(c->cluster, NAME), .waiter = actor_start()};

    queue.owner = cluster_owner(c->cluster, queue.slot);
    queue.held = fixture_lock_of(c->f, clustered_client(c, &options), NAME, relock_fairlock_new);
    queue.wanted = fixture_lock_of(c->f, clustered_client(c, &options), NAME, relock_fairlock_new);
    assert_result(relock_fairlock_set_patience(queue.held, PATIENCE_MS), RELOCK_OK);
    assert_result(relock_cancel_new(&queue.cancel), RELOCK_OK);
    assert_result(relock_lock(queue.held), RELOCK_OK);
    actor_begin_acquire(queue.waiter, queue.wanted,
                        &(struct relock_how){.wait_ms = RELOCK_FOREVER, .cancel = queue.cancel});
    await_length(&queue, 1);
    assert_true(wait_until(has_listened, &queue, SOON_MS));
    cluster_await_copy(c->cluster, queue.owner);
    return queue;
}

static void give_up(struct queue *queue)
{
    relock_cancel_fire(queue->cancel);
    assert_result(actor_result(queue->waiter), RELOCK_CANCELLED);
}

static void end(struct queue *queue)
{
    actor_end_all();
    relock_cancel_free(queue->cancel);
}

static void a_waiter_leaves_the_queue_where_its_slot_went(void **state)
{
    struct clustered *c = *state;
    struct queue queue = begin(c);

    cluster_move(c->cluster, queue.slot, clustered_other(c, queue.slot));
    give_up(&queue);
    await_length(&queue, 0);
    assert_result(relock_unlock(queue.held), RELOCK_OK);
    end(&queue);
}

/* It gives up while its master hangs, which dies then without an answer. */
static void a_waiter_leaves_the_queue_at_the_new_master(void **state)
{
    struct clustered *c = *state;
    struct queue queue = begin(c);

    server_pause(c->cluster->node[queue.owner].server);
    give_up(&queue);
    server_kill(c->cluster->node[queue.owner].server);
    cluster_await(c->cluster);
    await_length(&queue, 0);
    assert_result(relock_unlock(queue.held), RELOCK_OK);
    end(&queue);
}

/* Whether the queue is empty after another acquire and release. */
static bool is_gone_after_a_turn(void *arg)
{
    struct queue *queue = arg;

    assert_result(relock_lock(queue->held), RELOCK_OK);
    assert_result(relock_unlock(queue->held), RELOCK_OK);
    return has_length(queue);
}

/* The old master had removed the place, and died before its replica heard of that. The next owner
 * passes over the waiter, which listens no more, and an acquire after its patience removes it. */
static void a_place_that_a_failover_brings_back_goes_when_its_time_is_over(void **state)
{
    struct clustered *c = *state;
    struct queue queue = begin(c);
    struct cluster_node *master = &c->cluster->node[queue.owner];
    struct server *replica = c->cluster->node[cluster_replica(c->cluster, queue.owner)].server;

    server_pause(replica);
    assert_true(probe_int(master->probe, "CLIENT KILL TYPE replica") >= 1);
    give_up(&queue);
    await_length(&queue, 0);
    server_kill(master->server);
    server_resume(replica);
    cluster_await(c->cluster);
    await_length(&queue, 1);

    assert_result(relock_unlock(queue.held), RELOCK_OK);
    queue.n = 0;
    assert_true(wait_until(is_gone_after_a_turn, &queue, SOON_MS));
    end(&queue);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_waiter_leaves_the_queue_where_its_slot_went),
        CLUSTER_TEST(a_waiter_leaves_the_queue_at_the_new_master),
        CLUSTER_TEST(a_place_that_a_failover_brings_back_goes_when_its_time_is_over),
    };

    return CLUSTER_TESTS_RUN(tests);
}
