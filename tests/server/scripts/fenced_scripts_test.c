/* scripts/fenced_lock.lua: as lock.lua, with a token for each grant: docs/wire.md#fenced. */
#include "support/fixture.h"
#include "support/scripts.h"

#include "redis/server/script.h"

#include <stdlib.h>

#define COUNTER "redisson_lock_token:{orders}"
#define A "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:1"
#define B "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:2"

/* The token of the hold or, if refused, the remaining lease, which is far above any token. */
static long long draw(struct fixture *f, const char *owner, const char *count)
{
    return script_int(f->probe, relock_script_fenced_lock.body, "orders",
                      SCRIPT_ARGS("30000", owner, count));
}

static void free_lock(struct fixture *f, const char *owner)
{
    assert_int_equal(script_int(f->probe, relock_script_unlock.body, "orders",
                                SCRIPT_ARGS(owner, "0", "channel", "0")),
                     1);
}

static void forget_counter(struct fixture *f)
{
    assert_int_equal(probe_int(f->probe, "DEL " COUNTER), 1);
}

static void tokens_strictly_increase(void **state)
{
    struct fixture *f = *state;

    for (int token = 1; token <= 20; token++) {
        const char *owner = token % 2 ? A : B;

        assert_int_equal(draw(f, owner, "1"), token);
        free_lock(f, owner);
    }
    forget_counter(f);
}

static void a_repeat_gives_the_same_token(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(draw(f, A, "1"), 1);
    assert_int_equal(draw(f, A, "1"), 1);
    assert_int_equal(probe_only_value(f->probe, "orders"), 1);
    assert_int_equal(probe_int(f->probe, "GET " COUNTER), 1);
    free_lock(f, A);
    forget_counter(f);
}

static void a_deeper_level_gives_the_same_token(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(draw(f, A, "1"), 1);
    assert_int_equal(draw(f, A, "2"), 1);
    assert_int_equal(draw(f, A, "2"), 1);
    assert_int_equal(probe_only_value(f->probe, "orders"), 2);
    free_lock(f, A);
    forget_counter(f);
}

static void a_refused_attempt_draws_no_token(void **state)
{
    struct fixture *f = *state;
    long long rest_ms;

    assert_int_equal(draw(f, A, "1"), 1);
    rest_ms = draw(f, B, "1");
    assert_true(rest_ms > 15000 && rest_ms <= 30000);
    free_lock(f, A);
    assert_int_equal(draw(f, B, "1"), 2);
    free_lock(f, B);
    forget_counter(f);
}

static void a_deeper_level_of_a_hold_that_is_gone_is_refused(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(draw(f, A, "2"), -2);
    assert_int_equal(draw(f, B, "1"), 1);
    assert_true(draw(f, A, "2") > 15000);
    assert_string_equal(probe_only_field(f->probe, "orders"), B);
    free_lock(f, B);
    forget_counter(f);
}

static void a_grant_is_an_array_and_a_refusal_a_number(void **state)
{
    struct fixture *f = *state;
    const char *body = relock_script_fenced_lock.body;

    /* probe_text() does not read arrays. */
    assert_string_equal(script_text(f->probe, body, "orders", SCRIPT_ARGS("9000", A, "1")), "");
    assert_true(atoi(script_text(f->probe, body, "orders", SCRIPT_ARGS("9000", B, "1"))) > 0);
    free_lock(f, A);
    forget_counter(f);
}

static void a_lease_is_never_shortened(void **state)
{
    struct fixture *f = *state;
    const char *body = relock_script_fenced_lock.body;

    assert_int_equal(draw(f, A, "1"), 1);
    assert_int_equal(script_int(f->probe, body, "orders", SCRIPT_ARGS("10", A, "2")), 1);
    assert_true(probe_pttl(f->probe, "orders") > 15000);
    assert_int_equal(script_int(f->probe, body, "orders", SCRIPT_ARGS("90000", A, "2")), 1);
    assert_true(probe_pttl(f->probe, "orders") > 45000);
    free_lock(f, A);
    forget_counter(f);
}

static void the_counter_outlives_the_lock_and_never_expires(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(draw(f, A, "1"), 1);
    free_lock(f, A);
    assert_int_equal(probe_pttl(f->probe, COUNTER), -1);
    assert_int_equal(probe_int(f->probe, "GET " COUNTER), 1);
    forget_counter(f);
}

/* As Redisson's MultiLock does. */
static void a_lease_that_somebody_gave_the_counter_is_taken_off(void **state)
{
    static const struct {
        const char *owner, *count;
    } asked[] = {{A, "1"}, {A, "1"}, {A, "2"}, {B, "1"}};
    struct fixture *f = *state;

    assert_int_equal(probe_int(f->probe, "SET " COUNTER " 6"), 0);
    for (size_t i = 0; i < sizeof(asked) / sizeof(*asked); i++) {
        assert_int_equal(probe_int(f->probe, "PEXPIRE " COUNTER " 60000"), 1);
        assert_true(draw(f, asked[i].owner, asked[i].count) >= 7);
        assert_int_equal(probe_pttl(f->probe, COUNTER), -1);
    }
    free_lock(f, A);
    forget_counter(f);
}

static void a_name_with_a_brace_has_no_further_braces_in_its_counter(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(script_int(f->probe, relock_script_fenced_lock.body, "{shop}:orders",
                                SCRIPT_ARGS("30000", A, "1")),
                     1);
    assert_int_equal(probe_int(f->probe, "DEL {shop}:orders redisson_lock_token:{shop}:orders"), 2);
}

static void a_hold_whose_counter_was_removed_has_token_zero(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(draw(f, A, "1"), 1);
    forget_counter(f);
    assert_int_equal(draw(f, A, "2"), 0);
    free_lock(f, A);
}

/* A missing right leaves no hold without a lease or without a token. */
static void a_user_without_a_right_leaves_no_lock_behind(void **state)
{
    static const char *const denied[] = {"-pexpire", "-incr", "-persist", "-hset"};
    struct fixture *f = *state;

    for (size_t i = 0; i < sizeof(denied) / sizeof(*denied); i++) {
        struct probe *user = script_user(f->probe, f->server->socket, denied[i]);

        assert_int_equal(script_int(user, relock_script_fenced_lock.body, "orders",
                                    SCRIPT_ARGS("30000", A, "1")),
                         PROBE_REFUSED);
        assert_int_equal(probe_int(f->probe, "EXISTS orders"), 0);
        probe_close(user);
    }
    probe_int(f->probe, "DEL " COUNTER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(tokens_strictly_increase),
        SERVER_TEST(a_repeat_gives_the_same_token),
        SERVER_TEST(a_deeper_level_gives_the_same_token),
        SERVER_TEST(a_refused_attempt_draws_no_token),
        SERVER_TEST(a_deeper_level_of_a_hold_that_is_gone_is_refused),
        SERVER_TEST(a_grant_is_an_array_and_a_refusal_a_number),
        SERVER_TEST(a_lease_is_never_shortened),
        SERVER_TEST(the_counter_outlives_the_lock_and_never_expires),
        SERVER_TEST(a_lease_that_somebody_gave_the_counter_is_taken_off),
        SERVER_TEST(a_name_with_a_brace_has_no_further_braces_in_its_counter),
        SERVER_TEST(a_hold_whose_counter_was_removed_has_token_zero),
        SERVER_TEST(a_user_without_a_right_leaves_no_lock_behind),
    };

    return SERVER_TESTS_RUN(tests);
}
