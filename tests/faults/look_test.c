/* relock_locks() when a script that looks at many locks does not find all of them. */
#include "faults.h"

#include <stdio.h>

#define N_LOCKS 10
#define HOLDER "a7c3b6f0-0000-4000-8000-000000000001:1"

struct list {
    struct relock_client *client;
    unsigned n;
};

static bool count_lock(const struct relock_lock_info *info, void *arg)
{
    struct list *list = arg;

    list->n += info->holder.n_holders == 1;
    return true;
}

static int find_all(void *arg)
{
    struct list *list = arg;

    return relock_locks(list->client, "*", count_lock, list);
}

/* A proxy may send the script to the server of its first key, which has none of the others. */
static void locks_that_a_script_of_many_did_not_find_are_asked_for_alone(void **state)
{
    struct faults *t = *state;
    struct list list = {.client = faults_client(t, NULL)};
    struct actor *actor = actor_start();
    struct proxy_rule *many = proxy_next(t->proxy, PROXY_HOLD, "look 10 ");
    struct proxy_rule *alone = proxy_next(t->proxy, PROXY_HOLD, "look 1 orders:7");
    char name[32];

    for (int i = 0; i < N_LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_lock(t->f->probe, name, HOLDER, LONG_MS));
    }
    actor_begin(actor, find_all, &list);
    assert_true(proxy_met(many, 1));
    assert_int_equal(probe_int(t->f->probe, "RENAMENX orders:7 elsewhere"), 1);
    proxy_let_go(many);
    assert_true(proxy_met(alone, 1));
    assert_int_equal(probe_int(t->f->probe, "RENAMENX elsewhere orders:7"), 1);
    proxy_let_go(alone);
    assert_result(actor_result(actor), RELOCK_OK);
    assert_int_equal(list.n, N_LOCKS);
    assert_int_equal(proxy_count(t->proxy, "look 1 "), 1);
    for (int i = 0; i < N_LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "orders:%d", i);
        assert_true(peer_unlock(t->f->probe, name, HOLDER));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FAULT_TEST(locks_that_a_script_of_many_did_not_find_are_asked_for_alone),
    };

    return FAULT_TESTS_RUN(tests);
}
