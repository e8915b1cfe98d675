/* The messages to waiters for a fair lock. */
#include "base/clock.h"
#include "lock/state/kind.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void held_says_when_the_lease_ends(void **state)
{
    uint64_t before_ms = relock_clock_now_ms(), free_at_ms = 0;

    (void)state;
    assert_true(relock_verdict_message("held 29984", strlen("held 29984"), &free_at_ms));
    assert_in_range(free_at_ms, before_ms + 29984, relock_clock_now_ms() + 29985);
    assert_true(relock_verdict_message("held 29984", strlen("held 2"), &free_at_ms));
    assert_in_range(free_at_ms, before_ms + 2, relock_clock_now_ms() + 3);
}

/* Anybody may publish there. The waiter asks then. */
static void any_other_text_says_nothing(void **state)
{
    static const char *const texts[] = {
        "",        "0",        "held",     "held ",   "held -1",
        "held 1x", "hell 100", "HELD 100", "held  1", "held 1234567890123456"};
    uint64_t free_at_ms = 7;

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        assert_false(relock_verdict_message(texts[i], strlen(texts[i]), &free_at_ms));
    assert_int_equal(free_at_ms, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(held_says_when_the_lease_ends),
        cmocka_unit_test(any_other_text_says_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
