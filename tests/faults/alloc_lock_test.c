/* Without memory: acquiring a lock. */
#include "trial.h"

/* ---- what was there before ----------------------------------------------------------------- */

static void cut(struct trial *trial)
{
    assert_true(probe_int(trial->f->probe, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

static void flush_scripts(struct trial *trial)
{
    probe_int(trial->f->probe, "SCRIPT FLUSH");
}

/* ---- what comes after ---------------------------------------------------------------------- */

static int make_one(struct trial *trial)
{
    int r = kind_now()->constructor(trial->client, "jobs", &trial->other);

    if (r == RELOCK_OK)
        trial->other = relock_lock_free(trial->other);
    return r;
}

static void a_handle_is_made_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE, .act = make_one});
}

/* ---- taking -------------------------------------------------------------------------------- */

static void a_lock_is_taken_or_free(void **state)
{
    trial_play(
        state,
        &(struct scene){.whose = ALLOC_MINE, .act = trial_trylock, .after = trial_unlock_if_held});
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .act = trial_wait_for_lock,
                                      .after = trial_unlock_if_held});
}

static void a_lock_over_a_new_connection_is_taken_or_free(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = cut,
                                      .act = trial_trylock,
                                      .after = trial_unlock_if_held});
}

static void a_lock_whose_script_must_be_loaded_is_taken_or_free(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = flush_scripts,
                                      .act = trial_trylock,
                                      .after = trial_unlock_if_held});
}

static int acquire_for_a_time(struct trial *trial)
{
    struct relock_how how = {.owner = relock_owner_new(), .lease_ms = slow_ms(LEASE_MS)};
    struct relock_grant grant;
    int r = relock_acquire(trial->lock, &how, &grant);

    trial->seen = grant.owner;
    return r;
}

static void release_owner(struct trial *trial, int result)
{
    assert_true((result == RELOCK_OK) == (trial->seen != 0));
    if (result == RELOCK_OK)
        assert_result(relock_release(trial->lock, trial->seen), RELOCK_OK);
}

static void a_lock_for_an_explicit_owner_is_taken_or_free(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE, .act = acquire_for_a_time, .after = release_owner});
}

static void is_held_once_or_twice(struct trial *trial, int result)
{
    struct relock_grant grant;

    assert_result(relock_check(trial->lock, 0, &grant), RELOCK_OK);
    assert_int_equal(grant.hold_count, result == RELOCK_OK ? 2 : 1);
    if (result == RELOCK_OK)
        assert_result(relock_unlock(trial->lock), RELOCK_OK);
    assert_result(relock_unlock(trial->lock), RELOCK_OK);
}

static void an_inner_level_is_taken_or_not_and_the_outer_stays(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = trial_hold,
                                      .act = trial_trylock,
                                      .after = is_held_once_or_twice});
}

static void a_refusal_adds_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_BUSY,
                                      .before = trial_peer_holds,
                                      .act = trial_trylock,
                                      .after = trial_peer_goes});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_lock_is_taken_or_free),
        TRIAL_TEST(a_lock_over_a_new_connection_is_taken_or_free),
        TRIAL_TEST(a_lock_whose_script_must_be_loaded_is_taken_or_free),
        TRIAL_TEST(a_lock_for_an_explicit_owner_is_taken_or_free),
        TRIAL_TEST(an_inner_level_is_taken_or_not_and_the_outer_stays),
        TRIAL_TEST(a_refusal_adds_nothing),
        TRIAL_TEST_OF(a_handle_is_made_or_not, fair),
        TRIAL_TEST_OF(a_lock_is_taken_or_free, fair),
        TRIAL_TEST_OF(a_refusal_adds_nothing, fair),
    };

    return TRIAL_TESTS_RUN(tests);
}
