/* Leases of the read/write lock: none that runs is cut, and a reader without one is dead:
 * docs/wire.md#read-write. */
#include "rw_scripts.h"
#include "support/listener.h"

/* ---- nothing is cut ------------------------------------------------------------------------ */

static void a_shorter_read_cuts_neither_the_lock_nor_another_level(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_int_equal(rw_read_lock(p, R1, 2, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R2, 1, SHORT_MS), GRANTED);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_rest(p, LEVEL(R1, 2), SHORT_MS);
    assert_rest(p, LEVEL(R2, 1), SHORT_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R2, 0), 1);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void a_longer_read_lengthens_the_lock(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, LONG_MS), GRANTED);
    assert_rest(p, LEVEL(R1, 1), SHORT_MS);
    assert_rest(p, LEVEL(R1, 2), LONG_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void a_partial_read_unlock_keeps_the_longest_lease_of_the_hold(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 3, LONG_MS), GRANTED);
    assert_int_equal(rw_read_unlock(p, R1, 2), 1);
    assert_rest(p, LEVEL(R1, 2), LONG_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 1), 1);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void a_level_that_is_dropped_leaves_its_lease_to_the_hold(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 3, LONG_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, SHORT_MS), GRANTED);
    assert_rest(p, LEVEL(R1, 2), LONG_MS);
    assert_int_equal(rw_read_extend(p, R1, 1, SHORT_MS), 1);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_rest(p, "orders", LONG_MS);

    assert_int_equal(rw_read_lock(p, R2, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_renew(p, R2, LEASE_MS), 1);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_extend(p, R2, 1, LEASE_MS), 1);
    assert_rest(p, LEVEL(R2, 1), LEASE_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_force_unlock(p, R2, "read"), 1);
}

static void read_unlocks_never_cut_a_write_lease(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_write_lock(p, W3, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 2, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R2, 1, SHORT_MS), GRANTED);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 1), 1);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R2, 0), 1);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

static void a_deeper_write_never_cuts_the_lease(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_write_lock(p, W3, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_write_lock(p, W3, 2, SHORT_MS), GRANTED);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_write_unlock(p, W3, 1), 1);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

static void renewal_and_extension_never_cut_a_lease(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_read_renew(p, R1, SHORT_MS), 1);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_extend(p, R1, 1, SHORT_MS), 1);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void the_remaining_lease_is_that_of_the_readers_who_stay(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R2, 1, LONG_MS), GRANTED);
    rw_add_foreign_reader(p, JAVA, 2, LEASE_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_int_equal(rw_read_unlock(p, R2, 0), 1);
    assert_rest(p, "orders", LEASE_MS);
    assert_int_equal(rw_read_unlock(p, JAVA, 0), 1);
    assert_rest(p, "orders", SHORT_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void a_writer_that_goes_on_as_a_reader_has_the_lease_of_a_reader(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_write_lock(p, W3, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 2, SHORT_MS), GRANTED);
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
    assert_rest(p, "orders", LEASE_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

/* ---- only one's own reads ------------------------------------------------------------------ */

static void a_renewal_renews_only_its_own_reads(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R2, 1, SHORT_MS), GRANTED);
    rw_add_foreign_reader(p, JAVA, 1, SHORT_MS);
    assert_int_equal(rw_read_renew(p, R1, LEASE_MS), 1);
    assert_rest(p, LEVEL(R1, 1), LEASE_MS);
    assert_rest(p, LEVEL(R1, 2), LEASE_MS);
    assert_rest(p, "orders", LEASE_MS);
    assert_int_equal(rw_read_extend(p, R1, 2, LONG_MS), 1);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_rest(p, LEVEL(R1, 2), LONG_MS);
    assert_rest(p, "orders", LONG_MS);
    assert_rest(p, LEVEL(R2, 1), SHORT_MS);
    assert_rest(p, LEVEL(JAVA, 1), SHORT_MS);
    assert_int_equal(rw_force_unlock(p, R1, "read"), 1);
}

/* ---- the dead ------------------------------------------------------------------------------ */

static void dead_readers_keep_no_writer_out(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, LONG_MS), GRANTED);
    rw_add_foreign_reader(p, JAVA, 2, LONG_MS);
    rw_let_die(p, R1);
    assert_true(rw_write_lock(p, W3, 1, LEASE_MS) > LEASE_MS);
    rw_let_die(p, JAVA);
    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    assert_string_equal(rw_hash(p), "mode write " W3 " 1");
    assert_rest(p, "orders", LEASE_MS); /* its own lease, not the remaining one of the dead */
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

