/* An owner on one side of a read/write lock, and its own hold or wait on the other. */
#include "support/actor.h"
#include "support/sides.h"

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */

static void two_threads_that_read_for_one_owner_have_one_hold(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct sides ours = sides_of(f, client);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *actors[2] = {actor_start(), actor_start()};
    struct relock_grant grant;

    server_pause(f->server);
    for (int i = 0; i < 2; i++)
        actor_begin_acquire(actors[i], ours.read, &how);
    assert_true(wait_for_waiters(client, 2)); /* both acquires are in flight */
    server_resume(f->server);
    assert_results(actors, 2, RELOCK_OK);
    assert_int_equal(stats_of(client).holds, 1);
    assert_result(relock_check(ours.read, how.owner, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, 2);
    for (int i = 0; i < 2; i++)
        assert_result(relock_release(ours.read, how.owner), RELOCK_OK);
    assert_result(relock_release(ours.read, how.owner), RELOCK_NOT_OWNER);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_waiting_writer_gets_deadlock_when_its_owner_comes_to_read(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct sides ours = sides_of(f, client);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *writer = actor_start();

    assert_result(relock_lock(ours.read), RELOCK_OK);
    actor_begin_acquire(writer, ours.write, &how);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_acquire(ours.read, &how, NULL), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_E_DEADLOCK);
    assert_result(relock_release(ours.read, how.owner), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

static void the_channel_of_a_lost_read_hold_is_unsubscribed(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, watchful_client(f, LEASE_MS));
    struct actor *writer = actor_start();

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(actor_wait_out(writer, ours.write, 50), RELOCK_TIMEOUT);
    assert_result(relock_force_unlock(ours.read), RELOCK_OK);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_true(probe_wait_lock_channels(f->probe, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(two_threads_that_read_for_one_owner_have_one_hold),
        SERVER_TEST(a_waiting_writer_gets_deadlock_when_its_owner_comes_to_read),
        SERVER_TEST(the_channel_of_a_lost_read_hold_is_unsubscribed),
    };

    return SERVER_TESTS_RUN(tests);
}
