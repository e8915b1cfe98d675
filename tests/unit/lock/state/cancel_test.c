/* Ending waits from outside. */
#include "lock/state/cancel.h"

#include "base/clock.h"
#include "support/child.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define N_WAITS 3
#define ROUNDS 500

static struct relock_cancel *cancel;
static struct relock_gate gates[N_WAITS];
static struct relock_cancel_wait waits[N_WAITS];

static int begin(void **state)
{
    (void)state;
    for (int i = 0; i < N_WAITS; i++)
        relock_gate_init(&gates[i]);
    return relock_cancel_new(&cancel);
}

static int end(void **state)
{
    (void)state;
    child_end_all();
    cancel = relock_cancel_free(cancel);
    return 0;
}

static void watch(int i)
{
    relock_cancel_watch(&waits[i], cancel, &gates[i], NULL);
}

static bool is_open(int i)
{
    return relock_gate_wait(&gates[i], 0);
}

static void a_cancel_is_fired_once_and_for_all(void **state)
{
    (void)state;

    assert_false(relock_cancel_is_fired(cancel));
    relock_cancel_fire(cancel);
    assert_true(relock_cancel_is_fired(cancel));
    relock_cancel_fire(cancel);
    assert_true(relock_cancel_is_fired(cancel));
}

static void firing_opens_the_gates_of_all_watchers(void **state)
{
    (void)state;

    for (int i = 0; i < N_WAITS; i++)
        watch(i);
    for (int i = 0; i < N_WAITS; i++)
        assert_false(is_open(i));
    relock_cancel_fire(cancel);
    for (int i = 0; i < N_WAITS; i++)
        assert_true(is_open(i));
    for (int i = 0; i < N_WAITS; i++)
        relock_cancel_unwatch(&waits[i]);
}

static void a_former_watcher_is_left_alone(void **state)
{
    (void)state;

    for (int gone = 0; gone < N_WAITS; gone++) {
        for (int i = 0; i < N_WAITS; i++)
            watch(i);
        relock_cancel_unwatch(&waits[gone]);
        relock_cancel_fire(cancel);
        for (int i = 0; i < N_WAITS; i++)
            assert_int_equal(is_open(i), i != gone);
        for (int i = 0; i < N_WAITS; i++)
            if (i != gone)
                relock_cancel_unwatch(&waits[i]);
    }
}

static void a_fired_cancel_can_be_watched(void **state)
{
    (void)state;

    relock_cancel_fire(cancel);
    watch(0);
    assert_true(relock_cancel_is_fired(waits[0].cancel));
    relock_cancel_fire(cancel);
    assert_true(is_open(0));
    relock_cancel_unwatch(&waits[0]);
}

static void no_cancel_is_never_fired(void **state)
{
    (void)state;

    relock_cancel_fire(NULL);
    assert_false(relock_cancel_is_fired(NULL));
    assert_null(relock_cancel_free(NULL));
    assert_int_equal(relock_cancel_new(NULL), RELOCK_E_INVALID);
}

static void cancels_do_not_touch_each_other(void **state)
{
    struct relock_cancel *other;

    (void)state;

    assert_int_equal(relock_cancel_new(&other), RELOCK_OK);
    watch(0);
    relock_cancel_watch(&waits[1], other, &gates[1], NULL);
    relock_cancel_fire(other);
    assert_false(relock_cancel_is_fired(cancel));
    assert_false(is_open(0));
    assert_true(is_open(1));
    relock_cancel_unwatch(&waits[0]);
    relock_cancel_unwatch(&waits[1]);
    relock_cancel_free(other);
}

/* ---- threads ------------------------------------------------------------------------------- */

static void *wait_for_cancel(void *arg)
{
    struct relock_gate *gate = arg;
    struct relock_cancel_wait wait;

    relock_cancel_watch(&wait, cancel, gate, NULL);
    while (!relock_cancel_is_fired(cancel))
        (void)relock_gate_wait(gate, RELOCK_NEVER);
    relock_cancel_unwatch(&wait);
    return NULL;
}

static void a_wait_ends_whether_it_or_the_cancel_comes_first(void **state)
{
    (void)state;

    for (int round = 0; round < ROUNDS; round++) {
        pthread_t threads[N_WAITS];

        for (int i = 0; i < N_WAITS; i++)
            assert_int_equal(pthread_create(&threads[i], NULL, wait_for_cancel, &gates[i]), 0);
        relock_cancel_fire(cancel);
        for (int i = 0; i < N_WAITS; i++)
            assert_int_equal(pthread_join(threads[i], NULL), 0);
        end(NULL);
        assert_int_equal(begin(NULL), RELOCK_OK);
    }
}

/* ---- fork ---------------------------------------------------------------------------------- */

static int fire_the_copy(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    child_must(!relock_cancel_is_fired(cancel));
    relock_cancel_fire(cancel);
    child_must(relock_cancel_is_fired(cancel));
    child_must(!is_open(0)); /* of a thread that is not here */

    relock_cancel_watch(&waits[1], cancel, &gates[1], NULL);
    relock_cancel_fire(cancel);
    child_must(is_open(1));
    relock_cancel_unwatch(&waits[1]);
    return EXIT_SUCCESS;
}

static void a_child_has_a_copy_without_the_waits_of_its_parent(void **state)
{
    struct child *child;

    (void)state;

    watch(0);
    child = child_start(fire_the_copy, NULL);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    assert_false(relock_cancel_is_fired(cancel));
    assert_false(is_open(0));
    relock_cancel_unwatch(&waits[0]);
}

static int watch_the_copy(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    relock_cancel_watch(&waits[1], cancel, &gates[1], NULL);
    relock_cancel_fire(cancel);
    child_must(is_open(1));
    child_must(!is_open(0));
    relock_cancel_unwatch(&waits[1]);
    relock_cancel_free(cancel);
    return EXIT_SUCCESS;
}

static void a_child_can_wait_before_it_fires(void **state)
{
    struct child *child;

    (void)state;

    watch(0);
    child = child_start(watch_the_copy, NULL);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    relock_cancel_unwatch(&waits[0]);
}

#define CANCEL_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CANCEL_TEST(a_cancel_is_fired_once_and_for_all),
        CANCEL_TEST(firing_opens_the_gates_of_all_watchers),
        CANCEL_TEST(a_former_watcher_is_left_alone),
        CANCEL_TEST(a_fired_cancel_can_be_watched),
        CANCEL_TEST(no_cancel_is_never_fired),
        CANCEL_TEST(cancels_do_not_touch_each_other),
        CANCEL_TEST(a_wait_ends_whether_it_or_the_cancel_comes_first),
        CANCEL_TEST(a_child_has_a_copy_without_the_waits_of_its_parent),
        CANCEL_TEST(a_child_can_wait_before_it_fires),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
