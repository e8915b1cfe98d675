/* Semaphores of a cluster: the line, renewals, and slots that move. */
#include "support/cluster_line.h"
#include "support/probe_wait.h"

#include <stdio.h>

#define NAME "orders"
#define OUT "{orders}:timeout"
#define LONG_MS 60000
#define LEASE_MS 2000 /* outlives a second in which a machine stands still */

static struct relock_lock *semaphore_of(struct clustered *c, struct relock_client *client,
                                        uint64_t n)
{
    struct relock_lock *lock = fixture_lock_of(c->f, client, NAME, relock_semaphore_new);

    assert_result(relock_semaphore_set(lock, n), RELOCK_OK);
    return lock;
}

static int take(struct relock_lock *lock, uint64_t n)
{
    return relock_acquire(lock, &(struct relock_how){.permits = n, .wait_ms = LONG_MS}, NULL);
}

struct turn {
    struct relock_lock *lock;
    uint64_t n;
};

static int take_turn(void *arg)
{
    const struct turn *turn = arg;

    return take(turn->lock, turn->n);
}

static void assert_free(struct clustered *c, int64_t n_free, uint64_t n_out)
{
    struct probe *probe = cluster_probe(c->cluster, NAME);

    assert_int_equal(probe_int(probe, "GET " NAME), n_free);
    assert_int_equal(probe_int(probe, "ZCARD " OUT), n_out);
}

static void forget(struct clustered *c, int64_t n)
{
    assert_free(c, n, 0);
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "DEL " NAME), 1);
    assert_int_equal(cluster_line_n_nodes(c), 0);
}

static bool note_semaphore(const struct relock_lock_info *info, void *text)
{
    (void)snprintf(text, 64, "%s: kind %d, %lld free, %llu out, %llu of one, %u wait", info->name,
                   info->kind, (long long)info->number, (unsigned long long)info->n_out,
                   (unsigned long long)(info->permits ? info->permits->n_permits : 0),
                   info->n_waiting);
    return true;
}

static void wait_in_order(struct clustered *c, const char *query)
{
    struct relock_client *client = cluster_line_client(c, query);
    struct relock_lock *ours = semaphore_of(c, client, 3);
    struct turn large = {semaphore_of(c, cluster_line_client(c, query), 3), 3};
    struct turn small = {semaphore_of(c, cluster_line_client(c, query), 3), 1};
    struct actor *first = actor_start(), *second = actor_start();
    char seen[64] = "";

    assert_result(take(ours, 2), RELOCK_OK);
    actor_begin(first, take_turn, &large);
    assert_true(cluster_line_wait(c, NAME, 1));
    actor_begin(second, take_turn, &small);
    assert_true(cluster_line_wait(c, NAME, 2));
    assert_result(relock_trylock(ours), RELOCK_BUSY); /* one is free */
    assert_result(relock_locks(client, "*", note_semaphore, seen), RELOCK_OK);
    assert_string_equal(seen, "orders: kind 9, 1 free, 2 out, 2 of one, 2 wait");
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_true(actor_is_busy(second));
    assert_result(actor_unlock(first, large.lock), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_unlock(second, small.lock), RELOCK_OK);
    forget(c, 3);
}

static void clients_wait_in_order(void **state)
{
    wait_in_order(*state, "");
}

static void clients_wait_in_order_by_plain_channels(void **state)
{
    wait_in_order(*state, "?pubsub=plain");
}

static void permits_follow_their_slot(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client =
        clustered_client(c, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_lock *lock = semaphore_of(c, client, 3);
    int slot = cluster_slot(c->cluster, NAME);

    assert_result(take(lock, 1), RELOCK_OK);
    assert_result(take(lock, 1), RELOCK_OK);
    cluster_move(c->cluster, slot, clustered_other(c, slot));
    assert_true(wait_for_renewals(client, stats_of(client).renewed, 4));
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(take(lock, 1), RELOCK_OK);
    assert_free(c, 0, 3);
    for (int i = 0; i < 3; i++)
        assert_result(relock_unlock(lock), RELOCK_OK);
    forget(c, 3);
}

/* One of its two keys is at the new node: nothing is made anew there, so the move can end. */
static void a_half_moved_semaphore_waits_for_the_end_of_the_move(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(
        c, &(struct relock_options){.recheck_ms = 100, .flags = RELOCK_NO_TRACKING});
    struct turn turn = {semaphore_of(c, client, 3), 2};
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = clustered_other(c, slot);
    struct actor *other = actor_start();

    assert_result(take(turn.lock, 1), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        cluster_move_open(c->cluster, slot, to);
        cluster_move_key(c->cluster, i == 0 ? OUT : NAME, to);
        actor_begin(other, take_turn, &turn);
        assert_result(actor_result_within(other, 300), ACTOR_BUSY);
        cluster_move_keys(c->cluster, slot, to);
        cluster_move_close(c->cluster, slot, to);
        assert_result(actor_result(other), RELOCK_OK);
        assert_true(wait_until(cluster_is_settled, c->cluster, SOON_MS));
        assert_free(c, 0, 3);
        assert_result(actor_unlock(other, turn.lock), RELOCK_OK);
        to = clustered_other(c, slot);
    }
    assert_result(relock_unlock(turn.lock), RELOCK_OK);
    forget(c, 3);
}

/* E_CONN: on a busy machine, the last answer came too late. */
static void assert_cannot_say(int r)
{
    if (r != RELOCK_E_CONN)
        assert_result(r, RELOCK_E_SERVER);
}

/* The number is at the new node, so that one runs the scripts; the permits are not there yet. */
static void permits_that_are_still_elsewhere_are_not_lost(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = clustered_client(
        c, &(struct relock_options){.command_timeout_ms = 300, .flags = RELOCK_NO_TRACKING});
    struct relock_lock *lock = semaphore_of(c, client, 3);
    int slot = cluster_slot(c->cluster, NAME);
    size_t to = clustered_other(c, slot);
    struct relock_holder holder;

    assert_result(take(lock, 1), RELOCK_OK);
    cluster_move_open(c->cluster, slot, to);
    cluster_move_key(c->cluster, NAME, to);
    assert_cannot_say(relock_extend(lock, 0, LONG_MS));
    assert_cannot_say(relock_who_holds(lock, &holder));
    cluster_move_keys(c->cluster, slot, to);
    cluster_move_close(c->cluster, slot, to);
    assert_true(wait_until(cluster_is_settled, c->cluster, SOON_MS));
    assert_result(relock_extend(lock, 0, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    forget(c, 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(clients_wait_in_order),
        CLUSTER_TEST(clients_wait_in_order_by_plain_channels),
        CLUSTER_TEST(permits_follow_their_slot),
        CLUSTER_TEST(a_half_moved_semaphore_waits_for_the_end_of_the_move),
        CLUSTER_TEST(permits_that_are_still_elsewhere_are_not_lost),
    };

    return CLUSTER_TESTS_RUN(tests);
}
