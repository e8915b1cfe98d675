/* Without memory: acquiring a lock and waiting for it. */
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

static void peer_holds(struct trial *trial)
{
    assert_true(peer_lock(trial->f->probe, "orders", PEER, LONG_MS));
}

static void peer_holds_briefly(struct trial *trial)
{
    assert_true(peer_lock(trial->f->probe, "orders", PEER, 100));
}

/* ---- what comes after ---------------------------------------------------------------------- */

static void unlock(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_result(relock_unlock(trial->lock), RELOCK_OK);
    assert_result(relock_unlock(trial->lock), RELOCK_NOT_OWNER);
}

static void peer_goes(struct trial *trial, int result)
{
    (void)result;
    assert_true(peer_unlock(trial->f->probe, "orders", PEER));
}

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

static int trylock(struct trial *trial)
{
    return relock_trylock(trial->lock);
}

static int wait_for_it(struct trial *trial)
{
    return relock_timedlock(trial->lock, (int64_t)slow_ms(SOON_MS));
}

static void a_lock_is_taken_or_free(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE, .act = trylock, .after = unlock});
    trial_play(state, &(struct scene){.whose = ALLOC_MINE, .act = wait_for_it, .after = unlock});
}

static void a_lock_over_a_new_connection_is_taken_or_free(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE, .before = cut, .act = trylock, .after = unlock});
}

static void a_lock_whose_script_must_be_loaded_is_taken_or_free(void **state)
{
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = flush_scripts, .act = trylock, .after = unlock});
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
                                      .act = trylock,
                                      .after = is_held_once_or_twice});
}

static void a_refusal_adds_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_BUSY,
                                      .before = peer_holds,
                                      .act = trylock,
                                      .after = peer_goes});
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void a_waiter_gets_the_lock_or_an_error(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .before = peer_holds_briefly,
                                      .act = wait_for_it,
                                      .after = unlock});
}

static int wait_in_vain(struct trial *trial)
{
    return relock_timedlock(trial->lock, 30);
}

/* In the queue of a fair lock, too, even if the thread that leaves it is refused memory. */
static void a_wait_that_times_out_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .answer = RELOCK_TIMEOUT,
                                      .before = peer_holds,
                                      .act = wait_in_vain,
                                      .after = peer_goes});
}

static bool waits_or_is_done(void *arg)
{
    struct trial *trial = arg;
    struct relock_stats stats;

    return atomic_load(&trial->done) ||
           (relock_client_stats(trial->client, &stats, sizeof(stats)) == RELOCK_OK &&
            stats.waiters > 0);
}

static int fire(void *arg)
{
    struct trial *trial = arg;
    bool in_time = wait_until(waits_or_is_done, trial, SOON_MS);

    relock_cancel_fire(trial->cancel);
    return in_time ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void peer_holds_and_actor_fires(struct trial *trial)
{
    assert_result(relock_cancel_new(&trial->cancel), RELOCK_OK);
    peer_holds(trial);
    actor_begin(trial->actor, fire, trial);
}

static int wait_cancelled(struct trial *trial)
{
    struct relock_how how = {.wait_ms = RELOCK_FOREVER, .cancel = trial->cancel};

    return relock_acquire(trial->lock, &how, NULL);
}

static void free_cancel(struct trial *trial, int result)
{
    assert_result(actor_result(trial->actor), RELOCK_OK);
    trial->cancel = relock_cancel_free(trial->cancel);
    peer_goes(trial, result);
}

static void a_cancelled_wait_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_CANCELLED,
                                      .before = peer_holds_and_actor_fires,
                                      .act = wait_cancelled,
                                      .after = free_cancel});
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
        TRIAL_TEST(a_waiter_gets_the_lock_or_an_error),
        TRIAL_TEST(a_wait_that_times_out_leaves_nothing),
        TRIAL_TEST(a_cancelled_wait_leaves_nothing),
        TRIAL_TEST_OF(a_handle_is_made_or_not, fair),
        TRIAL_TEST_OF(a_lock_is_taken_or_free, fair),
        TRIAL_TEST_OF(a_refusal_adds_nothing, fair),
        TRIAL_TEST_OF(a_waiter_gets_the_lock_or_an_error, fair),
        TRIAL_TEST_OF(a_wait_that_times_out_leaves_nothing, fair),
    };

    return TRIAL_TESTS_RUN(tests);
}
