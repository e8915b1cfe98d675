/*
 * Clients that wait for a lock of a cluster stand in a line, as with one server. The number of
 * receivers of a message to a client tells the scripts whether it lives, so nothing here waits for
 * clients that are gone.
 */
#include "support/cluster_line.h"
#include "support/probe_wait.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "orders"
#define MANY 8
#define PLAIN "?pubsub=plain"
#define RESERVED_MS 100 /* a lock, for the client that was told */

#define DEAD "5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b6a" /* no client has this id */

/* The counter of a fenced lock stays. */
static void forget_tokens(struct clustered *c)
{
    assert_int_equal(
        probe_int(cluster_probe(c->cluster, NAME), "DEL redisson_lock_token:{" NAME "}"), 1);
}

/* ---- order --------------------------------------------------------------------------------- */

static atomic_int n_before; /* turns so far */

struct turn {
    struct relock_lock *lock;
    int place; /* among all turns, from 0 */
};

static int take_a_turn(void *arg)
{
    struct turn *turn = arg;
    int r = relock_lock(turn->lock);

    if (r < 0)
        return r;
    turn->place = atomic_fetch_add(&n_before, 1);
    return relock_unlock(turn->lock);
}

/* Clients begin to wait one after the other; then each has its turn. A client that does not ask
 * within RESERVED_MS may be overtaken, and asks once more. */
static void turns_have_the_order_of_arrival(struct clustered *c, const char *query,
                                            fixture_constructor_fn *make)
{
    struct relock_lock *held = fixture_lock_of(c->f, cluster_line_client(c, query), NAME, make);
    struct actor *waiting[MANY];
    struct turn turns[MANY];
    uint64_t began_ms;
    long long n_calls;
    int n_late;

    atomic_store(&n_before, 0);
    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < MANY; i++) {
        turns[i].lock = fixture_lock_of(c->f, cluster_line_client(c, query), NAME, make);
        waiting[i] = actor_start();
        actor_begin(waiting[i], take_a_turn, &turns[i]);
        assert_true(cluster_line_wait(c, NAME, i + 1));
    }
    let_pass(2 * RESERVED_MS); /* the first listens by now */
    n_calls = cluster_line_scripts(c);
    began_ms = now_ms();
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_results(waiting, MANY, RELOCK_OK);
    n_calls = cluster_line_scripts(c) - n_calls;
    n_late = (int)((now_ms() - began_ms) / RESERVED_MS);
    print_message("%d turns: %lld script calls\n", MANY + 1, n_calls);
    for (int i = 0; i < MANY; i++)
        assert_true(abs(turns[i].place - i) <= n_late);
    assert_true(n_calls <= (3 * (MANY + 1)) + (2 * n_late));
    actor_end_all();
}

static void clients_have_their_turns_in_the_order_of_arrival(void **state)
{
    turns_have_the_order_of_arrival(*state, "", relock_lock_new);
    turns_have_the_order_of_arrival(*state, "", relock_fencedlock_new);
    forget_tokens(*state);
    turns_have_the_order_of_arrival(*state, "", relock_wrlock_new);
}

static void clients_have_their_turns_in_the_order_of_arrival_by_plain_channels(void **state)
{
    turns_have_the_order_of_arrival(*state, PLAIN, relock_lock_new);
    turns_have_the_order_of_arrival(*state, PLAIN, relock_wrlock_new);
}

/* ---- shares -------------------------------------------------------------------------------- */

#define MOST 200 /* turns: after these the race is over */

struct runner {
    struct relock_lock *lock;
    int n_turns;
};

static atomic_bool is_over;

static int run_until_one_has_had_most(void *arg)
{
    struct runner *runner = arg;
    int r = RELOCK_OK;

    while (r == RELOCK_OK && !atomic_load(&is_over)) {
        r = relock_lock(runner->lock);
        if (r == RELOCK_OK && ++runner->n_turns == MOST)
            atomic_store(&is_over, true);
        if (r == RELOCK_OK)
            r = relock_unlock(runner->lock);
    }
    return r;
}

/* Without a line, each release would wake all: MANY scripts for each turn, and some client would
 * hardly ever be the fastest. The race begins when all are in line. */
