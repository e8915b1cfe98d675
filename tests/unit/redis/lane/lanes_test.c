/* Which connection a call uses. */
#include "unit/common/talk.h"

#include "base/clock.h"
#include "redis/lane/lanes.h"
#include "redis/lane/private.h"
#include "support/actor.h"

#include <sched.h>
#include <stdatomic.h>

#define N_ACTORS 6
#define ROUNDS 500
#define BRIEFLY_MS 50 /* less than a claim lasts */

static struct relock_lane *join(bool alone)
{
    struct relock_lane *lane;

    assert_int_equal(relock_lanes_join(lanes, alone, soon(), &lane), RELOCK_OK);
    return lane;
}

static void the_lane_left_last_is_reused_first(void **state)
{
    struct relock_lane *first = join(false), *second = join(false);

    (void)state;

    assert_ptr_not_equal(first, second);
    relock_lanes_leave(lanes, first);
    relock_lanes_leave(lanes, second);
    assert_ptr_equal(join(false), second);
    relock_lanes_leave(lanes, second);
}

/* As the driver notes it. */
static void set_down(struct relock_lane *lane, uint64_t until_ms)
{
    atomic_store(&lane->down_until_ms, until_ms);
}

static void a_lane_that_could_not_connect_is_joined_only_if_no_other_can(void **state)
{
    struct relock_lane *first = join(false), *second = join(false), *alone;

    (void)state;

    set_down(first, soon());
    relock_lanes_leave(lanes, first);
    assert_ptr_equal(join(false), second); /* although it has a user */
    assert_int_equal(relock_lanes_join(lanes, true, in_ms(10), &alone), RELOCK_E_CONN);
    set_down(second, soon());
    assert_ptr_equal(join(false), first);
    relock_lanes_leave(lanes, first);
    set_down(first, relock_clock_now_ms());
    assert_ptr_equal(join(false), first);
    relock_lanes_leave(lanes, first);
    relock_lanes_leave(lanes, second);
    relock_lanes_leave(lanes, second);
}

/* `n` calls join these lanes. */
static void join_all(struct relock_lanes *many, struct relock_lane **joined, int n)
{
    for (int i = 0; i < n; i++)
        assert_int_equal(relock_lanes_join(many, false, soon(), &joined[i]), RELOCK_OK);
}

static void leave_all(struct relock_lanes *many, struct relock_lane **joined, int n)
{
    for (int i = 0; i < n; i++)
        relock_lanes_leave(many, joined[i]);
}

/* They connect to nothing here. */
static struct relock_lanes *new_lanes(const struct relock_server *of, unsigned n)
{
    struct relock_lanes *many;

    assert_int_equal(relock_lanes_new(of, n, &many), RELOCK_OK);
    return many;
}

static int n_different(struct relock_lane **joined, int n)
{
    int n_new = 0;

    for (int i = 0; i < n; i++) {
        bool is_new = true;

        for (int earlier = 0; earlier < i; earlier++)
            is_new = is_new && joined[i] != joined[earlier];
        n_new += is_new;
    }
    return n_new;
}

static void the_lane_with_the_fewest_users_is_joined_when_all_are_busy(void **state)
{
    enum { N = 40, ALL = N + 2 };
    struct relock_lanes *many = new_lanes(&server, N);
    struct relock_lane *joined[ALL], *further;

    (void)state;

    join_all(many, joined, ALL);
    assert_int_equal(n_different(joined, N), N);
    assert_ptr_not_equal(joined[N], joined[N + 1]);
    relock_lanes_leave(many, joined[N]);
    further = joined[N];
    assert_int_equal(relock_lanes_join(many, false, soon(), &joined[N]), RELOCK_OK);
    assert_ptr_equal(joined[N], further);
    leave_all(many, joined, ALL);
    (void)relock_lanes_free(many);
}

#define CALLS 64

