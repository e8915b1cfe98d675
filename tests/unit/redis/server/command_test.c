/* Requests, byte for byte. */
#include "redis/server/command.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LARGE (1 << 20)

#define assert_holds(buffer, literal) check_holds((buffer), (literal), sizeof(literal) - 1)

static void check_holds(const struct relock_buffer *buffer, const char *bytes, size_t len)
{
    assert_false(buffer->failed);
    assert_int_equal(buffer->len, len);
    if (len > 0)
        assert_memory_equal(buffer->data, bytes, len);
}

static void a_command_is_an_array_of_its_arguments(void **state)
{
    struct relock_buffer buffer = {0};

    (void)state;

    relock_command_begin(&buffer, 2);
    relock_command_word(&buffer, "GET");
    relock_command_word(&buffer, "key");
    assert_holds(&buffer, "*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n");
    relock_buffer_deinit(&buffer);
}

static void commands_are_appended_in_order(void **state)
{
    struct relock_buffer buffer = {0};

    (void)state;

    relock_command_begin(&buffer, 1);
    relock_command_word(&buffer, "PING");
    relock_command_begin(&buffer, 1);
    relock_command_word(&buffer, "PING");
    assert_holds(&buffer, "*1\r\n$4\r\nPING\r\n*1\r\n$4\r\nPING\r\n");
    relock_buffer_deinit(&buffer);
}

static void an_empty_argument_counts(void **state)
{
    struct relock_buffer buffer = {0};

    (void)state;

    relock_command_begin(&buffer, 3);
    relock_command_word(&buffer, "");
    relock_command_arg(&buffer, NULL, 0);
    relock_command_arg(&buffer, "not this", 0);
    assert_holds(&buffer, "*3\r\n$0\r\n\r\n$0\r\n\r\n$0\r\n\r\n");
    relock_buffer_deinit(&buffer);
}

static void an_argument_may_contain_any_byte(void **state)
{
    struct relock_buffer buffer = {0};
    char all[256];

    (void)state;

    relock_command_begin(&buffer, 1);
    relock_command_arg(&buffer, "a\0b\r\n$3\r\n\xff", 10);
    assert_holds(&buffer, "*1\r\n$10\r\na\0b\r\n$3\r\n\xff\r\n");

    for (size_t i = 0; i < sizeof(all); i++)
        all[i] = (char)i;
    relock_buffer_clear(&buffer);
    relock_command_arg(&buffer, all, sizeof(all));
    assert_int_equal(buffer.len, strlen("$256\r\n") + sizeof(all) + 2);
    assert_memory_equal(buffer.data + strlen("$256\r\n"), all, sizeof(all));
    relock_buffer_deinit(&buffer);
}

static void numbers_are_decimal_texts(void **state)
{
    struct relock_buffer buffer = {0};

    (void)state;

    relock_command_begin(&buffer, 12);
    relock_command_number(&buffer, 0);
    relock_command_number(&buffer, 7000000012);
    relock_command_number(&buffer, UINT64_MAX);
    assert_holds(&buffer, "*12\r\n$1\r\n0\r\n$10\r\n7000000012\r\n$20\r\n18446744073709551615\r\n");
    relock_buffer_deinit(&buffer);
}

static void a_buffer_grows_with_its_content(void **state)
{
    struct relock_buffer buffer = {0};
    char *large = malloc(LARGE);

    (void)state;

    assert_non_null(large);
    memset(large, 'x', LARGE);
    for (size_t len = 1; len <= LARGE; len *= 2) {
        size_t before = buffer.len;

        relock_command_arg(&buffer, large, len);
        assert_true(buffer.len >= before + len + strlen("$1\r\n\r\n"));
        assert_true(buffer.size >= buffer.len);
        assert_memory_equal(buffer.data + buffer.len - len - 2, large, len);
        assert_memory_equal(buffer.data, "$1\r\nx\r\n", 7);
    }
    assert_false(buffer.failed);
    free(large);
    relock_buffer_deinit(&buffer);
    assert_null(buffer.data);
    assert_int_equal(buffer.size, 0);
}

static void a_buffer_has_room_for_all_that_is_in_it(void **state)
{
    static const char bytes[1500];

    (void)state;

    for (size_t len = 0; len <= sizeof(bytes); len++) {
        struct relock_buffer buffer = {0};

        relock_command_arg(&buffer, bytes, len);
        assert_true(buffer.len <= buffer.size);
        relock_command_begin(&buffer, len);
        assert_true(buffer.len <= buffer.size);
        relock_buffer_deinit(&buffer);
    }
}

static void a_small_buffer_keeps_its_memory_when_cleared(void **state)
{
    struct relock_buffer buffer = {0};
    const char *data;
    size_t size;

    (void)state;

    relock_command_word(&buffer, "PING");
    data = buffer.data;
    size = buffer.size;
    relock_buffer_clear(&buffer);
    assert_int_equal(buffer.len, 0);
    assert_ptr_equal(buffer.data, data);
    assert_int_equal(buffer.size, size);
    relock_command_word(&buffer, "PONG");
    assert_ptr_equal(buffer.data, data);
    assert_holds(&buffer, "$4\r\nPONG\r\n");
    relock_buffer_deinit(&buffer);
}

static void a_large_buffer_frees_its_memory_when_cleared(void **state)
{
    struct relock_buffer buffer = {0};
    char *large = calloc(1, LARGE);

    (void)state;

    assert_non_null(large);
    relock_command_arg(&buffer, large, LARGE);
    relock_buffer_clear(&buffer);
    assert_int_equal(buffer.len, 0);
    assert_true(buffer.size < LARGE);
    relock_command_word(&buffer, "PING");
    assert_holds(&buffer, "$4\r\nPING\r\n");
    free(large);
    relock_buffer_deinit(&buffer);
}

static void after_a_failure_nothing_is_appended_until_it_is_cleared(void **state)
{
    struct relock_buffer buffer = {0};

    (void)state;

    relock_command_word(&buffer, "PING");
    buffer.failed = true;
    relock_command_begin(&buffer, 1);
    relock_command_word(&buffer, "PONG");
    relock_command_number(&buffer, 7);
    assert_true(buffer.failed);
    assert_int_equal(buffer.len, strlen("$4\r\nPING\r\n"));

    relock_buffer_clear(&buffer);
    relock_command_word(&buffer, "PONG");
    assert_holds(&buffer, "$4\r\nPONG\r\n");
    relock_buffer_deinit(&buffer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_command_is_an_array_of_its_arguments),
        cmocka_unit_test(commands_are_appended_in_order),
        cmocka_unit_test(an_empty_argument_counts),
        cmocka_unit_test(an_argument_may_contain_any_byte),
        cmocka_unit_test(numbers_are_decimal_texts),
        cmocka_unit_test(a_buffer_grows_with_its_content),
        cmocka_unit_test(a_buffer_has_room_for_all_that_is_in_it),
        cmocka_unit_test(a_small_buffer_keeps_its_memory_when_cleared),
        cmocka_unit_test(a_large_buffer_frees_its_memory_when_cleared),
        cmocka_unit_test(after_a_failure_nothing_is_appended_until_it_is_cleared),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
