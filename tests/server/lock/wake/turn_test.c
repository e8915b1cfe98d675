/* Readers while another process may go first; the test sets the end of that time. */
#include "lock/state/lock.h"
#include "support/actor.h"
#include "support/sides.h"

#define TURN_MS 1500 /* the time for all that must happen within it */

static void let_others_read_first(struct sides ours)
{
    relock_mutex_lock(&ours.read->client->mutex);
    relock_resource_yield_until(ours.read->resource, now_ms() + slow_ms(TURN_MS));
    relock_mutex_unlock(&ours.read->client->mutex);
}

static void a_writer_reads_after_the_turn_though_others_wait_before_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct sides ours = sides_of(f, client);
    struct actor *writer = actor_start(), *reader = actor_start();

    assert_result(actor_lock(writer, ours.write), RELOCK_OK);
    actor_begin_lock(reader, ours.read);
    assert_true(wait_for_waiters(client, 1));
    let_others_read_first(ours);
    assert_result(actor_lock(writer, ours.read), RELOCK_OK);
    assert_result(actor_unlock(writer, ours.write), RELOCK_OK);
    assert_gets_in(reader, ours.read);
    assert_result(actor_unlock(writer, ours.read), RELOCK_OK);
}

static void a_waiter_that_starts_anew_asks_though_others_wait_before_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = woken_client(f);
    struct sides ours = sides_of(f, client);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *first = actor_start(), *reader = actor_start(), *writer = actor_start();
    long long before;

    assert_result(relock_lock(ours.write), RELOCK_OK);
    before = probe_script_calls(f->probe);
    actor_begin_lock(first, ours.read);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_acquire(reader, ours.read, &how);
    assert_true(wait_for_waiters(client, 2));
    /* The first of them asks again in line, and when it listens. Later, an attempt gets in. */
    assert_true(probe_wait_script_calls(f->probe, before + 4, SOON_MS));
    actor_begin_acquire(writer, ours.write, &how);
    assert_true(wait_for_waiters(client, 3));
    let_others_read_first(ours);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK); /* beside the write hold of its owner */
    assert_true(actor_is_busy(first));
    assert_result(relock_release(ours.write, how.owner), RELOCK_OK);
    assert_gets_in(first, ours.read);
    assert_result(relock_release(ours.read, how.owner), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_writer_reads_after_the_turn_though_others_wait_before_it),
        SERVER_TEST(a_waiter_that_starts_anew_asks_though_others_wait_before_it),
    };

    return SERVER_TESTS_RUN(tests);
}
