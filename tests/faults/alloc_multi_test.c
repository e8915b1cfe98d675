/* Without memory: multi locks. */
#include "trial.h"

static struct relock_lock *both, *more;
static struct relock_grant grant; /* from the last acquire */

/* ---- handles ------------------------------------------------------------------------------- */

static int make(struct trial *trial, struct relock_lock **lock)
{
    return relock_multilock_new((struct relock_lock *[]){trial->lock, trial->other}, 2, lock);
}

static int make_both(struct trial *trial)
{
    return make(trial, &both);
}

static int make_more(struct trial *trial)
{
    return make(trial, &more);
}

static void has_members(struct trial *trial)
{
    assert_result(relock_lock_new(trial->client, "ledger", &trial->other), RELOCK_OK);
}

static void has_both(struct trial *trial)
{
    has_members(trial);
    assert_result(make_both(trial), RELOCK_OK);
}

static void drop(struct trial *trial, int result)
{
    (void)result;
    both = relock_lock_free(both);
    more = relock_lock_free(more);
    trial->other = relock_lock_free(trial->other);
}

static void drop_made(struct trial *trial, int result)
{
    assert_true((result == RELOCK_OK) == (both != NULL));
    drop(trial, result);
}

static void a_handle_is_made_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = has_members,
                                      .act = make_both,
                                      .after = drop_made});
}

static void a_second_handle_of_the_same_members_is_made_or_not(void **state)
{
    trial_play(
        state,
        &(struct scene){.whose = ALLOC_MINE, .before = has_both, .act = make_more, .after = drop});
}

/* ---- taking -------------------------------------------------------------------------------- */

static int take(struct trial *trial)
{
    (void)trial;
    return relock_acquire(both, NULL, &grant);
}

static int take_for_a_time(struct trial *trial)
{
    (void)trial;
    return relock_acquire(both, &(struct relock_how){.lease_ms = LONG_MS}, &grant);
}

/* Either all members are held or none, and the lock can be acquired. */
static void give_up(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_result(relock_unlock(both), RELOCK_OK);
    assert_int_equal(grant.failed_member != NULL, result != RELOCK_OK);
    assert_result(relock_check(both, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(trial->lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(trial->other, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_timedlock(both, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(both), RELOCK_OK);
    drop(trial, result);
}

static void all_members_are_taken_or_none(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE, .before = has_both, .act = take, .after = give_up});
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = has_both,
                                      .act = take_for_a_time,
                                      .after = give_up});
}

static void stranger_holds_briefly(struct trial *trial)
{
    has_both(trial);
    assert_true(peer_lock(trial->f->probe, "orders", PEER, 100));
}

static int wait_for_both(struct trial *trial)
{
    (void)trial;
    return relock_acquire(both, &(struct relock_how){.wait_ms = (int64_t)slow_ms(SOON_MS)}, &grant);
}

static void a_waiter_for_a_member_gets_all_members_or_an_error(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .before = stranger_holds_briefly,
                                      .act = wait_for_both,
                                      .after = give_up});
}

static void hold(struct trial *trial)
{
    has_both(trial);
    assert_result(relock_lock(both), RELOCK_OK);
}

static void still_held(struct trial *trial, int result)
{
    assert_int_equal(grant.failed_member != NULL, result != RELOCK_OK);
    assert_result(relock_check(both, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, result == RELOCK_OK ? 2 : 1);
    if (result == RELOCK_OK)
        assert_result(relock_unlock(both), RELOCK_OK);
    assert_result(relock_unlock(both), RELOCK_OK);
    assert_result(relock_check(trial->lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(trial->other, 0, NULL), RELOCK_NOT_OWNER);
    drop(trial, result);
}

static void a_further_level_is_taken_of_all_members_or_of_none(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE, .before = hold, .act = take, .after = still_held});
}

/* ---- giving up ----------------------------------------------------------------------------- */

static int release(struct trial *trial)
{
    (void)trial;
    return relock_unlock(both);
}

static void is_given_up(struct trial *trial, int result)
{
    assert_result(relock_check(both, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(trial->lock, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_check(trial->other, 0, NULL), RELOCK_NOT_OWNER);
    drop(trial, result);
}

static void all_members_are_released(void **state)
{
    trial_play(
        state,
        &(struct scene){.whose = ALLOC_MINE, .before = hold, .act = release, .after = is_given_up});
}

static void lose_one(struct trial *trial)
{
    hold(trial);
    assert_int_equal(probe_int(trial->f->probe, "DEL ledger"), 1);
    assert_result(relock_lock(both), RELOCK_LOST);
}

static void a_lost_multi_lock_is_released(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_LOST,
                                      .before = lose_one,
                                      .act = release,
                                      .after = is_given_up});
}

/* ---- asking -------------------------------------------------------------------------------- */

static int check(struct trial *trial)
{
    (void)trial;
    return relock_check(both, 0, NULL);
}

static void unlock(struct trial *trial, int result)
{
    assert_result(relock_unlock(both), RELOCK_OK);
    drop(trial, result);
}

static int ask(struct trial *trial)
{
    struct relock_holder holder;

    (void)trial;
    return relock_who_holds(both, &holder);
}

static void a_query_answers_or_fails(void **state)
{
    trial_play(state,
               &(struct scene){.whose = ALLOC_MINE, .before = hold, .act = ask, .after = unlock});
}

static void queries_from_memory_allocate_nothing(void **state)
{
    trial_play_without(
        state, &(struct scene){.whose = ALLOC_MINE, .before = hold, .act = check, .after = unlock});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_handle_is_made_or_not),
        TRIAL_TEST(a_second_handle_of_the_same_members_is_made_or_not),
        TRIAL_TEST(all_members_are_taken_or_none),
        TRIAL_TEST(a_waiter_for_a_member_gets_all_members_or_an_error),
        TRIAL_TEST(a_further_level_is_taken_of_all_members_or_of_none),
        TRIAL_TEST(all_members_are_released),
        TRIAL_TEST(a_lost_multi_lock_is_released),
        TRIAL_TEST(a_query_answers_or_fails),
        TRIAL_TEST(queries_from_memory_allocate_nothing),
    };

    return TRIAL_TESTS_RUN(tests);
}
