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

/* ---- between the sides ---- */

/* Nothing ends by time: whoever gets in was woken. */
static struct relock_client *patient_client(struct fixture *f)
{
    return fixture_client(f, &(struct relock_options){.recheck_ms = slow_ms(60000),
                                                      .watchdog_timeout_ms = slow_ms(60000)});
}

/* Who reads inside its own write hold waits for nobody: the other one here waits for it. */
static void a_writer_reads_though_another_waits_to_read(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f);
    struct sides ours = make(client, "orders");
    struct actor *reader = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    actor_begin_lock(reader, ours.read);
    assert_true(wait_for_waiters(client, 1));
    assert_result(relock_trylock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_timedlock(ours.read, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    actor_end_all();
    drop(&ours);
}

static void a_hold_that_was_lost_is_no_leave_for_the_other_side(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(patient_client(f), "orders");
    struct relock_lock *sides[] = {ours.read, ours.write};

    for (int i = 0; i < 2; i++) {
        struct relock_lock *lost = sides[i], *other = sides[1 - i];

        assert_result(relock_acquire(lost, &(struct relock_how){.lease_ms = 50}, NULL), RELOCK_OK);
        assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
        assert_result(relock_trylock(other), RELOCK_LOST);
        assert_result(relock_unlock(lost), RELOCK_LOST);
        assert_result(relock_timedlock(other, SOON_MS), RELOCK_OK);
        assert_result(relock_unlock(other), RELOCK_OK);
    }
    drop(&ours);
}

struct asked {
    struct fixture *f;
    long long n;
};

static bool have_asked(void *arg)
{
    struct asked *asked = arg;

    return probe_script_calls(asked->f->probe) >= asked->n;
}

/* A hold of ours on one side is gone; nobody says so, and who waits at the other is far from asking
 * again. */
static void gets_in_when_it_is_lost(struct fixture *f, struct relock_lock *lost,
                                    struct relock_lock *wanted)
{
    struct actor *waiting = actor_start();
    struct asked asked = {f, 0};

    assert_result(relock_trylock(wanted), RELOCK_OK); /* Redis knows the scripts */
    assert_result(relock_unlock(wanted), RELOCK_OK);
    assert_result(relock_lock(lost), RELOCK_OK);
    asked.n = probe_script_calls(f->probe) + 2;
    actor_begin_lock(waiting, wanted);
    assert_true(wait_until(have_asked, &asked, SOON_MS)); /* and again when subscribed */
    assert_int_equal(probe_int(f->probe, "EVAL %s 0", "redis.call('flushdb') return 1"), 1);
    assert_result(relock_trylock(lost), RELOCK_LOST);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_unlock(lost), RELOCK_LOST);
    assert_result(actor_unlock(waiting, wanted), RELOCK_OK);
    actor_end(waiting);
}

static void who_waits_to_read_gets_in_when_the_writer_here_is_lost(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(patient_client(f), "orders");

    gets_in_when_it_is_lost(f, ours.write, ours.read);
    drop(&ours);
}

static void who_waits_to_write_gets_in_when_the_reader_here_is_lost(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(patient_client(f), "orders");

    gets_in_when_it_is_lost(f, ours.read, ours.write);
    drop(&ours);
}

/* Both sides have one channel, and who tries to write here is done with it. */
static void the_channel_is_kept_while_somebody_waits_to_read(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(patient_client(f), "orders");
    struct sides theirs = make(fixture_client(f, NULL), "orders");
    struct actor *reader = actor_start(), *writer = actor_start();

    assert_result(relock_lock(theirs.write), RELOCK_OK);
    actor_begin_lock(reader, ours.read);
    assert_true(probe_wait_subscribers(f->probe, "redisson_rwlock:{orders}", 1));
    assert_result(actor_trylock(writer, ours.write), RELOCK_BUSY);
    let_pass(1500); /* longer than a channel that nobody needs is kept */
    assert_int_equal(probe_subscribers(f->probe, "redisson_rwlock:{orders}"), 1);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    actor_end_all();
    drop(&ours);
    drop(&theirs);
}

/* What is left is a reader: those who wait to read elsewhere go beside it. */
static void a_downgrade_lets_readers_in_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct sides ours = make(patient_client(f), "orders");
    struct sides theirs = make(patient_client(f), "orders");
    struct actor *reader = actor_start();
    struct asked asked = {f, 0};

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK); /* Redis knows the scripts */
    asked.n = probe_script_calls(f->probe) + 2;
    actor_begin_lock(reader, theirs.read);
    assert_true(wait_until(have_asked, &asked, SOON_MS)); /* and again when subscribed */
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_result(actor_unlock(reader, theirs.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    actor_end_all();
    drop(&ours);
    drop(&theirs);
}

static void a_name_with_sides_is_of_no_other_kind(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct sides ours = make(client, "orders");
    struct relock_lock *lock = NULL;

    assert_result(relock_lock_new(client, "orders", &lock), RELOCK_E_INVALID);
    assert_result(relock_fairlock_new(client, "orders", &lock), RELOCK_E_INVALID);
    (void)fixture_lock(f, client, "invoices");
    assert_result(relock_rdlock_new(client, "invoices", &lock), RELOCK_E_INVALID);
    assert_result(relock_wrlock_new(client, "invoices", &lock), RELOCK_E_INVALID);
    assert_null(lock);
    drop(&ours);
}

/* Behind a writer that waits for this very reader, both would wait for ever. */
static void a_reader_that_asks_to_write_is_told_so_behind_a_waiting_writer(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct sides ours = make(client, "orders");
    struct actor *writer = actor_start(), *reader = actor_start();

    assert_result(actor_lock(reader, ours.read), RELOCK_OK);
    actor_begin_lock(writer, ours.write);
    assert_true(wait_for_waiters(client, 1));
    assert_result(actor_trylock(reader, ours.write), RELOCK_E_DEADLOCK);
    assert_result(actor_lock(reader, ours.write), RELOCK_E_DEADLOCK);
    assert_result(actor_unlock(reader, ours.read), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_result(actor_unlock(writer, ours.write), RELOCK_OK);
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
        SERVER_TEST(a_writer_reads_though_another_waits_to_read),
        SERVER_TEST(a_hold_that_was_lost_is_no_leave_for_the_other_side),
        SERVER_TEST(who_waits_to_read_gets_in_when_the_writer_here_is_lost),
        SERVER_TEST(who_waits_to_write_gets_in_when_the_reader_here_is_lost),
        SERVER_TEST(the_channel_is_kept_while_somebody_waits_to_read),
        SERVER_TEST(a_downgrade_lets_readers_in_elsewhere),
        SERVER_TEST(a_name_with_sides_is_of_no_other_kind),
        SERVER_TEST(a_reader_that_asks_to_write_is_told_so_behind_a_waiting_writer),
    };

    return SERVER_TESTS_RUN(tests);
}
