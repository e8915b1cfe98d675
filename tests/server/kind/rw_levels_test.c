/* Levels and leases of both sides of a read/write lock, and their renewal. */
#include "support/sides.h"

#define LEASE_MS 2000 /* outlives a second in which a machine stands still */
#define SHORT_MS 20000
#define LONG_MS 60000
#define LATE_MS 15000 /* as much as a slow machine may take from a lease */

/* The library and Redis agree that about so much remains, for the key of the lock and of a reader's
 * level. Either key may end a millisecond before the other: Redis' clock moves on during a script.
 */
static void has_left(struct fixture *f, struct relock_lock *side, uint64_t lease_ms)
{
    uint64_t valid_ms = relock_valid_ms(side);
    int64_t pttl = probe_pttl(f->probe, "orders");
    int64_t ttl_ms;

    assert_true(valid_ms > lease_ms - LATE_MS && valid_ms <= lease_ms);
    assert_result(relock_ttl_ms(side, &ttl_ms), RELOCK_OK);
    assert_true(ttl_ms > (int64_t)(lease_ms - LATE_MS) && ttl_ms <= (int64_t)lease_ms);
    assert_true(pttl > (int64_t)(lease_ms - LATE_MS));
}

static void has_levels(struct relock_lock *side, unsigned n)
{
    struct relock_grant grant;
    unsigned count;

    assert_result(relock_check(side, 0, &grant), n > 0 ? RELOCK_OK : RELOCK_NOT_OWNER);
    assert_int_equal(grant.hold_count, n);
    assert_result(relock_hold_count(side, &count), RELOCK_OK);
    assert_int_equal(count, n);
}

/* ---- levels -------------------------------------------------------------------------------- */

static void each_side_counts_its_own_levels(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));

    for (unsigned i = 1; i <= 3; i++) {
        assert_result(relock_lock(ours.write), RELOCK_OK);
        has_levels(ours.write, i);
        has_levels(ours.read, i - 1);
        assert_result(relock_lock(ours.read), RELOCK_OK);
        has_levels(ours.read, i);
    }
    for (unsigned i = 3; i >= 1; i--) {
        assert_result(relock_unlock(ours.read), RELOCK_OK);
        has_levels(ours.read, i - 1);
        has_levels(ours.write, i);
        assert_result(relock_unlock(ours.write), RELOCK_OK);
        has_levels(ours.write, i - 1);
    }
    assert_result(relock_unlock(ours.read), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(ours.write), RELOCK_NOT_OWNER);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void levels_of_both_sides_may_be_released_in_any_order(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));

    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_lock(ours.write), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    has_levels(ours.write, 0);
    has_levels(ours.read, 2);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    has_levels(ours.read, 3);
    for (int i = 0; i < 3; i++)
        assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_side_of_non_reentrant_use_is_not_taken_twice(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *sides[] = {ours.read, ours.write};
    struct relock_how once = {.flags = RELOCK_NON_REENTRANT};

    for (int i = 0; i < 2; i++) {
        assert_result(relock_acquire(sides[i], &once, NULL), RELOCK_OK);
        assert_result(relock_acquire(sides[i], &once, NULL), RELOCK_E_DEADLOCK);
        has_levels(sides[i], 1);
        assert_result(relock_unlock(sides[i]), RELOCK_OK);
    }
}

/* ---- leases -------------------------------------------------------------------------------- */

static void nested_leases_of_either_side_are_the_longest(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *sides[] = {ours.read, ours.write};

    for (int i = 0; i < 2; i++) {
        assert_result(acquire_for(sides[i], SHORT_MS), RELOCK_OK);
        has_left(f, sides[i], SHORT_MS);
        assert_result(acquire_for(sides[i], LONG_MS), RELOCK_OK);
        has_left(f, sides[i], LONG_MS);
        assert_result(acquire_for(sides[i], SHORT_MS), RELOCK_OK);
        has_left(f, sides[i], LONG_MS);
        assert_result(relock_unlock(sides[i]), RELOCK_OK);
        assert_result(relock_unlock(sides[i]), RELOCK_OK);
        has_left(f, sides[i], LONG_MS); /* the level that is left is not shorter than it was */
        assert_result(relock_unlock(sides[i]), RELOCK_OK);
        assert_int_equal(probe_n_keys(f->probe), 0);
    }
    assert_int_equal(stats_of(f->clients[0]).renewed, 0);
}

