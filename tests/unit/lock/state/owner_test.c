/* The numbers of threads and of other owners. */
#include "lock/state/owner.h"

#include <relock.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#define N_THREADS 8
#define N_EACH 1000

struct numbers {
    uint64_t self[2];
    uint64_t made[N_EACH];
};

static struct numbers numbers[N_THREADS];

static void *ask(void *arg)
{
    struct numbers *mine = arg;

    mine->self[0] = relock_owner_self();
    for (int i = 0; i < N_EACH; i++)
        mine->made[i] = relock_owner_new();
    mine->self[1] = relock_owner_self();
    return NULL;
}

static int ask_all(void **state)
{
    pthread_t threads[N_THREADS];

    (void)state;
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, &numbers[i]), 0);
    for (int i = 0; i < N_THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    return 0;
}

static void a_thread_has_one_number_that_no_other_has(void **state)
{
    uint64_t main_thread = relock_owner_self();

    (void)state;

    for (int i = 0; i < N_THREADS; i++) {
        assert_int_equal(numbers[i].self[0], numbers[i].self[1]);
        assert_true(numbers[i].self[0] > 0);
        assert_true(numbers[i].self[0] != main_thread);
        for (int other = 0; other < i; other++)
            assert_true(numbers[i].self[0] != numbers[other].self[0]);
    }
    assert_int_equal(relock_owner_self(), main_thread);
}

static int compare(const void *a, const void *b)
{
    const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

    return (first > second) - (first < second);
}

static void a_new_owner_is_neither_a_thread_nor_another_owner(void **state)
{
    static uint64_t all[N_THREADS * N_EACH];

    (void)state;

    for (int i = 0; i < N_THREADS; i++)
        for (int at = 0; at < N_EACH; at++)
            all[i * N_EACH + at] = numbers[i].made[at];
    qsort(all, N_THREADS * N_EACH, sizeof(all[0]), compare);
    assert_true(all[0] >= RELOCK_OWNER_NAMED);
    assert_true(all[N_THREADS * N_EACH - 1] < RELOCK_OWNERS);
    for (int i = 1; i < N_THREADS * N_EACH; i++)
        assert_true(all[i - 1] != all[i]);
    assert_true(relock_owner_self() < RELOCK_OWNER_NAMED);
}

static void zero_stands_for_the_calling_thread(void **state)
{
    (void)state;

    assert_int_equal(relock_owner_resolve(0), relock_owner_self());
    assert_int_equal(relock_owner_resolve(RELOCK_OWNER_NAMED), RELOCK_OWNER_NAMED);
    assert_int_equal(relock_owner_resolve(relock_owner_self()), relock_owner_self());
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_has_one_number_that_no_other_has),
        cmocka_unit_test(a_new_owner_is_neither_a_thread_nor_another_owner),
        cmocka_unit_test(zero_stands_for_the_calling_thread),
    };

    return cmocka_run_group_tests(tests, ask_all, NULL);
}
