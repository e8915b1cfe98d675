/*
 * Latches and unleased semaphores in a cluster: commands follow their slot and run once, and
 * messages reach waiters wherever the slot is. No waiter rechecks.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/numbers.h"

#include <stdio.h>

static int end(void **state)
{
    numbers_free();
    return clustered_end(state);
}

#define COUNT_TEST(function) cmocka_unit_test_setup_teardown(function, clustered_begin, end)

static struct relock_client *client_of(struct clustered *c, const char *query)
{
    struct relock_options options = {.recheck_ms = NEVER_MS, .command_timeout_ms = 20000};
    char url[300];

    options.url = url;
    (void)snprintf(url, sizeof(url), "%s%s", clustered_options(c, NULL).url, query);
    if (c->cluster->tls_url[0])
        options.tls_ca_file = c->cluster->ca_file;
    return clustered_client(c, &options);
}

/* A latch of count `n`, for which a thread of another client waits. */
struct pair {
    struct relock_latch *latch;
    struct latch_wait wait;
    struct relock_client *waiting;
    struct actor *waiter;
    int slot;
};

static void begin(struct clustered *c, const char *query, uint64_t n, struct pair *pair)
{
    pair->slot = cluster_slot(c->cluster, "start");
    pair->latch = latch_of(client_of(c, query), "start");
    pair->waiting = client_of(c, query);
    pair->wait = (struct latch_wait){latch_of(pair->waiting, "start"), RELOCK_FOREVER, NULL};
    pair->waiter = actor_start();
    assert_result(relock_latch_try_set(pair->latch, n, NULL), RELOCK_OK);
    actor_begin(pair->waiter, latch_step, &pair->wait);
    assert_true(wait_for_waiters(pair->waiting, 1));
    let_pass(300); /* it listens, and has looked again */
}

static bool note_waiting(const struct relock_lock_info *info, void *arg)
{
    *(unsigned *)arg = info->n_waiting;
    return true;
}

/* The client of a wait that ended listens on for a second or two. */
static bool one_waits(void *arg)
{
    struct relock_client *client = arg;
    unsigned n = 0;

    assert_result(relock_locks(client, "start", note_waiting, &n), RELOCK_OK);
    return n == 1;
}

static void is_woken(const struct pair *pair)
{
    assert_result(relock_latch_count_down(pair->latch), RELOCK_OK);
    assert_result(actor_result(pair->waiter), RELOCK_OK);
    assert_int_equal(stats_of(pair->waiting).rechecks, 0);
    actor_end_all();
}

static void a_latch_wakes_its_waiters(void **state)
{
    struct pair pair;

    begin(*state, "", 1, &pair);
    assert_true(wait_until(one_waits, pair.waiting, SOON_MS));
    is_woken(&pair);
    begin(*state, "?pubsub=plain", 1, &pair);
    assert_true(wait_until(one_waits, pair.waiting, SOON_MS));
    is_woken(&pair);
}