static void an_extension_of_either_side_lengthens_and_never_shortens(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *sides[] = {ours.read, ours.write};

    for (int i = 0; i < 2; i++) {
        assert_result(acquire_for(sides[i], SHORT_MS), RELOCK_OK);
        assert_result(acquire_for(sides[i], SHORT_MS), RELOCK_OK);
        assert_result(relock_extend(sides[i], 0, LONG_MS), RELOCK_OK);
        has_left(f, sides[i], LONG_MS);
        assert_result(relock_extend(sides[i], 0, 1), RELOCK_OK);
        has_left(f, sides[i], LONG_MS);
        assert_result(relock_extend(sides[1 - i], 0, LONG_MS), RELOCK_NOT_OWNER);
        assert_result(relock_unlock(sides[i]), RELOCK_OK);
        has_left(f, sides[i], LONG_MS);
        assert_result(relock_unlock(sides[i]), RELOCK_OK);
    }
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_short_read_cuts_no_lease_of_another_reader(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct sides theirs = sides_of(f, fixture_client(f, NULL));

    assert_result(acquire_for(ours.read, LONG_MS), RELOCK_OK);
    assert_result(acquire_for(theirs.read, SHORT_MS), RELOCK_OK);
    has_left(f, ours.read, LONG_MS);
    assert_result(relock_unlock(theirs.read), RELOCK_OK);
    has_left(f, ours.read, LONG_MS);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

static void a_released_read_cuts_no_write_lease(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));

    assert_result(acquire_for(ours.write, LONG_MS), RELOCK_OK);
    assert_result(acquire_for(ours.read, SHORT_MS), RELOCK_OK);
    assert_result(acquire_for(ours.read, SHORT_MS), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    has_left(f, ours.write, LONG_MS);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    has_left(f, ours.write, LONG_MS);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
}

/* The lease of the writer ends with it: the lock keeps the lease of the reader. */
static void a_downgrade_leaves_the_lease_of_the_read(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));

    assert_result(acquire_for(ours.write, LONG_MS), RELOCK_OK);
    assert_result(acquire_for(ours.read, SHORT_MS), RELOCK_OK);
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    has_left(f, ours.read, SHORT_MS);
    assert_true(probe_pttl(f->probe, "orders") <= SHORT_MS);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

static void the_end_of_a_fixed_lease_of_either_side_is_reported(void **state)
{
    struct fixture *f = *state;
    struct sides ours = sides_of(f, fixture_client(f, NULL));
    struct relock_lock *sides[] = {ours.read, ours.write};

    for (size_t i = 0; i < 2; i++) {
        assert_result(acquire_for(sides[i], slow_ms(1200)), RELOCK_OK);
        assert_true(losses_wait(f->losses, i + 1, SOON_MS));
        assert_int_equal(losses_get(f->losses, i).reason, RELOCK_LOST_EXPIRED);
        assert_true(probe_wait_no_key(f->probe, "orders", SOON_MS));
        assert_result(relock_unlock(sides[i]), RELOCK_LOST);
    }
    assert_int_equal(stats_of(f->clients[0]).renewed, 0);
}

/* ---- the watchdog -------------------------------------------------------------------------- */

/* The hold lasts for more than one lease, and no level ever has more than one. */
static void outlives_its_lease(struct fixture *f, struct relock_lock *side, unsigned n_levels)
{
    struct relock_holder holder = sides_holder(side);
    uint64_t until_ms = deadline_in(LEASE_MS * 6 / 5);

    while (now_ms() < until_ms) {
        long long pttl = probe_pttl(f->probe, "orders");

        assert_true(pttl > 0 && pttl <= (long long)slow_ms(LEASE_MS));
        for (unsigned level = 1; level <= n_levels; level++) {
            pttl = sides_level_rest(f->probe, holder.id, level);
            assert_true(pttl > 0 && pttl <= (long long)slow_ms(LEASE_MS));
        }
        let_pass(5);
    }
    assert_result(relock_check(side, 0, NULL), RELOCK_OK);
}

static void both_sides_are_renewed_until_they_are_released(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct sides ours = sides_of(f, client);
    uint64_t renewed;

    assert_result(relock_lock(ours.write), RELOCK_OK);
    outlives_its_lease(f, ours.write, 0);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    outlives_its_lease(f, ours.read, 2);
    renewed = stats_of(client).renewed;
    assert_true(renewed >= 3); /* one hold during the first lease, two during the second */
    assert_result(relock_unlock(ours.write), RELOCK_OK);
    outlives_its_lease(f, ours.read, 2);
    assert_true(stats_of(client).renewed > renewed);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(losses_count(f->losses), 0);
}

static void only_our_own_reads_are_renewed(void **state)
{
    struct fixture *f = *state;
    struct relock_client *client = watchful_client(f, LEASE_MS);
    struct sides ours = sides_of(f, client);
    struct sides theirs = sides_of(f, fixture_client(f, NULL));
    struct relock_holder stranger;
    uint64_t lease_ms = slow_ms(LEASE_MS * 5 / 4);
    long long last = (long long)lease_ms;

    assert_result(acquire_for(theirs.read, lease_ms), RELOCK_OK);
    stranger = sides_holder(theirs.read);
    assert_result(relock_lock(ours.read), RELOCK_OK);
    while (last >= 0) { /* falls, until it is gone */
        long long rest = sides_level_rest(f->probe, stranger.id, 1);

        assert_true(rest <= last);
        last = rest;
        let_pass(5);
    }
    assert_true(stats_of(client).renewed >= 1);
    assert_result(relock_unlock(theirs.read), RELOCK_LOST);
    assert_result(relock_check(ours.read, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(ours.read), RELOCK_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_side_counts_its_own_levels),
        SERVER_TEST(levels_of_both_sides_may_be_released_in_any_order),
        SERVER_TEST(a_side_of_non_reentrant_use_is_not_taken_twice),
        SERVER_TEST(nested_leases_of_either_side_are_the_longest),
        SERVER_TEST(an_extension_of_either_side_lengthens_and_never_shortens),
        SERVER_TEST(a_short_read_cuts_no_lease_of_another_reader),
        SERVER_TEST(a_released_read_cuts_no_write_lease),
        SERVER_TEST(a_downgrade_leaves_the_lease_of_the_read),
        SERVER_TEST(the_end_of_a_fixed_lease_of_either_side_is_reported),
        SERVER_TEST(both_sides_are_renewed_until_they_are_released),
        SERVER_TEST(only_our_own_reads_are_renewed),
    };

    return SERVER_TESTS_RUN(tests);
}
