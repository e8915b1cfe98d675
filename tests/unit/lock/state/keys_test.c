/* The keys, fields and channels of a lock in Redis. */
#include "lock/state/keys.h"

#include "redis/deployment/slot_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))
#define ID "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10"
#define LAST_SERIAL (RELOCK_SERIALS_CACHED - 2) /* before the list repeats */

static void a_name_has_one_to_4096_bytes(void **state)
{
    char name[RELOCK_NAME_MAX + 2];
    size_t len;

    (void)state;

    memset(name, 'x', sizeof(name));
    name[RELOCK_NAME_MAX + 1] = '\0';
    assert_false(relock_keys_name(name, &len));
    name[RELOCK_NAME_MAX] = '\0';
    assert_true(relock_keys_name(name, &len));
    assert_int_equal(len, 4096);
    assert_true(relock_keys_name("x", &len));
    assert_int_equal(len, 1);
    assert_true(relock_keys_name(" \n\xff", &len));
    assert_int_equal(len, 3);
    assert_false(relock_keys_name("", &len));
    assert_false(relock_keys_name(NULL, &len));
}

static void names_with_half_a_tag_share_no_slot(void **state)
{
    static const char *const good[] = {"x", "{x}", "a{x}b", "{x}{", "{x}}", "a{{}b", "{x}{}"};
    static const char *const bad[] = {"{", "}", "x{", "x}", "{}", "{}{x}", "}{", "}x{", "a}{x"};

    (void)state;
    for (size_t i = 0; i < COUNT(good); i++)
        assert_true(relock_keys_share_slot(RELOCK_CHANNEL_LOCK, good[i], strlen(good[i])));
    for (size_t i = 0; i < COUNT(bad); i++)
        assert_false(relock_keys_share_slot(RELOCK_CHANNEL_LOCK, bad[i], strlen(bad[i])));
}

static void assert_rule(const char *prefix, const char *name, size_t len)
{
    char channel[RELOCK_CHANNEL_MAX];
    struct relock_text key = {name, len};
    struct relock_text other = {channel, relock_keys_channel(channel, prefix, name, len)};

    assert_int_equal(relock_keys_share_slot(prefix, name, len),
                     relock_slot_of(key) == relock_slot_of(other));
}

/* The rule, by the slots themselves: names of three letters. */
static void the_key_and_the_channel_of_a_name_share_a_slot(void **state)
{
    static const char letters[] = "x{}";

    (void)state;
    for (unsigned i = 0; i < 27; i++) {
        char name[] = {letters[i % 3], letters[i / 3 % 3], letters[i / 9], '\0'};

        assert_rule(RELOCK_CHANNEL_LOCK, name, 3);
        assert_rule(RELOCK_CHANNEL_LATCH, name, 3);
    }
}

static void the_channel_of_a_latch_has_its_name_in_further_braces(void **state)
{
    static const char begin[] = "redisson_countdownlatch__channel__";
    char channel[RELOCK_CHANNEL_MAX];

    (void)state;
    assert_int_equal(relock_keys_channel(channel, RELOCK_CHANNEL_LATCH, "start", 5),
                     strlen(begin) + 7);
    assert_string_equal(channel, "redisson_countdownlatch__channel__{start}");
    (void)relock_keys_channel(channel, RELOCK_CHANNEL_LATCH, "{a}b", 4);
    assert_string_equal(channel, "redisson_countdownlatch__channel__{{a}b}");
}

/* Of the names that a cluster admits. */
static void the_inbox_for_a_lock_has_the_slot_of_the_lock(void **state)
{
    static const char *const names[] = {"orders", "{shop}:orders", "a{b}c{d}", "{a{b}", "a:{b c}"};
    static const char id[] = "5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b6a";
    char inbox[RELOCK_CHANNEL_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        struct relock_text key = {names[i], strlen(names[i])};
        struct relock_text other = {inbox,
                                    relock_keys_slot_inbox(inbox, id, names[i], strlen(names[i]))};

        assert_true(relock_keys_share_slot(RELOCK_CHANNEL_LOCK, names[i], strlen(names[i])));
        assert_int_equal(other.len, strlen(inbox));
        assert_int_equal(relock_slot_of(other), relock_slot_of(key));
    }
    assert_string_equal(inbox, "relock_client:{b c}:5b0c7a4e-1d2f-4c6b-9a8e-3f1e2d4c5b6a");
}

