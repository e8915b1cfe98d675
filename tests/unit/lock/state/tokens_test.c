/* The values in Redis for holds of plain locks. */
#include "lock/state/keys.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LEN 40
#define N 2000

/* From the published test vectors of the cipher. */
static void a_token_is_the_clients_bytes_and_the_number_enciphered(void **state)
{
    static const struct relock_tokens tokens = {
        .client = {0, 1, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xf0, 0x7f, 0xff},
        .key = {0x00010203, 0x04050607, 0x08090a0b, 0x0c0d0e0f},
    };
    char token[RELOCK_FIELD_MAX];

    (void)state;

    memset(token, '!', sizeof(token));
    assert_int_equal(relock_tokens_write(&tokens, 0x4142434445464748, token), LEN);
    assert_string_equal(token, "000123456789abcdeff07fff497df3d072612cb5");
    assert_int_equal(relock_tokens_write(&tokens, 0x4141414141414141, token), LEN);
    assert_string_equal(token, "000123456789abcdeff07fffe78f2d13744341d8");
}

static void the_same_number_has_the_same_token(void **state)
{
    struct relock_tokens tokens;
    char one[RELOCK_FIELD_MAX], two[RELOCK_FIELD_MAX];

    (void)state;

    relock_tokens_init(&tokens);
    for (uint64_t number = 1; number < N; number++) {
        relock_tokens_write(&tokens, number, one);
        relock_tokens_write(&tokens, number, two);
        assert_string_equal(one, two);
    }
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, LEN);
}

static void no_two_tokens_are_the_same(void **state)
{
    static char all[2 * N][LEN + 1];
    struct relock_tokens tokens[2];
    char token[RELOCK_FIELD_MAX];

    (void)state;

    relock_tokens_init(&tokens[0]);
    relock_tokens_init(&tokens[1]);
    for (size_t i = 0; i < 2 * N; i++) {
        relock_tokens_write(&tokens[i % 2], relock_keys_number(i % 8, i / 2, false), token);
        assert_int_equal(strspn(token, "0123456789abcdef"), LEN);
        memcpy(all[i], token, sizeof(all[i]));
    }
    qsort(all, 2 * N, sizeof(all[0]), compare);
    for (size_t i = 1; i < 2 * N; i++)
        assert_string_not_equal(all[i - 1], all[i]);
}

/* One hold's token must not reveal the next one's. */
static void numbers_that_follow_each_other_have_tokens_that_do_not(void **state)
{
    struct relock_tokens tokens;
    char one[RELOCK_FIELD_MAX], two[RELOCK_FIELD_MAX];
    int n_same = 0;

    (void)state;

    relock_tokens_init(&tokens);
    relock_tokens_write(&tokens, 0, one);
    for (uint64_t number = 1; number <= N; number++) {
        relock_tokens_write(&tokens, number, two);
        for (int at = 24; at < LEN; at++)
            n_same += one[at] == two[at];
        memcpy(one, two, sizeof(one));
    }
    /* A digit in 16 is the same by chance: 2000 of 32000, and 43 is the standard deviation. */
    assert_in_range(n_same, 2000 - 10 * 43, 2000 + 10 * 43);
}

static void each_client_has_a_key_and_bytes_of_its_own(void **state)
{
    static struct relock_tokens all[100];

    (void)state;

    for (size_t i = 0; i < 100; i++) {
        relock_tokens_init(&all[i]);
        for (size_t before = 0; before < i; before++) {
            assert_memory_not_equal(all[i].client, all[before].client, sizeof(all[i].client));
            assert_memory_not_equal(all[i].key, all[before].key, sizeof(all[i].key));
        }
    }
}

/* As scripts/look.lua computes it, digit by digit. */
static void the_last_bytes_of_a_client_follow_from_the_others(void **state)
{
    (void)state;

    for (int i = 0; i < 100; i++) {
        struct relock_tokens tokens;
        uint32_t mark = 0x72656c6b, last = 0;

        relock_tokens_init(&tokens);
        for (int at = 0; at < 8; at++)
            mark = (mark << 5 | mark >> 27) ^ tokens.client[at];
        for (int at = 8; at < 12; at++)
            last = last << 8 | tokens.client[at];
        assert_int_equal(last, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_the_clients_bytes_and_the_number_enciphered),
        cmocka_unit_test(the_same_number_has_the_same_token),
        cmocka_unit_test(no_two_tokens_are_the_same),
        cmocka_unit_test(numbers_that_follow_each_other_have_tokens_that_do_not),
        cmocka_unit_test(each_client_has_a_key_and_bytes_of_its_own),
        cmocka_unit_test(the_last_bytes_of_a_client_follow_from_the_others),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