static void shares_are_fair(struct clustered *c, const char *query, fixture_constructor_fn *make)
{
    struct relock_lock *held = fixture_lock_of(c->f, cluster_line_client(c, query), NAME, make);
    struct runner runners[MANY] = {0};
    int n_turns = 0, n_late, least = MOST;
    struct actor *actors[MANY];
    uint64_t began_ms;
    long long n_calls;

    atomic_store(&is_over, false);
    for (int i = 0; i < MANY; i++)
        runners[i].lock = fixture_lock_of(c->f, cluster_line_client(c, query), NAME, make);
    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < MANY; i++) {
        actors[i] = actor_start();
        actor_begin(actors[i], run_until_one_has_had_most, &runners[i]);
        assert_true(cluster_line_wait(c, NAME, i + 1));
    }
    n_calls = cluster_line_scripts(c);
    began_ms = now_ms();
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_results(actors, MANY, RELOCK_OK);
    n_calls = cluster_line_scripts(c) - n_calls;
    n_late = (int)((now_ms() - began_ms) / RESERVED_MS);
    for (int i = 0; i < MANY; i++) {
        n_turns += runners[i].n_turns;
        least = runners[i].n_turns < least ? runners[i].n_turns : least;
    }
    print_message("%d turns, the least-served client %d: %lld script calls\n", n_turns, least,
                  n_calls);
    assert_true(least >= MOST / 4);
    assert_true(2 * n_calls <= (7 * n_turns) + (4 * n_late));
    actor_end_all();
}

static void clients_have_fair_shares(void **state)
{
    shares_are_fair(*state, "", relock_lock_new);
    shares_are_fair(*state, "", relock_fencedlock_new);
    forget_tokens(*state);
    shares_are_fair(*state, "", relock_wrlock_new);
}

static void clients_have_fair_shares_by_plain_channels(void **state)
{
    shares_are_fair(*state, PLAIN, relock_lock_new);
    shares_are_fair(*state, PLAIN, relock_wrlock_new);
}

/* ---- clients that are gone ------------------------------------------------------------------ */

struct pair {
    struct relock_client *holding, *waiting;
    struct relock_lock *held, *wanted;
    struct actor *waiter;
};

/* One client holds the lock, and one is in the line. */
static struct pair begin(struct clustered *c, const char *query, fixture_constructor_fn *make)
{
    struct pair pair = {.holding = cluster_line_client(c, query),
                        .waiting = cluster_line_client(c, query)};

    pair.held = fixture_lock_of(c->f, pair.holding, NAME, make);
    pair.wanted = fixture_lock_of(c->f, pair.waiting, NAME, make);
    assert_result(relock_lock(pair.held), RELOCK_OK);
    pair.waiter = cluster_line_begin(c, pair.wanted, 1);
    return pair;
}

static void gets_in(const struct pair *pair)
{
    assert_result(relock_unlock(pair->held), RELOCK_OK);
    assert_gets_in(pair->waiter, pair->wanted);
    actor_end_all();
}

static void the_gone_are_passed_over(struct clustered *c, const char *query)
{
    struct pair pair = begin(c, query, relock_lock_new);
    struct probe *probe = cluster_probe(c->cluster, NAME);

    let_pass(2 * RESERVED_MS); /* it does not ask any more */
    assert_int_equal(probe_int(probe, "LPUSH " CLUSTER_LINE " " DEAD), 2);
    gets_in(&pair);
}

static void a_client_without_a_subscription_is_passed_over(void **state)
{
    the_gone_are_passed_over(*state, "");
    the_gone_are_passed_over(*state, PLAIN);
}

static bool has_no_line(void *arg)
{
    return cluster_line_n_nodes(arg) == 0;
}

static void a_client_that_stops_waiting_leaves_the_line(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *held = fixture_lock(c->f, cluster_line_client(c, ""), NAME);
    struct relock_lock *wanted = fixture_lock(c->f, cluster_line_client(c, ""), NAME);

    assert_result(relock_lock(held), RELOCK_OK);
    assert_result(fixture_timedlock(wanted, 500), RELOCK_TIMEOUT);
    assert_true(wait_until(has_no_line, c, SOON_MS));
    assert_result(relock_unlock(held), RELOCK_OK);
}

/* ---- subscriptions that are lost ------------------------------------------------------------ */

/* The waiters subscribe again, and ask: they may have missed a message, and may have been passed
 * over. */
