/* What other threads have the I/O thread do. */
#include "lock/state/client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define MANY 1000

static struct relock_client client;
static struct relock_task tasks[MANY];
static struct relock_task *ran[MANY];
static size_t n_ran;

static void run(struct relock_client *of, struct relock_task *task)
{
    assert_ptr_equal(of, &client);
    ran[n_ran++] = task;
}

static void run_and_post(struct relock_client *of, struct relock_task *task)
    RELOCK_REQUIRES(of->mutex)
{
    run(of, task);
    if (n_ran < MANY)
        relock_client_post(of, task);
}

static void post(int nth)
{
    relock_mutex_lock(&client.mutex);
    relock_client_post(&client, &tasks[nth]);
    relock_mutex_unlock(&client.mutex);
}

static void take_back(int nth)
{
    relock_mutex_lock(&client.mutex);
    relock_client_take_back(&client, &tasks[nth]);
    relock_mutex_unlock(&client.mutex);
}

static void run_tasks(void)
{
    relock_mutex_lock(&client.mutex);
    relock_client_run_tasks(&client);
    relock_mutex_unlock(&client.mutex);
}

static int begin(void **state)
{
    (void)state;
    memset(&client, 0, sizeof(client));
    memset(tasks, 0, sizeof(tasks));
    n_ran = 0;
    for (int i = 0; i < MANY; i++)
        tasks[i].run = run;
    relock_mutex_init(&client.mutex);
    return 0;
}

static int end(void **state)
{
    (void)state;
    relock_mutex_deinit(&client.mutex);
    return 0;
}

static void tasks_run_in_the_order_of_posting_each_once(void **state)
{
    (void)state;
    post(2);
    post(0);
    post(2);
    post(1);
    run_tasks();
    assert_int_equal(n_ran, 3);
    assert_ptr_equal(ran[0], &tasks[2]);
    assert_ptr_equal(ran[1], &tasks[0]);
    assert_ptr_equal(ran[2], &tasks[1]);
    assert_null(client.guarded.tasks);
}

static void a_task_that_is_taken_back_does_not_run(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++)
        post(i);
    take_back(1);
    take_back(1);
    run_tasks();
    assert_int_equal(n_ran, 2);
    assert_ptr_equal(ran[1], &tasks[2]);
}

/* Timers and connections get their turn between them. */
static void many_tasks_take_several_turns(void **state)
{
    size_t n;

    (void)state;
    for (int i = 0; i < MANY; i++)
        post(i);
    run_tasks();
    n = n_ran;
    assert_in_range(n, 1, 100);
    assert_ptr_equal(client.guarded.tasks, &tasks[n]);
    while (client.guarded.tasks)
        run_tasks();
    assert_int_equal(n_ran, MANY);
}

static void a_task_that_posts_itself_again_ends_no_turn(void **state)
{
    (void)state;
    tasks[0].run = run_and_post;
    post(0);
    post(1);
    run_tasks();
    assert_ptr_equal(ran[1], &tasks[1]);
    assert_in_range(n_ran, 2, 100);
    assert_ptr_equal(client.guarded.tasks, &tasks[0]);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(tasks_run_in_the_order_of_posting_each_once, begin, end),
        cmocka_unit_test_setup_teardown(a_task_that_is_taken_back_does_not_run, begin, end),
        cmocka_unit_test_setup_teardown(many_tasks_take_several_turns, begin, end),
        cmocka_unit_test_setup_teardown(a_task_that_posts_itself_again_ends_no_turn, begin, end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
