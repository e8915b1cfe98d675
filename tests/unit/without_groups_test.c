/*
 * A program of the whole library but lib/group. It links if nothing below names multi and red
 * locks; else the linker says what does.
 */
#include <relock.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_program_links_without_multi_and_red_locks(void **state)
{
    (void)state;
    assert_int_equal(relock_lock(NULL), RELOCK_E_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_links_without_multi_and_red_locks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
