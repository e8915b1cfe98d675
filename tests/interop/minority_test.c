/* Classic Redlock on five servers, two of them down: both sides continue, and exclude each
 * other. */
#include "duo.h"

static void take_two_down(struct duo *d)
{
    duo_kill(d, 0);
    duo_kill(d, 3);
}

static void a_holder_in_the_other_library_excludes_us(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    take_two_down(d);
    duo_they_exclude_us(d, lock);
}

static void our_holder_excludes_the_other_library(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    take_two_down(d);
    duo_we_exclude_them(d, lock);
}

static void a_holder_of_five_votes_that_lost_two_still_excludes_the_other(void **state)
{
    struct duo *d = *state;
    struct relock_lock *ours, *theirs;

    duo_set_watchdog(d, LONG_MS / 4); /* a late server gets it by a renewal */
    ours = duo_lock(d, "ours");
    theirs = duo_lock(d, "theirs");
    assert_result(relock_lock(ours), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "lock theirs 60000"), "ok");
    assert_true(duo_wait_all(d, "ours") && duo_wait_all(d, "theirs"));
    take_two_down(d);
    servers_up(d->s); /* without data */
    assert_string_equal(duo_do(d, "bob", "trylock ours 60000"), "no");
    assert_result(relock_trylock(theirs), RELOCK_BUSY);
    assert_result(relock_unlock(ours), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "unlock theirs"), "ok");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUO_TEST(a_holder_in_the_other_library_excludes_us),
        DUO_TEST(our_holder_excludes_the_other_library),
        DUO_TEST(a_holder_of_five_votes_that_lost_two_still_excludes_the_other),
    };

    duo_choose(argc, argv);
    return DUO_TESTS_RUN(tests);
}
