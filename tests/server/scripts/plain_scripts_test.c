/* The scripts of plain locks by themselves: docs/wire.md#plain. */
#include "support/fixture.h"
#include "support/listener.h"
#include "support/plain_peer.h"
#include "support/scripts.h"

#include "redis/server/script.h"

#include <string.h>

#define CHANNEL "redisson_lock__channel:{orders}"
#define LEASE_MS 30000
#define LEAST_MS 15000 /* how much of it remains on a slow machine */
#define A "0123456789abcdef0123456789abcdef01234567"
#define B "89abcdef0123456789abcdef0123456789abcdef"

/* -1 when it is granted, else the rest of a lease. */
static long long take(struct fixture *f, const char *token, const char *count)
{
    return script_int(f->probe, relock_script_plain_lock.body, "orders",
                      SCRIPT_ARGS("30000", token, count));
}

static long long give(struct fixture *f, const char *token, const char *count)
{
    return script_int(f->probe, relock_script_plain_unlock.body, "orders",
                      SCRIPT_ARGS(token, count, "", "0"));
}

static long long renew(struct fixture *f, const char *lease, const char *token)
{
    return script_int(f->probe, relock_script_plain_renew.body, "orders",
                      SCRIPT_ARGS(lease, token));
}

static const char *inspect(struct fixture *f, const char *token)
{
    return probe_list(f->probe, "EVAL %s 1 orders %s", relock_script_plain_inspect.body, token);
}

static long long force(struct fixture *f, const char *token)
{
    return script_int(f->probe, relock_script_plain_force_unlock.body, "orders",
                      SCRIPT_ARGS(token, "", "0"));
}

static bool is(struct fixture *f, const char *token)
{
    return strcmp(probe_text(f->probe, "GET orders"), token) == 0;
}

/* ---- acquiring ----------------------------------------------------------------------------- */

static void a_first_level_is_a_string_with_a_lease(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f, A, "1"), -1);
    assert_true(is(f, A));
    assert_true(probe_pttl(f->probe, "orders") > LEAST_MS);
    assert_true(probe_pttl(f->probe, "orders") <= LEASE_MS);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_int_equal(give(f, A, "0"), 1);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_refusal_contains_the_remaining_lease(void **state)
{
    struct fixture *f = *state;
    long long rest_ms;

    assert_int_equal(take(f, A, "1"), -1);
    rest_ms = take(f, B, "1");
    assert_true(rest_ms > LEAST_MS && rest_ms <= LEASE_MS);
    assert_true(is(f, A));
    assert_int_equal(probe_int(f->probe, "PERSIST orders"), 1);
    assert_string_equal(script_text(f->probe, relock_script_plain_lock.body, "orders",
                                    SCRIPT_ARGS("30000", B, "1")),
                        "-1");
    assert_int_equal(give(f, A, "0"), 1);
}

static void a_repeat_and_a_level_find_their_token(void **state)
{
    static const char *const counts[] = {"1", "1", "2", "2", "1"};
    struct fixture *f = *state;

    assert_int_equal(take(f, A, "1"), -1);
    for (size_t i = 0; i < sizeof(counts) / sizeof(*counts); i++) {
        assert_string_equal(script_text(f->probe, relock_script_plain_lock.body, "orders",
                                        SCRIPT_ARGS("30000", A, counts[i])),
                            "");
        assert_true(is(f, A));
    }
    assert_int_equal(give(f, A, "0"), 1);
}

static void a_level_whose_hold_is_gone_is_refused_and_creates_nothing(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f, A, "2"), -2);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(take(f, B, "1"), -1);
    assert_true(take(f, A, "2") > LEAST_MS);
    assert_true(is(f, B));
    assert_int_equal(give(f, B, "0"), 1);
}

