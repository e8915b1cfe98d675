/* Losses of holds on both sides of a read/write lock. */
#include "support/actor.h"
#include "support/rights.h"
#include "support/sides.h"

#define LEASE_MS 1500 /* outlives a second in which a machine stands still */
#define LONG_MS 60000
#define STRANGER "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:41"

/* ---- the report ---------------------------------------------------------------------------- */

static void a_deleted_field_is_reported_on_its_side(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, watchful_client(f, LEASE_MS));
    struct sides theirs = sides_of(f, watchful_client(f, LEASE_MS));
    struct relock_holder reader, writer;

    assert_result(relock_lock(ours.read), RELOCK_OK);
    reader = sides_holder(ours.read);
    assert_result(relock_lock(theirs.read), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "HDEL orders %s", reader.id), 1);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_int_equal(losses_get(f->losses, 0).reason, RELOCK_LOST_TAKEN); /* others have it */
    assert_result(relock_check(ours.read, 0, NULL), RELOCK_LOST);
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_result(relock_check(theirs.read, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);

    assert_result(relock_lock(ours.write), RELOCK_OK);
    writer = sides_holder(ours.write);
    assert_int_equal(probe_int(f->probe, "HDEL orders %s:write", writer.id), 1);
    assert_true(losses_wait(f->losses, 2, SOON_MS));
    assert_result(relock_unlock(ours.write), RELOCK_LOST);
    assert_int_equal(stats_of(f->clients[0]).lost, 2);
}

static void a_deleted_key_is_reported_once_on_each_side(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct sides ours = sides_of(f, client);

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_true(losses_wait(f->losses, 2, SOON_MS));
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(losses_get(f->losses, i).reason, RELOCK_LOST_GONE);
        assert_string_equal(losses_get(f->losses, i).name, "orders");
    }
    assert_int_equal(losses_get(f->losses, 0).hold_count + losses_get(f->losses, 1).hold_count, 3);
    let_pass(slow_ms(LEASE_MS / 2)); /* for a second report */
    assert_int_equal(losses_count(f->losses), 2);
    assert_result(relock_unlock(ours.write), RELOCK_LOST);
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_result(relock_unlock(ours.read), RELOCK_NOT_OWNER);
    assert_int_equal(stats_of(client).lost, 2);
    assert_int_equal(stats_of(client).holds, 0);
}

static void a_mode_that_another_has_taken_is_reported(void **state)
{
    struct fixture *f = *state;
    struct relock_lock *sides[2];
    struct sides ours = sides_of(f, watchful_client(f, LEASE_MS));

    sides[0] = ours.read;
    sides[1] = ours.write;
    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(sides[i]), RELOCK_OK);
        probe_int(f->probe, "DEL orders");
        assert_int_equal(probe_int(f->probe, "HSET orders mode write %s 1", STRANGER ":write"), 2);
        assert_true(losses_wait(f->losses, i + 1, SOON_MS));
        assert_int_equal(losses_get(f->losses, i).reason, RELOCK_LOST_TAKEN);
        assert_result(relock_trylock(sides[i]), RELOCK_LOST);
        assert_result(relock_unlock(sides[i]), RELOCK_LOST);
        assert_int_equal(probe_int(f->probe, "HLEN orders"), 2);
        assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    }
}

/* Only its result reports a loss that the last release finds. */
static void an_unlock_of_either_side_reports_its_loss(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, patient_client(f, LONG_MS));
    struct relock_lock *sides[] = {ours.read, ours.write};

    for (size_t i = 0; i < 2; i++) {
        assert_result(relock_lock(sides[i]), RELOCK_OK);
        probe_int(f->probe, "FLUSHALL");
        assert_result(relock_unlock(sides[i]), RELOCK_LOST);
        assert_result(relock_unlock(sides[i]), RELOCK_NOT_OWNER);
        assert_result(relock_lock(sides[i]), RELOCK_OK);
        assert_result(relock_unlock(sides[i]), RELOCK_OK);
    }
    assert_int_equal(losses_count(f->losses), 0);
    assert_int_equal(stats_of(f->clients[0]).lost, 2);
}

/* A reader without any level is dead, even if its field exists. */
static void a_reader_whose_levels_are_gone_cannot_go_deeper(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, patient_client(f, LONG_MS));
    struct relock_holder reader;

    assert_result(relock_lock(ours.read), RELOCK_OK);
    reader = sides_holder(ours.read);
    assert_int_equal(probe_int(f->probe, "DEL {orders}:%s:rwlock_timeout:1", reader.id), 1);
    assert_result(relock_lock(ours.read), RELOCK_LOST);
    assert_true(losses_wait(f->losses, 1, SOON_MS));
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

