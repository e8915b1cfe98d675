/* The state of a lock of several members, computed from the replies about each. */
#include "group/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#define N 5

static const struct relock_inspection is_free = {.holder = {.ttl_ms = -2}};

static struct relock_inspection held(const char *id, int64_t ttl_ms, unsigned own_count)
{
    struct relock_inspection inspection = {
        .holder = {.ttl_ms = ttl_ms, .hold_count = 1, .n_holders = 1},
        .is_locked = true,
        .own_count = own_count,
    };

    (void)snprintf(inspection.holder.id, sizeof(inspection.holder.id), "%s", id);
    return inspection;
}

static struct relock_opinion said(struct relock_inspection inspection)
{
    return (struct relock_opinion){
        .is_known = true,
        .is_ours = inspection.own_count > 0,
        .inspection = inspection,
    };
}

/* ---- red locks ----------------------------------------------------------------------------- */

static void a_quorum_of_free_servers_is_a_free_lock(void **state)
{
    struct relock_opinion opinions[N] = {said(held("x:1", 9, 0)), said(is_free), said(is_free),
                                         said(held("x:2", 8, 0)), said(is_free)};
    struct relock_inspection whole = relock_opinion_of_red(opinions, N, 1);

    (void)state;
    assert_false(whole.is_locked);
    assert_string_equal(whole.holder.id, "");
    assert_int_equal(whole.holder.n_holders, 0);
    assert_int_equal(whole.holder.ttl_ms, -2);
    assert_int_equal(whole.own_count, 0);
}

static void without_a_quorum_of_free_servers_a_lock_is_held(void **state)
{
    struct relock_opinion opinions[N] = {said(held("x:1", 90, 0)), said(is_free),
                                         said(held("y:1", 50, 0)), said(held("z:1", -1, 0)),
                                         said(held("y:2", 70, 0))};
    struct relock_inspection whole = relock_opinion_of_red(opinions, N, 1);

    (void)state;
    assert_true(whole.is_locked);
    assert_int_equal(whole.holder.ttl_ms, 70);
    assert_string_equal(whole.holder.id, "x:1"); /* each holder is listed once */
    opinions[1] = said(held("y:3", -1, 0));
    opinions[2] = said(held("y:1", -1, 0));
    assert_int_equal(relock_opinion_of_red(opinions, N, 1).holder.ttl_ms, -1);
}

/* A silent server may complete a quorum with those that answered. */
static void a_silent_server_does_not_count_as_free(void **state)
{
    struct relock_opinion opinions[N] = {said(held("x:1", 90, 0)), said(is_free), said(is_free)};
    struct relock_inspection whole = relock_opinion_of_red(opinions, N, 1);

    (void)state;
    assert_true(whole.is_locked);
    assert_string_equal(whole.holder.id, "x:1");
    assert_int_equal(whole.holder.ttl_ms, 90);
    opinions[3] = said(is_free);
    assert_false(relock_opinion_of_red(opinions, N, 1).is_locked);
}

static void the_levels_are_the_callers_while_a_quorum_has_its_votes(void **state)
{
    struct relock_opinion opinions[N] = {said(held("x:1", 90, 0)),
                                         said(held("a:1", 80, 1)),
                                         said(held("b:1", 80, 1)),
                                         said(is_free),
                                         {0}};
    struct relock_inspection whole = relock_opinion_of_red(opinions, N, 7);

    (void)state;
    assert_int_equal(whole.own_count, 0);
    assert_string_equal(whole.holder.id, "a:1");
    assert_int_equal(whole.holder.hold_count, 1);
    opinions[4].is_ours = true; /* certain, although the server does not answer */
    whole = relock_opinion_of_red(opinions, N, 7);
    assert_int_equal(whole.own_count, 7);
    assert_string_equal(whole.holder.id, "a:1");
    assert_int_equal(whole.holder.hold_count, 7);
}

static void the_holder_is_the_one_that_most_servers_name(void **state)
{
    struct relock_opinion opinions[N] = {said(held("x:1", 90, 0)), said(held("y:1", 90, 0)),
                                         said(held("z:1", 90, 0)), said(held("y:1", 90, 0)),
                                         said(held("x:2", 90, 0))};

    (void)state;
    assert_string_equal(relock_opinion_of_red(opinions, N, 0).holder.id, "y:1");
}

/* ---- multi locks --------------------------------------------------------------------------- */

static struct relock_inspection of_all(const struct relock_inspection *members, size_t n,
                                       unsigned count)
{
    static const char *const names[] = {"a", "b", "c"};
    struct relock_inspection whole = {.holder = {.ttl_ms = -2}, .own_count = count};

    for (size_t i = 0; i < n; i++)
        relock_opinion_add(&whole, &members[i], names[i]);
    return whole;
}

static void a_multi_lock_is_free_when_all_members_are(void **state)
{
    const struct relock_inspection members[] = {is_free, is_free, is_free};
    struct relock_inspection whole = of_all(members, 3, 0);

    (void)state;
    assert_false(whole.is_locked);
    assert_null(whole.holder.member);
    assert_int_equal(whole.holder.n_holders, 0);
    assert_int_equal(whole.holder.ttl_ms, -2);
}

static void a_multi_lock_reports_its_first_held_member_and_longest_lease(void **state)
{
    const struct relock_inspection members[] = {is_free, held("x:1", 10, 0), held("y:1", 20, 0)};
    const struct relock_inspection endless[] = {held("z:1", -1, 0), held("y:1", 20, 0), is_free};
    struct relock_inspection whole = of_all(members, 3, 0);

    (void)state;
    assert_true(whole.is_locked);
    assert_string_equal(whole.holder.id, "x:1");
    assert_string_equal(whole.holder.member, "b");
    assert_int_equal(whole.holder.ttl_ms, 20);
    whole = of_all(endless, 3, 0);
    assert_string_equal(whole.holder.member, "a");
    assert_int_equal(whole.holder.ttl_ms, -1);
}

static void the_levels_of_a_multi_lock_are_the_fewest(void **state)
{
    const struct relock_inspection all[] = {held("x:1", 9, 3), held("x:2", 9, 2)};
    const struct relock_inspection some[] = {held("x:1", 9, 3), is_free};

    (void)state;
    assert_int_equal(of_all(all, 2, 5).own_count, 2);
    assert_int_equal(of_all(all, 2, 1).own_count, 1);
    assert_int_equal(of_all(some, 2, 1).own_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_quorum_of_free_servers_is_a_free_lock),
        cmocka_unit_test(without_a_quorum_of_free_servers_a_lock_is_held),
        cmocka_unit_test(a_silent_server_does_not_count_as_free),
        cmocka_unit_test(the_levels_are_the_callers_while_a_quorum_has_its_votes),
        cmocka_unit_test(the_holder_is_the_one_that_most_servers_name),
        cmocka_unit_test(a_multi_lock_is_free_when_all_members_are),
        cmocka_unit_test(a_multi_lock_reports_its_first_held_member_and_longest_lease),
        cmocka_unit_test(the_levels_of_a_multi_lock_are_the_fewest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
