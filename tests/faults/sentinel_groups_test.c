/*
 * Red and multi locks on several masters, each found by sentinels of its own, while the sentinels
 * of the first replace it.
 */
#include "old_master.h"

#include "support/multi.h"
#include "support/red.h"

#define LEASE_MS 12000
#define MASTERS 3

/* The other masters, and the sentinel of each. */
static struct server *servers[MASTERS], *watchers[MASTERS];
static struct probe *probes[MASTERS];

/* ---- locks --------------------------------------------------------------------------------- */

/* So many replicas of the first master have its holds. */
static struct relock_client *client_at(struct sentinels *s, size_t i, unsigned n_replicas)
{
    struct relock_options options = {.min_replicas = i == 0 ? n_replicas : 0,
                                     .watchdog_timeout_ms = slow_ms(LEASE_MS),
                                     .command_timeout_ms = slow_ms(FAILOVER_MS)};
    char url[256];

    if (i > 0) {
        sentinels_url(url, watchers[i], NULL, SENTINELS_MASTER);
        options.url = url;
    }
    return sentinels_client(s, &options);
}

static struct red members_on(struct sentinels *s, size_t n, unsigned n_replicas)
{
    struct red group = {.n = n};

    for (size_t i = 0; i < n; i++) {
        group.clients[i] = client_at(s, i, n_replicas);
        group.members[i] = fixture_lock(s->f, group.clients[i], RED_NAME);
    }
    return group;
}

static struct red red_on(struct sentinels *s)
{
    struct red red = members_on(s, MASTERS, 0); /* it ignores its members' */

    red.lock = red_lock_of(s->f, red.members, red.n);
    return red;
}

static struct red multi_on(struct sentinels *s, unsigned n_replicas)
{
    struct red multi = members_on(s, 2, n_replicas);

    multi.lock = fixture_multi(s->f, multi.members[0], multi.members[1], NULL);
    return multi;
}

/* ---- keys ---------------------------------------------------------------------------------- */

struct place {
    struct sentinels *s;
    int master; /* the first of the masters */
    size_t n, n_keys;
};

static bool has_keys(void *arg)
{
    const struct place *place = arg;
    size_t n = 0;

    for (size_t i = 0; i < place->n; i++)
        n +=
            probe_int(i == 0 ? place->s->probe[place->master] : probes[i], "EXISTS " RED_NAME) == 1;
    return n == place->n_keys;
}

/* Waits until it is held on all `n` masters, or on none. */
static bool gets_held_on(struct sentinels *s, int master, size_t n)
{
    return wait_until(has_keys, &(struct place){s, master, n, n}, SOON_MS);
}

static void is_held_on(struct sentinels *s, int master, size_t n)
{
    assert_true(gets_held_on(s, master, n));
}

static void is_free_on(struct sentinels *s, int master, size_t n)
{
    assert_true(wait_until(has_keys, &(struct place){s, master, n, 0}, SOON_MS));
}

/* ---- tests --------------------------------------------------------------------------------- */

/* The first group holds; nobody else gets in before it releases. */
static void stays_held(struct sentinels *s, const struct red *ours, const struct red *theirs)
{
    struct actor *waiter = actor_start();
    int master;

    assert_result(relock_lock(ours->lock), RELOCK_OK);
    is_held_on(s, 0, ours->n);
    sentinels_await_sync(s, 0);
    end_master(s);
    actor_begin_lock(waiter, theirs->lock);
    assert_result(relock_check(ours->lock, 0, NULL), RELOCK_OK);
    master = await_new_master(s, ours->clients[0]);
    is_held_on(s, master, ours->n);
    assert_true(actor_is_busy(waiter));
    assert_result(relock_check(ours->lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(ours->lock), RELOCK_OK);
    assert_int_equal(losses_count(s->f->losses), 0);
    assert_result(actor_result_within(waiter, FAILOVER_MS), RELOCK_OK);
    assert_result(actor_unlock(waiter, theirs->lock), RELOCK_OK);
    is_free_on(s, master, ours->n);
}

static void a_red_lock_stays_held_while_a_master_is_replaced(void **state)
{
    struct red ours = red_on(*state), theirs = red_on(*state);

    stays_held(*state, &ours, &theirs);
}

static void a_multi_lock_stays_held_while_a_master_is_replaced(void **state)
{
    struct red ours = multi_on(*state, SENTINELS - 1), theirs = multi_on(*state, 0);

    stays_held(*state, &ours, &theirs);
}

/* A red lock has its quorum at once, and the new master later. A master that is replaced while it
 * works may grant the multi lock and lose it, because no replica has to acknowledge. */
static void both_are_acquired_while_a_master_is_replaced(void **state)
{
    struct sentinels *s = *state;
    struct red red = red_on(s), multi = multi_on(s, 0);
    int master;

    end_master(s);
    assert_result(relock_lock(red.lock), RELOCK_OK);
    assert_result(relock_unlock(red.lock), RELOCK_OK);
    assert_result(relock_lock(multi.lock), RELOCK_OK);
    master = await_new_master(s, multi.clients[0]);
    if (fate == REPLACED && !gets_held_on(s, master, multi.n)) {
        assert_result(relock_unlock(multi.lock), RELOCK_LOST);
        assert_result(relock_lock(multi.lock), RELOCK_OK);
    }
    is_held_on(s, master, multi.n);
    assert_result(relock_unlock(multi.lock), RELOCK_OK);
    is_free_on(s, master, MASTERS);
}

/* ---- around them --------------------------------------------------------------------------- */

static int start(void **state)
{
    if (sentinels_start(state) != 0)
        return -1;
    for (size_t i = 1; i < MASTERS; i++) {
        servers[i] = server_start(&(struct server_options){.tcp = true});
        watchers[i] = sentinels_alone(servers[i]->port, NULL);
        probes[i] = probe_open(servers[i]->socket);
        (void)probe_n_keys(probes[i]); /* so that no test connects it */
    }
    return 0;
}

static int stop(void **state)
{
    for (size_t i = 1; i < MASTERS; i++) {
        probe_close(probes[i]);
        server_stop(watchers[i]);
        server_stop(servers[i]);
    }
    return sentinels_stop(state);
}

/* The argument is the fate of the master. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SENTINELS_TEST(a_red_lock_stays_held_while_a_master_is_replaced),
        SENTINELS_TEST(a_multi_lock_stays_held_while_a_master_is_replaced),
        SENTINELS_TEST(both_are_acquired_while_a_master_is_replaced),
    };

    fate = fate_named(argc > 1 ? argv[1] : "");
    return cmocka_run_group_tests(tests, start, stop);
}
