/*
 * Owners, threads, processes and clients of read/write locks that end, and the ends of waits.
 */
#include "support/actor.h"
#include "support/child.h"
#include "support/sides.h"

#include <signal.h>

#define LEASE_MS 2000 /* outlives a second in which a machine stands still */
#define LONG_MS 60000
#define WAIT_MS 150

/* ---- owners -------------------------------------------------------------------------------- */

static void a_call_with_an_explicit_owner_acts_for_it_on_both_sides(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct relock_how one = {.owner = relock_owner_new()}, two = {.owner = relock_owner_new()};
    struct actor *other = actor_start();
    struct relock_grant grant;

    assert_result(actor_acquire(other, ours.write, &one), RELOCK_OK);
    assert_result(relock_acquire(ours.read, &one, &grant), RELOCK_OK);
    assert_true(grant.owner == one.owner);
    assert_int_equal(grant.hold_count, 1);
    assert_result(relock_acquire(ours.read, &two, NULL), RELOCK_BUSY);
    assert_result(relock_trylock(ours.read), RELOCK_BUSY);
    actor_end(other); /* the hold of a named owner outlives the thread */
    assert_result(relock_check(ours.write, one.owner, NULL), RELOCK_OK);
    assert_result(relock_release(ours.write, one.owner), RELOCK_OK);
    assert_result(relock_acquire(ours.read, &two, NULL), RELOCK_OK);
    assert_result(relock_acquire(ours.write, &one, NULL), RELOCK_E_DEADLOCK);
    assert_result(relock_release(ours.read, one.owner), RELOCK_OK);
    assert_result(relock_release(ours.read, one.owner), RELOCK_NOT_OWNER);
    assert_result(relock_release(ours.read, two.owner), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* A hundred owners read in one thread. */
static void many_owners_of_one_thread_read_together(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct sides ours = sides_of(f, client);
    uint64_t owners[100];

    for (int i = 0; i < 100; i++) {
        owners[i] = relock_owner_new();
        assert_result(relock_acquire(ours.read, &(struct relock_how){.owner = owners[i]}, NULL),
                      RELOCK_OK);
    }
    assert_int_equal(sides_holder(ours.read).n_holders, 100);
    assert_int_equal(stats_of(client).holds, 100);
    assert_result(relock_trylock(ours.write), RELOCK_BUSY);
    for (int i = 0; i < 100; i++)
        assert_result(relock_release(ours.read, owners[i]), RELOCK_OK);
    assert_result(relock_trylock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
}

/* ---- endings ------------------------------------------------------------------------------- */

static void a_thread_that_ends_releases_both_sides(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct actor *careless = actor_start(), *waiting = actor_start();

    assert_result(actor_lock(careless, ours.write), RELOCK_OK);
    assert_result(actor_lock(careless, ours.read), RELOCK_OK);
    assert_result(actor_lock(careless, ours.read), RELOCK_OK);
    actor_begin_lock(waiting, ours.write);
    assert_true(wait_for_waiters(client, 1));
    actor_end(careless);
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_true(log_wait_n(f->log, "is a thread that ended", 2, SOON_MS));
    assert_result(actor_unlock(waiting, ours.write), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(losses_count(f->losses), 0);
}

static void a_client_that_is_freed_releases_both_sides(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, patient_client(f, LONG_MS));
    struct actor *waiting = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    actor_begin_lock(waiting, theirs.write);
    assert_true(probe_wait_subscribers(f->probe, SIDES_CHANNEL, 1));
    fixture_free_client(f, client);
    assert_gets_in(waiting, theirs.write);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_result(relock_unlock(ours.write), RELOCK_E_CLOSED);
    assert_result(relock_trylock(ours.read), RELOCK_E_CLOSED);
    assert_int_equal(losses_count(f->losses), 0);
}

/* Holds belong to owners, not to handles: the other side survives the free. */
static void handles_of_the_sides_may_be_freed_in_any_order(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);

    for (int i = 0; i < 2; i++) {
        struct sides ours = sides_of(f, client);

        assert_result(relock_lock(ours.write), RELOCK_OK);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        fixture_free_lock(f, i == 0 ? ours.read : ours.write);
        fixture_free_lock(f, i == 0 ? ours.write : ours.read);
        ours = sides_of(f, client);
        assert_result(relock_unlock(ours.write), RELOCK_OK);
        assert_result(relock_unlock(ours.read), RELOCK_OK);
        fixture_free_lock(f, ours.read);
        fixture_free_lock(f, ours.write);
    }
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static int read_until_killed(struct child *parent, void *arg)
{
    struct fixture *f = arg;
    struct relock_client *client =
        child_client(f, &(struct relock_options){.watchdog_timeout_ms = slow_ms(LEASE_MS)});
    struct relock_lock *read;

    child_must(relock_rdlock_new(client, "orders", &read) == RELOCK_OK);
    child_must(relock_lock(read) == RELOCK_OK);
    child_must(child_send(parent, 1));
    while (!child_await(parent))
        ;
    return 0;
}

/* Another process reads and dies, and this one reads on. The field of the dead reader stays while
 * others read, and blocks nobody. */
static struct sides read_beside_a_dead_reader(struct fixture *f)
{
    struct child *child;
    struct sides ours;

    if (!child_can_have_threads())
        skip();
    child = child_start(read_until_killed, f);
    assert_true(child_await(child));
    ours = sides_of(f, fixture_client(f, NULL));
    assert_result(relock_lock(ours.read), RELOCK_OK);
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
    return ours;
}

static void a_reader_that_died_keeps_a_writer_out_for_its_lease_at_most(void **state)
{
    struct fixture *f = *state;
    struct sides ours = read_beside_a_dead_reader(f);

    assert_int_equal(sides_holder(ours.read).n_holders, 2);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    /* The lease of our own read, which the lock had last, would end after 30 s. */
    assert_result(relock_timedlock(ours.write, (int64_t)slow_ms(SOON_MS)), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
}

static void a_reader_that_died_blocks_nobody_while_others_read_on(void **state)
{
    struct fixture *f = *state;
    struct sides ours = read_beside_a_dead_reader(f);

    for (uint64_t until_ms = deadline_in(SOON_MS); sides_holder(ours.read).n_holders == 2;) {
        assert_true(now_ms() < until_ms);
        let_pass(5);
    }
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0); /* with the field of the dead one */
    assert_result(relock_trylock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
}

/* ---- ends of waits ------------------------------------------------------------------------- */

static void a_wait_for_either_side_ends_at_its_deadline(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *sides[] = {ours.read, ours.write};
    struct actor *other = actor_start();

    assert_result(relock_lock(theirs.write), RELOCK_OK);
    for (int i = 0; i < 2; i++) {
        assert_result(actor_wait_out(other, sides[i], WAIT_MS), RELOCK_TIMEOUT);
        assert_true(actor_took_ms(other) >= WAIT_MS - 1);
        assert_result(actor_wait_out(other, sides[i], 0), RELOCK_TIMEOUT);
        assert_result(actor_unlock(other, sides[i]), RELOCK_NOT_OWNER);
    }
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    assert_int_equal(stats_of(client).waiters, 0);

    assert_result(relock_lock(ours.read), RELOCK_OK); /* of this process */
    assert_result(actor_wait_out(other, ours.write, WAIT_MS), RELOCK_TIMEOUT);
    assert_true(actor_took_ms(other) >= WAIT_MS - 1);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

static void a_wait_for_either_side_is_cancelled_by_itself(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = patient_client(f, LONG_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct actor *actors[4];

    assert_result(relock_cancel_new(&how.cancel), RELOCK_OK);
    assert_result(relock_lock(theirs.write), RELOCK_OK);
    for (int i = 0; i < 4; i++) {
        actors[i] = actor_start();
        if (i < 2)
            actor_begin_acquire(actors[i], i == 0 ? ours.read : ours.write, &how);
        else
            actor_begin_lock(actors[i], i == 2 ? ours.read : ours.write);
        assert_true(wait_for_waiters(client, (uint64_t)i + 1));
    }
    relock_cancel_fire(how.cancel);
    assert_result(actor_result(actors[0]), RELOCK_CANCELLED);
    assert_result(actor_result(actors[1]), RELOCK_CANCELLED);
    assert_true(actor_is_busy(actors[2]));
    assert_true(actor_is_busy(actors[3]));
    relock_client_shutdown(client);
    assert_result(actor_result(actors[2]), RELOCK_E_CLOSED);
    assert_result(actor_result(actors[3]), RELOCK_E_CLOSED);
    assert_int_equal(stats_of(client).waiters, 0);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
    relock_cancel_free(how.cancel);
}

static void a_holder_of_a_side_goes_on_after_shutdown(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct sides ours = sides_of(f, client);

    assert_result(relock_lock(ours.write), RELOCK_OK);
    relock_client_shutdown(client);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK); /* under its write hold */
    assert_result(relock_extend(ours.write, 0, LONG_MS), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_E_CLOSED); /* would begin a hold */
    assert_int_equal(probe_n_keys(f->probe), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_call_with_an_explicit_owner_acts_for_it_on_both_sides),
        SERVER_TEST(many_owners_of_one_thread_read_together),
        SERVER_TEST(a_thread_that_ends_releases_both_sides),
        SERVER_TEST(a_client_that_is_freed_releases_both_sides),
        SERVER_TEST(handles_of_the_sides_may_be_freed_in_any_order),
        SERVER_TEST(a_reader_that_died_keeps_a_writer_out_for_its_lease_at_most),
        SERVER_TEST(a_reader_that_died_blocks_nobody_while_others_read_on),
        SERVER_TEST(a_wait_for_either_side_ends_at_its_deadline),
        SERVER_TEST(a_wait_for_either_side_is_cancelled_by_itself),
        SERVER_TEST(a_holder_of_a_side_goes_on_after_shutdown),
    };

    return SERVER_TESTS_RUN(tests);
}
