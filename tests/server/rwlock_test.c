/* Read/write locks: readers together, a writer alone. */
#include "support/actor.h"
#include "support/child.h"
#include "support/fixture.h"

#include <stdio.h>

/* Both sides of one name. */
struct sides {
    struct relock_lock *read, *write;
};

static struct sides make(struct relock_client *client, const char *name)
{
    struct sides sides = {0};

    assert_result(relock_rdlock_new(client, name, &sides.read), RELOCK_OK);
    assert_result(relock_wrlock_new(client, name, &sides.write), RELOCK_OK);
    return sides;
}

static void drop(struct sides *sides)
{
    sides->read = relock_lock_free(sides->read);
    sides->write = relock_lock_free(sides->write);
}

static void readers_hold_it_together(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(fixture_client(f, NULL), "orders");
    struct sides theirs = make(fixture_client(f, NULL), "orders");
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(actor_trylock(actor, ours.read), RELOCK_OK);
    assert_result(relock_trylock(theirs.read), RELOCK_OK);
    assert_result(relock_trylock(theirs.write), RELOCK_E_DEADLOCK);
    assert_result(actor_unlock(actor, ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    actor_end_all();
    drop(&ours);
    drop(&theirs);
}

static void a_writer_is_alone(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(fixture_client(f, NULL), "orders");
    struct sides theirs = make(fixture_client(f, NULL), "orders");
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(actor_trylock(actor, ours.write), RELOCK_BUSY);
    assert_result(actor_trylock(actor, ours.read), RELOCK_BUSY);
    assert_result(actor_trylock(actor, theirs.read), RELOCK_BUSY);
    assert_result(actor_trylock(actor, theirs.write), RELOCK_BUSY);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_trylock(actor, theirs.read), RELOCK_BUSY);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_trylock(actor, theirs.read), RELOCK_OK);
    assert_result(relock_trylock(ours.write), RELOCK_BUSY);
    assert_result(actor_unlock(actor, theirs.read), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    actor_end_all();
    drop(&ours);
    drop(&theirs);
}

static void a_writer_may_read_and_go_on_reading(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(fixture_client(f, NULL), "orders");
    struct sides theirs = make(fixture_client(f, NULL), "orders");
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    actor_begin_lock(actor, theirs.read);
    assert_true(wait_for_waiters(f->clients[1], 1));
    assert_result(relock_unlock(ours.write), RELOCK_OK); /* wakes the other reader */
    assert_result(actor_result(actor), RELOCK_OK);
    assert_true(relock_is_mine(ours.read));
    assert_result(relock_lock(ours.write), RELOCK_E_DEADLOCK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(actor_unlock(actor, theirs.read), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DBSIZE"), 0);
    actor_end_all();
    drop(&ours);
    drop(&theirs);
}

static void all_local_readers_go_when_the_writer_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.recheck_ms = slow_ms(60000)});
    struct sides ours = make(client, "orders");
    struct sides theirs = make(fixture_client(f, NULL), "orders");
    struct actor *actors[8];

    assert_result(relock_lock(theirs.write), RELOCK_OK);
    for (int i = 0; i < 8; i++) {
        actors[i] = actor_start();
        actor_begin_lock(actors[i], ours.read);
    }
    assert_true(wait_for_waiters(client, 8));
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    for (int i = 0; i < 8; i++)
        assert_result(actor_result(actors[i]), RELOCK_OK);
    assert_result(relock_trylock(theirs.write), RELOCK_BUSY);
    for (int i = 0; i < 8; i++)
        assert_result(actor_unlock(actors[i], ours.read), RELOCK_OK);
    assert_result(relock_trylock(theirs.write), RELOCK_OK);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    actor_end_all();
    drop(&ours);
    drop(&theirs);
}

static void a_writer_here_goes_when_the_last_reader_here_leaves(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.recheck_ms = slow_ms(60000)});
    struct sides ours = make(client, "orders");
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
    assert_result(actor_result(reader), RELOCK_OK);
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    actor_end_all();
    drop(&ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(readers_hold_it_together),
        SERVER_TEST(a_writer_is_alone),
        SERVER_TEST(a_writer_may_read_and_go_on_reading),
        SERVER_TEST(all_local_readers_go_when_the_writer_leaves),
        SERVER_TEST(a_writer_here_goes_when_the_last_reader_here_leaves),
    };

    return SERVER_TESTS_RUN(tests);
}