static void a_refused_writer_learns_the_lease_of_the_living_not_that_of_the_lock(void **state)
{
    struct probe *p = rw_probe(state);
    long long rest;

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R2, 1, LONG_MS), GRANTED);
    rw_let_die(p, R2);
    rest = rw_write_lock(p, W3, 1, LEASE_MS);
    assert_true(rest > 0 && rest <= SHORT_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void the_last_living_reader_frees_the_lock_of_the_dead(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_read_lock(f->probe, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(f->probe, R2, 1, SHORT_MS), GRANTED);
    rw_add_foreign_reader(f->probe, JAVA, 1, LONG_MS);
    rw_let_die(f->probe, JAVA);
    assert_int_equal(rw_read_unlock(f->probe, R1, 0), 1);
    assert_string_equal(rw_hash(f->probe), "mode read " R2 " 1");
    assert_rest(f->probe, "orders", SHORT_MS);
    rw_add_foreign_reader(f->probe, JAVA, 1, LONG_MS);
    rw_let_die(f->probe, JAVA);
    assert_int_equal(rw_read_unlock(f->probe, R2, 0), 2);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_int_equal(probe_n_keys(f->probe), 0);
    listener_close(listener);
}

static void a_hold_lives_as_long_as_one_of_its_levels(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, LEASE_MS), GRANTED);
    assert_int_equal(probe_int(p, "DEL %s", LEVEL(R1, 1)), 1);
    assert_true(rw_write_lock(p, W3, 1, LEASE_MS) > 0);
    assert_int_equal(rw_read_renew(p, R1, LONG_MS), 1);
    assert_int_equal(probe_int(p, "EXISTS %s", LEVEL(R1, 1)), 0);
    assert_int_equal(rw_read_extend(p, R1, 2, LONG_MS), 1);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_int_equal(probe_int(p, "DEL %s", LEVEL(R1, 1)), 1);
    assert_int_equal(rw_read_unlock(p, R1, 1), 1);
    assert_rest(p, LEVEL(R1, 1), LONG_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void a_hold_without_levels_is_gone(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R2, 1, LONG_MS), GRANTED);
    rw_let_die(p, R1);
    assert_int_equal(rw_read_renew(p, R1, LEASE_MS), 0);
    assert_int_equal(rw_read_extend(p, R1, 1, LEASE_MS), 0);
    assert_int_equal(rw_read_lock(p, R1, 2, LEASE_MS), -2);
    assert_int_equal(probe_n_keys(p), 2);
    assert_int_equal(rw_read_unlock(p, R1, 1), 0);
    assert_string_equal(rw_hash(p), "mode read " R2 " 1");
    assert_int_equal(probe_n_keys(p), 2);
    rw_let_die(p, R2);
    assert_int_equal(rw_read_unlock(p, R2, 0), 0);
    assert_int_equal(probe_n_keys(p), 0);
}

static void a_writer_whose_reads_are_dead_leaves_a_free_lock(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_write_lock(p, W3, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 1, SHORT_MS), GRANTED);
    rw_let_die(p, R1);
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
    assert_int_equal(probe_n_keys(p), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_shorter_read_cuts_neither_the_lock_nor_another_level),
        SERVER_TEST(a_longer_read_lengthens_the_lock),
        SERVER_TEST(a_partial_read_unlock_keeps_the_longest_lease_of_the_hold),
        SERVER_TEST(a_level_that_is_dropped_leaves_its_lease_to_the_hold),
        SERVER_TEST(read_unlocks_never_cut_a_write_lease),
        SERVER_TEST(a_deeper_write_never_cuts_the_lease),
        SERVER_TEST(renewal_and_extension_never_cut_a_lease),
        SERVER_TEST(the_remaining_lease_is_that_of_the_readers_who_stay),
        SERVER_TEST(a_writer_that_goes_on_as_a_reader_has_the_lease_of_a_reader),
        SERVER_TEST(a_renewal_renews_only_its_own_reads),
        SERVER_TEST(dead_readers_keep_no_writer_out),
        SERVER_TEST(a_refused_writer_learns_the_lease_of_the_living_not_that_of_the_lock),
        SERVER_TEST(the_last_living_reader_frees_the_lock_of_the_dead),
        SERVER_TEST(a_hold_lives_as_long_as_one_of_its_levels),
        SERVER_TEST(a_hold_without_levels_is_gone),
        SERVER_TEST(a_writer_whose_reads_are_dead_leaves_a_free_lock),
    };

    return SERVER_TESTS_RUN(tests);
}
