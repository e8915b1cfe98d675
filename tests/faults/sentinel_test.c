/* Locks while the sentinels replace the master. */
#include "old_master.h"

#include "support/actor.h"
#include "support/numbers.h"
#include "support/ring.h"

/* The I/O thread would wait for a third of the long one before it gives up a server that hangs. */
#define LEASE_MS 60000
#define SHORT_LEASE_MS 12000
#define MOVED_MS slow_ms(5000)

/* `n_replicas` of two have its holds. After the death of a master, one is left. */
static struct relock_client *lasting_client(struct sentinels *s, unsigned n_replicas,
                                            uint64_t lease_ms)
{
    return sentinels_client(s,
                            &(struct relock_options){.min_replicas = n_replicas,
                                                     .watchdog_timeout_ms = slow_ms(lease_ms),
                                                     .command_timeout_ms = slow_ms(FAILOVER_MS)});
}

struct place {
    struct probe *probe;
    struct relock_client *client;
    long long n; /* connections: two of the I/O thread, and one of calls once there was one */
};

static bool has_connections(void *arg)
{
    const struct place *place = arg;

    return probe_n_clients(place->probe, relock_client_id(place->client)) >= place->n;
}

static void a_hold_survives(struct sentinels *s, uint64_t lease_ms)
{
    struct relock_client *client = lasting_client(s, 2, lease_ms);
    struct relock_lock *lock = fixture_lock(s->f, client, "orders");
    int master;

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(wait_until(has_connections, &(struct place){s->probe[0], client, 3}, SOON_MS));
    end_master(s);
    master = await_new_master(s, client);
    assert_true(
        wait_until(has_connections, &(struct place){s->probe[master], client, 2}, MOVED_MS));
    if (lease_ms == SHORT_LEASE_MS)
        assert_true(wait_for_renewals(client, stats_of(client).renewed, 1));
    assert_int_equal(probe_n_keys(s->probe[master]), 1);
    assert_result(relock_check(lock, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_true(wait_for_no_keys(s->probe[master]));
    assert_int_equal(stats_of(client).lost, 0);
}

/* Only the new master can tell the waiter of the release. */
static void a_waiter_gets_the_lock(struct sentinels *s)
{
    struct relock_client *holder = lasting_client(s, 2, LEASE_MS);
    struct relock_lock *held = fixture_lock(s->f, holder, "orders");
    struct relock_client *client = lasting_client(s, 0, LEASE_MS);
    struct relock_lock *wanted = fixture_lock(s->f, client, "orders");
    struct actor *waiter = actor_start();

    assert_result(relock_lock(held), RELOCK_OK);
    actor_begin_lock(waiter, wanted);
    assert_true(wait_for_waiters(client, 1));
    end_master(s);
    (void)await_new_master(s, holder);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_gets_in(waiter, wanted);
}

/* Also a call that begins before there is a new master. */
static void a_call_gets_the_lock(struct sentinels *s)
{
    struct relock_client *client =
        sentinels_client(s, &(struct relock_options){.command_timeout_ms = slow_ms(FAILOVER_MS)});
    struct relock_lock *lock = fixture_lock(s->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    end_master(s);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_hold_survives_a_master_that_hangs(void **state)
{
    fate = STOPPED;
    a_hold_survives(*state, LEASE_MS);
}

static void a_hold_survives_a_planned_failover(void **state)
{
    fate = REPLACED;
    a_hold_survives(*state, SHORT_LEASE_MS);
}

static void a_waiter_survives_the_death_of_the_master(void **state)
{
    fate = KILLED;
    a_waiter_gets_the_lock(*state);
}

static struct relock_lock *two_permits(struct sentinels *s, struct relock_client *client)
{
    struct relock_lock *pages = fixture_lock_of(s->f, client, "pages", relock_semaphore_new);

    assert_result(relock_semaphore_init(pages, 2, NULL), RELOCK_OK);
    return pages;
}

/* Also the number of permits is there, as the replicas have acknowledged what came after it. */
static void permits_survive_the_death_of_the_master(void **state)
{
    struct sentinels *s = *state;
    struct relock_client *holder = lasting_client(s, 2, LEASE_MS);
    struct relock_client *client = lasting_client(s, 0, LEASE_MS);
    struct relock_lock *held = two_permits(s, holder), *wanted = two_permits(s, client);
    struct relock_how both = {.permits = 2, .wait_ms = RELOCK_FOREVER};
    struct actor *waiter = actor_start();
    struct relock_permits permits;
    int master;

    fate = KILLED;
    assert_result(relock_acquire(held, &both, NULL), RELOCK_OK);
    actor_begin_acquire(waiter, wanted, &both);
    assert_true(wait_for_waiters(client, 1));
    end_master(s);
    master = await_new_master(s, holder);
    assert_result(relock_semaphore_read(held, &permits), RELOCK_OK);
    assert_true(permits.n_free == 0 && permits.n_out == 2);
    assert_result(relock_unlock(held), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    assert_result(actor_unlock(waiter, wanted), RELOCK_OK);
    assert_result(relock_semaphore_read(wanted, &permits), RELOCK_OK);
    assert_true(permits.n_free == 2 && permits.n_out == 0);
    assert_int_equal(probe_int(s->probe[master], "DEL pages"), 1);
}

static void a_wait_for_a_latch_survives_the_death_of_the_master(void **state)
{
    struct sentinels *s = *state;
    struct relock_client *client = lasting_client(s, 0, LEASE_MS);
    struct latch_wait wait = {latch_of(client, "start"), RELOCK_FOREVER, NULL};
    struct actor *waiter = actor_start();

    fate = KILLED;
    assert_result(relock_latch_try_set(wait.latch, 2, NULL), RELOCK_OK);
    assert_result(relock_latch_count_down(wait.latch), RELOCK_OK);
    sentinels_await_sync(s, 0);
    actor_begin(waiter, latch_step, &wait);
    assert_true(wait_for_waiters(client, 1));
    end_master(s);
    (void)await_new_master(s, client);
    assert_result(relock_latch_count_down(wait.latch), RELOCK_OK);
    assert_result(actor_result(waiter), RELOCK_OK);
    numbers_free();
}

static void a_waiter_survives_a_planned_failover(void **state)
{
    fate = REPLACED;
    a_waiter_gets_the_lock(*state);
}

/* Two clients wait for each other, one of them since before the failover. */
static void a_deadlock_is_found_at_the_new_master(void **state)
{
    struct sentinels *s = *state;
    const struct relock_options options = {.min_replicas = 1,
                                           .watchdog_timeout_ms = slow_ms(LEASE_MS),
                                           .command_timeout_ms = slow_ms(FAILOVER_MS),
                                           .deadlock_ms = DEADLOCK_MS};
    struct relock_client *clients[2] = {sentinels_client(s, &options),
                                        sentinels_client(s, &options)};
    struct ring ring = ring_of(s->f, clients, 2);

    ring_wait(&ring, 0);
    sentinels_await_sync(s, 0);
    server_kill(s->server[0]);
    (void)await_new_master(s, clients[0]);
    ring_wait(&ring, 1);
    (void)ring_assert_one_is_refused_within(&ring, FAILOVER_MS);
    actor_end_all();
}

static void a_call_survives_the_death_of_the_master(void **state)
{
    fate = KILLED;
    a_call_gets_the_lock(*state);
}

static void a_call_survives_a_master_that_hangs(void **state)
{
    fate = STOPPED;
    a_call_gets_the_lock(*state);
}

/* The report has a name, and the connections lead to an address. */
static void a_hold_survives_a_master_with_a_name_that_hangs(void **state)
{
    struct sentinels *s = *state;

    fate = STOPPED;
    sentinels_use_names(s);
    a_hold_survives(s, LEASE_MS);
    assert_true(log_count(s->f->log, "reports a failover from " SENTINELS_NAME ":") > 0);
}

static int run_killed(void)
{
    const struct CMUnitTest tests[] = {
        SENTINELS_TEST(a_waiter_survives_the_death_of_the_master),
        SENTINELS_TEST(a_deadlock_is_found_at_the_new_master),
        SENTINELS_TEST(a_call_survives_the_death_of_the_master),
        SENTINELS_TEST(permits_survive_the_death_of_the_master),
        SENTINELS_TEST(a_wait_for_a_latch_survives_the_death_of_the_master),
    };

    return SENTINELS_TESTS_RUN(tests);
}

static int run_stopped(void)
{
    const struct CMUnitTest tests[] = {
        SENTINELS_TEST(a_hold_survives_a_master_that_hangs),
        SENTINELS_TEST(a_call_survives_a_master_that_hangs),
        SENTINELS_TEST(a_hold_survives_a_master_with_a_name_that_hangs),
    };

    return SENTINELS_TESTS_RUN(tests);
}

static int run_replaced(void)
{
    const struct CMUnitTest tests[] = {
        SENTINELS_TEST(a_hold_survives_a_planned_failover),
        SENTINELS_TEST(a_waiter_survives_a_planned_failover),
    };

    return SENTINELS_TESTS_RUN(tests);
}

/* The argument is the fate: each takes some seconds, so that they are tests of their own. */
int main(int argc, char **argv)
{
    switch (fate_named(argc > 1 ? argv[1] : "")) {
    case STOPPED:
        return run_stopped();
    case REPLACED:
        return run_replaced();
    case KILLED:
        break;
    }
    return run_killed();
}
