/* Queries about the sides of a read/write lock, force, and counters. */
#include "support/actor.h"
#include "support/sides.h"

#include <string.h>

#define LONG_MS 60000

static void assert_free(struct relock_lock *side)
{
    struct relock_holder holder = sides_holder(side);
    bool locked = true;
    int64_t ttl_ms = 0;
    unsigned count = 1;

    assert_string_equal(holder.id, "");
    assert_int_equal(holder.hold_count, 0);
    assert_int_equal(holder.n_holders, 0);
    assert_int_equal(holder.ttl_ms, -2);
    assert_result(relock_is_locked(side, &locked), RELOCK_OK);
    assert_false(locked);
    assert_result(relock_ttl_ms(side, &ttl_ms), RELOCK_OK);
    assert_int_equal(ttl_ms, -2);
    assert_result(relock_hold_count(side, &count), RELOCK_OK);
    assert_int_equal(count, 0);
}

/* The holders of the lock, as `side` reports them: on that side or, if `is_other`, on the other. */
static void assert_reported(struct relock_lock *side, struct relock_client *by, unsigned n_holders,
                            unsigned own, bool is_other)
{
    struct relock_holder holder = sides_holder(side);
    bool locked = is_other;
    int64_t ttl_ms = -2;
    unsigned count = 7;

    assert_int_equal(holder.other_side, is_other);
    if (by)
        assert_int_equal(strncmp(holder.id, relock_client_id(by), 36), 0);
    assert_null(strstr(holder.id, "write"));
    assert_true(holder.hold_count >= 1);
    assert_int_equal(holder.n_holders, n_holders);
    assert_true(holder.ttl_ms > 0);
    assert_result(relock_is_locked(side, &locked), RELOCK_OK);
    assert_int_equal(locked, !is_other);
    assert_result(relock_ttl_ms(side, &ttl_ms), RELOCK_OK);
    assert_true(ttl_ms > 0);
    assert_result(relock_hold_count(side, &count), RELOCK_OK);
    assert_int_equal(count, own);
}

/* The side is free; `by` holds the other. */
static void assert_barred(struct relock_lock *side, struct relock_client *by, unsigned n_holders)
{
    assert_reported(side, by, n_holders, 0, true);
}

static void assert_held(struct relock_lock *side, struct relock_client *by, unsigned n_holders,
                        unsigned own)
{
    assert_reported(side, by, n_holders, own, false);
}

/* ---- queries ------------------------------------------------------------------------------- */

static void each_side_is_held_for_itself_and_names_its_blocker(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *another = fixture_client(f, NULL);
    struct sides ours = sides_of(f, client), theirs = sides_of(f, another);

    assert_free(ours.read);
    assert_free(ours.write);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_held(ours.write, client, 1, 2);
    assert_held(theirs.write, client, 1, 0);
    assert_int_equal(sides_holder(theirs.write).hold_count, 2);
    assert_barred(ours.read, client, 1);
    assert_barred(theirs.read, client, 1);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_held(ours.read, client, 1, 1);
    assert_held(ours.write, client, 1, 2);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_barred(theirs.write, client, 1);
    assert_held(theirs.read, client, 1, 0);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_free(ours.read);
    assert_free(ours.write);
}

static void all_readers_are_counted_and_one_is_named(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL), *another = fixture_client(f, NULL);
    struct sides ours = sides_of(f, client), theirs = sides_of(f, another);
    struct actor *actor = actor_start();

    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(actor_lock(actor, ours.read), RELOCK_OK);
    assert_result(relock_lock(theirs.read), RELOCK_OK);
    assert_held(ours.read, NULL, 3, 2);
    assert_held(theirs.read, NULL, 3, 1);
    assert_barred(ours.write, NULL, 3);
    assert_result(actor_unlock(actor, ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_held(ours.read, another, 1, 0);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
}

static void the_remaining_lease_is_that_of_the_longest_holder(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    int64_t ttl_ms;

    assert_result(acquire_for(ours.read, LONG_MS), RELOCK_OK);
    assert_result(relock_lock(theirs.read), RELOCK_OK); /* 30 s */
    assert_result(relock_ttl_ms(theirs.read, &ttl_ms), RELOCK_OK);
    assert_true(ttl_ms > 45000 && ttl_ms <= LONG_MS);
    assert_result(relock_ttl_ms(theirs.write, &ttl_ms), RELOCK_OK);
    assert_true(ttl_ms > 45000 && ttl_ms <= LONG_MS);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_ttl_ms(ours.read, &ttl_ms), RELOCK_OK);
    assert_true(ttl_ms > 0 && ttl_ms <= 30000);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
}

/* ---- by force ------------------------------------------------------------------------------ */

static void force_frees_the_side_of_readers_for_a_writer(void **state)
{
    struct fixture *f = *state;
    struct relock_client *another = fixture_client(f, NULL);
    struct sides ours = sides_of(f, fixture_client(f, NULL)), theirs = sides_of(f, another);
    struct actor *writer = actor_start(), *reader = actor_start();

    assert_result(relock_force_unlock(ours.read), RELOCK_OK); /* free: stays free */
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(actor_lock(reader, ours.read), RELOCK_OK);
    actor_begin_lock(writer, theirs.write);
    assert_true(wait_for_waiters(another, 1));
    assert_result(relock_force_unlock(theirs.write), RELOCK_OK); /* nobody writes */
    assert_int_equal(sides_holder(theirs.read).n_holders, 2);
    assert_result(relock_force_unlock(theirs.read), RELOCK_OK);
    assert_result(actor_result(writer), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1); /* no levels are left */
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_result(actor_unlock(reader, ours.read), RELOCK_LOST);
    assert_result(actor_check(writer, theirs.write), RELOCK_OK);
    assert_result(actor_unlock(writer, theirs.write), RELOCK_OK);
}

