/*
 * The scripts of the read/write lock: queries, force, and missing rights or memory:
 * docs/wire.md#read-write.
 */
#include "rw_scripts.h"
#include "support/listener.h"
#include "support/scripts.h"

#include "redis/server/script.h"

/* ---- queries ------------------------------------------------------------------------------- */

static void assert_free(struct probe *p, const char *field, const char *side)
{
    struct rw_side found = rw_inspect(p, field, side);

    assert_string_equal(found.holder, "");
    assert_int_equal(found.hold_count, 0);
    assert_int_equal(found.n_holders, 0);
    assert_int_equal(found.rest_ms, -2);
    assert_int_equal(found.own_count, 0);
    assert_int_equal(found.other_side, 0);
}

/* The side is free, and `holder` holds the other. */
static void assert_barred(struct probe *p, const char *side, const char *holder)
{
    struct rw_side found = rw_inspect(p, "nobody", side);

    assert_string_equal(found.holder, holder);
    assert_int_equal(found.own_count, 0);
    assert_int_equal(found.other_side, 1);
}

static void a_lock_that_is_not_there_is_free_on_both_sides(void **state)
{
    assert_free(rw_probe(state), R1, "read");
    assert_free(rw_probe(state), W3, "write");
}

static void readers_hold_their_side_and_are_named_on_the_other(void **state)
{
    struct probe *p = rw_probe(state);
    struct rw_side found;

    assert_int_equal(rw_read_lock(p, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, SHORT_MS), GRANTED);
    found = rw_inspect(p, R1, "read");
    assert_string_equal(found.holder, R1);
    assert_int_equal(found.hold_count, 2);
    assert_int_equal(found.n_holders, 1);
    assert_true(found.rest_ms > SHORT_MS && found.rest_ms <= LEASE_MS);
    assert_int_equal(found.own_count, 2);
    assert_int_equal(rw_inspect(p, R2, "read").own_count, 0);
    assert_int_equal(rw_inspect(p, "", "read").own_count, 0);
    assert_int_equal(rw_inspect(p, "mode", "read").own_count, 0);
    assert_int_equal(found.other_side, 0);
    assert_barred(p, "write", R1);
    found = rw_inspect(p, W3, "write");
    assert_int_equal(found.hold_count, 2);
    assert_int_equal(found.n_holders, 1);
    assert_true(found.rest_ms > SHORT_MS && found.rest_ms <= LEASE_MS);

    rw_add_foreign_reader(p, JAVA, 3, SHORT_MS);
    found = rw_inspect(p, R1, "read");
    assert_int_equal(found.n_holders, 2);
    assert_true(found.rest_ms > SHORT_MS); /* the longest */
    assert_int_equal(found.own_count, 2);
    assert_int_equal(rw_inspect(p, JAVA, "read").own_count, 3);
    assert_int_equal(rw_force_unlock(p, JAVA, "read"), 1);
}

static void a_writer_holds_its_side_under_an_id_like_any(void **state)
{
    struct probe *p = rw_probe(state);
    struct rw_side found;

    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_write_lock(p, W3, 2, LEASE_MS), GRANTED);
    found = rw_inspect(p, W3, "write");
    assert_string_equal(found.holder, W3_ID);
    assert_int_equal(found.hold_count, 2);
    assert_int_equal(found.n_holders, 1);
    assert_true(found.rest_ms > SHORT_MS && found.rest_ms <= LEASE_MS);
    assert_int_equal(found.own_count, 2);
    assert_int_equal(found.other_side, 0);
    assert_int_equal(rw_inspect(p, W4, "write").own_count, 0);
    assert_barred(p, "read", W3_ID);

    assert_int_equal(rw_read_lock_under(p, W3, R1, 1, SHORT_MS), GRANTED);
    found = rw_inspect(p, R1, "read");
    assert_string_equal(found.holder, R1);
    assert_int_equal(found.other_side, 0);
    assert_true(found.rest_ms > SHORT_MS); /* of the lock: the writer's */
    assert_int_equal(rw_inspect(p, W3, "write").n_holders, 1);
    assert_int_equal(rw_force_unlock(p, W3_ID, "write"), 1);
}

