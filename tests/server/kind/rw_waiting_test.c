/*
 * Waiting for a side of a read/write lock. Unless a test says otherwise nothing here ends by time,
 * so a waiter that gets the lock was woken.
 */
#include "support/actor.h"
#include "support/listener.h"
#include "support/sides.h"

#define LONG_MS 60000
#define N_READERS 8

/* Loads the scripts, so that each attempt is one call. */
static void learn(struct relock_lock *side)
{
    assert_result(relock_trylock(side), RELOCK_OK);
    assert_result(relock_unlock(side), RELOCK_OK);
}

/* The waiter was refused, subscribed, and was refused again. */
static void begins_to_wait(struct fixture *f, struct actor *actor, struct relock_lock *side)
{
    long long before = probe_script_calls(f->probe);

    actor_begin_lock(actor, side);
    assert_true(probe_wait_script_calls(f->probe, before + 2, SOON_MS));
}

static void gets_in(struct actor *actor, struct relock_lock *side)
{
    assert_gets_in(actor, side);
}

/* ---- releases that wake -------------------------------------------------------------------- */

static void all_local_readers_get_in_when_the_writer_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *actors[N_READERS];

    assert_result(relock_lock(theirs.write), RELOCK_OK);
    actors_begin_lock(actors, N_READERS, ours.read);
    assert_true(wait_for_waiters(client, N_READERS));
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    assert_results(actors, N_READERS, RELOCK_OK);
    assert_result(relock_trylock(theirs.write), RELOCK_BUSY);
    for (int i = 0; i < N_READERS; i++)
        assert_result(actor_unlock(actors[i], ours.read), RELOCK_OK);
    assert_result(relock_trylock(theirs.write), RELOCK_OK);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
}

static void a_local_writer_gets_in_when_the_last_local_reader_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct actor *writer = actor_start(), *reader = actor_start();

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(actor_lock(reader, ours.read), RELOCK_OK);
    actor_begin_lock(writer, ours.write);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_true(actor_is_busy(writer));
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    actor_begin_lock(reader, ours.read);
    assert_true(wait_for_waiters(client, 1));
    assert_result(actor_unlock(writer, ours.write), RELOCK_OK);
    gets_in(reader, ours.read);
}

static void a_writer_gets_in_when_the_last_reader_elsewhere_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *writer = actor_start(), *reader = actor_start();

    learn(theirs.write);
    assert_result(relock_lock(theirs.read), RELOCK_OK);
    assert_result(actor_lock(reader, theirs.read), RELOCK_OK);
    begins_to_wait(f, writer, ours.write);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
    assert_true(actor_is_busy(writer));
    assert_result(actor_unlock(reader, theirs.read), RELOCK_OK);
    gets_in(writer, ours.write);
    assert_true(stats_of(client).wakes <= 1); /* none if it was still about to sleep */
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* Readers here and elsewhere: the writer waits for the last of all. */
static void a_writer_waits_for_readers_here_and_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *leaves_first[] = {ours.read, theirs.read};
    struct relock_lock *leaves_last[] = {theirs.read, ours.read};
    struct actor *writer = actor_start();

    learn(ours.write);
    for (int i = 0; i < 2; i++) {
        assert_result(relock_lock(ours.read), RELOCK_OK);
        assert_result(relock_lock(theirs.read), RELOCK_OK);
        actor_begin_lock(writer, ours.write);
        assert_true(wait_for_waiters(client, 1));
        assert_true(probe_wait_subscribers(f->probe, SIDES_CHANNEL, 1));
        assert_result(relock_unlock(leaves_first[i]), RELOCK_OK);
        assert_true(actor_is_busy(writer));
        assert_result(relock_unlock(leaves_last[i]), RELOCK_OK);
        gets_in(writer, ours.write);
    }
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* One is first, and the other gets in after it. */
static void a_writer_that_leaves_wakes_readers_and_writers(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *writer = actor_start(), *reader = actor_start();

    learn(ours.write);
    assert_result(relock_lock(theirs.write), RELOCK_OK);
    actor_begin(writer, actor_take_turn, ours.write);
    actor_begin(reader, actor_take_turn, ours.read);
    assert_true(wait_for_waiters(client, 2));
    assert_true(probe_wait_subscribers(f->probe, SIDES_CHANNEL, 1));
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* The writer becomes a reader: waiting readers elsewhere get in, and no writer does. */
static void a_downgrade_lets_readers_in_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, patient_client(f, LONG_MS));
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides theirs = sides_of(f, client);
    struct actor *reader = actor_start(), *writer = actor_start();

    learn(ours.write);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    begins_to_wait(f, reader, theirs.read);
    actor_begin_lock(writer, theirs.write);
    assert_true(wait_for_waiters(client, 2));
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    gets_in(reader, theirs.read);
    assert_true(actor_is_busy(writer));
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    gets_in(writer, theirs.write);
    assert_int_equal(stats_of(client).rechecks, 0);
}

