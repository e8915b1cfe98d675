/* scripts/semaphore_*.lua by themselves: docs/wire.md#semaphores. */
#include "support/fixture.h"
#include "support/scripts.h"

#include "redis/server/script.h"

#include <stdio.h>
#include <string.h>

#define OUT "{orders}:timeout"

/* What the ids of a hold begin with, and two permits. A text: no byte is 0. */
#define TWO(hold) hold hold hold hold hold hold hold hold hold hold hold hold hold hold "\1\1"

/* The number of permits in the arguments: 257, as no argument of these functions has a byte 0. */
#define N 257

static long long acquire(struct fixture *f, const char *hold)
{
    return script_int(f->probe, relock_script_semaphore_lock.body, "orders",
                      SCRIPT_ARGS("30000", hold, "1", "", "-"));
}

static long long release(struct fixture *f, const char *hold)
{
    return script_int(f->probe, relock_script_semaphore_unlock.body, "orders",
                      SCRIPT_ARGS(hold, "0", "channel", "1"));
}

static long long renew(struct fixture *f, const char *hold, const char *lease)
{
    return script_int(f->probe, relock_script_semaphore_renew.body, "orders",
                      SCRIPT_ARGS(lease, hold));
}

static void assert_free(struct fixture *f, long long n_free, long long n_out)
{
    assert_int_equal(probe_int(f->probe, "GET orders"), n_free);
    assert_int_equal(probe_int(f->probe, "ZCARD " OUT), n_out);
}

static void begin_with(struct fixture *f, int n)
{
    assert_int_equal(probe_int(f->probe, "SET orders %d", n), 0);
}

static void end_with(struct fixture *f, int n)
{
    assert_free(f, n, 0);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
}

static void a_repeat_takes_and_gives_nothing_more(void **state)
{
    struct fixture *f = *state;

    begin_with(f, 2 * N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_free(f, N, N);
    assert_int_equal(acquire(f, TWO("b")), -1);
    assert_free(f, 0, 2 * N);
    assert_int_equal(release(f, TWO("a")), 1);
    assert_int_equal(release(f, TWO("a")), 0);
    assert_free(f, N, N);
    assert_int_equal(release(f, TWO("b")), 1);
    end_with(f, 2 * N);
}

/* A part has expired and came back: the repeat takes that part only. */
static void a_repeat_takes_what_is_missing(void **state)
{
    struct fixture *f = *state;
    char first[16];

    memset(first, 'a', 14);
    memset(first + 14, 0, 2);
    begin_with(f, N + 1);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_int_equal(probe_int(f->probe, "ZADD " OUT " XX 1 %b", first, sizeof(first)), 0);
    assert_int_equal(renew(f, TWO("a"), "30000"), 0);
    assert_true(acquire(f, TWO("b")) > 15000); /* which gives the expired one back */
    assert_free(f, 2, N - 1);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_free(f, 1, N);
    assert_int_equal(release(f, TWO("a")), 1);
    end_with(f, N + 1);
}

static void renewing_shortens_nothing(void **state)
{
    struct fixture *f = *state;
    char before[32];

    begin_with(f, N);
    assert_int_equal(renew(f, TWO("a"), "30000"), 0);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_int_equal(renew(f, TWO("a"), "60000"), 1);
    (void)snprintf(before, sizeof(before), "%s",
                   strrchr(probe_list(f->probe, "ZRANGE " OUT " 0 0 WITHSCORES"), ' '));
    assert_int_equal(renew(f, TWO("a"), "1000"), 1);
    assert_int_equal(renew(f, TWO("a"), "-1"), 1);
    assert_string_equal(strrchr(probe_list(f->probe, "ZRANGE " OUT " 0 0 WITHSCORES"), ' '),
                        before);
    assert_int_equal(release(f, TWO("a")), 1);
    end_with(f, N);
}

/* Permits that never expire are Redisson's. */
static void the_first_end_of_a_lease_is_told(void **state)
{
    struct fixture *f = *state;

    begin_with(f, N);
    assert_int_equal(probe_int(f->probe, "ZADD " OUT " 922337203685477 forever"), 1);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_true(acquire(f, TWO("b")) > 15000);
    assert_int_equal(release(f, TWO("a")), 1);
    assert_int_equal(probe_int(f->probe, "DECRBY orders 1"), N - 1);
    assert_string_equal(
        script_list(f->probe, relock_script_semaphore_inspect.body, "orders", SCRIPT_ARGS("")),
        "666f7265766572 1 1 -1 0");
    assert_int_equal(probe_int(f->probe, "ZREM " OUT " forever"), 1);
    assert_int_equal(probe_int(f->probe, "INCRBY orders 1"), N);
    end_with(f, N);
}

static void refusals_have_their_texts(void **state)
{
    struct fixture *f = *state;

    assert_string_equal(script_text(f->probe, relock_script_semaphore_lock.body, "orders",
                                    SCRIPT_ARGS("30000", TWO("a"), "1", "", "-")),
                        "unset");
    begin_with(f, N - 1);
    assert_string_equal(script_text(f->probe, relock_script_semaphore_lock.body, "orders",
                                    SCRIPT_ARGS("30000", TWO("a"), "1", "", "-")),
                        "too many");
    end_with(f, N - 1);
}

/* A user without one right takes no permit for ever. */
static void a_script_that_fails_half_way_takes_nothing(void **state)
{
    struct fixture *f = *state;
    static const char *const denied[] = {"-zadd", "-decrby"};

    begin_with(f, N);
    for (size_t i = 0; i < 2; i++) {
        struct probe *user = script_user(f->probe, f->server->socket, denied[i]);

        (void)script_int(user, relock_script_semaphore_lock.body, "orders",
                         SCRIPT_ARGS("30000", TWO("a"), "1", "", "-"));
        assert_free(f, N, 0);
        probe_close(user);
    }
    end_with(f, N);
}

/* The time to live that Redisson's trySetPermits(n, ttl) gives. */
static void the_set_lives_as_long_as_the_number(void **state)
{
    struct fixture *f = *state;

    assert_int_equal(probe_int(f->probe, "SET orders %d PX 60000", N), 0);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_true(probe_pttl(f->probe, OUT) > 30000);
    assert_true(probe_pttl(f->probe, "orders") > 30000);
    assert_int_equal(release(f, TWO("a")), 1);
    assert_true(probe_pttl(f->probe, "orders") > 30000);
    end_with(f, N);
}

/* The semaphore was deleted: nobody makes it anew. */
static void a_release_makes_no_semaphore(void **state)
{
    struct fixture *f = *state;

    begin_with(f, N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_int_equal(release(f, TWO("a")), 1);
    assert_int_equal(probe_n_keys(f->probe), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_repeat_takes_and_gives_nothing_more),
        SERVER_TEST(a_repeat_takes_what_is_missing),
        SERVER_TEST(renewing_shortens_nothing),
        SERVER_TEST(the_first_end_of_a_lease_is_told),
        SERVER_TEST(refusals_have_their_texts),
        SERVER_TEST(a_script_that_fails_half_way_takes_nothing),
        SERVER_TEST(the_set_lives_as_long_as_the_number),
        SERVER_TEST(a_release_makes_no_semaphore),
    };

    return SERVER_TESTS_RUN(tests);
}