static void force_frees_the_side_of_a_writer_with_its_reads(void **state)
{
    struct fixture *f = *state;
    struct relock_client *another = fixture_client(f, NULL);
    struct sides ours = sides_of(f, fixture_client(f, NULL)), theirs = sides_of(f, another);
    struct actor *reader = actor_start();

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    actor_begin_lock(reader, theirs.read);
    assert_true(wait_for_waiters(another, 1));
    assert_result(relock_force_unlock(theirs.write), RELOCK_OK);
    assert_result(actor_result(reader), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_LOST);
    assert_result(relock_unlock(ours.write), RELOCK_LOST);
    assert_result(actor_unlock(reader, theirs.read), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

/* The reads of the writer are lost, and the writer stays. Its own client may ask, or another. Holds
 * are not checked, so the scripts are those of the calls. */
static void force_on_the_side_of_readers_leaves_a_writer_that_reads(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, untracked_client(f));
    struct sides theirs = sides_of(f, untracked_client(f));
    struct relock_lock *const forcing[] = {ours.read, theirs.read};

    for (int i = 0; i < 2; i++) {
        long long before;

        assert_result(relock_lock(ours.write), RELOCK_OK);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        before = probe_script_calls(f->probe);
        assert_result(relock_force_unlock(forcing[i]), RELOCK_OK);
        assert_true(probe_script_calls(f->probe) <= before + 4);
        assert_barred(ours.read, NULL, 1);
        assert_int_equal(probe_n_keys(f->probe), 1);
        assert_result(relock_trylock(theirs.read), RELOCK_BUSY);
        assert_result(relock_unlock(ours.read), RELOCK_LOST);
        assert_result(relock_unlock(ours.read), RELOCK_LOST);
        assert_result(relock_check(ours.write, 0, NULL), RELOCK_OK);
        assert_result(relock_unlock(ours.write), RELOCK_OK);
        assert_int_equal(probe_n_keys(f->probe), 0);
    }
}

/* ---- counts -------------------------------------------------------------------------------- */

static bool has_slept(void *client)
{
    return stats_of(client).waits > 0;
}

static void stats_count_both_sides(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = fixture_client(f, NULL);
    struct sides ours = sides_of(f, client);
    struct actor *other = actor_start();
    struct relock_stats stats;

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    stats = stats_of(client);
    assert_int_equal(stats.acquired, 2);
    assert_int_equal(stats.holds, 2);
    assert_int_equal(stats.contended, 0);
    assert_result(actor_trylock(other, ours.read), RELOCK_BUSY);
    assert_result(actor_trylock(other, ours.write), RELOCK_BUSY);
    assert_int_equal(stats_of(client).contended, 2);
    actor_begin_lock(other, ours.read);
    assert_true(wait_until(has_slept, client, SOON_MS));
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(actor_result(other), RELOCK_OK);
    stats = stats_of(client);
    assert_int_equal(stats.acquired, 3);
    assert_int_equal(stats.passed_on, 0);
    assert_int_equal(stats.holds, 2);
    assert_int_equal(stats.contended, 3);
    assert_result(actor_unlock(other, ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    stats = stats_of(client);
    assert_int_equal(stats.holds, 0);
    assert_int_equal(stats.waiters, 0);
    assert_int_equal(stats.lost, 0);
}

static void a_grant_without_enough_replicas_is_not_held_on_either_side(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client =
        fixture_client(f, &(struct relock_options){.min_replicas = 1, .replica_timeout_ms = 50});
    struct sides ours = sides_of(f, client), theirs = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *sides[] = {ours.read, ours.write};
    long long waits = probe_calls(f->probe, "wait");
    struct relock_grant grant;

    for (int i = 0; i < 2; i++) {
        assert_result(relock_acquire(sides[i], NULL, &grant), RELOCK_E_REPLICAS);
        assert_int_equal(grant.hold_count, 0);
        assert_int_equal(probe_calls(f->probe, "wait"), waits + i + 1);
        assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
        assert_int_equal(probe_n_keys(f->probe), 0);
        assert_result(relock_unlock(sides[i]), RELOCK_NOT_OWNER);
    }
    assert_result(relock_lock(theirs.write), RELOCK_OK);
    assert_result(relock_trylock(ours.read), RELOCK_BUSY); /* not worth the wait */
    assert_int_equal(probe_calls(f->probe, "wait"), waits + 2);
    assert_result(relock_unlock(theirs.write), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_side_is_held_for_itself_and_names_its_blocker),
        SERVER_TEST(all_readers_are_counted_and_one_is_named),
        SERVER_TEST(the_remaining_lease_is_that_of_the_longest_holder),
        SERVER_TEST(force_frees_the_side_of_readers_for_a_writer),
        SERVER_TEST(force_frees_the_side_of_a_writer_with_its_reads),
        SERVER_TEST(force_on_the_side_of_readers_leaves_a_writer_that_reads),
        SERVER_TEST(stats_count_both_sides),
        SERVER_TEST(a_grant_without_enough_replicas_is_not_held_on_either_side),
    };

    return SERVER_TESTS_RUN(tests);
}
