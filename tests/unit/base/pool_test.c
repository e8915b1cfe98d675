/* The pool, compared with an array of what was taken. */
#include "base/pool.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_OBJECTS 300
#define N_STEPS 20000

struct object {
    uint64_t number;
    uint8_t nth;
    uint64_t content[3];
};

static struct object *taken[N_OBJECTS]; /* by number */

static void take(struct relock_pool *pool, size_t number)
{
    static const uint64_t zero[3];
    uint8_t nth;
    struct object *new = relock_pool_take(pool, sizeof(*new), &nth);

    assert_non_null(new);
    assert_int_equal(new->number, 0);
    assert_memory_equal(new->content, zero, sizeof(zero));
    *new = (struct object){number, nth, {number, number, number}};
    taken[number] = new;
}

static void give(struct relock_pool *pool, size_t number)
{
    struct object *object = taken[number];

    assert_int_equal(object->number, number);
    assert_int_equal(object->content[2], number);
    taken[number] = NULL;
    relock_pool_give(pool, object, object->nth);
}

static struct object *next_of(const struct relock_pool *pool, const struct object *object)
{
    return relock_pool_next(pool, object, object ? object->nth : 0);
}

/* The pool finds what was taken, each once. */
static void assert_holds(const struct relock_pool *pool)
{
    const struct object *at = NULL;
    unsigned n_seen[N_OBJECTS] = {0};

    while ((at = next_of(pool, at))) {
        assert_ptr_equal(at, taken[at->number]);
        n_seen[at->number]++;
    }
    for (size_t i = 0; i < N_OBJECTS; i++)
        assert_int_equal(n_seen[i], taken[i] != NULL);
}

static void an_empty_pool_has_nothing(void **state)
{
    struct relock_pool pool = {0};

    (void)state;

    assert_null(next_of(&pool, NULL));
    relock_pool_deinit(&pool);
}

static void a_pool_finds_what_was_taken_and_nothing_else(void **state)
{
    struct relock_pool pool = {0};

    (void)state;

    srand(7);
    for (size_t step = 0; step < N_STEPS; step++) {
        size_t i = (size_t)rand() % N_OBJECTS;

        if (taken[i])
            give(&pool, i);
        else
            take(&pool, i);
        if (step % 500 == 0)
            assert_holds(&pool);
    }
    for (size_t i = 0; i < N_OBJECTS; i++)
        if (taken[i])
            give(&pool, i);
    assert_holds(&pool);
    relock_pool_deinit(&pool);
    assert_null(pool.slabs);
}

/* While objects are visited, each may be given back once the next one is known, and others may be
 * taken. */
static void objects_may_come_and_go_meanwhile(void **state)
{
    struct relock_pool pool = {0};
    struct object *at, *next;
    size_t n_visited = 0;

    (void)state;

    for (size_t i = 0; i < N_OBJECTS / 2; i++)
        take(&pool, i);
    for (at = next_of(&pool, NULL); at; at = next) {
        size_t number = at->number;

        next = next_of(&pool, at);
        if (number >= N_OBJECTS / 2)
            continue;
        n_visited++;
        take(&pool, N_OBJECTS / 2 + number);
        give(&pool, number);
    }
    assert_int_equal(n_visited, N_OBJECTS / 2);
    assert_holds(&pool);
    for (size_t i = N_OBJECTS / 2; i < N_OBJECTS; i++)
        give(&pool, i);
    relock_pool_deinit(&pool);
}

/* Many objects leave no memory behind, and few need none each time. */
static void empty_slabs_are_freed_but_one(void **state)
{
    struct relock_pool pool = {0};

    (void)state;

    for (size_t i = 0; i < N_OBJECTS; i++)
        take(&pool, i);
    for (size_t i = 0; i < N_OBJECTS; i++)
        give(&pool, i);
    if (pool.slabs) /* with a sanitizer, there is none */
        assert_ptr_equal(pool.slabs, pool.with_room);
    assert_null(next_of(&pool, NULL));
    relock_pool_deinit(&pool);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_pool_has_nothing),
        cmocka_unit_test(a_pool_finds_what_was_taken_and_nothing_else),
        cmocka_unit_test(objects_may_come_and_go_meanwhile),
        cmocka_unit_test(empty_slabs_are_freed_but_one),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