/* Up to ONE_MAX calls share one lane. */
static void a_few_calls_share_one_lane_and_more_share_two(void **state)
{
    enum { N = 8, ONE_EACH = N - 1, ONE_MAX = 32 };
    struct relock_lanes *many = new_lanes(&server, N);
    struct relock_lane *alone, *joined[CALLS];

    (void)state;

    assert_int_equal(relock_lanes_join(many, true, soon(), &alone), RELOCK_OK);
    join_all(many, joined, CALLS); /* one more in each figure, which is alone */
    assert_int_equal(n_different(joined, ONE_EACH), ONE_EACH);
    assert_int_equal(n_different(joined + ONE_EACH, ONE_MAX - 1 - ONE_EACH), 1);
    assert_int_equal(n_different(joined + ONE_MAX - 1, CALLS - ONE_MAX + 1), 2);
    assert_ptr_not_equal(joined[CALLS - 2], joined[CALLS - 1]);
    leave_all(many, joined, CALLS);
    relock_lanes_leave(many, alone);
    (void)relock_lanes_free(many);
}

/* No thread sends while another one reads the same connection. */
static void with_tls_calls_share_no_fewer_than_two_lanes(void **state)
{
    enum { N = 8, FIRST = 11 };
    struct relock_server encrypted = server;
    struct relock_lanes *many = new_lanes(&encrypted, N);
    struct relock_lane *joined[CALLS];

    (void)state;

    encrypted.tls = (struct relock_tls_context *)&encrypted; /* some context */
    join_all(many, joined, CALLS);
    assert_int_equal(n_different(joined + FIRST - 1, CALLS - FIRST + 1), 2);
    assert_ptr_not_equal(joined[2 * N - 2], joined[2 * N - 1]);
    leave_all(many, joined, CALLS);
    (void)relock_lanes_free(many);
}

/* The first that finds no lane of its own does not push all later ones onto the same two. */
static void calls_spread_over_many_lanes_when_they_are_few_more_than_these(void **state)
{
    enum { N = 64, FURTHER = N / 4, ALL = N + FURTHER };
    struct relock_lanes *many = new_lanes(&server, N);
    struct relock_lane *joined[ALL];

    (void)state;

    join_all(many, joined, ALL);
    assert_int_equal(n_different(joined + N, FURTHER), FURTHER);
    leave_all(many, joined, ALL);
    (void)relock_lanes_free(many);
}

static void a_lane_that_falls_idle_takes_no_call_from_the_few_that_many_share(void **state)
{
    enum { N = 8, ALL = 16 };
    struct relock_lanes *many = new_lanes(&server, N);
    struct relock_lane *joined[ALL], *further;

    (void)state;

    join_all(many, joined, ALL);
    relock_lanes_leave(many, joined[N - 1]);
    assert_int_equal(relock_lanes_join(many, false, soon(), &further), RELOCK_OK);
    assert_ptr_equal(further, joined[ALL - 1]);
    joined[N - 1] = further;
    leave_all(many, joined, ALL);
    (void)relock_lanes_free(many);
}

static int try_alone(void)
{
    struct relock_lane *lane;
    int r = relock_lanes_join(lanes, true, relock_clock_now_ms(), &lane);

    if (r == RELOCK_OK)
        relock_lanes_leave(lanes, lane);
    return r;
}

static void a_lane_in_use_cannot_be_used_alone(void **state)
{
    struct relock_lane *first = join(false), *second = join(false);

    (void)state;

    assert_int_equal(try_alone(), RELOCK_E_CONN);
    relock_lanes_leave(lanes, first);
    assert_int_equal(try_alone(), RELOCK_OK);
    relock_lanes_leave(lanes, second);
}

static void a_lane_that_is_used_alone_is_not_joined(void **state)
{
    struct relock_lane *alone = join(true), *shared[2];

    (void)state;

    for (int i = 0; i < 2; i++) {
        shared[i] = join(false);
        assert_ptr_not_equal(shared[i], alone);
    }
    relock_lanes_leave(lanes, alone);
    assert_ptr_equal(join(false), alone);
    relock_lanes_leave(lanes, alone);
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, shared[i]);
}

static void a_caller_waits_until_its_deadline_when_all_lanes_are_used_alone(void **state)
{
    struct relock_lane *others[] = {join(true), join(true)}, *lane;
    uint64_t deadline_ms = in_ms(30);

    (void)state;

    assert_int_equal(relock_lanes_join(lanes, false, deadline_ms, &lane), RELOCK_E_CONN);
    assert_true(has_just_passed(deadline_ms));
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, others[i]);
}

