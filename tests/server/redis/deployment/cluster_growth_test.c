/*
 * Masters join a cluster and leave it while threads lock. The client does not keep what it had for
 * them.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"

#include <stdatomic.h>

#define NAME "orders"
#define ROUNDS 4
#define CLIENTS 2
#define THREADS 3 /* of each */
#define FORGOTTEN "has no slots any more, and nothing uses it"

static atomic_bool stops;

static struct user {
    struct relock_lock *lock;
    atomic_uint n_held;
} users[CLIENTS * THREADS];

static int lock_and_unlock(void *arg)
{
    struct user *user = arg;
    int r = RELOCK_OK;

    while (r == RELOCK_OK && !atomic_load(&stops)) {
        r = relock_lock(user->lock);
        if (r == RELOCK_OK)
            r = relock_unlock(user->lock);
        atomic_fetch_add(&user->n_held, 1);
    }
    return r;
}

/* How often threads of this client have held the lock. */
static unsigned n_held(int client)
{
    unsigned n = 0;

    for (int i = client; i < CLIENTS * THREADS; i += CLIENTS)
        n += atomic_load(&users[i].n_held);
    return n;
}

static bool have_held_since(void *arg)
{
    const unsigned *before = arg;

    for (int i = 0; i < CLIENTS; i++)
        if (n_held(i) < before[i] + 2)
            return false;
    return true;
}

/* Each client finds the lock where it is now. */
static void all_go_on(void)
{
    unsigned before[CLIENTS];

    for (int i = 0; i < CLIENTS; i++)
        before[i] = n_held(i);
    assert_true(wait_until(have_held_since, before, SOON_MS));
}

static void masters_that_have_left_are_forgotten_while_threads_lock(void **state)
{
    struct clustered *c = *state;
    struct actor *actors[CLIENTS * THREADS];
    int slot = cluster_slot(c->cluster, NAME);
    size_t owner = cluster_owner(c->cluster, slot);

    for (int i = 0; i < CLIENTS; i++)
        users[i].lock = fixture_lock(
            c->f,
            clustered_client(c, &(struct relock_options){.command_timeout_ms = slow_ms(20000)}),
            NAME);
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        users[i].lock = users[i % CLIENTS].lock;
        actors[i] = actor_start();
        actor_begin(actors[i], lock_and_unlock, &users[i]);
    }
    for (int i = 0; i < ROUNDS; i++) {
        size_t added = cluster_add(c->cluster);

        cluster_move(c->cluster, slot, added);
        all_go_on();
        cluster_move(c->cluster, slot, owner);
        cluster_remove(c->cluster, added);
        assert_true(log_wait_least(c->f->log, FORGOTTEN, (size_t)CLIENTS * (i + 1), SOON_MS));
    }
    atomic_store(&stops, true);
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        assert_result(actor_result(actors[i]), RELOCK_OK);
    }
    assert_int_equal(losses_count(c->f->losses), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(masters_that_have_left_are_forgotten_while_threads_lock),
    };

    return CLUSTER_TESTS_RUN(tests);
}
