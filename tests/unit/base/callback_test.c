/* Whether a thread is inside a callback. */
#include "base/thread.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void a_thread_is_inside_from_the_first_enter_to_the_last_exit(void **state)
{
    (void)state;

    assert_false(relock_callback_is_inside());
    relock_callback_enter();
    assert_true(relock_callback_is_inside());
    relock_callback_enter();
    assert_true(relock_callback_is_inside());
    relock_callback_exit();
    assert_true(relock_callback_is_inside());
    relock_callback_exit();
    assert_false(relock_callback_is_inside());
}

struct views {
    bool before, within, after;
};

static void *look(void *arg)
{
    struct views *views = arg;

    views->before = relock_callback_is_inside();
    relock_callback_enter();
    views->within = relock_callback_is_inside();
    relock_callback_exit();
    views->after = relock_callback_is_inside();
    return NULL;
}

static void each_thread_has_its_own_answer(void **state)
{
    struct views views;
    pthread_t thread;

    (void)state;

    relock_callback_enter();
    assert_int_equal(pthread_create(&thread, NULL, look, &views), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(relock_callback_is_inside());
    relock_callback_exit();

    assert_false(views.before);
    assert_true(views.within);
    assert_false(views.after);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_is_inside_from_the_first_enter_to_the_last_exit),
        cmocka_unit_test(each_thread_has_its_own_answer),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
