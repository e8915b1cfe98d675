/* relock_plainlock_like() in a cluster: waiters of the other library are told wherever they listen.
 */
#include "support/actor.h"
#include "support/cluster_fixture.h"
#include "support/listener.h"

#include <stdio.h>
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

/* ---- the list on which waiters of python-redis-lock block ------------------------------------ */

struct list {
    const char *name; /* of the lock */
    size_t key_owner, owner;
    struct probe *blocking;
    struct actor *waiting;
};

static size_t owner_of(struct clustered *c, const char *before, const char *name)
{
    char key[64];

    (void)snprintf(key, sizeof(key), "%s%s", before, name);
    return cluster_owner(c->cluster, cluster_slot(c->cluster, key));
}

static int await_signal(void *arg)
{
    const struct list *list = arg;
    char signal[64];

    (void)snprintf(signal, sizeof(signal), "lock-signal:%s 1", list->name);
    return strcmp(probe_list(list->blocking, "BLPOP lock-signal:%s 30", list->name), signal) == 0;
}

static bool is_blocked(void *probe)
{
    return strstr(probe_text(probe, "INFO clients"), "blocked_clients:1") != NULL;
}

static void begin_wait(struct clustered *c, const char *name, struct list *list)
{
    list->name = name;
    list->key_owner = owner_of(c, "lock:", name);
    list->owner = owner_of(c, "lock-signal:", name);
    list->blocking = probe_open(c->cluster->node[list->owner].server->socket);
    list->waiting = actor_start();
    actor_begin(list->waiting, await_signal, list);
    assert_true(wait_until(is_blocked, c->cluster->node[list->owner].probe, SOON_MS));
}

static void end_wait(struct list *list)
{
    assert_int_equal(actor_result(list->waiting), 1);
    probe_close(list->blocking);
}

static void a_list_is_at_the_node_of_the_key(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *lock = like(c, "python-redis-lock", "{shop}orders");
    struct list list;

    assert_result(relock_lock(lock), RELOCK_OK);
    begin_wait(c, "{shop}orders", &list);
    assert_result(relock_unlock(lock), RELOCK_OK);
    end_wait(&list);
}

/* As `relock break` does. */
static void break_it(struct clustered *c, const struct list *list)
{
    struct probe *probe = c->cluster->node[list->key_owner].probe;
    struct relock_lock *lock;
    char key[64];

    (void)snprintf(key, sizeof(key), "lock:%s", list->name);
    assert_int_equal(probe_int(probe, "SET %s u3Hk9QZ1rC0Vb2yT7wXsAA/x PX %d", key, NEVER_MS), 0);
    lock = fixture_lock_of(c->f, clustered_client(c, NULL), key, relock_plainlock_new);
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_int(probe, "EXISTS %s", key), 0);
}

static void a_lock_that_is_broken_by_its_key_tells_the_list_of_a_name_with_a_tag(void **state)
{
    struct clustered *c = *state;
    struct list list;

    begin_wait(c, "{shop}orders", &list);
    break_it(c, &list);
    end_wait(&list);
}

/* Of a name without a tag, whose list has another slot. */
static const char *name_of(struct clustered *c, bool at_one_node)
{
    static char name[32];

    for (int i = 0;
         i == 0 || at_one_node != (owner_of(c, "lock:", name) == owner_of(c, "lock-signal:", name));
         i++)
        (void)snprintf(name, sizeof(name), "orders%d", i);
    return name;
}

static void a_lock_without_a_tag_that_is_broken_tells_a_list_at_its_node(void **state)
{
    struct clustered *c = *state;
    struct list list;

    begin_wait(c, name_of(c, true), &list);
    break_it(c, &list);
    end_wait(&list);
}

/* Its script cannot use that list: but the lock is free. */
static void a_lock_without_a_tag_is_broken_although_its_list_is_at_another_node(void **state)
{
    struct clustered *c = *state;
    struct list list;

    begin_wait(c, name_of(c, false), &list);
    break_it(c, &list);
    assert_true(is_blocked(c->cluster->node[list.owner].probe));
    assert_int_equal(
        probe_int(c->cluster->node[list.owner].probe, "LPUSH lock-signal:%s 1", list.name), 1);
    end_wait(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_message_reaches_listeners_of_each_node),
        CLUSTER_TEST(a_list_is_at_the_node_of_the_key),
        CLUSTER_TEST(a_lock_that_is_broken_by_its_key_tells_the_list_of_a_name_with_a_tag),
        CLUSTER_TEST(a_lock_without_a_tag_that_is_broken_tells_a_list_at_its_node),
        CLUSTER_TEST(a_lock_without_a_tag_is_broken_although_its_list_is_at_another_node),
    };

    return CLUSTER_TESTS_RUN(tests);
}
