/*
 * Waiters in a cluster: a release wakes them wherever the slot of the lock is by then.
 */
#include "support/actor.h"
#include "support/cluster_line.h"
#include "support/probe_counts.h"
#include "support/reactor.h"

#include <stdio.h>

#define NAME "orders"
#define MANY 8

struct pair {
    struct relock_lock *held;
    struct relock_lock *wanted; /* the waiter's handle */
    struct relock_client *holding, *waiting;
    struct actor *waiter;
    int slot;
    size_t owner; /* of the slot */
};

/* Without rechecks, only a message wakes the waiter. Without tracking, no check of a hold asks the
 * nodes meanwhile. */
static struct relock_client *client_with(struct clustered *c, const char *query,
                                         struct relock_options options)
{
    char url[300];

    options.recheck_ms = NEVER_MS;
    options.flags |= RELOCK_NO_TRACKING;
    options.command_timeout_ms = 20000;
    options.url = url;
    (void)snprintf(url, sizeof(url), "%s%s", clustered_options(c, NULL).url, query);
    if (c->cluster->tls_url[0])
        options.tls_ca_file = c->cluster->ca_file;
    return clustered_client(c, &options);
}

static struct relock_client *client_of(struct clustered *c, const char *query)
{
    return client_with(c, query, (struct relock_options){0});
}

/* A client holds the lock, and another one waits for it and listens. */
static struct pair begin_with(struct clustered *c, const char *query, fixture_constructor_fn *make,
                              struct relock_client *waiting)
{
    struct pair pair = {.slot = cluster_slot(c->cluster, NAME), .waiter = actor_start()};

    pair.owner = cluster_owner(c->cluster, pair.slot);
    pair.holding = client_of(c, query);
    pair.held = fixture_lock_of(c->f, pair.holding, NAME, make);
    pair.waiting = waiting;
    pair.wanted = fixture_lock_of(c->f, pair.waiting, NAME, make);
    assert_result(relock_lock(pair.held), RELOCK_OK);
    actor_begin_lock(pair.waiter, pair.wanted);
    assert_true(wait_for_waiters(pair.waiting, 1));
    return pair;
}

static struct pair begin(struct clustered *c, const char *query, fixture_constructor_fn *make)
{
    return begin_with(c, query, make, client_of(c, query));
}

static void is_woken(const struct pair *pair)
{
    assert_result(relock_unlock(pair->held), RELOCK_OK);
    assert_result(actor_result(pair->waiter), RELOCK_OK);
    actor_end_all();
}

static void a_release_wakes_a_waiter_by(struct clustered *c, const char *query,
                                        fixture_constructor_fn *make)
{
    struct pair pair = begin(c, query, make);

    is_woken(&pair);
}

static void a_release_wakes_a_waiter(void **state)
{
    a_release_wakes_a_waiter_by(*state, "", relock_lock_new);
    a_release_wakes_a_waiter_by(*state, "", relock_fairlock_new);
    a_release_wakes_a_waiter_by(*state, "", relock_wrlock_new);
}

static void a_release_wakes_a_waiter_by_plain_channels(void **state)
{
    a_release_wakes_a_waiter_by(*state, "?pubsub=plain", relock_lock_new);
    a_release_wakes_a_waiter_by(*state, "?pubsub=plain", relock_fairlock_new);
}

static void a_waiter_is_woken_where_the_slot_went(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);

    cluster_move(c->cluster, pair.slot, clustered_other(c, pair.slot));
    is_woken(&pair);
}

/* ---- a slot that is half moved -------------------------------------------------------------- */

/* The lock is at the new node, and the slot stays at the old one. */
static size_t move_half(struct clustered *c, const struct pair *pair)
{
    size_t to = clustered_other(c, pair->slot);

    cluster_move_open(c->cluster, pair->slot, to);
    cluster_move_key(c->cluster, NAME, to);
    return to;
}

/* In a half moved slot, no client can leave the line. The next acquire finds those that do not wait
 * any more. */
static void clear_line(struct clustered *c)
{
    struct relock_lock *next = fixture_lock(c->f, client_of(c, ""), NAME);

    assert_result(relock_lock(next), RELOCK_OK);
    assert_result(relock_unlock(next), RELOCK_OK);
}

