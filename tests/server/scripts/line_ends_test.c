/*
 * The line of waiting clients, by the scripts alone: clients that wait again, that leave, and that
 * are not in the line.
 */
#include "line_scripts.h"

#include "support/peer.h"

#include <stdio.h>
#include <string.h>

/* ---- clients that wait again --------------------------------------------------------------- */

static void a_releaser_that_waits_again_learns_its_place(void **state)
{
    struct scene scene = scene_of(*state);

    assert_string_equal(give_and_wait(scene.f, HOLDER), "1 4");
    assert_true(line_hears_now(scene.a));
    assert_true(is_granted(scene.f, A));
    leave(scene.f, B);
    leave(scene.f, C);
    assert_string_equal(give_and_wait(scene.f, A), "1 2"); /* behind HOLDER */
    assert_true(line_hears_first(scene.holder));
    assert_true(line_hears_now(scene.holder));
    assert_true(is_granted(scene.f, HOLDER));
    leave(scene.f, A);
    assert_string_equal(give_and_wait(scene.f, HOLDER), "1 1");
    assert_true(hears_nothing(scene.holder));
    assert_true(is_granted(scene.f, HOLDER));
    scene_end(&scene);
}

static void a_releaser_that_waits_again_has_the_lock_reserved(void **state)
{
    struct fixture *f = *state;
    uint64_t began_ms = now_ms();

    assert_true(is_granted(f, HOLDER));
    assert_string_equal(give_and_wait(f, HOLDER), "1 1");
    if (!is_reserved(f, B))
        assert_true(now_ms() - began_ms >= LINE_RESERVED_MS - TWO_CLOCKS_MS);
    else
        assert_true(is_granted(f, HOLDER));
    probe_int(f->probe, "DEL orders " LINE " " LINE_TURN);
}

static void a_line_that_begins_with_a_release_has_a_lease(void **state)
{
    struct fixture *f = *state;

    assert_true(is_granted(f, HOLDER));
    assert_string_equal(give_and_wait(f, HOLDER), "1 1");
    assert_true(probe_pttl(f->probe, LINE) > NEVER_MS);
    assert_true(probe_pttl(f->probe, LINE_TURN) > NEVER_MS);
    probe_int(f->probe, "DEL " LINE " " LINE_TURN);
}

static void a_release_in_a_cluster_begins_a_line(void **state)
{
    struct fixture *f = *state;

    assert_true(is_granted(f, HOLDER));
    assert_string_equal(give_and_wait_in_cluster(f, HOLDER), "1 1");
    assert_int_equal(probe_int(f->probe, "LLEN relock_waiters:{orders}:cluster"), 1);
    assert_int_equal(probe_int(f->probe, "HEXISTS relock_waiters:turn:{orders}:cluster until"), 1);
    probe_int(f->probe, "DEL relock_waiters:{orders}:cluster relock_waiters:turn:{orders}:cluster");
}

/* ---- leaving ------------------------------------------------------------------------------- */

static void the_first_that_leaves_makes_the_next_one_first(void **state)
{
    struct scene scene = scene_of(*state);

    leave(scene.f, A);
    assert_true(line_is(scene.f, B, C, ""));
    assert_true(line_hears_first(scene.b));
    leave(scene.f, C);
    leave(scene.f, HOLDER); /* it is not in the line */
    assert_true(hears_nothing(scene.b));
    leave(scene.f, B);
    assert_int_equal(probe_int(scene.f->probe, "EXISTS " LINE " " LINE_TURN), 0);
    scene_end(&scene);
}

static void a_client_that_leaves_after_it_was_told_passes_its_turn_on(void **state)
{
    struct scene scene = scene_of(*state);

    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_true(line_hears_first(scene.b));
    leave(scene.f, A);
    assert_true(line_hears_now(scene.b));
    assert_true(line_hears_second(scene.c));
    assert_true(line_hears_first(scene.c));
    assert_true(is_granted(scene.f, B));
    scene_end(&scene);
}

/* Another client has acquired it meanwhile. */
static void a_client_that_leaves_a_held_lock_passes_no_turn_on(void **state)
{
    struct scene scene = scene_of(*state);

    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_true(line_hears_first(scene.b));
    assert_true(line_hears_second(scene.c));
    barge(scene.f);
    leave(scene.f, A);
    assert_true(hears_nothing(scene.b));
    assert_true(hears_nothing(scene.c));
    scene_end(&scene);
}