static void subscriptions_are_lost(struct clustered *c, const char *query)
{
    struct relock_lock *held = fixture_lock(c->f, cluster_line_client(c, query), NAME);
    struct actor *waiting[2];

    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        waiting[i] = actor_start();
        actor_begin(waiting[i], actor_take_turn,
                    fixture_lock(c->f, cluster_line_client(c, query), NAME));
        assert_true(cluster_line_wait(c, NAME, i + 1));
    }
    let_pass(2 * RESERVED_MS); /* they do not ask any more */
    assert_int_equal(
        probe_int(cluster_probe(c->cluster, NAME), "DEL " CLUSTER_LINE " " CLUSTER_TURN), 2);
    for (size_t i = 0; i < c->cluster->n; i++)
        (void)probe_int(c->cluster->node[i].probe, "CLIENT KILL TYPE pubsub");
    assert_true(cluster_line_wait(c, NAME, 2));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_results(waiting, 2, RELOCK_OK);
    actor_end_all();
}

static void a_client_that_lost_its_subscription_joins_again(void **state)
{
    subscriptions_are_lost(*state, "");
    subscriptions_are_lost(*state, PLAIN);
}

/* The replica has the lock and no line, as if that had not reached it. */
static void lose_line_at_replicas(struct clustered *c)
{
    static const char script[] = "redis.set_repl(redis.REPL_SLAVE) "
                                 "local line = redis.call('lrange', ARGV[1], 0, -1) "
                                 "local turn = redis.call('hgetall', ARGV[2]) "
                                 "redis.call('del', ARGV[1], ARGV[2]) "
                                 "redis.set_repl(redis.REPL_NONE) "
                                 "redis.call('rpush', ARGV[1], unpack(line)) "
                                 "return redis.call('hset', ARGV[2], unpack(turn))";

    assert_true(probe_int(cluster_probe(c->cluster, NAME), "EVAL %s 1 " NAME " %s %s", script,
                          CLUSTER_LINE, CLUSTER_TURN) > 0);
}

static void all_wait_on_after_a_failover_by(struct clustered *c, const char *query)
{
    size_t owner = cluster_owner(c->cluster, cluster_slot(c->cluster, NAME));
    struct relock_lock *held = fixture_lock(c->f, cluster_line_client(c, query), NAME);
    struct actor *waiting[3];

    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        waiting[i] = actor_start();
        actor_begin(waiting[i], actor_take_turn,
                    fixture_lock(c->f, cluster_line_client(c, query), NAME));
        assert_true(cluster_line_wait(c, NAME, i + 1));
    }
    let_pass(2 * RESERVED_MS);
    lose_line_at_replicas(c);
    clustered_kill(c, owner);
    assert_true(cluster_line_wait(c, NAME, 3));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_results(waiting, 3, RELOCK_OK);
    actor_end_all();
}

static void all_clients_join_again_after_a_failover_that_lost_the_line(void **state)
{
    all_wait_on_after_a_failover_by(*state, "");
}

static void the_same_by_plain_channels(void **state)
{
    all_wait_on_after_a_failover_by(*state, PLAIN);
}

/* ---- what operators see --------------------------------------------------------------------- */

static bool note_waiter(const struct relock_waiter_info *info, void *arg)
{
    char *text = arg;
    size_t len = strlen(text);

    (void)snprintf(text + len, 200 - len, "%u:%s ", info->place, info->client_name);
    return true;
}

static void clients_in_line_are_reported(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = cluster_line_client(c, "");
    struct relock_lock *held = fixture_lock(c->f, client, NAME);
    struct relock_lock *wanted[2];
    struct actor *waiting[2];
    char text[200] = "";

    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        struct relock_options options = {.client_name = i == 0 ? "waiter:1" : "waiter:2"};

        wanted[i] = fixture_lock(c->f, cluster_line_client_with(c, "", options), NAME);
        waiting[i] = cluster_line_begin(c, wanted[i], i + 1);
    }
    assert_result(relock_waiters(client, NAME, note_waiter, text), RELOCK_OK);
    assert_string_equal(text, "1:waiter:1 2:waiter:2 ");
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiting[0], wanted[0]);
    assert_gets_in(waiting[1], wanted[1]);
    actor_end_all();
}

/* ---- names --------------------------------------------------------------------------------- */