static atomic_int n_served;

/* Joins, and returns the position in which it was served. */
static int be_served(void *arg)
{
    struct relock_lane *lane;
    int nth;

    if (relock_lanes_join(lanes, arg != NULL, RELOCK_NEVER, &lane) != RELOCK_OK)
        return RELOCK_LOST;
    nth = atomic_fetch_add(&n_served, 1);
    relock_lanes_leave(lanes, lane);
    return nth;
}

/* A failed attempt to join shows that a caller waits. */
static bool somebody_waits(void *arg)
{
    struct relock_lane *lane;
    int r = relock_lanes_join(lanes, false, relock_clock_now_ms(), &lane);

    (void)arg;
    if (r == RELOCK_OK)
        relock_lanes_leave(lanes, lane);
    return r != RELOCK_OK;
}

/* If others could join meanwhile, a caller that wants a lane alone would wait for ever. */
static void later_callers_wait_behind_one_that_wants_a_lane_alone(void **state)
{
    struct relock_lane *others[] = {join(false), join(false)};
    struct actor *actors[] = {actor_start(), actor_start(), actor_start()};
    int nth[3];

    (void)state;

    /* The first is in the queue. The order of the others does not matter. */
    for (int i = 0; i < 3; i++) {
        actor_begin(actors[i], be_served, i < 2 ? &n_served : NULL);
        if (i == 0)
            assert_true(wait_until(somebody_waits, NULL, SOON_MS));
        else
            let_pass(20);
    }
    assert_int_equal(atomic_load(&n_served), 0);
    relock_lanes_leave(lanes, others[0]);
    for (int i = 0; i < 3; i++)
        nth[i] = actor_result(actors[i]);
    assert_true(nth[0] >= 0 && nth[0] < nth[1]); /* one after the other */
    assert_true(nth[2] >= 0);
    actor_end_all();
    others[0] = join(false);
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, others[i]);
}

static int ask_alone_in_vain(void *arg)
{
    struct relock_lane *lane;

    return relock_lanes_join(lanes, true, *(uint64_t *)arg, &lane);
}

static void a_caller_that_times_out_admits_those_behind_it(void **state)
{
    struct relock_lane *others[] = {join(false), join(false)};
    struct actor *before = actor_start(), *behind = actor_start();
    uint64_t deadline_ms = in_ms(slow_ms(BRIEF_MS));

    (void)state;

    actor_begin(before, ask_alone_in_vain, &deadline_ms);
    let_pass(5);
    actor_begin(behind, be_served, NULL);
    assert_int_equal(actor_result(before), RELOCK_E_CONN);
    assert_true(actor_result(behind) >= 0);
    actor_end_all();
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, others[i]);
}

static _Atomic(struct relock_lane *) taken[2]; /* lanes that the actors use alone */

static bool mark(struct relock_lane *from, struct relock_lane *to)
{
    for (int i = 0; i < 2; i++) {
        struct relock_lane *expected = from;

        if (atomic_compare_exchange_strong(&taken[i], &expected, to))
            return true;
    }
    return false;
}

/* Some time out at once, others at the moment when a lane becomes free. */
static int join_alone_often(void *arg)
{
    (void)arg;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        struct relock_lane *mine;

        if (relock_lanes_join(lanes, true, in_ms(round % 2), &mine) != RELOCK_OK)
            continue;
        if (atomic_load(&taken[0]) == mine || atomic_load(&taken[1]) == mine || !mark(NULL, mine))
            return RELOCK_BUSY;
        sched_yield();
        if (!mark(mine, NULL))
            return RELOCK_LOST;
        relock_lanes_leave(lanes, mine);
    }
    return RELOCK_OK;
}