/* ---- clients without a line ---------------------------------------------------------------- */

static long long ahead(struct fixture *f)
{
    return probe_int(f->probe, "HGET " LINE_TURN " ahead");
}

/* Of a hundred releases, how often A was told to let others go first. Others had the lock `n_ahead`
 * times more often than it was their turn. */
static int n_told_later(struct fixture *f, struct listener *a, bool listens, int n_ahead)
{
    char later[64];
    bool is_later;
    int n = 0;

    snprintf(later, sizeof(later), "later%s orders", line_side());
    for (int i = 0; i < 100; i++) {
        probe_int(f->probe, "DEL " LINE " " LINE_TURN);
        assert_true(is_granted(f, HOLDER));
        (void)ask_for(f, "orders", A, listens);
        probe_int(f->probe, "HSET " LINE_TURN " ahead %d", n_ahead);
        assert_int_equal(give(f, HOLDER), 2); /* one subscriber of the channel */
        is_later = strcmp(listener_next(a, SOON_MS), later) == 0;
        assert_true(ahead(f) == n_ahead - 1 || (!is_later && ahead(f) == n_ahead));
        n += is_later;
    }
    probe_int(f->probe, "DEL " LINE " " LINE_TURN);
    return n;
}

/* It has half of the turns. */
static void a_subscriber_that_is_not_in_the_line_goes_first_now_and_then(void **state)
{
    struct fixture *f = *state;
    struct listener *a = line_listen(f, A), *other = listener_open(f->server->socket, CHANNEL);

    assert_in_range(n_told_later(f, a, false, 0), 10, 90);
    listener_close(a);
    listener_close(other);
}

static void a_subscriber_that_had_more_than_its_turns_goes_last(void **state)
{
    struct fixture *f = *state;
    struct listener *a = line_listen(f, A), *other = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(n_told_later(f, a, false, 1), 0);
    listener_close(a);
    listener_close(other);
}

/* The first of the line asks once for each of their releases, when it listens. */
static void each_hold_of_another_library_counts(void **state)
{
    struct fixture *f = *state;
    struct listener *a = line_listen(f, A);

    probe_int(f->probe, "HSET orders " PEER " 1");
    (void)ask_for(f, "orders", A, false);
    assert_int_equal(probe_int(f->probe, "HEXISTS " LINE_TURN " ahead"), 0);
    (void)ask_for(f, "orders", A, true);
    (void)ask_for(f, "orders", A, true);
    assert_int_equal(ahead(f), 2);
    for (int i = 0; i < 110; i++)
        (void)ask_for(f, "orders", A, true);
    assert_int_equal(ahead(f), 100);
    probe_int(f->probe, "DEL orders " LINE " " LINE_TURN);
    listener_close(a);
}

static void the_first_that_listens_counts_as_no_other(void **state)
{
    struct fixture *f = *state;
    struct listener *a = line_listen(f, A), *its_own = listener_open(f->server->socket, CHANNEL);

    assert_int_equal(n_told_later(f, a, true, 0), 0);
    listener_close(a);
    listener_close(its_own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINE_TEST(a_releaser_that_waits_again_learns_its_place),
        LINE_TEST(a_releaser_that_waits_again_has_the_lock_reserved),
        LINE_TEST(a_line_that_begins_with_a_release_has_a_lease),
        LINE_TEST(a_release_in_a_cluster_begins_a_line),
        LINE_TEST(the_first_that_leaves_makes_the_next_one_first),
        LINE_TEST(a_client_that_leaves_after_it_was_told_passes_its_turn_on),
        LINE_TEST(a_client_that_leaves_a_held_lock_passes_no_turn_on),
        LINE_TEST(a_subscriber_that_is_not_in_the_line_goes_first_now_and_then),
        LINE_TEST(a_subscriber_that_had_more_than_its_turns_goes_last),
        KINDS_TEST_OF(each_hold_of_another_library_counts, reentrant),
        KINDS_TEST_OF(each_hold_of_another_library_counts, fenced),
        LINE_TEST(the_first_that_listens_counts_as_no_other),
    };

    return SERVER_TESTS_RUN(tests);
}