static void dead_readers_do_not_count(void **state)
{
    struct probe *p = rw_probe(state);
    struct rw_side found;

    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R2, 1, LONG_MS), GRANTED);
    rw_let_die(p, R2);
    found = rw_inspect(p, R2, "read");
    assert_string_equal(found.holder, R1);
    assert_int_equal(found.n_holders, 1);
    assert_true(found.rest_ms > 0 && found.rest_ms <= SHORT_MS);
    assert_int_equal(found.own_count, 0);
    rw_let_die(p, R1);
    assert_free(p, R1, "read");
    assert_int_equal(rw_read_unlock(p, R1, 0), 0);
}

/* Where a Redisson reader has renewed, the key may end before the levels of others. */
static void the_reported_lease_never_exceeds_that_of_the_key(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 1, LONG_MS), GRANTED);
    rw_set_rest(p, "orders", SHORT_MS);
    assert_in_range(rw_inspect(p, R1, "read").rest_ms, 1, SHORT_MS);
    assert_in_range(rw_inspect(p, W3, "write").rest_ms, 1, SHORT_MS);
    probe_int(p, "PERSIST orders");
    assert_true(rw_inspect(p, R1, "read").rest_ms > SHORT_MS); /* the levels end */
    assert_int_equal(rw_force_unlock(p, R1, "read"), 1);

    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 1, LEASE_MS), GRANTED);
    probe_int(p, "PERSIST orders");
    assert_int_equal(rw_inspect(p, R1, "read").rest_ms, -1);
    assert_int_equal(rw_inspect(p, W3, "write").rest_ms, -1);
    assert_int_equal(rw_force_unlock(p, W3_ID, "write"), 1);
}

static void queries_change_nothing(void **state)
{
    struct probe *p = rw_probe(state);

    rw_add_foreign_reader(p, JAVA, 2, LEASE_MS);
    rw_add_foreign_reader(p, R1, 1, LEASE_MS);
    rw_let_die(p, R1);
    for (int i = 0; i < 2; i++) {
        rw_inspect(p, JAVA, "read");
        rw_inspect(p, W3, "write");
    }
    assert_string_equal(rw_hash(p), "mode read " JAVA " 2 " R1 " 1");
    assert_rest(p, "orders", LEASE_MS);
    assert_int_equal(probe_n_keys(p), 3);
    assert_int_equal(rw_force_unlock(p, JAVA, "read"), 1);
}

/* ---- counts that are no levels -------------------------------------------------------------- */

#define ANY_NUMBER 300000
#define FEW 10000

static long long n_looked(struct probe *p)
{
    return probe_calls(p, "pttl") + probe_calls(p, "del");
}

