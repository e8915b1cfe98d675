/* Taking lanes and giving them back. */
#include "talk.h"

#include "base/clock.h"
#include "support/actor.h"

#include <sched.h>
#include <stdatomic.h>

#define N_ACTORS 6
#define ROUNDS 500

static struct relock_lane *lane; /* taken */

static void the_lane_given_last_is_taken_first(void **state)
{
    struct relock_lane *first, *second;

    (void)state;

    assert_int_equal(relock_lanes_take(lanes, 0, &first), RELOCK_OK);
    assert_int_equal(relock_lanes_take(lanes, 0, &second), RELOCK_OK);
    assert_ptr_not_equal(first, second);
    relock_lanes_give(lanes, second);
    relock_lanes_give(lanes, first);
    assert_int_equal(relock_lanes_take(lanes, 0, &lane), RELOCK_OK);
    assert_ptr_equal(lane, first);
}

static void when_all_are_busy_a_lane_is_waited_for_until_the_deadline(void **state)
{
    struct relock_lane *others[2];
    uint64_t deadline_ms;

    (void)state;

    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_lanes_take(lanes, soon(), &others[i]), RELOCK_OK);
    deadline_ms = in_ms(30);
    assert_int_equal(relock_lanes_take(lanes, deadline_ms, &lane), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
}

static int take_and_give(void *arg)
{
    struct relock_lane *mine;
    int r = relock_lanes_take(lanes, RELOCK_NEVER, &mine);

    (void)arg;
    if (r == RELOCK_OK)
        relock_lanes_give(lanes, mine);
    return r;
}

static void a_lane_given_back_goes_to_who_waits(void **state)
{
    struct actor *actors[] = {actor_start(), actor_start(), actor_start()};
    struct relock_lane *others[2];

    (void)state;

    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_lanes_take(lanes, soon(), &others[i]), RELOCK_OK);
    for (uint64_t round = 0; round < 20; round++) {
        for (int i = 0; i < 3; i++)
            actor_begin(actors[i], take_and_give, NULL);
        let_pass(round % 2); /* so that they wait at times, and come late at others */
        relock_lanes_give(lanes, others[0]);
        for (int i = 0; i < 3; i++)
            assert_int_equal(actor_result(actors[i]), RELOCK_OK);
        assert_int_equal(relock_lanes_take(lanes, soon(), &others[0]), RELOCK_OK);
    }
    actor_end_all();
}

static atomic_int n_served; /* in this round */

/* Takes a lane, and says as the how many-th. */
static int be_served(void *arg)
{
    struct relock_lane *mine;
    int nth;

    (void)arg;
    if (relock_lanes_take(lanes, RELOCK_NEVER, &mine) != RELOCK_OK)
        return RELOCK_LOST;
    nth = atomic_fetch_add(&n_served, 1);
    relock_lanes_give(lanes, mine);
    return nth;
}

static void who_comes_first_is_served_first(void **state)
{
    struct actor *actors[] = {actor_start(), actor_start(), actor_start()};
    struct relock_lane *others[2];
    bool in_order = false;

    (void)state;

    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_lanes_take(lanes, soon(), &others[i]), RELOCK_OK);
    /* One that is slow to come may be overtaken, but not again and again. */
    for (int round = 0; round < 5 && !in_order; round++) {
        atomic_store(&n_served, 0);
        for (int i = 0; i < 3; i++) {
            actor_begin(actors[i], be_served, NULL);
            let_pass(5);
        }
        relock_lanes_give(lanes, others[0]);
        in_order = true;
        for (int i = 0; i < 3; i++)
            in_order = actor_result(actors[i]) == i && in_order;
        assert_int_equal(relock_lanes_take(lanes, soon(), &others[0]), RELOCK_OK);
    }
    assert_true(in_order);
    actor_end_all();
}

static _Atomic(struct relock_lane *) taken[2]; /* by the actors */

static bool mark(struct relock_lane *from, struct relock_lane *to)
{
    for (int i = 0; i < 2; i++) {
        struct relock_lane *expected = from;

        if (atomic_compare_exchange_strong(&taken[i], &expected, to))
            return true;
    }
    return false;
}

/* Some give up at once, some just when a lane is given. */
static int take_often(void *arg)
{
    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct relock_lane *mine;

        if (relock_lanes_take(lanes, in_ms(round % 2), &mine) != RELOCK_OK)
            continue;
        if (atomic_load(&taken[0]) == mine || atomic_load(&taken[1]) == mine || !mark(NULL, mine))
            return RELOCK_BUSY;
        sched_yield();
        if (!mark(mine, NULL))
            return RELOCK_LOST;
        relock_lanes_give(lanes, mine);
    }
    return RELOCK_OK;
}

static void no_lane_is_ever_taken_twice_or_lost(void **state)
{
    struct relock_lane *others[2];
    struct actor *actors[N_ACTORS];

    (void)state;

    for (int i = 0; i < N_ACTORS; i++)
        actors[i] = actor_start();
    for (int i = 0; i < N_ACTORS; i++)
        actor_begin(actors[i], take_often, NULL);
    for (int i = 0; i < N_ACTORS; i++)
        assert_int_equal(actor_result(actors[i]), RELOCK_OK);
    actor_end_all();

    for (int i = 0; i < 2; i++)
        assert_int_equal(relock_lanes_take(lanes, 0, &others[i]), RELOCK_OK);
    assert_ptr_not_equal(others[0], others[1]);
    assert_int_equal(relock_lanes_take(lanes, 0, &lane), RELOCK_E_CONN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TALK_TEST(the_lane_given_last_is_taken_first),
        TALK_TEST(when_all_are_busy_a_lane_is_waited_for_until_the_deadline),
        TALK_TEST(a_lane_given_back_goes_to_who_waits),
        TALK_TEST(who_comes_first_is_served_first),
        TALK_TEST(no_lane_is_ever_taken_twice_or_lost),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