static void no_lane_is_ever_used_alone_by_two_or_lost(void **state)
{
    struct actor *actors[N_ACTORS];
    struct relock_lane *both[2];

    (void)state;

    for (int i = 0; i < N_ACTORS; i++)
        actors[i] = actor_start();
    for (int i = 0; i < N_ACTORS; i++)
        actor_begin(actors[i], join_alone_often, NULL);
    for (int i = 0; i < N_ACTORS; i++)
        assert_int_equal(actor_result(actors[i]), RELOCK_OK);
    actor_end_all();

    for (int i = 0; i < 2; i++)
        both[i] = join(true);
    assert_ptr_not_equal(both[0], both[1]);
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, both[i]);
}

/* ---- giving connections away --------------------------------------------------------------- */

/* Two lanes. The driver of the first one noted that it is connected, but that has ended since; the
 * second one is in use. */
static void join_both(struct relock_lane *lane[2])
{
    lane[0] = join(false);
    lane[1] = join(false);
    atomic_store(&lane[0]->is_up, true);
    relock_lanes_leave(lanes, lane[0]);
}

static void calls_leave_a_lane_alone_that_works_not_an_idle_one_that_has_ended(void **state)
{
    struct relock_lane *lane[2];
    struct relock_loan loan;

    (void)state;

    join_both(lane);
    atomic_store(&lane[1]->is_up, true);
    assert_false(relock_lanes_lend(lanes, &loan));
    assert_ptr_equal(join(false), lane[0]);
    assert_ptr_equal(join(false), lane[0]);
    for (int i = 0; i < 2; i++)
        relock_lanes_leave(lanes, lane[0]);
    relock_lanes_leave(lanes, lane[1]);
}

static void a_connection_is_wanted_although_an_idle_one_has_not_failed_yet(void **state)
{
    struct relock_lane *lane[2];

    (void)state;

    join_both(lane);
    relock_spare_want(lane[1]->spare);
    assert_true(relock_lanes_want(lanes));
    assert_false(relock_lanes_want(lanes)); /* once */
    relock_lanes_leave(lanes, lane[1]);
}

static void a_caller_that_a_claim_holds_up_is_admitted_when_the_connection_is_given(void **state)
{
    struct relock_call call = {.script = &relock_script_renew, .key = {"orders", 6}};
    struct relock_lane *connected, *alone;
    struct actor *waiting = actor_start();
    struct relock_loan loan;

    (void)state;

    talk_connect(&call, 1);
    connected = join(false);
    alone = join(true);
    assert_false(relock_lanes_lend(lanes, &loan));
    relock_lanes_leave(lanes, connected);
    actor_begin(waiting, be_served, NULL);
    let_pass(BRIEFLY_MS); /* if it is late, it need not wait */
    assert_true(relock_lanes_lend(lanes, &loan));
    assert_true(actor_result(waiting) >= 0);
    actor_end_all();
    relock_lanes_leave(lanes, alone);
    relock_lanes_give(lanes, &loan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TALK_TEST(the_lane_left_last_is_reused_first),
        TALK_TEST(a_lane_that_could_not_connect_is_joined_only_if_no_other_can),
        TALK_TEST(the_lane_with_the_fewest_users_is_joined_when_all_are_busy),
        TALK_TEST(a_few_calls_share_one_lane_and_more_share_two),
        TALK_TEST(with_tls_calls_share_no_fewer_than_two_lanes),
        TALK_TEST(calls_spread_over_many_lanes_when_they_are_few_more_than_these),
        TALK_TEST(a_lane_that_falls_idle_takes_no_call_from_the_few_that_many_share),
        TALK_TEST(a_lane_in_use_cannot_be_used_alone),
        TALK_TEST(a_lane_that_is_used_alone_is_not_joined),
        TALK_TEST(a_caller_waits_until_its_deadline_when_all_lanes_are_used_alone),
        TALK_TEST(later_callers_wait_behind_one_that_wants_a_lane_alone),
        TALK_TEST(a_caller_that_times_out_admits_those_behind_it),
        TALK_TEST(no_lane_is_ever_used_alone_by_two_or_lost),
        TALK_TEST(calls_leave_a_lane_alone_that_works_not_an_idle_one_that_has_ended),
        TALK_TEST(a_connection_is_wanted_although_an_idle_one_has_not_failed_yet),
        TALK_TEST(a_caller_that_a_claim_holds_up_is_admitted_when_the_connection_is_given),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
