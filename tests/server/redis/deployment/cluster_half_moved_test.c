/*
 * Clients stand in the line of a lock while its slot moves key by key. Until the slot has moved,
 * the scripts leave the line alone: a key that they made anew at the target could not be moved.
 * They tell all nodes of each release, so that nobody sleeps while the lock is free.
 *
 * A waiter that has not asked since the slot was opened never rechecks here: a message has to wake
 * it.
 */
#include "support/cluster_line.h"

#include <stdio.h>

#define NAME "orders"
#define PLAIN "?pubsub=plain"
#define N 3 /* clients in the line */

struct scene {
    struct clustered *c;
    struct relock_client *holding, *waiting[N];
    struct relock_lock *held, *wanted[N];
    struct actor *turns[N];
    int slot;
    size_t from, to;
};

/* One client holds the lock, N are in the line, and all want just one turn. */
static struct scene begin(struct clustered *c, const char *query, fixture_constructor_fn *make)
{
    struct scene scene = {.c = c, .slot = cluster_slot(c->cluster, NAME)};

    scene.from = cluster_owner(c->cluster, scene.slot);
    scene.to = clustered_other(c, scene.slot);
    scene.holding = cluster_line_client(c, query);
    scene.held = fixture_lock_of(c->f, scene.holding, NAME, make);
    assert_result(relock_lock(scene.held), RELOCK_OK);
    for (int i = 0; i < N; i++) {
        scene.waiting[i] = cluster_line_client(c, query);
        scene.wanted[i] = fixture_lock_of(c->f, scene.waiting[i], NAME, make);
        scene.turns[i] = actor_start();
        actor_begin(scene.turns[i], actor_take_turn, scene.wanted[i]);
        assert_true(cluster_line_wait(c, NAME, i + 1));
    }
    let_pass(200); /* the first listens to the channel of the lock, and has asked */
    return scene;
}

static struct probe *probe_of(const struct scene *scene, size_t node)
{
    return scene->c->cluster->node[node].probe;
}

/* What the node has of the line. */
static void assert_line_at(const struct scene *scene, size_t node, const char *keys)
{
    assert_string_equal(probe_list(probe_of(scene, node), "KEYS relock_waiters:*:cluster"), keys);
}

static void open_slot(const struct scene *scene)
{
    cluster_move_open(scene->c->cluster, scene->slot, scene->to);
}

static void move(const struct scene *scene, const char *key)
{
    cluster_move_key(scene->c->cluster, key, scene->to);
}

static void all_have_their_turns(const struct scene *scene)
{
    assert_result(relock_unlock(scene->held), RELOCK_OK);
    assert_results(scene->turns, N, RELOCK_OK);
    actor_end_all();
}

/* In a half moved slot no client can leave the line. The next acquire finds those that are gone. */
static void end(const struct scene *scene, const char *query)
{
    struct relock_lock *next;

    for (int i = 0; i < N; i++)
        fixture_free_client(scene->c->f, scene->waiting[i]);
    fixture_free_client(scene->c->f, scene->holding);
    cluster_mend(scene->c->cluster);
    next = fixture_lock(scene->c->f, cluster_line_client(scene->c, query), NAME);
    assert_result(relock_lock(next), RELOCK_OK);
    assert_result(relock_unlock(next), RELOCK_OK);
}

/* ---- where the keys are --------------------------------------------------------------------- */

static void the_lock_is_at_the_source(struct clustered *c, const char *query)
{
    struct scene scene = begin(c, query, relock_lock_new);

    open_slot(&scene);
    all_have_their_turns(&scene);
    assert_line_at(&scene, scene.to, "");
    end(&scene, query);
}

static void waiters_get_in_while_the_lock_is_at_the_source(void **state)
{
    the_lock_is_at_the_source(*state, "");
    the_lock_is_at_the_source(*state, PLAIN);
}

static void the_lock_is_at_the_target(struct clustered *c, const char *query)
{
    struct scene scene = begin(c, query, relock_lock_new);

    open_slot(&scene);
    move(&scene, NAME);
    all_have_their_turns(&scene);
    assert_line_at(&scene, scene.to, "");
    end(&scene, query);
}

static void waiters_get_in_while_the_lock_is_at_the_target(void **state)
{
    the_lock_is_at_the_target(*state, "");
    the_lock_is_at_the_target(*state, PLAIN);
}

/* `moved`: one of the keys of the line, or both. */
static void the_line_moves_before_the_lock(struct clustered *c, const char *moved)
{
    struct scene scene = begin(c, "", relock_lock_new);

    open_slot(&scene);
    if (moved)
        move(&scene, moved);
    else {
        move(&scene, CLUSTER_LINE);
        move(&scene, CLUSTER_TURN);
    }
    all_have_their_turns(&scene);
    if (moved)
        assert_line_at(&scene, scene.to, moved);
    cluster_move_keys(c->cluster, scene.slot, scene.to);
    cluster_move_close(c->cluster, scene.slot, scene.to);
    end(&scene, "");
}

static void waiters_get_in_while_the_line_is_at_the_target(void **state)
{
    the_line_moves_before_the_lock(*state, NULL);
    the_line_moves_before_the_lock(*state, CLUSTER_LINE);
    the_line_moves_before_the_lock(*state, CLUSTER_TURN);
}

/* ---- how locks are released ----------------------------------------------------------------- */

static void a_forced_release_wakes_waiters_in_line(void **state)
{
    struct clustered *c = *state;
    struct scene scene = begin(c, "", relock_lock_new);

    open_slot(&scene);
    move(&scene, NAME);
    assert_result(relock_force_unlock(scene.held), RELOCK_OK);
    assert_result(relock_unlock(scene.held), RELOCK_LOST);
    assert_results(scene.turns, N, RELOCK_OK);
    actor_end_all();
    end(&scene, "");
}

