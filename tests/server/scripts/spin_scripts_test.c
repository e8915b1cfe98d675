/* Locks that spin have no channel: scripts/unlock.lua and force_unlock.lua without one:
 * docs/wire.md#spin. */
#include "support/fixture.h"
#include "support/listener.h"
#include "support/scripts.h"

#include "redis/server/script.h"

#define A "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:1"

static void take(struct fixture *f)
{
    assert_string_equal(
        script_text(f->probe, relock_script_lock.body, "orders", SCRIPT_ARGS("30000", A, "1")), "");
}

static void an_unlock_without_a_channel_publishes_nothing(void **state)
{
    struct fixture *f = *state;
    struct listener *nameless = listener_open(f->server->socket, "");
    long long published = probe_calls(f->probe, "publish");

    take(f);
    assert_int_equal(
        script_int(f->probe, relock_script_unlock.body, "orders", SCRIPT_ARGS(A, "0", "", "0")), 1);
    assert_int_equal(
        script_int(f->probe, relock_script_unlock.body, "orders", SCRIPT_ARGS(A, "0", "", "0")), 0);
    take(f);
    assert_int_equal(
        script_int(f->probe, relock_script_force_unlock.body, "orders", SCRIPT_ARGS(A, "", "0")),
        1);
    assert_int_equal(
        script_int(f->probe, relock_script_force_unlock.body, "orders", SCRIPT_ARGS(A, "", "0")),
        0);
    assert_int_equal(probe_calls(f->probe, "publish"), published);
    assert_true(listener_hears_nothing(nameless, 20));
    listener_close(nameless);
}

/* Users without the right to publish may use it, so the script must not try. */
static void an_unlock_without_a_channel_needs_no_right_to_publish(void **state)
{
    struct fixture *f = *state;
    struct probe *user = script_user(f->probe, f->server->socket, "-publish");

    take(f);
    assert_int_equal(
        script_int(user, relock_script_unlock.body, "orders", SCRIPT_ARGS(A, "0", "", "0")), 1);
    take(f);
    assert_int_equal(
        script_int(user, relock_script_force_unlock.body, "orders", SCRIPT_ARGS(A, "", "0")), 1);
    take(f);
    assert_int_equal(
        script_int(user, relock_script_unlock.body, "orders", SCRIPT_ARGS(A, "0", "channel", "0")),
        -2);
    take(f);
    assert_int_equal(
        script_int(user, relock_script_force_unlock.body, "orders", SCRIPT_ARGS(A, "channel", "0")),
        2);
    probe_close(user);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(an_unlock_without_a_channel_publishes_nothing),
        SERVER_TEST(an_unlock_without_a_channel_needs_no_right_to_publish),
    };

    return SERVER_TESTS_RUN(tests);
}
