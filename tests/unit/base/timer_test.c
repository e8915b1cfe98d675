/* The timer heap, compared with an array that is searched from end to end. */
#include "base/timer.h"

#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#define N_TIMERS 48
#define N_STEPS 20000
#define N_TIMES 64 /* few, so that many timers are due at the same time */

static void fire(struct relock_timer *timer, uint64_t now_ms)
{
    (void)timer;
    (void)now_ms;
}

static void init_all(struct relock_timer *timers, size_t n)
{
    for (size_t i = 0; i < n; i++)
        relock_timer_init(&timers[i], fire);
}

/* Pops all timers that are due, in order. Returns how many there were. */
static size_t pop_all(struct relock_timers *heap, uint64_t now_ms)
{
    struct relock_timer *timer;
    uint64_t before_ms = 0;
    size_t n = 0;

    while (relock_timers_next_ms(heap) <= now_ms) {
        uint64_t due_ms = relock_timers_next_ms(heap);

        assert_true(due_ms >= before_ms);
        before_ms = due_ms;
        timer = relock_timers_pop(heap, now_ms);
        assert_non_null(timer);
        assert_false(relock_timer_is_set(heap, timer));
        n++;
    }
    assert_null(relock_timers_pop(heap, now_ms));
    return n;
}

static void an_empty_heap_has_nothing_due(void **state)
{
    struct relock_timers heap = {0};

    (void)state;

    assert_true(relock_timers_next_ms(&heap) == RELOCK_NEVER);
    assert_null(relock_timers_pop(&heap, 0));
    assert_null(relock_timers_pop(&heap, RELOCK_NEVER));
}

static void a_timer_is_popped_when_it_is_due_and_not_before(void **state)
{
    struct relock_timers heap = {0};
    struct relock_timer timer;

    (void)state;

    relock_timer_init(&timer, fire);
    relock_timer_set(&heap, &timer, 100);
    assert_true(relock_timer_is_set(&heap, &timer));
    assert_int_equal(relock_timers_next_ms(&heap), 100);
    assert_null(relock_timers_pop(&heap, 99));
    assert_true(relock_timer_is_set(&heap, &timer));
    assert_ptr_equal(relock_timers_pop(&heap, 100), &timer);
    assert_false(relock_timer_is_set(&heap, &timer));
    assert_ptr_equal(timer.fire, fire);
    assert_null(relock_timers_pop(&heap, 100));
}

static void timers_are_popped_in_the_order_of_their_times(void **state)
{
    static const uint64_t times[] = {5, 3, 9, 1, 7, 0, 8, 2, 6, 4};
    struct relock_timer timers[10];
    struct relock_timers heap = {0};

    (void)state;

    init_all(timers, 10);
    for (int i = 0; i < 10; i++)
        relock_timer_set(&heap, &timers[i], times[i]);
    for (uint64_t due_ms = 0; due_ms < 10; due_ms++) {
        struct relock_timer *timer = relock_timers_pop(&heap, 100);

        assert_non_null(timer);
        assert_int_equal(times[timer - timers], due_ms);
    }
    assert_null(heap.heap.root);
}

static void all_timers_of_one_time_are_popped(void **state)
{
    struct relock_timer timers[N_TIMERS];
    struct relock_timers heap = {0};

    (void)state;

    init_all(timers, N_TIMERS);
    for (int i = 0; i < N_TIMERS; i++)
        relock_timer_set(&heap, &timers[i], 100);
    assert_int_equal(pop_all(&heap, 99), 0);
    assert_int_equal(pop_all(&heap, 100), N_TIMERS);
}

static void a_timer_set_anew_is_due_once_at_its_new_time(void **state)
{
    struct relock_timer timers[2];
    struct relock_timers heap = {0};

    (void)state;

    init_all(timers, 2);
    relock_timer_set(&heap, &timers[0], 100);
    relock_timer_set(&heap, &timers[1], 50);
    relock_timer_set(&heap, &timers[0], 10);
    relock_timer_set(&heap, &timers[1], 200);
    assert_ptr_equal(relock_timers_pop(&heap, 100), &timers[0]);
    assert_null(relock_timers_pop(&heap, 199));
    assert_ptr_equal(relock_timers_pop(&heap, 200), &timers[1]);
    assert_null(heap.heap.root);
}

