/*
 * The scripts of the read/write lock: grants, keys and messages. The keys are Redisson's, and each
 * test leaves none behind: docs/wire.md#read-write.
 */
#include "rw_scripts.h"
#include "support/listener.h"
#include "support/scripts.h"

#include "redis/server/script.h"

#include <stdio.h>

/* ---- grants -------------------------------------------------------------------------------- */

static void readers_share_and_keep_a_writer_out(void **state)
{
    struct probe *p = rw_probe(state);
    long long rest;

    assert_int_equal(rw_read_lock(p, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R2, 1, LEASE_MS), GRANTED);
    rest = rw_write_lock(p, W3, 1, LEASE_MS);
    assert_true(rest > SHORT_MS && rest <= LEASE_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_true(rw_write_lock(p, W3, 1, LEASE_MS) > 0);
    assert_int_equal(rw_read_unlock(p, R2, 0), 1);
    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

static void a_writer_is_alone(void **state)
{
    struct probe *p = rw_probe(state);
    long long rest;

    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    rest = rw_write_lock(p, W4, 1, LEASE_MS);
    assert_true(rest > SHORT_MS && rest <= LEASE_MS);
    rest = rw_read_lock(p, R1, 1, LEASE_MS);
    assert_true(rest > SHORT_MS && rest <= LEASE_MS);
    assert_true(rw_read_lock_under(p, W4, R1, 1, LEASE_MS) > 0);
    assert_string_equal(rw_hash(p), "mode write " W3 " 1");
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

static void the_writer_itself_may_read(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(p, W3, R1, 2, LEASE_MS), GRANTED);
    assert_string_equal(rw_hash(p), "mode write " W3 " 1 " R1 " 2");
    assert_int_equal(rw_read_unlock(p, R1, 1), 1);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_string_equal(rw_hash(p), "mode write " W3 " 1");
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

static void a_deeper_level_creates_no_hold(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(rw_read_lock(p, R1, 2, LEASE_MS), -2);
    assert_int_equal(rw_write_lock(p, W3, 2, LEASE_MS), -2);
    assert_int_equal(probe_n_keys(p), 0);

    assert_int_equal(rw_read_lock(p, R2, 1, LEASE_MS), GRANTED);
    assert_true(rw_read_lock(p, R1, 2, LEASE_MS) > 0);
    assert_true(rw_write_lock(p, W3, 2, LEASE_MS) > 0);
    assert_string_equal(rw_hash(p), "mode read " R2 " 1");
    assert_int_equal(rw_read_unlock(p, R2, 0), 1);
}

/* ---- the keys ------------------------------------------------------------------------------ */

static void counts_are_set_and_each_level_of_a_reader_has_a_key(void **state)
{
    struct probe *p = rw_probe(state);

    for (unsigned count = 1; count <= 3; count++)
        assert_int_equal(rw_read_lock(p, R1, count, LEASE_MS), GRANTED);
    assert_string_equal(rw_hash(p), "mode read " R1 " 3");
    assert_string_equal(probe_list(p, "MGET %s %s %s", LEVEL(R1, 1), LEVEL(R1, 2), LEVEL(R1, 3)),
                        "1 1 1");
    assert_int_equal(probe_n_keys(p), 4);

    assert_int_equal(rw_read_unlock(p, R1, 1), 1); /* two unlocks, one of them unanswered */
    assert_string_equal(rw_hash(p), "mode read " R1 " 1");
    assert_int_equal(probe_n_keys(p), 2);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_int_equal(probe_n_keys(p), 0);
}

static void a_level_that_a_lost_unlock_left_behind_goes_with_the_next_command(void **state)
{
    struct probe *p = rw_probe(state);

    for (unsigned count = 1; count <= 3; count++)
        assert_int_equal(rw_read_lock(p, R1, count, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock(p, R1, 2, LEASE_MS), GRANTED);
    assert_string_equal(rw_hash(p), "mode read " R1 " 2");
    assert_int_equal(probe_n_keys(p), 3);
    assert_int_equal(rw_read_extend(p, R1, 1, LEASE_MS), 1);
    assert_string_equal(rw_hash(p), "mode read " R1 " 1");
    assert_int_equal(probe_n_keys(p), 2);
    assert_int_equal(rw_read_extend(p, R1, 2, LEASE_MS), 1);
    assert_string_equal(rw_hash(p), "mode read " R1 " 2");
    assert_rest(p, LEVEL(R1, 2), LEASE_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

static void a_repeated_command_of_a_reader_changes_nothing(void **state)
{
    struct probe *p = rw_probe(state);

    for (unsigned count = 1; count <= 2; count++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(rw_read_lock(p, R1, count, LEASE_MS), GRANTED);
    assert_string_equal(rw_hash(p), "mode read " R1 " 2");
    for (int i = 0; i < 2; i++)
        assert_int_equal(rw_read_renew(p, R1, LEASE_MS), 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(rw_read_extend(p, R1, 2, LEASE_MS), 1);
    assert_string_equal(rw_hash(p), "mode read " R1 " 2");
    assert_rest(p, "orders", LEASE_MS);
    assert_int_equal(probe_n_keys(p), 3);

    for (int i = 0; i < 2; i++)
        assert_int_equal(rw_read_unlock(p, R1, 1), 1);
    assert_string_equal(rw_hash(p), "mode read " R1 " 1");
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_int_equal(rw_read_unlock(p, R1, 0), 0);
    assert_int_equal(rw_write_lock(p, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_unlock(p, R1, 0), -1);
    assert_string_equal(rw_hash(p), "mode write " W3 " 1");
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
}

static void a_repeated_command_of_a_writer_changes_nothing(void **state)
{
    struct probe *p = rw_probe(state);

    for (unsigned count = 1; count <= 2; count++)
        for (int i = 0; i < 2; i++)
            assert_int_equal(rw_write_lock(p, W3, count, LEASE_MS), GRANTED);
    assert_string_equal(rw_hash(p), "mode write " W3 " 2");
    assert_rest(p, "orders", LEASE_MS); /* leases are not added up */
    for (int i = 0; i < 2; i++)
        assert_int_equal(rw_write_unlock(p, W3, 1), 1);
    assert_string_equal(rw_hash(p), "mode write " W3 " 1");
    assert_int_equal(rw_write_unlock(p, W3, 0), 1);
    assert_int_equal(rw_write_unlock(p, W3, 0), 0);
    assert_int_equal(rw_read_lock(p, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_write_unlock(p, W3, 0), -1);
    assert_string_equal(rw_hash(p), "mode read " R1 " 1");
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
}

/* ---- messages ------------------------------------------------------------------------------ */

static void only_the_last_reader_publishes_0(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_read_lock(f->probe, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock(f->probe, R1, 2, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock(f->probe, R2, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_unlock(f->probe, R2, 0), 1);
    assert_int_equal(rw_read_unlock(f->probe, R1, 1), 1);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(rw_read_unlock(f->probe, R1, 0), 2);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_int_equal(rw_read_unlock(f->probe, R1, 0), 0);
    assert_true(listener_hears_nothing(listener, 20));
    listener_close(listener);
}

static void a_writer_publishes_1(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_write_lock(f->probe, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_write_lock(f->probe, W3, 2, LEASE_MS), GRANTED);
    assert_int_equal(rw_write_unlock(f->probe, W3, 1), 1);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(rw_write_unlock(f->probe, W3, 0), 2);
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_int_equal(probe_n_keys(f->probe), 0);
    listener_close(listener);
}

static void a_writer_that_goes_on_as_a_reader_publishes_1_and_readers_get_in(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_write_lock(f->probe, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(f->probe, W3, R1, 1, LEASE_MS), GRANTED);
    assert_true(rw_read_lock(f->probe, R2, 1, LEASE_MS) > 0);
    assert_int_equal(rw_write_unlock(f->probe, W3, 0), 2);
    assert_true(listener_hears(listener, "1", SOON_MS));
    assert_string_equal(rw_hash(f->probe), "mode read " R1 " 1");
    assert_int_equal(rw_read_lock(f->probe, R2, 1, LEASE_MS), GRANTED);
    assert_true(rw_write_lock(f->probe, W4, 1, LEASE_MS) > 0);
    assert_int_equal(rw_read_unlock(f->probe, R1, 0), 1);
    assert_int_equal(rw_read_unlock(f->probe, R2, 0), 2);
    assert_true(listener_hears(listener, "0", SOON_MS));
    listener_close(listener);
}

static void a_reader_under_a_write_hold_publishes_nothing(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(rw_write_lock(f->probe, W3, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_lock_under(f->probe, W3, R1, 1, LEASE_MS), GRANTED);
    assert_int_equal(rw_read_unlock(f->probe, R1, 0), 1);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(rw_write_unlock(f->probe, W3, 0), 2);
    listener_close(listener);
}

/* ---- names --------------------------------------------------------------------------------- */

static long long ask(struct probe *p, const struct relock_script *script, const char *name,
                     const struct script_args *args)
{
    return script_int(p, script->body, name, args);
}

static void the_levels_of_a_lock_stand_at(struct probe *p, const char *name, const char *prefix)
{
    char level[2][128];

    for (int i = 0; i < 2; i++)
        snprintf(level[i], sizeof(level[i]), "%s:%s:rwlock_timeout:%d", prefix, R1, i + 1);

    ask(p, &relock_script_write_lock, name, SCRIPT_ARGS("40000", W3, "1"));
    ask(p, &relock_script_read_lock, name, SCRIPT_ARGS("20000", R1, "1", W3));
    assert_rest(p, level[0], SHORT_MS);
    assert_int_equal(ask(p, &relock_script_read_renew, name, SCRIPT_ARGS("40000", R1)), 1);
    assert_rest(p, level[0], LEASE_MS);
    assert_int_equal(ask(p, &relock_script_write_unlock, name, SCRIPT_ARGS(W3, "0", "c", "1")), 1);
    assert_string_equal(probe_text(p, "HGET %s mode", name), "read");
    assert_true(ask(p, &relock_script_write_lock, name, SCRIPT_ARGS("40000", W3, "1")) > 0);
    assert_int_equal(ask(p, &relock_script_read_extend, name, SCRIPT_ARGS("40000", R1, "2")), 1);
    assert_rest(p, level[1], LEASE_MS);
    assert_string_not_equal(
        probe_list(p, "EVAL %s 1 %s %s read", relock_script_rw_inspect.body, name, R1),
        " 0 0 -2 0 0");
    assert_int_equal(ask(p, &relock_script_read_unlock, name, SCRIPT_ARGS(R1, "1", "c", "0")), 1);
    assert_int_equal(probe_n_keys(p), 2);
    assert_int_equal(ask(p, &relock_script_read_unlock, name, SCRIPT_ARGS(R1, "0", "c", "0")), 1);
    assert_int_equal(probe_n_keys(p), 0);

    ask(p, &relock_script_read_lock, name, SCRIPT_ARGS("20000", R1, "1", ""));
    assert_int_equal(probe_n_keys(p), 2);
    assert_int_equal(
        ask(p, &relock_script_rw_force_unlock, name, SCRIPT_ARGS(R1, "c", "0", "read")), 1);
    assert_int_equal(probe_n_keys(p), 0);
}

static void a_name_without_a_brace_is_put_in_braces_before_the_levels(void **state)
{
    the_levels_of_a_lock_stand_at(rw_probe(state), "orders", "{orders}");
    the_levels_of_a_lock_stand_at(rw_probe(state), "odd}", "{odd}}");
}

static void a_name_with_a_brace_is_as_it_is_before_the_levels(void **state)
{
    the_levels_of_a_lock_stand_at(rw_probe(state), "{shop}:orders", "{shop}:orders");
    the_levels_of_a_lock_stand_at(rw_probe(state), "odd{", "odd{");
}

/* A hash without "mode": a lock of another kind has the name. */
static void a_reentrant_lock_of_that_name_keeps_both_sides_out(void **state)
{
    struct probe *p = rw_probe(state);

    assert_int_equal(probe_int(p, "HSET orders " JAVA " 1"), 1);
    rw_set_rest(p, "orders", LEASE_MS);
    assert_true(rw_read_lock(p, R1, 1, LONG_MS) > SHORT_MS);
    assert_true(rw_write_lock(p, W3, 1, LONG_MS) > SHORT_MS);
    assert_true(rw_read_lock(p, R1, 2, LONG_MS) > SHORT_MS);
    assert_string_equal(rw_hash(p), JAVA " 1");
    assert_rest(p, "orders", LEASE_MS);
    assert_int_equal(probe_n_keys(p), 1);
    assert_int_equal(probe_int(p, "PERSIST orders"), 1);
    assert_int_equal(rw_read_lock(p, R1, 1, LONG_MS), -1);
    assert_int_equal(rw_write_lock(p, W3, 1, LONG_MS), -1);
    assert_int_equal(probe_int(p, "DEL orders"), 1);
}

/* ---- with Redisson ------------------------------------------------------------------------- */

static void a_reader_of_redissons_keeps_a_writer_out_and_reads_with_us(void **state)
{
    struct probe *p = rw_probe(state);

    rw_add_foreign_reader(p, JAVA, 2, LEASE_MS);
    assert_true(rw_write_lock(p, W3, 1, LEASE_MS) > SHORT_MS);
    assert_int_equal(rw_read_lock(p, R1, 1, SHORT_MS), GRANTED);
    assert_string_equal(rw_hash(p), "mode read " JAVA " 2 " R1 " 1");
    assert_int_equal(rw_read_unlock(p, R1, 0), 1);
    assert_string_equal(rw_hash(p), "mode read " JAVA " 2");
    assert_rest(p, LEVEL(JAVA, 1), LEASE_MS);
    assert_rest(p, LEVEL(JAVA, 2), LEASE_MS);
    assert_int_equal(rw_read_unlock(p, JAVA, 0), 1);
}

static void a_writer_of_redissons_keeps_us_out(void **state)
{
    struct probe *p = rw_probe(state);

    rw_add_foreign_writer(p, JAVA_W, 2, LEASE_MS);
    assert_true(rw_write_lock(p, W3, 1, LEASE_MS) > SHORT_MS);
    assert_true(rw_read_lock(p, R1, 1, LEASE_MS) > SHORT_MS);
    assert_int_equal(rw_read_unlock(p, R1, 0), -1);
    assert_int_equal(rw_write_unlock(p, W3, 0), -1);
    assert_string_equal(rw_hash(p), "mode write " JAVA_W " 2");
    assert_int_equal(rw_write_unlock(p, JAVA_W, 0), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(readers_share_and_keep_a_writer_out),
        SERVER_TEST(a_writer_is_alone),
        SERVER_TEST(the_writer_itself_may_read),
        SERVER_TEST(a_deeper_level_creates_no_hold),
        SERVER_TEST(counts_are_set_and_each_level_of_a_reader_has_a_key),
        SERVER_TEST(a_level_that_a_lost_unlock_left_behind_goes_with_the_next_command),
        SERVER_TEST(a_repeated_command_of_a_reader_changes_nothing),
        SERVER_TEST(a_repeated_command_of_a_writer_changes_nothing),
        SERVER_TEST(only_the_last_reader_publishes_0),
        SERVER_TEST(a_writer_publishes_1),
        SERVER_TEST(a_writer_that_goes_on_as_a_reader_publishes_1_and_readers_get_in),
        SERVER_TEST(a_reader_under_a_write_hold_publishes_nothing),
        SERVER_TEST(a_name_without_a_brace_is_put_in_braces_before_the_levels),
        SERVER_TEST(a_name_with_a_brace_is_as_it_is_before_the_levels),
        SERVER_TEST(a_reentrant_lock_of_that_name_keeps_both_sides_out),
        SERVER_TEST(a_reader_of_redissons_keeps_a_writer_out_and_reads_with_us),
        SERVER_TEST(a_writer_of_redissons_keeps_us_out),
    };

    return SERVER_TESTS_RUN(tests);
}