static void an_unterminated_name_is_read_only_to_the_limit(void **state)
{
    /* AddressSanitizer and valgrind detect a byte written beyond the end. */
    char *name = malloc(RELOCK_NAME_MAX + 1);
    size_t len;

    (void)state;

    assert_non_null(name);
    memset(name, 'x', RELOCK_NAME_MAX + 1);
    assert_false(relock_keys_name(name, &len));
    free(name);
}

static void a_field_is_the_client_and_the_number_of_the_hold(void **state)
{
    char field[RELOCK_FIELD_MAX];

    (void)state;

    assert_int_equal(relock_keys_field(field, ID, 7000000012, ""), 36 + 1 + 10);
    assert_string_equal(field, ID ":7000000012");
    assert_int_equal(relock_keys_field(field, ID, UINT64_MAX, ""), 36 + 1 + 20);
    assert_string_equal(field, ID ":18446744073709551615");
}

static void a_channel_has_the_name_in_braces_unless_it_has_some_itself(void **state)
{
    static const struct {
        const char *name, *channel;
    } cases[] = {
        {"orders:42", "redisson_lock__channel:{orders:42}"},
        {"{orders}:42", "redisson_lock__channel:{orders}:42"},
        {"orders{42", "redisson_lock__channel:orders{42"},
        {"orders}42", "redisson_lock__channel:{orders}42}"},
        {"{", "redisson_lock__channel:{"},
        {"%s %d", "redisson_lock__channel:{%s %d}"},
        {"\xc3\xa9\n", "redisson_lock__channel:{\xc3\xa9\n}"},
    };

    (void)state;

    for (size_t i = 0; i < COUNT(cases); i++) {
        char channel[RELOCK_CHANNEL_MAX];
        size_t len =
            relock_keys_channel(channel, RELOCK_CHANNEL_LOCK, cases[i].name, strlen(cases[i].name));

        assert_string_equal(channel, cases[i].channel);
        assert_int_equal(len, strlen(cases[i].channel));
    }
}

