/* Unique numbers and names. */
#include "base/ident.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_UUIDS 2000

/* x is any digit, 4 the version, y the variant. */
static const char form[] = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx";

static bool fits(char c, char in_form)
{
    switch (in_form) {
    case 'x':
        return strchr("0123456789abcdef", c) != NULL;
    case 'y':
        return strchr("89ab", c) != NULL;
    default:
        return c == in_form;
    }
}

static void a_uuid_has_the_form_of_a_random_one(void **state)
{
    char uuid[RELOCK_UUID_LEN + 2];

    (void)state;

    for (int i = 0; i < N_UUIDS; i++) {
        memset(uuid, '!', sizeof(uuid));
        assert_true(relock_ident_uuid(uuid));
        assert_int_equal(strlen(uuid), RELOCK_UUID_LEN);
        assert_int_equal(uuid[RELOCK_UUID_LEN + 1], '!');
        for (int at = 0; at < RELOCK_UUID_LEN; at++)
            assert_true(fits(uuid[at], form[at]));
    }
}

static int compare(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void no_two_uuids_are_the_same(void **state)
{
    static char uuids[N_UUIDS][RELOCK_UUID_LEN + 1];

    (void)state;

    for (int i = 0; i < N_UUIDS; i++)
        assert_true(relock_ident_uuid(uuids[i]));
    qsort(uuids, N_UUIDS, sizeof(uuids[0]), compare);
    for (int i = 1; i < N_UUIDS; i++)
        assert_string_not_equal(uuids[i - 1], uuids[i]);
}

static void every_digit_of_a_uuid_is_random(void **state)
{
    bool seen[RELOCK_UUID_LEN][256] = {{false}};
    char uuid[RELOCK_UUID_LEN + 1];

    (void)state;

    for (int i = 0; i < N_UUIDS; i++) {
        assert_true(relock_ident_uuid(uuid));
        for (int at = 0; at < RELOCK_UUID_LEN; at++)
            seen[at][(unsigned char)uuid[at]] = true;
    }
    for (int at = 0; at < RELOCK_UUID_LEN; at++) {
        int n = 0;

        for (int c = 0; c < 256; c++)
            n += seen[at][c];
        assert_int_equal(n, form[at] == 'x' ? 16 : form[at] == 'y' ? 4 : 1);
    }
}

static void jitter_takes_every_value_below_its_bound(void **state)
{
    bool seen[8] = {false};

    (void)state;

    for (int i = 0; i < N_UUIDS; i++) {
        uint32_t n = relock_ident_jitter(8);

        assert_true(n < 8);
        seen[n] = true;
    }
    for (int n = 0; n < 8; n++)
        assert_true(seen[n]);
}

static void jitter_below_one_is_zero(void **state)
{
    (void)state;

    for (int i = 0; i < 100; i++) {
        assert_int_equal(relock_ident_jitter(0), 0);
        assert_int_equal(relock_ident_jitter(1), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_uuid_has_the_form_of_a_random_one),
        cmocka_unit_test(no_two_uuids_are_the_same),
        cmocka_unit_test(every_digit_of_a_uuid_is_random),
        cmocka_unit_test(jitter_takes_every_value_below_its_bound),
        cmocka_unit_test(jitter_below_one_is_zero),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
