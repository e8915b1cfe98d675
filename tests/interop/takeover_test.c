/* A lock goes from one library to the other without a release: its holder died, or its lease ended.
 */
#include "duo.h"

#include <string.h>

#include "support/child.h"

#include <signal.h>
#include <stdlib.h>

static const struct relock_how for_long = {.wait_ms = RELOCK_FOREVER, .lease_ms = LONG_MS};

static int hold_until_killed(struct child *parent, void *arg)
{
    struct duo *d = arg;
    struct relock_options options = {.watchdog_timeout_ms = slow_ms(KEPT_MS)};
    struct relock_lock *lock;

    options.url = d->s->server[0]->tcp_url;
    child_must(duo_make_lock(child_client(d->s->f, &options), "orders", &lock) == RELOCK_OK);
    child_must(relock_lock(lock) == RELOCK_OK);
    child_must(child_send(parent, 1));
    while (!child_await(parent))
        ;
    return EXIT_SUCCESS;
}

static void a_process_killed_here_is_followed_by_the_other_library(void **state)
{
    struct duo *d = *state;
    struct child *child = child_start(hold_until_killed, d);

    assert_true(child_await(child));
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    child_signal(child, SIGKILL);
    assert_int_equal(child_wait(child, SOON_MS), 128 + SIGKILL);
    assert_string_equal(duo_do(d, "ann", "lock orders ^"), "ok");
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

static void a_killed_process_of_the_other_library_is_followed_here(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    assert_string_equal(duo_do(d, "ann", "lock orders ^"), "ok");
    duo_kill_player(d);
    assert_result(relock_acquire(lock, &for_long, NULL), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    assert_result(relock_unlock(lock), RELOCK_OK);
}

/* Long after its lease, a holder of theirs releases what is ours. */
static void a_late_release_in_the_other_library_does_not_free_our_hold(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    assert_string_equal(duo_do(d, "ann", "lock orders %"), "ok");
    assert_result(relock_acquire(lock, &for_long, NULL), RELOCK_OK);
    if (!duo_compares())
        let_pass(100); /* its own clock has to show the end, too */
    duo_release_lost(d, "ann");
    assert_true(relock_is_mine(lock));
    assert_int_equal(duo_n_lasting(d, duo_key("orders"), LONG_MS / 2, LONG_MS), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void a_late_release_here_does_not_free_the_other_librarys_hold(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");
    const struct relock_how how = {.lease_ms = slow_ms(SHORT_MS)};

    assert_result(fixture_acquire(lock, &how), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "lock orders ^"), "ok");
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

static void a_hold_that_the_other_library_took_over_is_reported(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock;

    duo_set_watchdog(d, slow_ms(KEPT_MS));
    lock = duo_lock(d, "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_int(d->s->probe[0], "DEL %s", duo_key("orders")), 1);
    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    assert_true(losses_wait(d->s->f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
    assert_result(relock_trylock(lock), RELOCK_BUSY);
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

/* As `relock break` does, which knows the key alone. A waiter that is not told sleeps too long. */
static void a_waiter_in_the_other_library_gets_a_lock_that_is_broken_here(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock;
    struct player *other;
    unsigned waiting;

    if (strcmp(duo_key(""), "rueidislock:0:") == 0)
        skip(); /* its holder goes on with two keys of three */
    other = duo_another_player(d);
    duo_set_watchdog(d, LONG_MS);
    lock = fixture_lock_of(d->s->f, d->clients[0], duo_key("orders"), relock_plainlock_new);
    for (int i = 0; i < 3; i++) { /* of its first waits, a library may listen late */
        assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
        waiting = player_begin(other, "bob", "lock orders 60000");
        let_pass(100); /* several attempts of theirs */
        assert_true(player_is_busy(other, waiting));
        assert_result(relock_force_unlock(lock), RELOCK_OK);
        assert_string_equal(player_answer(other, waiting), "ok");
        if (duo_compares())
            duo_release_lost(d, "ann");
        assert_string_equal(player_do(other, "bob", "unlock orders"), "ok");
    }
    player_end(other);
}

/* docs/sharing.md warns of these libraries. */
static void a_release_that_deletes_our_hold_without_comparing_is_reported(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    if (duo_compares())
        skip();
    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    assert_result(relock_force_unlock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
    assert_true(losses_wait(d->s->f->losses, 1, SOON_MS));
    assert_result(relock_unlock(lock), RELOCK_LOST);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUO_TEST(a_process_killed_here_is_followed_by_the_other_library),
        DUO_TEST(a_killed_process_of_the_other_library_is_followed_here),
        DUO_TEST(a_late_release_in_the_other_library_does_not_free_our_hold),
        DUO_TEST(a_late_release_here_does_not_free_the_other_librarys_hold),
        DUO_TEST(a_hold_that_the_other_library_took_over_is_reported),
        DUO_TEST(a_waiter_in_the_other_library_gets_a_lock_that_is_broken_here),
        DUO_TEST(a_release_that_deletes_our_hold_without_comparing_is_reported),
    };

    duo_choose(argc, argv);
    return DUO_TESTS_RUN(tests);
}