/* ---- the other side ------------------------------------------------------------------------ */

static void a_lost_hold_does_not_admit_its_owner_to_the_other_side(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, patient_client(f, LONG_MS));
    struct relock_lock *sides[] = {ours.read, ours.write};

    for (int i = 0; i < 2; i++) {
        struct relock_lock *lost = sides[i], *other = sides[1 - i];

        assert_result(acquire_for(lost, slow_ms(1200)), RELOCK_OK);
        assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
        assert_result(relock_trylock(other), RELOCK_LOST);
        assert_result(relock_lock(other), RELOCK_LOST);
        assert_result(relock_unlock(lost), RELOCK_LOST);
        assert_result(relock_timedlock(other, SOON_MS), RELOCK_OK);
        assert_result(relock_unlock(other), RELOCK_OK);
    }
}

/* Another owner of this process is not affected. */
static void a_loss_of_one_owner_blocks_no_other_on_either_side(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, watchful_client(f, LEASE_MS));
    struct actor *other = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    probe_int(f->probe, "FLUSHALL");
    assert_true(losses_wait(f->losses, 2, SOON_MS));
    assert_result(actor_lock(other, ours.write), RELOCK_OK);
    assert_result(actor_lock(other, ours.read), RELOCK_OK);
    assert_result(relock_trylock(ours.read), RELOCK_LOST);
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_result(relock_trylock(ours.read), RELOCK_LOST); /* the write side is still lost */
    assert_result(relock_unlock(ours.write), RELOCK_LOST);
    assert_result(relock_trylock(ours.read), RELOCK_BUSY);
    assert_result(actor_check(other, ours.write), RELOCK_OK);
    assert_result(actor_unlock(other, ours.read), RELOCK_OK);
    assert_result(actor_unlock(other, ours.write), RELOCK_OK);
}

/* ---- waiters behind it --------------------------------------------------------------------- */

/* A hold of ours on one side is gone. Nothing is published, and the waiter at the other side is far
 * from its recheck. */
static void gets_in_when_it_is_lost(struct fixture *f, struct relock_lock *lost,
                                    struct relock_lock *wanted)
{
    struct actor *waiting = actor_start();
    long long before;

    assert_result(relock_trylock(wanted), RELOCK_OK); /* Redis knows the scripts */
    assert_result(relock_unlock(wanted), RELOCK_OK);
    assert_result(relock_lock(lost), RELOCK_OK);
    before = probe_script_calls(f->probe);
    actor_begin_lock(waiting, wanted);
    assert_true(
        probe_wait_script_calls(f->probe, before + 3, SOON_MS)); /* twice more when subscribed */
    assert_int_equal(probe_int(f->probe, "FLUSHDB"), 0);
    assert_result(relock_trylock(lost), RELOCK_LOST);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_unlock(lost), RELOCK_LOST);
    assert_result(actor_unlock(waiting, wanted), RELOCK_OK);
    actor_end(waiting);
}

static void a_waiting_reader_gets_in_when_the_local_writer_is_lost(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, patient_client(f, LONG_MS));

    gets_in_when_it_is_lost(f, ours.write, ours.read);
}

/* Its user may not use the line of the lock. */
static void a_waiting_reader_outside_of_the_line_gets_in_when_the_local_writer_is_lost(void **state)
{
    struct fixture *f = *state;
    struct sides ours;

    rights_give(f, "read-write", "~relock_waiters");
    ours = sides_of(f, rights_client(f, slow_ms(LONG_MS), RELOCK_NO_TRACKING));
    gets_in_when_it_is_lost(f, ours.write, ours.read);
}

static void a_waiting_writer_gets_in_when_the_local_reader_is_lost(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, patient_client(f, LONG_MS));

    gets_in_when_it_is_lost(f, ours.read, ours.write);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_deleted_field_is_reported_on_its_side),
        SERVER_TEST(a_deleted_key_is_reported_once_on_each_side),
        SERVER_TEST(a_mode_that_another_has_taken_is_reported),
        SERVER_TEST(an_unlock_of_either_side_reports_its_loss),
        SERVER_TEST(a_reader_whose_levels_are_gone_cannot_go_deeper),
        SERVER_TEST(a_lost_hold_does_not_admit_its_owner_to_the_other_side),
        SERVER_TEST(a_loss_of_one_owner_blocks_no_other_on_either_side),
        SERVER_TEST(a_waiting_reader_gets_in_when_the_local_writer_is_lost),
        SERVER_TEST(a_waiting_reader_outside_of_the_line_gets_in_when_the_local_writer_is_lost),
        SERVER_TEST(a_waiting_writer_gets_in_when_the_local_reader_is_lost),
    };

    return SERVER_TESTS_RUN(tests);
}