/* Its scripts would look for seconds, during which the server answers nobody. */
static void a_count_that_is_no_levels_is_reported_and_not_counted_out(void **state)
{
    struct probe *p = rw_probe(state);
    long long before = n_looked(p);
    struct rw_side found;

    rw_add_foreign_reader(p, JAVA, 1, LEASE_MS);
    assert_int_equal(probe_int(p, "HSET orders " JAVA " %d", ANY_NUMBER), 0);
    found = rw_inspect(p, R1, "read");
    assert_string_equal(found.holder, JAVA);
    assert_int_equal(found.hold_count, ANY_NUMBER);
    assert_true(rw_write_lock(p, W3, 1, LEASE_MS) > 0);
    assert_int_equal(rw_read_lock(p, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(probe_int(p, "HSET orders " R1 " %d", ANY_NUMBER), 0);
    assert_int_equal(rw_read_renew(p, R1, LONG_MS), 1);
    assert_int_equal(probe_int(p, "HSET orders " R1 " 1"), 0);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_int_equal(rw_force_unlock(p, JAVA, "read"), 1);
    assert_int_equal(probe_n_keys(p), 0);

    assert_int_equal(probe_int(p, "HSET orders mode read data %d", ANY_NUMBER), 2);
    assert_free(p, R1, "write");
    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
    assert_true(n_looked(p) - before < FEW);
}

/* ---- by force ------------------------------------------------------------------------------ */

static void readers_are_removed_by_force_with_their_levels_once(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_read_lock(f->probe, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock(f->probe, R1, 2, LEASE_MS), GRANTED);
    rw_add_foreign_reader(f->probe, JAVA, 2, LEASE_MS);
    assert_int_equal(rw_force_unlock(f->probe, R2, "read"), 0);
    assert_int_equal(rw_force_unlock(f->probe, R1, "write"), 0);
    assert_int_equal(probe_n_keys(f->probe), 5);
    assert_int_equal(rw_force_unlock(f->probe, R1, "read"), 1);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_int_equal(probe_n_keys(f->probe), 0);

    assert_int_equal(rw_read_lock(f->probe, R2, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_force_unlock(f->probe, R1, "read"), 0);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(rw_read_unlock(f->probe, R2, 0), 2);
    listener_close(listener);
}

static void a_reader_under_a_write_hold_is_removed_by_force_alone(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_write_lock(f->probe, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(f->probe, W3, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(f->probe, W3, R1, 2, LEASE_MS), GRANTED);
    assert_int_equal(rw_force_unlock(f->probe, R1, "read"), 1);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_int_equal(rw_force_unlock(f->probe, R1, "read"), 0);
    assert_int_equal(rw_write_unlock(f->probe, W3, 0), 2);
    assert_int_equal(probe_n_keys(f->probe), 0);
    listener_close(listener);
}

static void a_writer_is_removed_by_force_with_its_reads_once(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_write_lock(f->probe, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(f->probe, W3, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_force_unlock(f->probe, R1, "write"), 0);
    assert_int_equal(rw_force_unlock(f->probe, W3_ID, "write"), 1);
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_int_equal(probe_n_keys(f->probe), 0);

    assert_int_equal(rw_write_lock(f->probe, W4, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_force_unlock(f->probe, W3_ID, "write"), 0);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(rw_write_unlock(f->probe, W4, 0), 2);
    listener_close(listener);
}

/* ---- rights -------------------------------------------------------------------------------- */

static void end_user(struct fixture *f, struct probe *user)
{
    probe_close(user);
    assert_int_equal(probe_int(f->probe, "ACL DELUSER limited"), 1);
}

static void a_user_who_may_not_set_a_lease_leaves_no_lock_behind(void **state)
{
    struct fixture *f = *state;
    struct probe *user = script_user(f->probe, f->server->socket, "-pexpire");

    assert_int_equal(rw_read_lock(user, R1, 1, LEASE_MS), PROBE_REFUSED);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(rw_write_lock(user, W3, 1, LEASE_MS), PROBE_REFUSED);
    assert_int_equal(probe_n_keys(f->probe), 0);

    rw_add_foreign_reader(f->probe, JAVA, 1, LEASE_MS);
    rw_let_die(f->probe, JAVA);
    assert_int_equal(rw_write_lock(user, W3, 1, LEASE_MS), PROBE_REFUSED);
    assert_int_equal(probe_n_keys(f->probe), 0);
    end_user(f, user);
}

static void a_user_who_may_not_set_a_lease_takes_nothing_from_others(void **state)
{
    struct fixture *f = *state;
    struct probe *user = script_user(f->probe, f->server->socket, "-pexpire");

    rw_add_foreign_reader(f->probe, JAVA, 1, SHORT_MS);
    assert_int_equal(rw_read_lock(user, R1, 1, LEASE_MS), PROBE_REFUSED);
    assert_string_equal(rw_hash(f->probe), "mode read " JAVA " 1");
    assert_int_equal(probe_n_keys(f->probe), 2);
    assert_int_equal(rw_read_lock(f->probe, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock(user, R1, 2, LEASE_MS), PROBE_REFUSED);
    assert_rest(f->probe, LEVEL(R1, 1), SHORT_MS);
    assert_rest(f->probe, "orders", SHORT_MS);
    assert_int_equal(rw_force_unlock(f->probe, JAVA, "read"), 1);

    assert_int_equal(rw_write_lock(f->probe, W3, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_write_lock(user, W3, 2, LEASE_MS), PROBE_REFUSED);
    assert_rest(f->probe, "orders", SHORT_MS);
    assert_int_equal(rw_write_unlock(f->probe, W3, 0), 1);
    end_user(f, user);
}

static void without_the_right_to_publish_the_lock_is_freed(void **state)
{
    struct fixture *f = *state;
    struct probe *user = script_user(f->probe, f->server->socket, "-publish");

    assert_int_equal(rw_read_lock(user, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_unlock(user, R1, 0), -2);
    assert_int_equal(probe_n_keys(f->probe), 0);

    assert_int_equal(rw_write_lock(user, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_write_unlock(user, W3, 0), -2);
    assert_int_equal(probe_n_keys(f->probe), 0);

    assert_int_equal(rw_write_lock(user, W3, 1, LONG_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(user, W3, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_write_unlock(user, W3, 0), -2);
    assert_string_equal(rw_hash(f->probe), "mode read " R1 " 1");
    assert_rest(f->probe, "orders", SHORT_MS);
    assert_int_equal(rw_force_unlock(user, R1, "read"), 2);
    assert_int_equal(probe_n_keys(f->probe), 0);
    end_user(f, user);
}

/* ---- no memory ----------------------------------------------------------------------------- */

static void a_server_without_memory_still_renews_extends_and_releases(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_write_lock(p, W3, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 1, SHORT_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 2, LEASE_MS), GRANTED);
    assert_int_equal(probe_int(p, "CONFIG SET maxmemory 1"), 0);
    assert_int_equal(rw_read_lock_under(p, W3, R2, 1, LEASE_MS), PROBE_REFUSED);
    assert_int_equal(rw_read_renew(p, R1, LEASE_MS), 1);
    assert_int_equal(rw_read_extend(p, R1, 2, LONG_MS), 1);
    assert_int_equal(rw_read_extend(p, R1, 2, SHORT_MS), 1);
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
    assert_true(rw_write_lock(p, W4, 1, LEASE_MS) > LEASE_MS);
    assert_int_equal(rw_read_unlock(p, R1, 1), 1);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_int_equal(rw_write_lock(p, W4, 1, LEASE_MS), PROBE_REFUSED);
    assert_int_equal(probe_int(p, "CONFIG SET maxmemory 0"), 0);
    assert_int_equal(probe_n_keys(p), 0);
}

/* ---- the scripts of reentrant locks -------------------------------------------------------- */

/* The scripts of reentrant locks renew and extend a write hold. */
static void a_writer_is_renewed_and_extended_like_any_lock(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_write_lock(p, W3, 1, SHORT_MS), GRANTED);
    assert_int_equal(script_int(p, relock_script_renew.body, "orders", SCRIPT_ARGS("40000", W3)),
                     1);
    assert_rest(p, "orders", LEASE_MS);
    assert_int_equal(
        script_int(p, relock_script_extend.body, "orders", SCRIPT_ARGS("60000", W3, "2")), 1);
    assert_rest(p, "orders", LONG_MS);
    assert_string_equal(rw_hash(p), "mode write " W3 " 2");
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_lock_that_is_not_there_is_free_on_both_sides),
        SERVER_TEST(readers_hold_their_side_and_are_named_on_the_other),
        SERVER_TEST(a_writer_holds_its_side_under_an_id_like_any),
        SERVER_TEST(dead_readers_do_not_count),
        SERVER_TEST(the_reported_lease_never_exceeds_that_of_the_key),
        SERVER_TEST(queries_change_nothing),
        SERVER_TEST(a_count_that_is_no_levels_is_reported_and_not_counted_out),
        SERVER_TEST(readers_are_removed_by_force_with_their_levels_once),
        SERVER_TEST(a_reader_under_a_write_hold_is_removed_by_force_alone),
        SERVER_TEST(a_writer_is_removed_by_force_with_its_reads_once),
        SERVER_TEST(a_user_who_may_not_set_a_lease_leaves_no_lock_behind),
        SERVER_TEST(a_user_who_may_not_set_a_lease_takes_nothing_from_others),
        SERVER_TEST(without_the_right_to_publish_the_lock_is_freed),
        SERVER_TEST(a_server_without_memory_still_renews_extends_and_releases),
        SERVER_TEST(a_writer_is_renewed_and_extended_like_any_lock),
    };

    return SERVER_TESTS_RUN(tests);
}
