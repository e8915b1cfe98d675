/* A holder in one library excludes the other library. A Redlock release may return before it has
 * reached all servers, so tests wait for a free lock instead of trying once. */
#include "duo.h"

static void a_holder_in_the_other_library_excludes_us(void **state)
{
    duo_they_exclude_us(*state, duo_lock(*state, "orders"));
}

static void our_holder_excludes_the_other_library(void **state)
{
    duo_we_exclude_them(*state, duo_lock(*state, "orders"));
}

static void two_levels_here_exclude_the_other_library_until_the_last(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
}

static void a_waiter_in_the_other_library_gets_a_lock_released_here(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");
    unsigned waiting;

    for (int i = 0; i < 3; i++) { /* of its first waits, a library may listen late */
        assert_result(relock_timedlock(lock, SOON_MS), RELOCK_OK);
        waiting = duo_begin(d, "ann", "lock orders 60000");
        let_pass(100); /* several attempts of theirs */
        assert_true(player_is_busy(d->player, waiting));
        assert_result(relock_unlock(lock), RELOCK_OK);
        assert_string_equal(player_answer(d->player, waiting), "ok");
        assert_result(relock_trylock(lock), RELOCK_BUSY);
        assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
    }
}

static void a_waiter_here_gets_a_lock_released_in_the_other_library(void **state)
{
    struct duo *d = *state;
    struct relock_lock *lock = duo_lock(d, "orders");
    struct actor *waiting = actor_start();

    assert_string_equal(duo_do(d, "ann", "lock orders 60000"), "ok");
    actor_begin_lock(waiting, lock);
    assert_true(wait_for_waiters(d->clients[0], 1));
    let_pass(100); /* several attempts of ours */
    assert_true(actor_is_busy(waiting));
    assert_string_equal(duo_do(d, "ann", "unlock orders"), "ok");
    assert_result(actor_result(waiting), RELOCK_OK);
    assert_string_equal(duo_do(d, "ann", "trylock orders 60000"), "no");
    assert_result(actor_unlock(waiting, lock), RELOCK_OK);
}

/* ---- many at once -------------------------------------------------------------------------- */

#define N_THREADS 2 /* on each side */
#define N_TIMES 25
#define TIMES "25"

struct counter {
    struct relock_lock *lock;
    struct probe *probe;
};

/* Reading and writing are two commands: only the lock prevents another write between them. A
 * release that has too few answers in time goes on in the background. */
static int count(void *arg)
{
    const struct counter *counter = arg;
    int r = RELOCK_OK;

    for (int i = 0; i < N_TIMES && (r == RELOCK_OK || r == RELOCK_E_CONN); i++) {
        r = relock_lock(counter->lock);
        if (r != RELOCK_OK)
            return r;
        probe_int(counter->probe, "SET counter %lld", probe_int(counter->probe, "GET counter") + 1);
        r = relock_unlock(counter->lock);
    }
    return r == RELOCK_E_CONN ? RELOCK_OK : r;
}

static void nothing_is_lost_when_both_count(void **state)
{
    struct duo *d = *state;
    const char *const names[N_THREADS] = {"ann", "bob"};
    struct counter counters[N_THREADS];
    struct actor *actors[N_THREADS];
    unsigned orders[N_THREADS];

    assert_int_equal(probe_int(d->s->probe[0], "SET counter 0"), 0);
    for (int i = 0; i < N_THREADS; i++) {
        counters[i].lock = duo_lock(d, "orders");
        counters[i].probe = probe_open(d->s->server[0]->socket);
        actors[i] = actor_start();
        actor_begin(actors[i], count, &counters[i]);
        orders[i] = duo_begin(d, names[i], "count orders counter " TIMES);
    }
    for (int i = 0; i < N_THREADS; i++) {
        assert_result(actor_result_within(actors[i], 6 * SOON_MS), RELOCK_OK);
        assert_string_equal(player_answer_within(d->player, orders[i], 6 * SOON_MS), "ok");
        probe_close(counters[i].probe);
    }
    assert_int_equal(probe_int(d->s->probe[0], "GET counter"), 2 * N_THREADS * N_TIMES);
    assert_int_equal(probe_int(d->s->probe[0], "DEL counter"), 1);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DUO_TEST(a_holder_in_the_other_library_excludes_us),
        DUO_TEST(our_holder_excludes_the_other_library),
        DUO_TEST(two_levels_here_exclude_the_other_library_until_the_last),
        DUO_TEST(a_waiter_in_the_other_library_gets_a_lock_released_here),
        DUO_TEST(a_waiter_here_gets_a_lock_released_in_the_other_library),
        DUO_TEST(nothing_is_lost_when_both_count),
    };

    duo_choose(argc, argv);
    return DUO_TESTS_RUN(tests);
}
