/* Readers here and in Redisson share the lock, and a writer is alone, wherever it is. */
#include "duet.h"
#include "support/child.h"

#include <signal.h>
#include <stdlib.h>

#define RECHECK_MS 200

/* Both sides of "orders" on a client. */
struct both_sides {
    struct relock_client *client;
    struct relock_lock *read, *write;
};

static struct both_sides both_sides(struct duet *d, struct relock_client *client)
{
    return (struct both_sides){
        .client = client,
        .read = duet_lock_of(d, "read", client, "orders"),
        .write = duet_lock_of(d, "write", client, "orders"),
    };
}

static void readers_of_both_libraries_share_the_lock(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_client(d));
    struct both_sides others = both_sides(d, duet_client(d));
    struct relock_holder holder;

    assert_string_equal(duet_do_as(d, "ann", "lock read orders 100000"), "ok");
    assert_result(relock_trylock(we.read), RELOCK_OK);
    assert_string_equal(duet_do_as(d, "bob", "lock read orders 100000"), "ok");
    assert_result(relock_who_holds(we.read, &holder), RELOCK_OK);
    assert_int_equal(holder.n_holders, 3);
    assert_string_equal(duet_do_as(d, "ann", "locked read orders"), "yes");

    assert_result(relock_trylock(others.write), RELOCK_BUSY);
    assert_string_equal(duet_do_as(d, "cat", "try write orders"), "no");
    assert_result(relock_unlock(we.read), RELOCK_OK);
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_result(relock_trylock(others.write), RELOCK_BUSY);
    assert_string_equal(duet_do_as(d, "bob", "unlock read orders"), "ok");
    assert_result(relock_trylock(others.write), RELOCK_OK);
    assert_result(relock_unlock(others.write), RELOCK_OK);
}

static void levels_of_readers_are_counted_by_each(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_client(d));
    struct both_sides others = both_sides(d, duet_client(d));

    assert_result(relock_lock(we.read), RELOCK_OK);
    assert_result(relock_lock(we.read), RELOCK_OK);
    assert_string_equal(duet_do_as(d, "ann", "lock read orders 100000"), "ok");
    assert_string_equal(duet_do_as(d, "ann", "lock read orders 100000"), "ok");
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_result(relock_unlock(we.read), RELOCK_OK);
    assert_result(relock_trylock(others.write), RELOCK_BUSY);
    assert_string_equal(duet_do_as(d, "ann", "count read orders"), "1");
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "not-owner");
    assert_string_equal(duet_do_as(d, "ann", "try write orders"), "no");
    assert_result(relock_check(we.read, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(we.read), RELOCK_OK);
    assert_string_equal(duet_do_as(d, "ann", "try write orders"), "yes");
    assert_string_equal(duet_do_as(d, "ann", "unlock write orders"), "ok");
}

static void our_writer_lets_all_readers_of_redisson_in_at_once(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_client(d));
    unsigned ann, bob;

    assert_result(relock_lock(we.write), RELOCK_OK);
    ann = duet_begin_wait_as(d, "ann", "lock read orders");
    bob = duet_begin_wait_as(d, "bob", "lock read orders");
    assert_result(relock_unlock(we.write), RELOCK_OK);
    assert_string_equal(duet_answer(d, ann), "ok");
    assert_string_equal(duet_answer(d, bob), "ok");
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_string_equal(duet_do_as(d, "bob", "unlock read orders"), "ok");
}

static void redissons_writer_lets_all_our_readers_in_at_once(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_client(d)), others = both_sides(d, duet_client(d));
    struct actor *first = actor_start(), *second = actor_start(), *third = actor_start();

    assert_string_equal(duet_do_as(d, "ann", "lock write orders 100000"), "ok");
    actor_begin_lock(first, we.read);
    assert_true(duet_sleeps(d, we.client));
    actor_begin_lock(second, others.read);
    assert_true(duet_sleeps(d, others.client));
    actor_begin_lock(third, we.read);
    assert_true(wait_for_waiters(we.client, 2));
    assert_string_equal(duet_do_as(d, "ann", "unlock write orders"), "ok");
    assert_result(actor_result(first), RELOCK_OK);
    assert_result(actor_result(second), RELOCK_OK);
    assert_result(actor_result(third), RELOCK_OK);
    assert_result(actor_unlock(first, we.read), RELOCK_OK);
    assert_result(actor_unlock(second, others.read), RELOCK_OK);
    assert_result(actor_unlock(third, we.read), RELOCK_OK);
}