/* Released before the cluster is mended, which may leave the key where nobody looks for it. */
static void gets_in(struct clustered *c, const struct pair *pair)
{
    assert_gets_in(pair->waiter, pair->wanted);
    actor_end_all();
    cluster_mend(c->cluster);
    fixture_free_client(c->f, pair->waiting);
    clear_line(c);
}

static void a_release_wakes_a_waiter_while_the_slot_is_half_moved(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);

    move_half(c, &pair);
    assert_result(relock_unlock(pair.held), RELOCK_OK);
    gets_in(c, &pair);
}

/* The node has the scripts from now on. */
static void learn_scripts(struct clustered *c, size_t node)
{
    struct relock_lock *lock;
    char name[24];
    int i = 0;

    do
        (void)snprintf(name, sizeof(name), "scripts-%d", i++);
    while (cluster_owner(c->cluster, cluster_slot(c->cluster, name)) != node);
    lock = fixture_lock(c->f, client_of(c, ""), name);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Two round trips: the old node redirects it, and the new one grants the lock. */
static void a_waiter_asks_once_to_get_into_a_half_moved_slot(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);
    struct probe *probe;
    long long n_scripts, n_redirected;

    learn_scripts(c, clustered_other(c, pair.slot));
    let_pass(300); /* it listens, and has asked */
    probe = c->cluster->node[move_half(c, &pair)].probe;
    n_scripts = cluster_line_scripts(c);
    n_redirected = probe_calls(probe, "asking");
    assert_result(relock_unlock(pair.held), RELOCK_OK);
    assert_result(actor_result(pair.waiter), RELOCK_OK);
    assert_int_equal(cluster_line_scripts(c) - n_scripts, 2); /* the release, and its own */
    assert_int_equal(probe_calls(probe, "asking") - n_redirected, 2);
    gets_in(c, &pair);
}

/* Like those of earlier versions, it hears only the channel of the lock. */
static void a_waiter_outside_of_the_line_is_woken_while_the_slot_is_half_moved(void **state)
{
    struct clustered *c = *state;
    struct relock_options options = {.user = "outsider", .password = "secret"};
    struct pair pair;

    for (size_t i = 0; i < c->cluster->n; i++)
        assert_true(probe_make_user(c->cluster->node[i].probe, options.user, options.password,
                                    "~* &redisson* +@all"));
    pair = begin_with(c, "", relock_lock_new, client_with(c, "", options));
    let_pass(300); /* it listens */
    move_half(c, &pair);
    assert_result(relock_unlock(pair.held), RELOCK_OK);
    gets_in(c, &pair);
}

static void an_asynchronous_release_wakes_a_waiter_while_the_slot_is_half_moved(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);
    struct relock_events *events = reactor_events(pair.holding);

    move_half(c, &pair);
    assert_result(reactor_release(pair.held, relock_owner_self(), events), RELOCK_OK);
    assert_null(relock_events_free(events));
    gets_in(c, &pair);
}

static void a_forced_release_wakes_a_waiter_while_the_slot_is_half_moved(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);

    move_half(c, &pair);
    assert_result(relock_force_unlock(pair.held), RELOCK_OK);
    assert_result(relock_unlock(pair.held), RELOCK_LOST);
    gets_in(c, &pair);
}

/* Of a client that has not asked anybody while the slot is half moved: it is the release that is
 * redirected. */
static void the_end_of_a_client_wakes_a_waiter_while_the_slot_is_half_moved(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);

    move_half(c, &pair);
    fixture_free_client(c->f, pair.holding);
    gets_in(c, &pair);
}

/* The other program's message stays at the new node, where nobody listens. */
static void a_waiter_finds_a_release_by_others_while_the_slot_is_half_moved(void **state)
{
    struct clustered *c = *state;
    struct pair pair = {.slot = cluster_slot(c->cluster, NAME), .waiter = actor_start()};
    struct probe *probe;
    uint64_t since_ms;

    pair.owner = cluster_owner(c->cluster, pair.slot);
    pair.held = fixture_lock(c->f, client_of(c, ""), NAME);
    pair.waiting = client_of(c, "");
    assert_result(relock_lock(pair.held), RELOCK_OK);
    probe = c->cluster->node[move_half(c, &pair)].probe;
    pair.wanted = fixture_lock(c->f, pair.waiting, NAME);
    actor_begin_lock(pair.waiter, pair.wanted);
    assert_true(wait_for_waiters(pair.waiting, 1));
    let_pass(300); /* it was refused, and sleeps */
    since_ms = now_ms();
    assert_string_equal(probe_text(probe, "ASKING"), "OK");
    assert_int_equal(probe_int(probe, "DEL " NAME), 1);
    assert_result(actor_result(pair.waiter), RELOCK_OK);
    print_message("after %d ms\n", (int)(actor_ended_ms(pair.waiter) - since_ms));
    assert_true(actor_ended_ms(pair.waiter) <= since_ms + slow_ms(2000));
    assert_result(actor_unlock(pair.waiter, pair.wanted), RELOCK_OK);
    (void)relock_unlock(pair.held);
    actor_end_all();
}

