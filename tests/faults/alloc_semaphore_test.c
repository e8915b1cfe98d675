/* Without memory: semaphores. */
#include "trial.h"

#define N_PERMITS 3

static struct relock_lock *semaphore;

static void make(struct trial *trial)
{
    assert_result(relock_semaphore_new(trial->client, "pages", &semaphore), RELOCK_OK);
    assert_result(relock_semaphore_set(semaphore, N_PERMITS), RELOCK_OK);
}

static bool are_all_free(void *probe)
{
    return probe_int(probe, "GET pages") == N_PERMITS;
}

/* What was acquired goes back, here or by the I/O thread. */
static void drop(struct trial *trial, int result)
{
    (void)result;
    while (relock_unlock(semaphore) != RELOCK_NOT_OWNER)
        ;
    assert_true(wait_until(are_all_free, trial->f->probe, SOON_MS));
    assert_int_equal(probe_int(trial->f->probe, "DEL pages"), 1);
    semaphore = relock_lock_free(semaphore);
}

static int take_two(struct trial *trial)
{
    (void)trial;
    return relock_acquire(semaphore, &(struct relock_how){.permits = 2}, NULL);
}

static void has_two_or_none(struct trial *trial, int result)
{
    struct relock_grant grant;
    int r = relock_check(semaphore, 0, &grant);

    assert_result(r, result == RELOCK_OK ? RELOCK_OK : RELOCK_NOT_OWNER);
    assert_int_equal(grant.permits, result == RELOCK_OK ? 2 : 0);
    drop(trial, result);
}

static void permits_are_acquired_or_not(void **state)
{
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = make, .act = take_two, .after = has_two_or_none});
}

static void make_and_take(struct trial *trial)
{
    make(trial);
    assert_result(take_two(trial), RELOCK_OK);
}

static int take_one(struct trial *trial)
{
    (void)trial;
    return relock_acquire(semaphore, &(struct relock_how){.permits = 1}, NULL);
}

static void has_one_hold_or_two(struct trial *trial, int result)
{
    struct relock_grant grant;

    assert_result(relock_check(semaphore, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.permits, result == RELOCK_OK ? 3 : 2);
    drop(trial, result);
}

static void further_permits_are_acquired_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = make_and_take,
                                      .act = take_one,
                                      .after = has_one_hold_or_two});
}

/* The wait ends by its time, or for lack of memory. */
static int wait_for_two(struct trial *trial)
{
    struct relock_how how = {.permits = 2, .wait_ms = 50, .owner = relock_owner_new()};

    (void)trial;
    return relock_acquire(semaphore, &how, NULL);
}

static void a_wait_for_permits_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_TIMEOUT,
                                      .before = make_and_take,
                                      .act = wait_for_two,
                                      .after = drop});
}

static int give_back(struct trial *trial)
{
    (void)trial;
    return relock_unlock(semaphore);
}

static void permits_go_back(void **state)
{
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = make_and_take, .act = give_back, .after = drop});
}

static int set(struct trial *trial)
{
    (void)trial;
    return relock_semaphore_set(semaphore, N_PERMITS);
}

static void the_number_is_set_or_not(void **state)
{
    trial_play(state,
               &(struct scene){.whose = ALLOC_MINE, .before = make, .act = set, .after = drop});
}

/* ---- as a member --------------------------------------------------------------------------- */

static struct relock_lock *both;

static void make_both(struct trial *trial)
{
    make(trial);
    assert_result(relock_multilock_new((struct relock_lock *[]){semaphore, trial->lock}, 2, &both),
                  RELOCK_OK);
}

static int take_both(struct trial *trial)
{
    (void)trial;
    return relock_acquire(both, NULL, NULL);
}

static void has_both_or_none(struct trial *trial, int result)
{
    assert_result(relock_check(both, 0, NULL), result == RELOCK_OK ? RELOCK_OK : RELOCK_NOT_OWNER);
    while (relock_unlock(both) != RELOCK_NOT_OWNER)
        ;
    assert_result(relock_check(trial->lock, 0, NULL), RELOCK_NOT_OWNER);
    both = relock_lock_free(both);
    drop(trial, result);
}

static void a_multi_lock_has_its_permit_or_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = make_both,
                                      .act = take_both,
                                      .after = has_both_or_none});
}

static void make_and_take_both(struct trial *trial)
{
    make_both(trial);
    assert_result(take_both(trial), RELOCK_OK);
}

static void has_one_level_or_two(struct trial *trial, int result)
{
    struct relock_grant grant;

    assert_result(relock_check(both, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, result == RELOCK_OK ? 2 : 1);
    assert_int_equal(probe_int(trial->f->probe, "GET pages"), N_PERMITS - 1);
    while (relock_unlock(both) != RELOCK_NOT_OWNER)
        ;
    both = relock_lock_free(both);
    drop(trial, result);
}

static void a_further_level_keeps_its_permit(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = make_and_take_both,
                                      .act = take_both,
                                      .after = has_one_level_or_two});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(permits_are_acquired_or_not),
        TRIAL_TEST(further_permits_are_acquired_or_not),
        TRIAL_TEST(a_wait_for_permits_leaves_nothing),
        TRIAL_TEST(permits_go_back),
        TRIAL_TEST(the_number_is_set_or_not),
        TRIAL_TEST(a_multi_lock_has_its_permit_or_nothing),
        TRIAL_TEST(a_further_level_keeps_its_permit),
    };

    return TRIAL_TESTS_RUN(tests);
}