static void the_last_reader_wakes_a_writer_of_the_other_side(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_client(d));
    struct actor *waiting = actor_start();
    unsigned ann;

    assert_string_equal(duet_do_as(d, "ann", "lock read orders 100000"), "ok");
    assert_string_equal(duet_do_as(d, "bob", "lock read orders 100000"), "ok");
    actor_begin_lock(waiting, we.write);
    assert_true(duet_sleeps(d, we.client));
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_true(actor_is_busy(waiting));
    assert_string_equal(duet_do_as(d, "bob", "unlock read orders"), "ok");
    assert_gets_in(waiting, we.write);

    assert_result(relock_lock(we.read), RELOCK_OK);
    assert_result(actor_lock(waiting, we.read), RELOCK_OK);
    ann = duet_begin_wait_as(d, "ann", "lock write orders");
    assert_result(relock_unlock(we.read), RELOCK_OK);
    assert_true(player_is_asleep(d->player, "ann"));
    assert_result(actor_unlock(waiting, we.read), RELOCK_OK);
    assert_string_equal(duet_answer(d, ann), "ok");
    assert_string_equal(duet_do_as(d, "ann", "unlock write orders"), "ok");
}

static void our_writer_that_stays_a_reader_lets_readers_of_redisson_in(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_client(d));
    unsigned ann;

    assert_result(relock_lock(we.write), RELOCK_OK);
    assert_result(relock_lock(we.read), RELOCK_OK);
    ann = duet_begin_wait_as(d, "ann", "lock read orders");
    assert_result(relock_unlock(we.write), RELOCK_OK);
    assert_string_equal(duet_answer(d, ann), "ok");
    assert_string_equal(duet_do_as(d, "bob", "try write orders"), "no");
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_result(relock_check(we.read, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(we.read), RELOCK_OK);
}

/* Redisson publishes no message, so our reader gets in at its recheck. */
static void redissons_writer_that_stays_a_reader_lets_our_readers_in(void **state)
{
    struct duet *d = *state;
    struct relock_options options = {.recheck_ms = RECHECK_MS};
    struct both_sides we = both_sides(d, duet_client_with(d, &options));
    struct actor *waiting = actor_start();

    assert_string_equal(duet_do_as(d, "ann", "lock write orders 100000"), "ok");
    assert_string_equal(duet_do_as(d, "ann", "lock read orders 100000"), "ok");
    actor_begin_lock(waiting, we.read);
    assert_true(duet_sleeps(d, we.client));
    assert_string_equal(duet_do_as(d, "ann", "unlock write orders"), "ok");
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_trylock(we.write), RELOCK_BUSY);
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_result(actor_unlock(waiting, we.read), RELOCK_OK);
}

static void a_short_read_of_ours_leaves_redisson_the_lease_of_the_write(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_client(d));
    struct relock_how brief = {.lease_ms = LONG_MS / 10};

    assert_result(relock_lock(we.write), RELOCK_OK);
    assert_result(relock_acquire(we.read, &brief, NULL), RELOCK_OK);
    assert_result(relock_acquire(we.read, &brief, NULL), RELOCK_OK);
    assert_result(relock_unlock(we.read), RELOCK_OK);
    assert_true(atoll(duet_do_as(d, "ann", "ttl write orders")) > LONG_MS / 2);
    assert_result(relock_unlock(we.read), RELOCK_OK);
    assert_true(atoll(duet_do_as(d, "ann", "ttl write orders")) > LONG_MS / 2);
    assert_result(relock_unlock(we.write), RELOCK_OK);
}

static void readers_of_both_are_renewed_by_each(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_watched_client(d));
    struct both_sides others = both_sides(d, duet_client(d));
    uint64_t until_ms = deadline_in(2 * WATCHDOG_MS + WATCHDOG_MS / 2);

    assert_string_equal(duet_do_as(d, "ann", "lock read orders"), "ok");
    assert_string_equal(duet_do_as(d, "bob", "lock read orders"), "ok");
    assert_result(relock_lock(we.read), RELOCK_OK);
    for (; now_ms() < until_ms; let_pass(100)) {
        assert_result(relock_trylock(others.write), RELOCK_BUSY);
        assert_string_equal(duet_do_as(d, "cat", "try write orders"), "no");
    }
    assert_result(relock_check(we.read, 0, NULL), RELOCK_OK);
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_result(relock_unlock(we.read), RELOCK_OK);
    let_pass(slow_ms(WATCHDOG_MS + WATCHDOG_MS / 2));
    assert_result(relock_trylock(others.write), RELOCK_BUSY);
    assert_string_equal(duet_do_as(d, "bob", "unlock read orders"), "ok");
}