/* Leases elsewhere end without a message: the waiter retries when the longest has ended. */
static void a_writer_gets_in_when_the_leases_of_the_readers_end(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct relock_how how = {.lease_ms = slow_ms(1200)};
    struct actor *writer = actor_start(), *reader = actor_start();
    struct sides theirs = sides_of(f, fixture_client(f, NULL));

    assert_result(relock_acquire(theirs.read, &how, NULL), RELOCK_OK);
    how.lease_ms = slow_ms(1500);
    assert_result(actor_acquire(reader, theirs.read, &how), RELOCK_OK);
    actor_begin_lock(writer, ours.write);
    gets_in(writer, ours.write);
    assert_int_equal(stats_of(client).wakes, 0);
    assert_result(relock_unlock(theirs.read), RELOCK_LOST);
    assert_result(actor_unlock(reader, theirs.read), RELOCK_LOST);
}

/* ---- messages and channels ----------------------------------------------------------------- */

static void the_last_reader_publishes_0_and_a_writer_1(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct listener *listener = listener_open(f->server->socket, SIDES_CHANNEL);
    struct actor *reader = actor_start();

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(actor_lock(reader, ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_true(listener_hears_nothing(listener, 20));
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_true(listener_hears(listener, "0", SOON_MS));
    learn(ours.write);
    assert_true(listener_hears(listener, "1", SOON_MS));
    listener_close(listener);
}

static void both_sides_have_one_subscription_that_goes_with_its_last_waiter(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *writer = actor_start(), *reader = actor_start();

    assert_result(relock_lock(theirs.write), RELOCK_OK);
    actor_begin(reader, actor_take_turn, ours.read);
    assert_true(probe_wait_subscribers(f->probe, SIDES_CHANNEL, 1));
    actor_begin(writer, actor_take_turn, ours.write);
    assert_true(wait_for_waiters(client, 2));
    assert_int_equal(probe_n_lock_channels(f->probe), 1);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_true(probe_wait_lock_channels(f->probe, 0));
}

/* Both sides share one channel, which a failed try to write no longer needs. */
static void the_channel_is_kept_while_somebody_waits_to_read(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, patient_client(f, LONG_MS));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct actor *reader = actor_start(), *writer = actor_start();

    assert_result(relock_lock(theirs.write), RELOCK_OK);
    actor_begin_lock(reader, ours.read);
    assert_true(probe_wait_subscribers(f->probe, SIDES_CHANNEL, 1));
    assert_result(actor_trylock(writer, ours.write), RELOCK_BUSY);
    let_pass(1500); /* longer than an unused channel is kept */
    assert_int_equal(probe_subscribers(f->probe, SIDES_CHANNEL), 1);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    gets_in(reader, ours.read);
    assert_true(probe_wait_lock_channels(f->probe, 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(all_local_readers_get_in_when_the_writer_leaves),
        SERVER_TEST(a_local_writer_gets_in_when_the_last_local_reader_leaves),
        SERVER_TEST(a_writer_gets_in_when_the_last_reader_elsewhere_leaves),
        SERVER_TEST(a_writer_waits_for_readers_here_and_elsewhere),
        SERVER_TEST(a_writer_that_leaves_wakes_readers_and_writers),
        SERVER_TEST(a_downgrade_lets_readers_in_elsewhere),
        SERVER_TEST(a_writer_gets_in_when_the_leases_of_the_readers_end),
        SERVER_TEST(the_last_reader_publishes_0_and_a_writer_1),
        SERVER_TEST(both_sides_have_one_subscription_that_goes_with_its_last_waiter),
        SERVER_TEST(the_channel_is_kept_while_somebody_waits_to_read),
    };

    return SERVER_TESTS_RUN(tests);
}