static void permits_wake_a_waiter_by(struct clustered *c, const char *query)
{
    struct relock_client *waiting = client_of(c, query);
    struct relock_unleased *semaphore = semaphore_of(client_of(c, query), "{shop}:jobs");
    struct permits_wait wait = {semaphore_of(waiting, "{shop}:jobs"), 2, RELOCK_FOREVER, NULL};
    struct actor *waiter = actor_start();

    assert_result(relock_unleased_try_set(semaphore, 1, NULL), RELOCK_OK);
    actor_begin(waiter, permits_step, &wait);
    assert_true(wait_for_waiters(waiting, 1));
    let_pass(300);
    assert_result(relock_unleased_release(semaphore, 1), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_int_equal(stats_of(waiting).rechecks, 0);
    probe_int(cluster_probe(c->cluster, "{shop}:jobs"), "DEL {shop}:jobs");
    actor_end_all();
}

static void permits_wake_a_waiter(void **state)
{
    permits_wake_a_waiter_by(*state, "");
    permits_wake_a_waiter_by(*state, "?pubsub=plain");
}

/* Redisson's channel of such a latch is in another slot. */
static void a_latch_whose_name_has_a_brace_is_refused(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = client_of(c, "");
    struct relock_unleased *semaphore;
    struct relock_latch *latch;

    assert_result(relock_latch_new(client, "{shop}:start", &latch), RELOCK_E_INVALID);
    assert_result(relock_latch_new(client, "start}", &latch), RELOCK_E_INVALID);
    assert_result(relock_unleased_new(client, "jobs{", &semaphore), RELOCK_E_INVALID);
    (void)semaphore_of(client, "{shop}:jobs");
}

static void a_command_follows_its_slot_and_runs_once(void **state)
{
    struct clustered *c = *state;
    struct pair pair;

    begin(c, "", 3, &pair);
    cluster_move(c->cluster, pair.slot, clustered_other(c, pair.slot));
    assert_result(relock_latch_count_down(pair.latch), RELOCK_OK);
    assert_int_equal(probe_int(cluster_probe(c->cluster, "start"), "GET start"), 2);
    cluster_move(c->cluster, pair.slot, clustered_other(c, pair.slot));
    assert_result(relock_latch_count_down(pair.latch), RELOCK_OK);
    is_woken(&pair);
}

/* The key is at the new node, and the waiter listens at the old one. */
static void a_latch_in_a_half_moved_slot_wakes_its_waiters(void **state)
{
    struct clustered *c = *state;
    struct pair pair;
    size_t to;

    begin(c, "", 2, &pair);
    to = clustered_other(c, pair.slot);
    cluster_move_open(c->cluster, pair.slot, to);
    cluster_move_key(c->cluster, "start", to);
    assert_result(relock_latch_count_down(pair.latch), RELOCK_OK);
    is_woken(&pair);
    cluster_mend(c->cluster);
}

/* Whether so many messages come soon, and no further one before the last. */
static bool are_told(struct probe *old, long long n)
{
    uint64_t deadline_ms = now_ms() + SOON_MS;

    while (probe_calls(old, "spublish") < n && now_ms() < deadline_ms)
        let_pass(10);
    let_pass(50);
    return probe_calls(old, "spublish") == n;
}

/* It is told by the message "0", which would open the latch in Redisson's waiters. */
static void a_latch_that_is_set_in_a_half_moved_slot_is_not_told_where_the_slot_was(void **state)
{
    struct clustered *c = *state;
    struct probe *old = cluster_probe(c->cluster, "start");
    struct pair pair;
    long long n_told;
    size_t to;

    begin(c, "", 1, &pair);
    to = clustered_other(c, pair.slot);
    cluster_move_open(c->cluster, pair.slot, to);
    cluster_move_key(c->cluster, "start", to);
    n_told = probe_calls(old, "spublish");
    is_woken(&pair);
    assert_true(are_told(old, n_told + 1));
    assert_result(relock_latch_try_set(pair.latch, 1, NULL), RELOCK_OK);
    assert_result(relock_latch_count_down(pair.latch), RELOCK_OK);
    assert_true(are_told(old, n_told + 2)); /* of the two times that it opened */
    cluster_mend(c->cluster);
}

static void a_waiter_is_woken_after_its_master_died(void **state)
{
    struct clustered *c = *state;
    struct pair pair;
    size_t owner;

    begin(c, "", 1, &pair);
    owner = cluster_owner(c->cluster, pair.slot);
    cluster_await_copy(c->cluster, owner);
    clustered_kill(c, owner);
    is_woken(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        COUNT_TEST(a_latch_wakes_its_waiters),
        COUNT_TEST(permits_wake_a_waiter),
        COUNT_TEST(a_latch_whose_name_has_a_brace_is_refused),
        COUNT_TEST(a_command_follows_its_slot_and_runs_once),
        COUNT_TEST(a_latch_in_a_half_moved_slot_wakes_its_waiters),
        COUNT_TEST(a_latch_that_is_set_in_a_half_moved_slot_is_not_told_where_the_slot_was),
        COUNT_TEST(a_waiter_is_woken_after_its_master_died),
    };

    return CLUSTER_TESTS_RUN(tests);
}
