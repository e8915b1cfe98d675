/* relock_plainlock_like() in a cluster: waiters of the other library are told wherever they listen.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/listener.h"

#include <string.h>

static struct relock_lock *like(struct clustered *c, const char *library, const char *name)
{
    struct relock_lock **lock = fixture_place(c->f);

    assert_result(relock_plainlock_like(clustered_client(c, NULL), library, name, lock), RELOCK_OK);
    return *lock;
}

static void a_message_reaches_listeners_of_each_node(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = like(c, "spring-integration:shop", "orders");
    struct listener *heard[CLUSTER_MAX];

    for (size_t i = 0; i < c->cluster->n; i++)
        heard[i] = listener_open(c->cluster->node[i].server->socket, "shop-channel:shop:orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    for (size_t i = 0; i < c->cluster->n; i++) {
        assert_true(listener_hears(heard[i], "shop:orders", SOON_MS));
        listener_close(heard[i]);
    }
}

static int await_signal(void *probe)
{
    return strcmp(probe_list(probe, "BLPOP lock-signal:{shop}orders 30"),
                  "lock-signal:{shop}orders 1") == 0;
}

static bool is_blocked(void *probe)
{
    return strstr(probe_text(probe, "INFO clients"), "blocked_clients:1") != NULL;
}

static void a_list_is_at_the_node_of_the_key(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = like(c, "python-redis-lock", "{shop}orders");
    size_t owner = cluster_owner(c->cluster, cluster_slot(c->cluster, "lock:{shop}orders"));
    struct probe *blocking = probe_open(c->cluster->node[owner].server->socket);
    struct actor *waiting = actor_start();

    assert_result(relock_lock(lock), RELOCK_OK);
    actor_begin(waiting, await_signal, blocking);
    assert_true(wait_until(is_blocked, c->cluster->node[owner].probe, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(actor_result(waiting), 1);
    probe_close(blocking);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_message_reaches_listeners_of_each_node),
        CLUSTER_TEST(a_list_is_at_the_node_of_the_key),
    };

    return CLUSTER_TESTS_RUN(tests);
}
