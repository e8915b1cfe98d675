/* Numbers as text. */
#include "base/decimal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void is_written_as_printf_does(uint64_t number)
{
    char wanted[32], got[RELOCK_DECIMAL_MAX];

    snprintf(wanted, sizeof(wanted), "%llu", (unsigned long long)number);
    assert_int_equal(relock_decimal(got, number), strlen(wanted));
    assert_string_equal(got, wanted);
}

static void every_number_of_digits_is_written_as_it_is(void **state)
{
    uint64_t power = 1;

    (void)state;

    is_written_as_printf_does(0);
    for (int digits = 1; digits <= 20; digits++) {
        is_written_as_printf_does(power - 1);
        is_written_as_printf_does(power);
        is_written_as_printf_does(power + 7);
        power *= 10;
    }
    is_written_as_printf_does(UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_of_digits_is_written_as_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
