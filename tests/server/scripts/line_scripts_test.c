/* The line of waiting clients, by the scripts alone: places, and what a release tells whom. */
#include "line_scripts.h"

#include "support/peer.h"

#include "redis/server/script.h"

#include <stdio.h>
#include <string.h>

/* ---- places -------------------------------------------------------------------------------- */

static void a_refused_client_keeps_its_place(void **state)
{
    struct scene scene = scene_of(*state);

    assert_int_equal(place_of(scene.f, B), 2);
    assert_int_equal(place_of(scene.f, A), 1);
    assert_int_equal(place_of(scene.f, C), 3);
    assert_true(line_is(scene.f, A, B, C));
    scene_end(&scene);
}

static void a_caller_that_does_not_wait_gets_no_place(void **state)
{
    struct fixture *f = *state;
    long long left;

    assert_true(is_granted(f, HOLDER));
    left = probe_int(f->probe, "EVAL %s 1 orders " LEASE_MS " %s 1", lock_body(), field_of(A));
    assert_in_range(left, 1, 600000);
    assert_int_equal(probe_int(f->probe, "EXISTS " LINE " " LINE_TURN), 0);
    assert_int_equal(give(f, HOLDER), 1);
}

/* For it, the line costs nothing. */
static void a_lock_for_which_nobody_waits_has_no_line(void **state)
{
    struct fixture *f = *state;

    assert_true(is_granted(f, HOLDER));
    assert_int_equal(give(f, HOLDER), 1);
    assert_int_equal(probe_int(f->probe, "EXISTS orders " LINE " " LINE_TURN), 0);
}

static void only_the_first_learns_that_the_holder_is_foreign(void **state)
{
    struct fixture *f = *state;
    long long left;
    int place, is_foreign;

    assert_true(peer_lock(f->probe, "orders", PEER, NEVER_MS));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sscanf(ask_for(f, "orders", i == 0 ? A : B, false), "%lld %d %d", &left,
                                &place, &is_foreign),
                         3);
        assert_int_equal(place, i + 1);
        assert_int_equal(is_foreign, i == 0);
    }
    probe_int(f->probe, "DEL orders " LINE " " LINE_TURN);
}

/* ---- releases ------------------------------------------------------------------------------ */

static void a_release_tells_the_first_three_clients(void **state)
{
    struct scene scene = scene_of(*state);
    struct listener *d = line_listen(scene.f, D);

    assert_int_equal(place_of(scene.f, D), 4);
    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_true(line_hears_now(scene.a));
    assert_true(line_hears_first(scene.b));
    assert_true(line_hears_second(scene.c));
    assert_true(hears_nothing(scene.a));
    assert_true(hears_nothing(scene.b));
    assert_true(hears_nothing(scene.c));
    assert_true(hears_nothing(d));
    assert_int_equal(probe_int(scene.f->probe, "LLEN " LINE), 4);
    listener_close(d);
    scene_end(&scene);
}

static void a_forced_release_does_so_too(void **state)
{
    struct scene scene = scene_of(*state);
    const char *holder = field_of(HOLDER);
    size_t length = strlen(holder) - strlen(line_side());

    assert_int_equal(
        probe_int(scene.f->probe,
                  *line_side() ? "EVAL %s 1 orders %b %s 0 write" : "EVAL %s 1 orders %b %s 0",
                  force_body(), holder, length, CHANNEL),
        1);
    assert_true(line_hears_now(scene.a));
    assert_true(line_hears_first(scene.b));
    assert_true(line_hears_second(scene.c));
    scene_end(&scene);
}

static void no_client_is_told_twice_that_it_is_first(void **state)
{
    struct scene scene = scene_of(*state);

    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_true(line_hears_now(scene.a));
    assert_true(line_hears_first(scene.b));
    assert_true(line_hears_second(scene.c));
    assert_true(is_granted(scene.f, A));
    assert_true(line_is(scene.f, B, C, ""));
    assert_true(hears_nothing(scene.b));
    assert_int_equal(give(scene.f, A), 1);
    assert_true(line_hears_now(scene.b));
    assert_true(line_hears_first(scene.c));
    scene_end(&scene);
}

static void a_client_that_was_told_has_no_place_before_the_others(void **state)
{
    struct scene scene = scene_of(*state);

    assert_int_equal(give(scene.f, HOLDER), 1);
    barge(scene.f);
    assert_int_equal(place_of(scene.f, B), 1);
    assert_int_equal(place_of(scene.f, C), 2);
    scene_end(&scene);
}

static void a_released_lock_is_reserved_for_the_client_that_was_told(void **state)
{
    struct scene scene = scene_of(*state);
    uint64_t began_ms = now_ms();

    assert_int_equal(give(scene.f, HOLDER), 1);
    if (!is_reserved(scene.f, B))
        assert_true(now_ms() - began_ms >= LINE_RESERVED_MS - TWO_CLOCKS_MS);
    else
        assert_true(is_granted(scene.f, A));
    scene_end(&scene);
}

/* A client that has no line was faster, and may be gone again. */
static void a_client_that_asked_in_vain_is_not_awaited(void **state)
{
    struct scene scene = scene_of(*state);

    assert_int_equal(give(scene.f, HOLDER), 1);
    barge(scene.f);
    assert_int_equal(place_of(scene.f, A), 1);
    assert_int_equal(place_of(scene.f, B), 2);
    probe_int(scene.f->probe, "DEL orders");
    assert_true(is_granted(scene.f, B));
    assert_true(line_is(scene.f, A, C, ""));
    scene_end(&scene);
}