static void unsetting_an_unset_timer_does_nothing(void **state)
{
    struct relock_timer timers[2];
    struct relock_timers heap = {0};

    (void)state;

    init_all(timers, 2);
    relock_timer_unset(&heap, &timers[0]);
    relock_timer_set(&heap, &timers[1], 100);
    relock_timer_unset(&heap, &timers[0]);
    assert_int_equal(relock_timers_next_ms(&heap), 100);
    relock_timer_unset(&heap, &timers[1]);
    relock_timer_unset(&heap, &timers[1]);
    assert_null(heap.heap.root);
    assert_ptr_equal(timers[1].fire, fire);
}

/* ---- against the model --------------------------------------------------------------------- */

struct model {
    struct relock_timers heap;
    struct relock_timer timers[N_TIMERS];
    bool set[N_TIMERS];
    uint64_t due_ms[N_TIMERS];
};

static size_t model_count(const struct model *model)
{
    size_t n = 0;

    for (int i = 0; i < N_TIMERS; i++)
        n += model->set[i];
    return n;
}

static uint64_t model_next_ms(const struct model *model)
{
    uint64_t next_ms = RELOCK_NEVER;

    for (int i = 0; i < N_TIMERS; i++)
        if (model->set[i] && model->due_ms[i] < next_ms)
            next_ms = model->due_ms[i];
    return next_ms;
}

/* Checks the links, and that no child is due before its parent. Returns the number of timers. */
static size_t count_below(const struct relock_heap_link *parent,
                          const struct relock_heap_link *child)
{
    const struct relock_heap_link *before = parent;
    size_t n = 0;

    for (; child; child = child->next) {
        assert_ptr_equal(child->prev, before);
        assert_true(!parent || child->due_ms >= parent->due_ms);
        n += 1 + count_below(child, child->child);
        before = child;
    }
    return n;
}

static void random_set(struct model *model, int i)
{
    model->due_ms[i] = (uint64_t)(rand() % N_TIMES);
    model->set[i] = true;
    relock_timer_set(&model->heap, &model->timers[i], model->due_ms[i]);
}

static void random_pop(struct model *model)
{
    uint64_t now_ms = (uint64_t)(rand() % N_TIMES);
    uint64_t next_ms = model_next_ms(model);
    struct relock_timer *timer = relock_timers_pop(&model->heap, now_ms);

    if (next_ms > now_ms) {
        assert_null(timer);
        return;
    }
    assert_non_null(timer);
    assert_true(model->set[timer - model->timers]);
    assert_int_equal(model->due_ms[timer - model->timers], next_ms);
    model->set[timer - model->timers] = false;
}

static void random_step(struct model *model)
{
    int i = rand() % N_TIMERS;

    switch (rand() % 8) {
    case 0:
    case 1:
    case 2:
    case 3:
        random_set(model, i);
        break;
    case 4:
    case 5:
        relock_timer_unset(&model->heap, &model->timers[i]);
        model->set[i] = false;
        break;
    default:
        random_pop(model);
    }
    assert_int_equal(relock_timer_is_set(&model->heap, &model->timers[i]), model->set[i]);
    assert_true(relock_timers_next_ms(&model->heap) == model_next_ms(model));
}

/* RELOCK_TEST_SEED repeats a run. */
static void the_next_timer_is_always_the_earliest(void **state)
{
    const char *given = getenv("RELOCK_TEST_SEED");
    unsigned seed = given ? (unsigned)strtoul(given, NULL, 10) : (unsigned)time(NULL);
    struct model model = {0};

    (void)state;

    print_message("seed %u\n", seed);
    srand(seed);
    init_all(model.timers, N_TIMERS);
    for (int step = 0; step < N_STEPS; step++) {
        random_step(&model);
        if (step % 64 == 0)
            assert_int_equal(count_below(NULL, model.heap.heap.root), model_count(&model));
    }
    assert_int_equal(pop_all(&model.heap, N_TIMES), model_count(&model));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_heap_has_nothing_due),
        cmocka_unit_test(a_timer_is_popped_when_it_is_due_and_not_before),
        cmocka_unit_test(timers_are_popped_in_the_order_of_their_times),
        cmocka_unit_test(all_timers_of_one_time_are_popped),
        cmocka_unit_test(a_timer_set_anew_is_due_once_at_its_new_time),
        cmocka_unit_test(unsetting_an_unset_timer_does_nothing),
        cmocka_unit_test(the_next_timer_is_always_the_earliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