/* Each waiter gets its turn, on one side of a move or the other. */
static void all_of_many_waiters_get_their_turn_while_the_slot_moves(void **state)
{
    struct clustered *c = *state;
    struct pair pair = {.slot = cluster_slot(c->cluster, NAME)};
    struct actor *turns[MANY];
    size_t to = clustered_other(c, pair.slot);

    pair.held = fixture_lock(c->f, client_of(c, ""), NAME);
    assert_result(relock_lock(pair.held), RELOCK_OK);
    for (int i = 0; i < MANY; i++) {
        struct relock_client *client = client_of(c, "");

        turns[i] = actor_start();
        actor_begin(turns[i], actor_take_turn, fixture_lock(c->f, client, NAME));
        assert_true(wait_for_waiters(client, 1));
    }
    cluster_move_open(c->cluster, pair.slot, to);
    assert_result(relock_unlock(pair.held), RELOCK_OK);
    cluster_move_keys(c->cluster, pair.slot, to);
    cluster_move_close(c->cluster, pair.slot, to);
    for (int i = 0; i < MANY; i++)
        assert_result(actor_result(turns[i]), RELOCK_OK);
    actor_end_all();
    cluster_await(c->cluster);
    clear_line(c);
}

static void a_waiter_is_woken_after_a_failover(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);

    (void)cluster_fail_over(c->cluster, pair.owner);
    is_woken(&pair);
}

/* The waiter listens at a node that runs. */
static bool listens(void *arg)
{
    const struct cluster *cluster = arg;
    bool does = false;

    for (size_t i = 0; i < cluster->n; i++)
        does |=
            cluster_is_up(cluster, i) && (probe_n_sharded_channels(cluster->node[i].probe) > 0 ||
                                          probe_n_lock_channels(cluster->node[i].probe) > 0);
    return does;
}

static void a_waiter_is_woken_after_its_master_died(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "", relock_lock_new);

    clustered_kill(c, pair.owner);
    assert_true(wait_until(listens, c->cluster, SOON_MS));
    is_woken(&pair);
}

static void a_waiter_with_plain_channels_is_woken_after_its_master_died(void **state)
{
    struct clustered *c = *state;
    struct pair pair = begin(c, "?pubsub=plain", relock_lock_new);

    clustered_kill(c, pair.owner);
    is_woken(&pair);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_release_wakes_a_waiter),
        CLUSTER_TEST(a_release_wakes_a_waiter_by_plain_channels),
        CLUSTER_TEST(a_waiter_is_woken_where_the_slot_went),
        CLUSTER_TEST(a_release_wakes_a_waiter_while_the_slot_is_half_moved),
        CLUSTER_TEST(a_waiter_asks_once_to_get_into_a_half_moved_slot),
        CLUSTER_TEST(a_waiter_outside_of_the_line_is_woken_while_the_slot_is_half_moved),
        CLUSTER_TEST(an_asynchronous_release_wakes_a_waiter_while_the_slot_is_half_moved),
        CLUSTER_TEST(a_forced_release_wakes_a_waiter_while_the_slot_is_half_moved),
        CLUSTER_TEST(the_end_of_a_client_wakes_a_waiter_while_the_slot_is_half_moved),
        CLUSTER_TEST(a_waiter_finds_a_release_by_others_while_the_slot_is_half_moved),
        CLUSTER_TEST(all_of_many_waiters_get_their_turn_while_the_slot_moves),
        CLUSTER_TEST(a_waiter_is_woken_after_a_failover),
        CLUSTER_TEST(a_waiter_is_woken_after_its_master_died),
        CLUSTER_TEST(a_waiter_with_plain_channels_is_woken_after_its_master_died),
    };

    return CLUSTER_TESTS_RUN(tests);
}