/* A user that may not subscribe, a vote, a spin lock: nobody would tell it anything. */
static void a_reservation_does_not_concern_a_caller_outside_of_the_line(void **state)
{
    struct scene scene = scene_of(*state);
    char nothing[1] = "";

    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_int_equal(probe_int(scene.f->probe, "EXISTS orders"), 0);
    (void)probe_text(scene.f->probe, "EVAL %s 1 orders " LEASE_MS " %s 1 %s %s", lock_body(),
                     field_of(D), nothing, nothing);
    assert_int_equal(probe_int(scene.f->probe, "EXISTS orders"), 1);
    assert_true(line_is(scene.f, A, B, C));
    scene_end(&scene);
}

static bool is_granted_to_b(void *f)
{
    return is_granted(f, B);
}

static void a_client_that_was_told_and_does_not_ask_leaves_the_line(void **state)
{
    struct scene scene = scene_of(*state);
    uint64_t began_ms = now_ms();

    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_true(wait_until(is_granted_to_b, scene.f, SOON_MS));
    assert_true(now_ms() - began_ms >= LINE_RESERVED_MS - TWO_CLOCKS_MS);
    assert_true(line_is(scene.f, C, "", ""));
    assert_true(line_hears_second(scene.c));
    assert_true(line_hears_first(scene.c));
    scene_end(&scene);
}

static void clients_without_a_subscription_leave_the_line(void **state)
{
    struct scene scene = scene_of(*state);

    listener_close(scene.a);
    listener_close(scene.b);
    scene.a = scene.b = NULL;
    assert_true(probe_wait_subscribers(scene.f->probe, LINE_INBOX(A), 0));
    assert_true(probe_wait_subscribers(scene.f->probe, LINE_INBOX(B), 0));
    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_true(line_hears_now(scene.c));
    assert_true(line_is(scene.f, C, "", ""));

    assert_true(is_granted(scene.f, C));
    assert_int_equal(place_of(scene.f, A), 1);
    assert_int_equal(give(scene.f, C), 1);
    assert_int_equal(probe_int(scene.f->probe, "EXISTS " LINE " " LINE_TURN), 0);
    scene_end(&scene);
}

/* Behind the client that is told. */
static void a_first_client_without_a_subscription_leaves_the_line_too(void **state)
{
    struct scene scene = scene_of(*state);

    listener_close(scene.b);
    scene.b = NULL;
    assert_true(probe_wait_subscribers(scene.f->probe, LINE_INBOX(B), 0));
    assert_int_equal(give(scene.f, HOLDER), 1);
    assert_true(line_hears_now(scene.a));
    assert_true(line_hears_first(scene.c));
    assert_true(line_is(scene.f, A, C, ""));
    scene_end(&scene);
}

/* Redisson's releases tell nobody in the line. */
static void a_client_that_asks_again_removes_a_first_one_that_is_gone(void **state)
{
    struct scene scene = scene_of(*state);

    listener_close(scene.a);
    scene.a = NULL;
    assert_true(probe_wait_subscribers(scene.f->probe, LINE_INBOX(A), 0));
    assert_int_equal(place_of(scene.f, C), 2);
    assert_true(line_hears_first(scene.b));
    assert_true(line_is(scene.f, B, C, ""));
    scene_end(&scene);
}

/* ---- names --------------------------------------------------------------------------------- */

static void names_with_a_brace_have_a_colon_before_them(void **state)
{
    struct fixture *f = *state;
    struct listener *a = line_listen(f, A);

    assert_string_equal(ask_for(f, "{orders}:1", HOLDER, false), "");
    (void)ask_for(f, "{orders}:1", A, false);
    assert_int_equal(probe_int(f->probe, "LLEN relock_waiters::{orders}:1"), 1);
    assert_int_equal(probe_int(f->probe, "HLEN relock_waiters:turn::{orders}:1"), 2);
    assert_int_equal(probe_int(f->probe, "EVAL %s 1 {orders}:1 %s 0 %s 0", unlock_body(),
                               field_of(HOLDER), CHANNEL),
                     1);
    assert_true(listener_hears(a, "now {orders}:1", SOON_MS));
    probe_int(f->probe, "DEL relock_waiters::{orders}:1 relock_waiters:turn::{orders}:1");
    listener_close(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        LINE_TEST(a_refused_client_keeps_its_place),
        LINE_TEST(a_caller_that_does_not_wait_gets_no_place),
        LINE_TEST(a_lock_for_which_nobody_waits_has_no_line),
        KINDS_TEST_OF(only_the_first_learns_that_the_holder_is_foreign, reentrant),
        KINDS_TEST_OF(only_the_first_learns_that_the_holder_is_foreign, fenced),
        LINE_TEST(a_release_tells_the_first_three_clients),
        LINE_TEST(a_forced_release_does_so_too),
        LINE_TEST(no_client_is_told_twice_that_it_is_first),
        LINE_TEST(a_client_that_was_told_has_no_place_before_the_others),
        LINE_TEST(a_released_lock_is_reserved_for_the_client_that_was_told),
        LINE_TEST(a_client_that_asked_in_vain_is_not_awaited),
        LINE_TEST(a_client_that_was_told_and_does_not_ask_leaves_the_line),
        LINE_TEST(clients_without_a_subscription_leave_the_line),
        LINE_TEST(a_first_client_without_a_subscription_leaves_the_line_too),
        LINE_TEST(a_client_that_asks_again_removes_a_first_one_that_is_gone),
        LINE_TEST(a_reservation_does_not_concern_a_caller_outside_of_the_line),
        KINDS_TEST_OF(names_with_a_brace_have_a_colon_before_them, reentrant),
    };

    return SERVER_TESTS_RUN(tests);
}