static void twin_names_share_a_channel(void **state)
{
    static const struct {
        const char *name, *twin;
    } cases[] = {
        {"orders", "{orders}"},
        {"{orders}", "orders"},
        {"orders}42", "{orders}42}"},
        {"{orders}42}", "orders}42"},
        {"}", "{}}"},
        {"{}}", "}"},
        {"{orders}:42", ""},
        {"shop:{orders}", ""},
        {"{a}{b}", ""},
        {"{{a}}", ""},
        {"{", ""},
        {"{}", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char twin[RELOCK_TWIN_MAX], channels[2][RELOCK_CHANNEL_MAX];
        size_t len = relock_keys_twin(twin, cases[i].name, strlen(cases[i].name));

        assert_int_equal(len, strlen(cases[i].twin));
        assert_memory_equal(twin, cases[i].twin, len);
        if (len == 0)
            continue;
        (void)relock_keys_channel(channels[0], RELOCK_CHANNEL_LOCK, cases[i].name,
                                  strlen(cases[i].name));
        (void)relock_keys_channel(channels[1], RELOCK_CHANNEL_LOCK, twin, len);
        assert_string_equal(channels[0], channels[1]);
    }
}

static void the_channel_of_the_longest_name_is_complete(void **state)
{
    char name[RELOCK_NAME_MAX + 1];
    char *channel = malloc(RELOCK_CHANNEL_MAX);
    const size_t before = strlen("redisson_lock__channel:{");

    (void)state;

    assert_non_null(channel);
    memset(name, 'x', sizeof(name));
    assert_int_equal(relock_keys_channel(channel, RELOCK_CHANNEL_LOCK, name, RELOCK_NAME_MAX),
                     before + RELOCK_NAME_MAX + 1);
    assert_int_equal(strlen(channel), before + RELOCK_NAME_MAX + 1);
    assert_int_equal(channel[before + RELOCK_NAME_MAX], '}');
    free(channel);
}

/* ---- numbers ------------------------------------------------------------------------------- */

static void a_number_shows_its_owner_and_its_serial(void **state)
{
    (void)state;

    assert_int_equal(relock_keys_number(7, 11, false), 7000000012);
    assert_int_equal(relock_keys_number(1, 0, false), 1000000001);
    assert_int_equal(relock_keys_number(RELOCK_SERIALS, 0, false),
                     RELOCK_SERIALS * RELOCK_SERIALS + 1);
}

/* The scripts look at the ninth digit from the end. */
static void a_number_shows_whether_its_hold_may_be_cached(void **state)
{
    (void)state;

    assert_int_equal(relock_keys_number(7, 0, true), 7500000000);
    assert_int_equal(relock_keys_number(7, LAST_SERIAL, true), 7999999998);
    assert_int_equal(relock_keys_number(7, LAST_SERIAL + 1, true), 7500000000);
    assert_int_equal(relock_keys_number(7, LAST_SERIAL, false), 7499999999);
}

static void serials_restart_before_they_reach_the_owner(void **state)
{
    (void)state;

    assert_int_equal(relock_keys_number(7, LAST_SERIAL, false), 7499999999);
    assert_int_equal(relock_keys_number(7, LAST_SERIAL + 1, false), 7000000001);
    assert_int_equal(relock_keys_number(7, LAST_SERIAL + 2, false), 7000000002);
}

static void each_number_is_one_that_redisson_can_read(void **state)
{
    static const uint64_t owners[] = {
        0,
        1,
        RELOCK_SERIALS - 1,
        RELOCK_SERIALS,
        RELOCK_OWNERS - 1,
        RELOCK_OWNERS,
        RELOCK_OWNERS + 1,
        (uint64_t)INT64_MAX,
        UINT64_MAX,
    };
    static const uint64_t serials[] = {0, 1, LAST_SERIAL, LAST_SERIAL + 1, UINT64_MAX};

    (void)state;

    for (size_t i = 0; i < COUNT(owners); i++)
        for (size_t at = 0; at < COUNT(serials); at++) {
            uint64_t number = relock_keys_number(owners[i], serials[at], at % 2);

            assert_true(number > 0);
            assert_true(number < (uint64_t)INT64_MAX);
            assert_true(number / RELOCK_SERIALS == owners[i] % RELOCK_OWNERS);
            assert_true(number % RELOCK_SERIALS != 0);
            assert_true(relock_keys_serial(number) == serials[at] % (RELOCK_SERIALS_CACHED - 1));
        }
}

static void holds_of_different_serials_have_different_numbers(void **state)
{
    static const uint64_t owners[] = {1, 2, RELOCK_SERIALS, RELOCK_OWNERS + 1, UINT64_MAX};
    uint64_t numbers[COUNT(owners)];

    (void)state;

    for (uint64_t first = 0; first < 3 * RELOCK_SERIALS; first += RELOCK_SERIALS / 7)
        for (size_t i = 0; i < COUNT(owners); i++) {
            numbers[i] = relock_keys_number(owners[i], first + i, i % 2);
            for (size_t before = 0; before < i; before++)
                assert_true(numbers[before] != numbers[i]);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_name_has_one_to_4096_bytes),
        cmocka_unit_test(names_with_half_a_tag_share_no_slot),
        cmocka_unit_test(the_key_and_the_channel_of_a_name_share_a_slot),
        cmocka_unit_test(the_channel_of_a_latch_has_its_name_in_further_braces),
        cmocka_unit_test(the_inbox_for_a_lock_has_the_slot_of_the_lock),
        cmocka_unit_test(an_unterminated_name_is_read_only_to_the_limit),
        cmocka_unit_test(a_field_is_the_client_and_the_number_of_the_hold),
        cmocka_unit_test(a_channel_has_the_name_in_braces_unless_it_has_some_itself),
        cmocka_unit_test(twin_names_share_a_channel),
        cmocka_unit_test(the_channel_of_the_longest_name_is_complete),
        cmocka_unit_test(a_number_shows_its_owner_and_its_serial),
        cmocka_unit_test(a_number_shows_whether_its_hold_may_be_cached),
        cmocka_unit_test(serials_restart_before_they_reach_the_owner),
        cmocka_unit_test(each_number_is_one_that_redisson_can_read),
        cmocka_unit_test(holds_of_different_serials_have_different_numbers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
