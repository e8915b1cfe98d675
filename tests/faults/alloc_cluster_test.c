/* Out of memory in a cluster: reading the map of the slots, making nodes, following a slot. */
#include "trial.h"

#include "support/cluster_move.h"
#include "support/cluster_view.h"

#include <stdio.h>
#include <string.h>

#define NODES 2
#define RENEWED_MS 3000 /* a lease short enough to wait for a renewal */

static struct cluster *cluster; /* its first node is the server of the fixture */

static struct relock_options cluster_options(struct fixture *f)
{
    static char url[128];

    snprintf(url, sizeof(url), "redis+cluster://127.0.0.1:%d/?pubsub=plain", f->server->port);
    return (struct relock_options){.url = url};
}

static void a_client_that_cannot_be_made_leaves_nothing(void **state)
{
    struct relock_options options = cluster_options(*state);

    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .makes_client = true,
                                      .options = options,
                                      .act = trial_new_client});
}

/* ---- a slot that moves --------------------------------------------------------------------- */

/* The lock is at the other node. */
static void move(void)
{
    int slot = cluster_slot(cluster, "orders");

    cluster_move(cluster, slot, 1 - cluster_owner(cluster, slot));
}

/* It has no key after a play. The nodes keep the connections over which they moved it. */
static void come_home(void)
{
    if (cluster_owner(cluster, cluster_slot(cluster, "orders")) != 0)
        move();
    for (size_t i = 0; i < NODES; i++) {
        assert_true(wait_for_no_keys(cluster->node[i].probe));
        probe_int(cluster->node[i].probe, "CLIENT KILL TYPE normal SKIPME yes");
    }
}

static void use_and_move(struct trial *trial)
{
    assert_result(relock_lock(trial->lock), RELOCK_OK);
    assert_result(relock_unlock(trial->lock), RELOCK_OK);
    move();
}

static void a_call_that_cannot_follow_its_slot_has_no_lock(void **state)
{
    struct relock_options options = cluster_options(*state);

    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .options = options,
                                      .before = use_and_move,
                                      .act = trial_trylock,
                                      .after = trial_unlock_if_held,
                                      .finally = come_home});
}

static int be_renewed_there(struct trial *trial)
{
    move();
    trial->seen = stats_of(trial->client).renewed;
    return trial_wait(trial, trial_has_been_renewed, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

/* Two threads need memory: the I/O thread, and the one that asks for the map. */
static void a_renewal_follows_its_slot_in_time(void **state)
{
    struct relock_options options = cluster_options(*state);

    options.watchdog_timeout_ms = slow_ms(RENEWED_MS);
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = options,
                                      .before = trial_hold,
                                      .act = be_renewed_there,
                                      .after = trial_still_holds,
                                      .finally = come_home});
}

/* ---- the program --------------------------------------------------------------------------- */

static int start(void **state)
{
    struct fixture *f;

    if (trial_group_start_with(state, &(struct server_options){.tcp = true, .cluster = true}) != 0)
        return -1;
    f = *state;
    cluster = cluster_start_on(f->server);
    probe_close(f->probe); /* one connection is enough */
    f->probe = cluster->node[0].probe;
    cluster_move(cluster, 0, cluster_add(cluster)); /* without slots it would become a replica */
    return 0;
}

static int stop(void **state)
{
    struct fixture *f = *state;

    cluster_stop(cluster);
    f->probe = NULL;
    f->server = NULL;
    return fixture_stop(state);
}

static int run_all(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_client_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_call_that_cannot_follow_its_slot_has_no_lock),
        TRIAL_TEST(a_renewal_follows_its_slot_in_time),
    };

    return cmocka_run_group_tests(tests, start, stop);
}

static int run_some(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_client_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_call_that_cannot_follow_its_slot_has_no_lock),
    };

    return cmocka_run_group_tests(tests, start, stop);
}

int main(int argc, char **argv)
{
    trial_refuse_some(argc, argv, 29);
    return argc > 1 && strcmp(argv[1], "all") == 0 ? run_all() : run_some();
}
