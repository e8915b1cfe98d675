/* scripts/semaphore_*.lua by themselves: docs/wire.md#semaphores. */
#include "support/fixture.h"
#include "support/listener.h"
#include "support/scripts.h"

#include "redis/server/script.h"

#include <stdio.h>
#include <string.h>

#define OUT "{orders}:timeout"
#define LINE "relock_waiters:{orders}"
#define TURN "relock_waiters:turn:{orders}"

/* The ids of clients. */
#define FIRST "5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b61"
#define SECOND "5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b62"
#define THIRD "5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b63"

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

static const char *permits(struct fixture *f, const char *verb, int n)
{
    return probe_list(f->probe, "EVAL %s 1 orders %s %d channel",
                      relock_script_semaphore_permits.body, verb, n);
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

/* ---- permits that come back ---------------------------------------------------------------- */

static void one_has_expired(struct fixture *f)
{
    assert_int_equal(probe_int(f->probe, "ZADD " OUT " 1 expired"), 1);
}

/* Memory is full: a release is possible, though another permit comes back with it. */
static void permits_come_back_without_memory(void **state)
{
    struct fixture *f = *state;

    begin_with(f, N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    one_has_expired(f);
    assert_int_equal(probe_int(f->probe, "CONFIG SET maxmemory 1"), 0);
    assert_int_equal(release(f, TWO("a")), 1);
    assert_int_equal(probe_int(f->probe, "CONFIG SET maxmemory 0"), 0);
    end_with(f, N + 1);
}

static void permits_are_renewed_without_memory(void **state)
{
    struct fixture *f = *state;

    begin_with(f, N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_int_equal(probe_int(f->probe, "CONFIG SET maxmemory 1"), 0);
    assert_int_equal(renew(f, TWO("a"), "60000"), 1);
    assert_int_equal(probe_int(f->probe, "CONFIG SET maxmemory 0"), 0);
    assert_int_equal(release(f, TWO("a")), 1);
    end_with(f, N);
}

/* A user without one right adds no permits. */
static void a_permit_comes_back_once(void **state)
{
    struct fixture *f = *state;
    struct probe *user = script_user(f->probe, f->server->socket, "-zrem");

    begin_with(f, 0);
    one_has_expired(f);
    (void)script_int(user, relock_script_semaphore_lock.body, "orders",
                     SCRIPT_ARGS("30000", TWO("a"), "1", "", "-"));
    assert_free(f, 0, 1);
    probe_close(user);
    assert_int_equal(probe_int(f->probe, "DEL " OUT " orders"), 2);
}

/* The number alone was deleted, or expired: the permits that are out count. */
static void permits_that_are_out_count_when_the_number_is_set_first(void **state)
{
    struct fixture *f = *state;

    begin_with(f, N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_string_equal(permits(f, "init", 258), "1 257 1");
    assert_free(f, 1, N);
    assert_int_equal(release(f, TWO("a")), 1);
    end_with(f, N + 1);
}

/* Each message makes waiters ask. */
static void reading_publishes_only_what_came_back(void **state)
{
    struct fixture *f = *state;
    long long n = probe_calls(f->probe, "publish");

    begin_with(f, 1);
    assert_string_equal(permits(f, "read", 0), "1 0 0");
    assert_int_equal(probe_calls(f->probe, "publish"), n);
    one_has_expired(f);
    assert_string_equal(permits(f, "read", 0), "2 0 0");
    assert_int_equal(probe_calls(f->probe, "publish"), n + 1);
    end_with(f, 2);
}

/* ---- the search for deadlocks ---------------------------------------------------------------- */

/* It names the holds, with how many permits each has, and first how many permits there are in all.
 */
static void a_search_counts_no_permit_that_has_expired(void **state)
{
    struct fixture *f = *state;

    begin_with(f, 5);
    assert_int_equal(probe_int(f->probe, "ZADD " OUT " 1 abcdefghijklmn12 "
                                         "92233720368547 abcdefghijklmn34 "
                                         "92233720368547 abcdefghijklmn56 "
                                         "92233720368547 another"),
                     4);
    assert_string_equal(script_list(f->probe, relock_script_waits_behind.body, "orders",
                                    SCRIPT_ARGS("", "permits", "256", "")),
                        "9 6162636465666768696a6b6c6d6e:2");
    assert_int_equal(probe_int(f->probe, "DEL orders"), 1);
    assert_string_equal(script_list(f->probe, relock_script_waits_behind.body, "orders",
                                    SCRIPT_ARGS("", "permits", "256", "")),
                        "0 6162636465666768696a6b6c6d6e:2");
    assert_int_equal(probe_int(f->probe, "DEL " OUT), 1);
}

/* ---- the line ------------------------------------------------------------------------------ */

static struct listener *client(struct fixture *f, const char *id)
{
    char inbox[64];

    (void)snprintf(inbox, sizeof(inbox), "relock_client:{%s}", id);
    return listener_open(f->server->socket, inbox);
}

static long long ask(struct fixture *f, const char *hold, const char *id)
{
    return script_int(f->probe, relock_script_semaphore_lock.body, "orders",
                      SCRIPT_ARGS("30000", hold, "1", "", id));
}

static const char *ask_in_line(struct fixture *f, const char *hold, const char *id)
{
    return script_list(f->probe, relock_script_semaphore_lock.body, "orders",
                       SCRIPT_ARGS("30000", hold, "1", "", id));
}

static void end_line(struct fixture *f, int n)
{
    (void)probe_int(f->probe, "DEL " LINE " " TURN);
    end_with(f, n);
}

/* The one that was told may be silent: somebody has to know that it is first behind it. */
static void the_one_behind_the_told_is_told_when_another_leaves(void **state)
{
    struct fixture *f = *state;
    struct listener *first = client(f, FIRST), *second = client(f, SECOND),
                    *third = client(f, THIRD);

    begin_with(f, N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    (void)ask_in_line(f, TWO("b"), FIRST);
    (void)ask_in_line(f, TWO("c"), SECOND);
    (void)ask_in_line(f, TWO("d"), THIRD);
    assert_int_equal(release(f, TWO("a")), 1);
    assert_true(listener_hears(first, "now orders", SOON_MS));
    assert_true(listener_hears(second, "first orders", SOON_MS));
    assert_int_equal(probe_int(f->probe, "EVAL %s 1 orders " SECOND, relock_script_line_leave.body),
                     1);
    assert_true(listener_hears(third, "first orders", SOON_MS));
    listener_close(first);
    listener_close(second);
    listener_close(third);
    end_line(f, N);
}

/* The next one hears of Redisson's releases, and of leases that end. */
static void one_that_is_gone_is_not_first(void **state)
{
    struct fixture *f = *state;
    struct listener *third = client(f, THIRD);

    begin_with(f, N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    (void)ask_in_line(f, TWO("b"), FIRST);
    (void)ask_in_line(f, TWO("c"), SECOND);
    (void)ask_in_line(f, TWO("d"), THIRD);
    assert_int_equal(probe_int(f->probe, "DEL " OUT), 1);
    assert_int_equal(probe_int(f->probe, "INCRBY orders 257"), N);
    assert_int_equal(ask(f, TWO("b"), FIRST), -1);
    assert_true(listener_hears(third, "first orders", SOON_MS));
    assert_string_equal(probe_text(f->probe, "LINDEX " LINE " 0"), THIRD);
    listener_close(third);
    assert_int_equal(release(f, TWO("b")), 1);
    end_line(f, N);
}

/* It asks again, after a while: the first one may have died meanwhile. */
static void one_that_asks_again_finds_who_is_gone(void **state)
{
    struct fixture *f = *state;
    struct listener *first = client(f, FIRST), *second = client(f, SECOND);
    int at = 0, place = 0;

    begin_with(f, N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    (void)ask_in_line(f, TWO("b"), FIRST);
    (void)ask_in_line(f, TWO("c"), SECOND);
    assert_int_equal(sscanf(ask_in_line(f, TWO("c"), SECOND), "%d %d", &at, &place), 2);
    assert_int_equal(place, 2);
    listener_close(first);
    assert_true(probe_wait_subscribers(f->probe, "relock_client:{" FIRST "}", 0));
    assert_int_equal(sscanf(ask_in_line(f, TWO("c"), SECOND), "%d %d", &at, &place), 2);
    assert_int_equal(place, 1);
    listener_close(second);
    assert_int_equal(release(f, TWO("a")), 1);
    end_line(f, N);
}

/* The first one lost its inbox, and a try took it out of the line. The one that is before it now
 * may be silent. */
static void one_that_joins_again_is_told_that_it_is_first(void **state)
{
    static const char large[] = "bbbbbbbbbbbbbb\2\1";
    struct fixture *f = *state;
    struct listener *first = client(f, FIRST), *second = client(f, SECOND);

    begin_with(f, 2 * N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    (void)ask_in_line(f, large, FIRST);
    (void)ask_in_line(f, TWO("c"), SECOND);
    listener_close(first);
    assert_true(probe_wait_subscribers(f->probe, "relock_client:{" FIRST "}", 0));
    assert_true(acquire(f, TWO("d")) > 15000);
    assert_true(listener_hears(second, "first orders", SOON_MS));
    first = client(f, FIRST);
    (void)ask_in_line(f, large, FIRST);
    assert_true(listener_hears(second, "now orders", SOON_MS));
    assert_true(listener_hears(first, "first orders", SOON_MS));
    listener_close(first);
    listener_close(second);
    assert_int_equal(release(f, TWO("a")), 1);
    end_line(f, 2 * N);
}

/* A try that finds too few permits has given some back. */
static void a_try_tells_the_line_what_came_back(void **state)
{
    struct fixture *f = *state;
    struct listener *first = client(f, FIRST);

    begin_with(f, 3 * N);
    assert_int_equal(acquire(f, TWO("a")), -1);
    assert_int_equal(acquire(f, TWO("b")), -1);
    assert_int_equal(probe_int(f->probe, "DECRBY orders 257"), 0);
    (void)ask_in_line(f, TWO("c"), FIRST);
    assert_int_equal(probe_int(f->probe, "INCRBY orders 256"), N - 1);
    one_has_expired(f);
    assert_true(script_int(f->probe, relock_script_semaphore_lock.body, "orders",
                           SCRIPT_ARGS("30000", "dddddddddddddd\2\1", "1", "", "-")) > 15000);
    assert_true(listener_hears(first, "now orders", SOON_MS));
    listener_close(first);
    assert_int_equal(release(f, TWO("a")), 1);
    assert_int_equal(release(f, TWO("b")), 1);
    end_line(f, 3 * N);
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
        SERVER_TEST(permits_come_back_without_memory),
        SERVER_TEST(permits_are_renewed_without_memory),
        SERVER_TEST(a_permit_comes_back_once),
        SERVER_TEST(permits_that_are_out_count_when_the_number_is_set_first),
        SERVER_TEST(reading_publishes_only_what_came_back),
        SERVER_TEST(a_search_counts_no_permit_that_has_expired),
        SERVER_TEST(the_one_behind_the_told_is_told_when_another_leaves),
        SERVER_TEST(one_that_is_gone_is_not_first),
        SERVER_TEST(one_that_asks_again_finds_who_is_gone),
        SERVER_TEST(one_that_joins_again_is_told_that_it_is_first),
        SERVER_TEST(a_try_tells_the_line_what_came_back),
    };

    return SERVER_TESTS_RUN(tests);
}