static void no_script_shortens_a_lease_and_all_that_take_one_lengthen_it(void **state)
{
    struct fixture *f = *state;
    const char *body = relock_script_plain_lock.body;

    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(script_int(f->probe, body, "orders", SCRIPT_ARGS("10", A, "2")), -1);
    assert_int_equal(script_int(f->probe, body, "orders", SCRIPT_ARGS("10", A, "1")), -1);
    assert_int_equal(renew(f, "10", A), 1);
    assert_true(probe_pttl(f->probe, "orders") > LEAST_MS);
    assert_int_equal(script_int(f->probe, body, "orders", SCRIPT_ARGS("90000", A, "2")), -1);
    assert_true(probe_pttl(f->probe, "orders") > 90000 - LEAST_MS);
    assert_int_equal(renew(f, "270000", A), 1);
    assert_true(probe_pttl(f->probe, "orders") > 270000 - LEAST_MS);
    assert_int_equal(give(f, A, "1"), 1);
    assert_true(probe_pttl(f->probe, "orders") > 270000 - LEAST_MS);
    assert_int_equal(give(f, A, "0"), 1);
}

/* ---- releasing, renewing ------------------------------------------------------------------- */

static void each_script_reports_the_state_of_the_hold(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(give(f, A, "1"), 0);
    assert_int_equal(give(f, A, "0"), 0);
    assert_int_equal(renew(f, "30000", A), 0);
    assert_int_equal(force(f, A), 0);
    assert_int_equal(probe_n_keys(f->probe), 0);

    assert_int_equal(take(f, B, "1"), -1);
    assert_int_equal(give(f, A, "1"), -1);
    assert_int_equal(give(f, A, "0"), -1);
    assert_int_equal(renew(f, "90000", A), -1);
    assert_int_equal(force(f, A), 0);
    assert_true(is(f, B));
    assert_true(probe_pttl(f->probe, "orders") <= LEASE_MS);
    assert_int_equal(force(f, B), 1);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

static void a_released_level_leaves_the_string(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(give(f, A, "2"), 1);
    assert_int_equal(give(f, A, "1"), 1);
    assert_true(is(f, A));
    assert_int_equal(give(f, A, "0"), 1);
    assert_int_equal(give(f, A, "0"), 0);
}

static void their_scripts_and_ours_understand_each_other(void **state)
{
    struct fixture *f = *state;

    assert_true(plain_peer_lock(f->probe, "orders", A, LEASE_MS));
    assert_int_equal(renew(f, "90000", A), 1);
    assert_int_equal(give(f, A, "0"), 1);
    assert_int_equal(take(f, A, "1"), -1);
    assert_false(plain_peer_lock(f->probe, "orders", A, LEASE_MS));
    assert_false(plain_peer_unlock(f->probe, "orders", B));
    assert_true(plain_peer_unlock(f->probe, "orders", A));
}

/* ---- announcing ---------------------------------------------------------------------------- */

static void a_release_is_published_where_there_is_a_channel(void **state)
{
    struct fixture *f = *state;
    struct listener *listener = listener_open(f->server->socket, CHANNEL);
    const char *unlock = relock_script_plain_unlock.body;
    const char *force_unlock = relock_script_plain_force_unlock.body;

    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(script_int(f->probe, unlock, "orders", SCRIPT_ARGS(A, "1", CHANNEL, "0")), 1);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(script_int(f->probe, unlock, "orders", SCRIPT_ARGS(B, "0", CHANNEL, "0")), -1);
    assert_true(listener_hears_nothing(listener, 20));
    assert_int_equal(script_int(f->probe, unlock, "orders", SCRIPT_ARGS(A, "0", CHANNEL, "0")), 2);
    assert_true(listener_hears(listener, "0", SOON_MS));
    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(script_int(f->probe, force_unlock, "orders", SCRIPT_ARGS(B, CHANNEL, "0")), 0);
    assert_int_equal(script_int(f->probe, force_unlock, "orders", SCRIPT_ARGS(A, CHANNEL, "0")), 1);
    assert_true(listener_hears(listener, "0", SOON_MS));
    listener_close(listener);
}

static void without_a_channel_nothing_is_published(void **state)
{
    struct fixture *f = *state;
    struct listener *nameless = listener_open(f->server->socket, "");
    long long published = probe_calls(f->probe, "publish");

    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(give(f, A, "0"), 1);
    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(force(f, A), 1);
    assert_int_equal(probe_calls(f->probe, "publish"), published);
    assert_true(listener_hears_nothing(nameless, 20));
    listener_close(nameless);
}

static void without_the_right_to_publish_the_lock_is_freed(void **state)
{
    struct fixture *f = *state;
    struct probe *user = script_user(f->probe, f->server->socket, "-publish");

    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(script_int(user, relock_script_plain_unlock.body, "orders",
                                SCRIPT_ARGS(A, "0", CHANNEL, "0")),
                     -2);
    assert_int_equal(probe_n_keys(f->probe), 0);
    assert_int_equal(take(f, A, "1"), -1);
    assert_int_equal(script_int(user, relock_script_plain_force_unlock.body, "orders",
                                SCRIPT_ARGS(A, CHANNEL, "0")),
                     2);
    assert_int_equal(probe_n_keys(f->probe), 0);
    probe_close(user);
}

/* ---- queries, and foreign keys ------------------------------------------------------------- */

static void the_query_returns_the_holder_and_one_level(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(inspect(f, A), " 0 0 -2 0");
    assert_string_equal(inspect(f, ""), " 0 0 -2 0");
    assert_int_equal(probe_int(f->probe, "SET orders " A), 0);
    assert_string_equal(inspect(f, A), A " 1 1 -1 1");
    assert_string_equal(inspect(f, B), A " 1 1 -1 0");
    assert_string_equal(inspect(f, ""), A " 1 1 -1 0");
    assert_int_equal(probe_int(f->probe, "SET orders %s", ""), 0);
    assert_string_equal(inspect(f, ""), " 1 1 -1 0");
    assert_int_equal(force(f, ""), 1);
}

static void a_key_of_another_type_is_refused_or_a_loss_and_left_alone(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(probe_int(f->probe, "HSET orders " A " 1"), 1);
    assert_int_equal(probe_int(f->probe, "PEXPIRE orders 60000"), 1);
    assert_int_equal(take(f, A, "1"), PROBE_REFUSED);
    assert_in_range(take(f, A, "2"), 1, 60000);
    assert_int_equal(give(f, A, "1"), -1);
    assert_int_equal(give(f, A, "0"), -1);
    assert_int_equal(renew(f, "120000", A), -1);
    assert_int_equal(force(f, A), PROBE_REFUSED);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_in_range(probe_pttl(f->probe, "orders"), 1, 60000);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

/* A missing right leaves no hold without a lease. */
static void a_user_without_a_right_leaves_no_lock_behind(void **state)
{
    static const char *const denied[] = {"-get", "-set"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
        struct probe *user = script_user(f->probe, f->server->socket, denied[i]);

        assert_int_equal(
            script_int(user, relock_script_plain_lock.body, "orders", SCRIPT_ARGS("30000", A, "1")),
            PROBE_REFUSED);
        assert_int_equal(probe_n_keys(f->probe), 0);
        probe_close(user);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_first_level_is_a_string_with_a_lease),
        SERVER_TEST(a_refusal_contains_the_remaining_lease),
        SERVER_TEST(a_repeat_and_a_level_find_their_token),
        SERVER_TEST(a_level_whose_hold_is_gone_is_refused_and_creates_nothing),
        SERVER_TEST(no_script_shortens_a_lease_and_all_that_take_one_lengthen_it),
        SERVER_TEST(each_script_reports_the_state_of_the_hold),
        SERVER_TEST(a_released_level_leaves_the_string),
        SERVER_TEST(their_scripts_and_ours_understand_each_other),
        SERVER_TEST(a_release_is_published_where_there_is_a_channel),
        SERVER_TEST(without_a_channel_nothing_is_published),
        SERVER_TEST(without_the_right_to_publish_the_lock_is_freed),
        SERVER_TEST(the_query_returns_the_holder_and_one_level),
        SERVER_TEST(a_key_of_another_type_is_refused_or_a_loss_and_left_alone),
        SERVER_TEST(a_user_without_a_right_leaves_no_lock_behind),
    };

    return SERVER_TESTS_RUN(tests);
}