struct release {
    struct relock_lock *lock;
    uint64_t owner;
};

static int release(void *arg)
{
    const struct release *release = arg;

    return relock_release(release->lock, release->owner);
}

/* The scripts of these have further keys, so they may have to wait until the slot has moved. */
static void waiters_get_in_after_the_move(struct clustered *c, fixture_constructor_fn *make)
{
    struct scene scene = begin(c, "", make);
    struct release last = {scene.held, relock_owner_self()};
    struct actor *releasing = actor_start();

    open_slot(&scene);
    actor_begin(releasing, release, &last);
    let_pass(200);
    cluster_move_keys(c->cluster, scene.slot, scene.to);
    cluster_move_close(c->cluster, scene.slot, scene.to);
    assert_result(actor_result(releasing), RELOCK_OK);
    assert_results(scene.turns, N, RELOCK_OK);
    actor_end_all();
    end(&scene, "");
}

static void waiters_for_locks_of_several_keys_get_in_after_the_move(void **state)
{
    struct clustered *c = *state;

    waiters_get_in_after_the_move(c, relock_wrlock_new);
    waiters_get_in_after_the_move(c, relock_fencedlock_new);
    assert_int_equal(
        probe_int(cluster_probe(c->cluster, NAME), "DEL redisson_lock_token:{" NAME "}"), 1);
}

#define LEVELS "KEYS {" NAME "}:*:rwlock_timeout:*"

/* The source refuses the script that looks how long the other reader stays, until all has moved. */
static void a_reader_leaves_though_the_level_of_another_has_moved(void **state)
{
    struct clustered *c = *state;
    struct relock_client *client = cluster_line_client(c, "");
    struct relock_lock *stays = fixture_lock_of(c->f, client, NAME, relock_rdlock_new);
    struct relock_lock *leaves =
        fixture_lock_of(c->f, cluster_line_client(c, ""), NAME, relock_rdlock_new);
    struct scene scene = {.c = c, .slot = cluster_slot(c->cluster, NAME)};
    struct release last = {leaves, relock_owner_self()};
    struct actor *releasing = actor_start();
    char level[256];

    scene.from = cluster_owner(c->cluster, scene.slot);
    scene.to = clustered_other(c, scene.slot);
    assert_result(relock_lock(stays), RELOCK_OK);
    snprintf(level, sizeof(level), "%s", probe_list(probe_of(&scene, scene.from), LEVELS));
    assert_result(relock_lock(leaves), RELOCK_OK);
    open_slot(&scene);
    move(&scene, level);
    actor_begin(releasing, release, &last);
    let_pass(200);
    assert_int_equal(probe_int(probe_of(&scene, scene.from), "HLEN " NAME), 3);
    cluster_move_keys(c->cluster, scene.slot, scene.to);
    cluster_move_close(c->cluster, scene.slot, scene.to);
    assert_result(actor_result(releasing), RELOCK_OK);
    assert_int_equal(probe_int(cluster_probe(c->cluster, NAME), "HLEN " NAME), 2);
    assert_result(relock_unlock(stays), RELOCK_OK);
    actor_end_all();
}

/* ---- an interrupted move -------------------------------------------------------------------- */

static void a_slot_that_stays_half_moved_goes_on_working(void **state)
{
    struct clustered *c = *state;
    struct scene scene = begin(c, "", relock_lock_new);
    struct actor *actors[N];

    open_slot(&scene);
    move(&scene, NAME);
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_results(scene.turns, N, RELOCK_OK);
    for (int i = 0; i < N; i++) {
        actors[i] = actor_start();
        actor_begin_turns(actors[i], scene.wanted[i], 20);
    }
    assert_results(actors, N, RELOCK_OK);
    assert_line_at(&scene, scene.to, "");
    actor_end_all();
    end(&scene, "");
}

/* Its clients were refused a place in the line. */
static void the_line_forms_again_when_the_slot_has_moved(void **state)
{
    struct clustered *c = *state;
    struct scene scene = begin(c, "", relock_lock_new);
    struct actor *late = actor_start();

    open_slot(&scene);
    move(&scene, CLUSTER_TURN);
    actor_begin(late, actor_take_turn, fixture_lock(c->f, cluster_line_client(c, ""), NAME));
    let_pass(200);
    assert_int_equal(probe_int(probe_of(&scene, scene.from), "LLEN " CLUSTER_LINE), N);
    cluster_move_keys(c->cluster, scene.slot, scene.to);
    cluster_move_close(c->cluster, scene.slot, scene.to);
    cluster_await(c->cluster);
    assert_true(cluster_line_wait(c, NAME, N + 1));
    assert_result(relock_unlock(scene.held), RELOCK_OK);
    assert_results(scene.turns, N, RELOCK_OK);
    assert_result(actor_result(late), RELOCK_OK);
    actor_end_all();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(waiters_get_in_while_the_lock_is_at_the_source),
        CLUSTER_TEST(waiters_get_in_while_the_lock_is_at_the_target),
        CLUSTER_TEST(waiters_get_in_while_the_line_is_at_the_target),
        CLUSTER_TEST(a_forced_release_wakes_waiters_in_line),
        CLUSTER_TEST(waiters_for_locks_of_several_keys_get_in_after_the_move),
        CLUSTER_TEST(a_reader_leaves_though_the_level_of_another_has_moved),
        CLUSTER_TEST(a_slot_that_stays_half_moved_goes_on_working),
        CLUSTER_TEST(the_line_forms_again_when_the_slot_has_moved),
    };

    return CLUSTER_TESTS_RUN(tests);
}