/* They share an inbox: each hears of its own lock. */
static void locks_with_one_tag_have_lines_of_their_own(void **state)
{
    struct clustered *c = *state;
    struct relock_client *holding = cluster_line_client(c, "");
    struct relock_client *waiting = cluster_line_client(c, "");
    static const char *const names[] = {"{shop}:a", "{shop}:b"};
    struct relock_lock *held[2], *wanted[2];
    struct actor *waiters[2];

    for (int i = 0; i < 2; i++) {
        held[i] = fixture_lock(c->f, holding, names[i]);
        wanted[i] = fixture_lock(c->f, waiting, names[i]);
        assert_result(relock_lock(held[i]), RELOCK_OK);
        waiters[i] = actor_start();
        actor_begin_lock(waiters[i], wanted[i]);
        assert_true(cluster_line_wait(c, names[i], 1));
    }
    let_pass(2 * RESERVED_MS);
    for (int i = 1; i >= 0; i--) {
        assert_result(relock_unlock(held[i]), RELOCK_OK);
        assert_gets_in(waiters[i], wanted[i]);
    }
    actor_end_all();
}

static void a_name_prefix_is_part_of_the_name_of_the_line(void **state)
{
    struct clustered *c = *state;
    struct relock_options options = {.name_prefix = "shop:"};
    struct relock_lock *held = fixture_lock(c->f, cluster_line_client_with(c, "", options), NAME);
    struct relock_lock *wanted = fixture_lock(c->f, cluster_line_client_with(c, "", options), NAME);
    struct actor *waiter = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiter, wanted);
    assert_true(cluster_line_wait(c, "shop:" NAME, 1));
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiter, wanted);
    actor_end_all();
}

/* ---- several locks -------------------------------------------------------------------------- */

static void all_waiting_readers_acquire_the_lock_at_once(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *held =
        fixture_lock_of(c->f, cluster_line_client(c, ""), NAME, relock_wrlock_new);
    struct relock_lock *readers[3];
    struct actor *waiting[3];

    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < 3; i++) {
        readers[i] = fixture_lock_of(c->f, cluster_line_client(c, ""), NAME, relock_rdlock_new);
        waiting[i] = cluster_line_begin(c, readers[i], i + 1);
    }
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_results(waiting, 3, RELOCK_OK); /* none of them releases the lock before */
    for (int i = 0; i < 3; i++)
        assert_result(actor_unlock(waiting[i], readers[i]), RELOCK_OK);
    actor_end_all();
}

static void multi_locks_over_several_slots_have_their_turns(void **state)
{
    struct clustered *c = *state;
    struct actor *actors[4];

    for (int i = 0; i < 4; i++) {
        struct relock_client *client = cluster_line_client(c, "");
        struct relock_lock *members[3] = {fixture_lock(c->f, client, "a"),
                                          fixture_lock(c->f, client, "b"),
                                          fixture_lock(c->f, client, "c")};
        struct relock_lock **all = fixture_place(c->f);

        assert_result(relock_multilock_new(members, 3, all), RELOCK_OK);
        actors[i] = actor_start();
        actor_begin_turns(actors[i], *all, 10);
    }
    assert_results(actors, 4, RELOCK_OK);
    actor_end_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(clients_have_their_turns_in_the_order_of_arrival),
        CLUSTER_TEST(clients_have_their_turns_in_the_order_of_arrival_by_plain_channels),
        CLUSTER_TEST(clients_have_fair_shares),
        CLUSTER_TEST(clients_have_fair_shares_by_plain_channels),
        CLUSTER_TEST(a_client_without_a_subscription_is_passed_over),
        CLUSTER_TEST(a_client_that_stops_waiting_leaves_the_line),
        CLUSTER_TEST(a_client_that_lost_its_subscription_joins_again),
        CLUSTER_TEST(all_clients_join_again_after_a_failover_that_lost_the_line),
        CLUSTER_TEST(the_same_by_plain_channels),
        CLUSTER_TEST(clients_in_line_are_reported),
        CLUSTER_TEST(locks_with_one_tag_have_lines_of_their_own),
        CLUSTER_TEST(a_name_prefix_is_part_of_the_name_of_the_line),
        CLUSTER_TEST(all_waiting_readers_acquire_the_lock_at_once),
        CLUSTER_TEST(multi_locks_over_several_slots_have_their_turns),
    };

    return CLUSTER_TESTS_RUN(tests);
}
