/* Readers while another process may go first; the test sets the end of that time. */
#include "lock/lock.h"
#include "support/actor.h"
#include "support/fixture.h"

#define TURN_MS 1500 /* all that is to happen within it may take that long */

static struct relock_lock *read_side, *write_side;

static struct relock_client *make(struct fixture *f)
{
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.recheck_ms = slow_ms(60000)});

    assert_result(relock_rdlock_new(client, "orders", &read_side), RELOCK_OK);
    assert_result(relock_wrlock_new(client, "orders", &write_side), RELOCK_OK);
    return client;
}

static void drop(void)
{
    read_side = relock_lock_free(read_side);
    write_side = relock_lock_free(write_side);
}

static void let_others_read_first(void)
{
    relock_mutex_lock(&read_side->client->mutex);
    read_side->resource->yields_until_ms = now_ms() + slow_ms(TURN_MS);
    relock_mutex_unlock(&read_side->client->mutex);
}

static void a_writer_reads_after_the_turn_though_others_wait_before_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = make(f);
    struct actor *writer = actor_start(), *reader = actor_start();

    assert_result(actor_lock(writer, write_side), RELOCK_OK);
    actor_begin_lock(reader, read_side);
    assert_true(wait_for_waiters(client, 1));
    let_others_read_first();
    assert_result(actor_lock(writer, read_side), RELOCK_OK);
    assert_result(actor_unlock(writer, write_side), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_result(actor_unlock(reader, read_side), RELOCK_OK);
    assert_result(actor_unlock(writer, read_side), RELOCK_OK);
    actor_end_all();
    drop();
}

static void a_waiter_that_starts_anew_asks_though_others_wait_before_it(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = make(f);
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .owner = relock_owner_new()};
    struct actor *first = actor_start(), *reader = actor_start(), *writer = actor_start();

    assert_result(relock_lock(write_side), RELOCK_OK);
    actor_begin_lock(first, read_side);
    assert_true(wait_for_waiters(client, 1));
    actor_begin_acquire(reader, read_side, &how);
    assert_true(wait_for_waiters(client, 2));
    actor_begin_acquire(writer, write_side, &how);
    assert_true(wait_for_waiters(client, 3));
    let_others_read_first();
    assert_result(relock_unlock(write_side), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK); /* beside the write hold of its owner */
    assert_true(actor_is_busy(first));
    assert_result(relock_release(write_side, how.owner), RELOCK_OK);
    assert_result(actor_result(first), RELOCK_OK);
    assert_result(actor_unlock(first, read_side), RELOCK_OK);
    assert_result(relock_release(read_side, how.owner), RELOCK_OK);
    actor_end_all();
    drop();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_writer_reads_after_the_turn_though_others_wait_before_it),
        SERVER_TEST(a_waiter_that_starts_anew_asks_though_others_wait_before_it),
    };

    return SERVER_TESTS_RUN(tests);
}
