/* The table, compared with an array that is searched from end to end. */
#include "base/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#define N_LINKS 600
#define N_STEPS 20000
#define N_HASHES 400 /* fewer, so that several elements have one hash */

static bool is_in[N_LINKS];
static struct relock_table_link links[N_LINKS];

/* Spread, so that the links of a bucket have several hashes. */
static uint32_t hash_of(size_t i)
{
    return (uint32_t)(i % N_HASHES) * UINT32_C(0x9e3779b1);
}

static bool finds(const struct relock_table *table, const struct relock_table_link *link,
                  uint32_t hash)
{
    struct relock_table_link *at;

    for (at = relock_table_find(table, hash); at; at = relock_table_find_next(at)) {
        assert_true(at->hash == hash);
        if (at == link)
            return true;
    }
    return false;
}

static void assert_holds(const struct relock_table *table)
{
    struct relock_table_link *at = NULL;
    unsigned n_seen[N_LINKS] = {0};

    while ((at = relock_table_next(table, at)))
        n_seen[at - links]++;
    for (size_t i = 0; i < N_LINKS; i++) {
        assert_int_equal(n_seen[i], is_in[i]);
        assert_int_equal(finds(table, &links[i], hash_of(i)), is_in[i]);
    }
}

static void an_empty_table_has_nothing(void **state)
{
    struct relock_table table = {0};

    (void)state;

    assert_null(relock_table_find(&table, 7));
    assert_null(relock_table_next(&table, NULL));
}

static void a_table_finds_what_it_has_and_nothing_else(void **state)
{
    struct relock_table table = {0};

    (void)state;

    for (size_t step = 0; step < N_STEPS; step++) {
        size_t i = (size_t)rand() % N_LINKS; /* NOLINT: it need not be good */

        if (is_in[i])
            relock_table_remove(&table, &links[i]);
        else
            assert_true(relock_table_add(&table, &links[i], hash_of(i)));
        is_in[i] = !is_in[i];
        if (step % 500 == 0)
            assert_holds(&table);
    }
    assert_holds(&table);
    for (size_t i = 0; i < N_LINKS; i++) {
        if (is_in[i])
            relock_table_remove(&table, &links[i]);
        is_in[i] = false;
    }
    assert_holds(&table);
    assert_null(table.buckets); /* it keeps no memory */
}

/* Else a search in a large table would be one through a list. */
static void a_bucket_has_four_elements_on_average_at_most(void **state)
{
    struct relock_table table = {0};

    (void)state;

    for (size_t i = 0; i < N_LINKS; i++) {
        assert_true(relock_table_add(&table, &links[i], hash_of(i)));
        assert_true(table.n_links <= 4 * table.n_buckets);
    }
    for (size_t i = 0; i < N_LINKS; i++)
        relock_table_remove(&table, &links[i]);
}

static void the_element_visited_last_can_be_removed(void **state)
{
    struct relock_table table = {0};
    struct relock_table_link *at, *next;
    size_t n = 0;

    (void)state;

    for (size_t i = 0; i < N_LINKS; i++)
        assert_true(relock_table_add(&table, &links[i], hash_of(i)));
    for (at = relock_table_next(&table, NULL); at; at = next, n++) {
        next = relock_table_next(&table, at);
        relock_table_remove(&table, at);
    }
    assert_int_equal(n, N_LINKS);
    assert_null(relock_table_next(&table, NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(a_table_finds_what_it_has_and_nothing_else),
        cmocka_unit_test(a_bucket_has_four_elements_on_average_at_most),
        cmocka_unit_test(the_element_visited_last_can_be_removed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
