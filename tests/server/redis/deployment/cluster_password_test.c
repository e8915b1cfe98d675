/* The password of a client of a cluster changes: connections to each node log in again. */
#include "support/actor.h"
#include "support/cluster_fixture.h"

#include <stdio.h>

#define N_LOCKS 12 /* on all masters */

static void on_each_node(struct clustered *c, const char *right)
{
    for (size_t i = 0; i < c->cluster->n; i++)
        if (cluster_is_up(c->cluster, i))
            assert_int_equal(probe_int(c->cluster->node[i].probe, "ACL SETUSER locker %s", right),
                             0);
}

static void a_changed_password_is_used_at_each_node(void **state)
{
    struct clustered *c = *state;
    struct relock_lock *locks[N_LOCKS];
    struct relock_client *client;

    for (size_t i = 0; i < c->cluster->n; i++)
        assert_true(probe_make_user(c->cluster->node[i].probe, "locker", "secret1", "~* &* +@all"));
    client = clustered_client(c, &(struct relock_options){.user = "locker", .password = "secret1"});
    for (int i = 0; i < N_LOCKS; i++) {
        char name[16];

        (void)snprintf(name, sizeof(name), "n%d", i);
        locks[i] = fixture_lock(c->f, client, name);
        assert_result(relock_lock(locks[i]), RELOCK_OK);
    }
    on_each_node(c, ">secret2");
    on_each_node(c, "<secret1");
    assert_result(relock_client_set_password(client, "locker", "secret1"), RELOCK_E_AUTH);
    assert_result(relock_client_set_password(client, "locker", "secret2"), RELOCK_OK);
    for (size_t i = 0; i < c->cluster->n; i++)
        if (cluster_is_up(c->cluster, i))
            (void)probe_int(c->cluster->node[i].probe, "CLIENT KILL USER locker");
    for (int i = 0; i < N_LOCKS; i++) {
        assert_result(relock_lock(locks[i]), RELOCK_OK);
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
        assert_result(relock_unlock(locks[i]), RELOCK_OK);
    }
    assert_int_equal(stats_of(client).lost, 0);
    fixture_free_client(c->f, client);
    on_each_node(c, "reset");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(a_changed_password_is_used_at_each_node),
    };

    return CLUSTER_TESTS_RUN(tests);
}
