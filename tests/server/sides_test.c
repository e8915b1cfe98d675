/* An owner on one side of a read/write lock, and its own hold or wait on the other. */
#include "support/actor.h"
#include "support/fixture.h"

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */

static struct relock_lock *read_side, *write_side;

static struct relock_client *make(struct fixture *f, const struct relock_options *options)
{
    struct relock_client *client = fixture_client(f, options);

    assert_result(relock_rdlock_new(client, "orders", &read_side), RELOCK_OK);
    assert_result(relock_wrlock_new(client, "orders", &write_side), RELOCK_OK);
    return client;
}

static void drop(void)
{
    read_side = relock_lock_free(read_side);
    write_side = relock_lock_free(write_side);
}

static void the_read_side_is_freed_by_force_under_a_write_hold(void **state)
{
    struct fixture *f = *state;
    bool is_locked;

    make(f, NULL);
    assert_result(relock_lock(write_side), RELOCK_OK);
    assert_result(relock_lock(read_side), RELOCK_OK);
    assert_result(relock_lock(read_side), RELOCK_OK);
    assert_result(relock_force_unlock(read_side), RELOCK_OK);
    assert_result(relock_is_locked(read_side, &is_locked), RELOCK_OK);
    assert_false(is_locked);
    assert_result(relock_is_locked(write_side, &is_locked), RELOCK_OK);
    assert_true(is_locked);
    assert_result(relock_unlock(read_side), RELOCK_LOST);
    assert_result(relock_unlock(read_side), RELOCK_LOST);
    assert_result(relock_unlock(write_side), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    drop();
}

static void two_threads_that_read_for_one_owner_have_one_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = make(f, NULL);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *actors[2] = {actor_start(), actor_start()};
    struct relock_grant grant;

    server_pause(f->server);
    for (int i = 0; i < 2; i++)
        actor_begin_acquire(actors[i], read_side, &how);
    assert_true(wait_for_waiters(client, 2)); /* both are being asked for */
    server_resume(f->server);
    for (int i = 0; i < 2; i++)
        assert_result(actor_result(actors[i]), RELOCK_OK);
    assert_int_equal(stats_of(client).holds, 1);
    assert_result(relock_check(read_side, how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    for (int i = 0; i < 2; i++)
        assert_result(relock_release(read_side, how.owner), RELOCK_OK);
    assert_result(relock_release(read_side, how.owner), RELOCK_NOT_OWNER);
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    actor_end_all();
    drop();
}

static void a_waiting_writer_gets_deadlock_when_its_owner_comes_to_read(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = make(f, &(struct relock_options){.recheck_ms = slow_ms(60000)});
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *writer = actor_start();

    assert_result(relock_lock(read_side), RELOCK_OK);
    actor_begin_acquire(writer, write_side, &how);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_acquire(read_side, &how, NULL), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_E_DEADLOCK);
    assert_result(relock_release(read_side, how.owner), RELOCK_OK);
    assert_result(relock_unlock(read_side), RELOCK_OK);
    actor_end_all();
    drop();
}

static bool nobody_listens(void *arg)
{
    struct fixture *f = arg;

    return probe_int(f->probe, "PUBLISH redisson_rwlock:{orders} 0") == 0;
}

static void the_channel_of_a_lost_read_hold_is_unsubscribed(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.watchdog_timeout_ms = slow_ms(LEASE_MS)};
    struct actor *writer = actor_start();

    make(f, &options);
    assert_result(relock_lock(read_side), RELOCK_OK);
    assert_result(actor_wait_out(writer, write_side, 50), RELOCK_TIMEOUT);
    assert_result(relock_force_unlock(read_side), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(read_side), RELOCK_LOST);
    assert_true(wait_until(nobody_listens, f, SOON_MS));
    actor_end_all();
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(the_read_side_is_freed_by_force_under_a_write_hold),
        SERVER_TEST(two_threads_that_read_for_one_owner_have_one_hold),
        SERVER_TEST(a_waiting_writer_gets_deadlock_when_its_owner_comes_to_read),
        SERVER_TEST(the_channel_of_a_lost_read_hold_is_unsubscribed),
    };

    return SERVER_TESTS_RUN(tests);
}
