/*
 * The line in a cluster, and the rights that it needs: those that `relock acl` prints for a
 * cluster. A user without those to the line
 * waits outside of it.
 */
#include "support/actor.h"
#include "support/cluster_line.h"
#include "support/rights.h"

#include <stdio.h>

#define NAME "orders"
#define N 3 /* clients that wait */
#define CLUSTER "--url redis+cluster://node"

static const struct kind_of_lock {
    const char *rights; /* on the page */
    fixture_constructor_fn *holder, *waiter;
} kinds[] = {
    {"reentrant", relock_lock_new, relock_lock_new},
    {"fenced", relock_fencedlock_new, relock_fencedlock_new},
    {"read-write", relock_wrlock_new, relock_wrlock_new},
    {"read-write", relock_wrlock_new, relock_rdlock_new},
    {"announced-plain", relock_plainlock_new, relock_plainlock_new},
};

#define N_KINDS (sizeof(kinds) / sizeof(*kinds))

/* A replica has users of its own, and may become a master. Servers before Redis 7 refuse the rights
 * to sharded channels, which they do not have. */
static void give(struct clustered *c, const char *rights, const char *without)
{
    char sharded[128], plain[160];

    (void)snprintf(sharded, sizeof(sharded), "%s " CLUSTER, rights);
    (void)snprintf(plain, sizeof(plain), "%s?pubsub=plain", sharded);
    for (size_t i = 0; i < c->cluster->n; i++) {
        struct probe *probe = c->cluster->node[i].probe;

        assert_true(rights_give_at(probe, sharded, without) ||
                    rights_give_at(probe, plain, without));
    }
}

static struct relock_client *client_of(struct clustered *c)
{
    return cluster_line_client_with(
        c, "", (struct relock_options){.user = RIGHTS_USER, .password = RIGHTS_PASSWORD});
}

/* `in_line`: the clients stand there. Each has its turn. */
static void wait_with(struct clustered *c, const struct kind_of_lock *kind, bool in_line)
{
    struct relock_lock *held = fixture_lock_of(c->f, client_of(c), NAME, kind->holder);
    struct actor *waiting[N];

    assert_result(relock_lock(held), RELOCK_OK);
    for (int i = 0; i < N; i++) {
        struct relock_client *client = client_of(c);

        waiting[i] = actor_start();
        actor_begin(waiting[i], actor_take_turn, fixture_lock_of(c->f, client, NAME, kind->waiter));
        assert_true(in_line ? cluster_line_wait(c, NAME, i + 1) : wait_for_waiters(client, 1));
    }
    if (!in_line)
        let_pass(200);
    assert_int_equal(cluster_line_length(c, NAME), in_line ? N : 0);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_results(waiting, N, RELOCK_OK);
    actor_end_all();
}

static void forget_tokens(struct clustered *c)
{
    (void)probe_int(cluster_probe(c->cluster, NAME), "DEL redisson_lock_token:{" NAME "}");
}

static void the_rights_on_the_page_suffice(void **state)
{
    struct clustered *c = *state;

    for (size_t i = 0; i < N_KINDS; i++) {
        give(c, kinds[i].rights, NULL);
        wait_with(c, &kinds[i], true);
        forget_tokens(c);
    }
    assert_int_equal(log_count(c->f->log, "lacks"), 0);
    assert_int_equal(log_count(c->f->log, "NOPERM"), 0);
}

static void a_user_without_a_right_to_the_line_waits_outside(void **state)
{
    static const char *const without[] = {"~relock_waiters:", "&relock_client:"};
    struct clustered *c = *state;

    for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++) {
        give(c, "reentrant", without[i]);
        wait_with(c, &kinds[0], false);
    }
}

/* Only the alarm needs it. */
static void without_the_right_to_subscribe_clients_stand_in_line(void **state)
{
    struct clustered *c = *state;

    give(c, "reentrant", "+subscribe");
    wait_with(c, &kinds[0], true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CLUSTER_TEST(the_rights_on_the_page_suffice),
        CLUSTER_TEST(a_user_without_a_right_to_the_line_waits_outside),
        CLUSTER_TEST(without_the_right_to_subscribe_clients_stand_in_line),
    };

    return CLUSTER_TESTS_RUN(tests);
}