/* Our reader lives and is renewed. Theirs is dead, and blocks a writer for at most its lease. */
static void a_dead_reader_of_redisson_keeps_nobody_out(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_watched_client(d));
    struct both_sides others = both_sides(d, duet_client(d));
    struct actor *waiting = actor_start();

    assert_string_equal(duet_do_as(d, "ann", "lock read orders"), "ok");
    assert_result(relock_lock(we.read), RELOCK_OK);
    player_kill(d->player);
    let_pass(slow_ms(WATCHDOG_MS + WATCHDOG_MS / 2));
    assert_result(relock_check(we.read, 0, NULL), RELOCK_OK);
    actor_begin_lock(waiting, others.write);
    assert_true(duet_sleeps(d, others.client));
    assert_result(relock_unlock(we.read), RELOCK_OK);
    assert_gets_in(waiting, others.write);
}

static void a_dead_reader_of_ours_keeps_nobody_out(void **state)
{
    struct duet *d = *state;
    struct child *child = duet_start_holder(d, relock_rdlock_new);
    unsigned bob;

    assert_string_equal(duet_do_as(d, "ann", "lock read orders"), "ok");
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
    let_pass(slow_ms(WATCHDOG_MS + WATCHDOG_MS / 2));
    bob = duet_begin_wait_as(d, "bob", "lock write orders");
    assert_string_equal(duet_do_as(d, "ann", "unlock read orders"), "ok");
    assert_string_equal(duet_answer(d, bob), "ok");
    assert_string_equal(duet_do_as(d, "bob", "unlock write orders"), "ok");
}

/* A forced release by Redisson leaves the keys of the levels, which expire with their leases. */
static void a_read_side_is_forced_open_from_the_other_side(void **state)
{
    struct duet *d = *state;
    struct both_sides we = both_sides(d, duet_watched_client(d));
    struct both_sides others = both_sides(d, duet_client(d));
    struct actor *waiting = actor_start();
    unsigned bob;

    assert_string_equal(duet_do_as(d, "ann", "lock read orders 100000"), "ok");
    bob = duet_begin_wait_as(d, "bob", "lock write orders");
    assert_result(relock_force_unlock(we.read), RELOCK_OK);
    assert_string_equal(duet_answer(d, bob), "ok");
    assert_string_equal(duet_do_as(d, "ann", "mine read orders"), "no");
    assert_string_equal(duet_do_as(d, "bob", "unlock write orders"), "ok");

    assert_result(relock_lock(we.read), RELOCK_OK);
    actor_begin_lock(waiting, others.write);
    assert_true(duet_sleeps(d, others.client));
    assert_string_equal(duet_do_as(d, "ann", "force read orders"), "yes");
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_result(relock_unlock(we.read), RELOCK_LOST);
    assert_result(actor_unlock(waiting, others.write), RELOCK_OK);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUET_TEST(readers_of_both_libraries_share_the_lock),
        DUET_TEST(levels_of_readers_are_counted_by_each),
        DUET_TEST(our_writer_lets_all_readers_of_redisson_in_at_once),
        DUET_TEST(redissons_writer_lets_all_our_readers_in_at_once),
        DUET_TEST(the_last_reader_wakes_a_writer_of_the_other_side),
        DUET_TEST(our_writer_that_stays_a_reader_lets_readers_of_redisson_in),
        DUET_TEST(redissons_writer_that_stays_a_reader_lets_our_readers_in),
        DUET_TEST(a_short_read_of_ours_leaves_redisson_the_lease_of_the_write),
        DUET_TEST(readers_of_both_are_renewed_by_each),
        DUET_TEST(a_dead_reader_of_redisson_keeps_nobody_out),
        DUET_TEST(a_dead_reader_of_ours_keeps_nobody_out),
        DUET_TEST(a_read_side_is_forced_open_from_the_other_side),
    };

    duet_choose(argc, argv);
    return DUET_TESTS_RUN(tests);
}
