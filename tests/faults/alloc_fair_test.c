/* Without memory: a fair lock and its queue. */
#include "trial.h"

static void make_fair(struct trial *trial)
{
    trial->other = fixture_lock_of(trial->f, trial->client, "jobs", relock_fairlock_new);
}

static void make_fair_that_a_peer_holds(struct trial *trial)
{
    make_fair(trial);
    assert_true(peer_lock(trial->f->probe, "jobs", PEER, LONG_MS));
}

static void make_fair_that_a_peer_holds_briefly(struct trial *trial)
{
    make_fair(trial);
    assert_true(peer_lock(trial->f->probe, "jobs", PEER, 100));
}

static void unlock(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_result(relock_unlock(trial->other), RELOCK_OK);
    assert_result(relock_unlock(trial->other), RELOCK_NOT_OWNER);
    fixture_free_lock(trial->f, trial->other);
}

static void peer_goes(struct trial *trial, int result)
{
    assert_true(peer_unlock(trial->f->probe, "jobs", PEER));
    unlock(trial, result);
}

static int trylock(struct trial *trial)
{
    return relock_trylock(trial->other);
}

static int wait_for_it(struct trial *trial)
{
    return relock_timedlock(trial->other, (int64_t)slow_ms(SOON_MS));
}

static int wait_in_vain(struct trial *trial)
{
    return relock_timedlock(trial->other, 30);
}

static void a_fair_lock_is_taken_or_free(void **state)
{
    trial_play(
        state,
        &(struct scene){.whose = ALLOC_MINE, .before = make_fair, .act = trylock, .after = unlock});
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = make_fair, .act = wait_for_it, .after = unlock});
}

static void a_refusal_adds_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_BUSY,
                                      .before = make_fair_that_a_peer_holds,
                                      .act = trylock,
                                      .after = peer_goes});
}

static void a_waiter_gets_the_lock_or_an_error(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .before = make_fair_that_a_peer_holds_briefly,
                                      .act = wait_for_it,
                                      .after = unlock});
}

/* No place stays in the queue, even if the thread that leaves it is refused memory. */
static void a_wait_that_times_out_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .answer = RELOCK_TIMEOUT,
                                      .before = make_fair_that_a_peer_holds,
                                      .act = wait_in_vain,
                                      .after = peer_goes});
}

static int make_one(struct trial *trial)
{
    int r = relock_fairlock_new(trial->client, "jobs", &trial->other);

    if (r == RELOCK_OK)
        trial->other = relock_lock_free(trial->other);
    return r;
}

static void a_fair_lock_is_made_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE, .act = make_one});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_fair_lock_is_made_or_not),
        TRIAL_TEST(a_fair_lock_is_taken_or_free),
        TRIAL_TEST(a_refusal_adds_nothing),
        TRIAL_TEST(a_waiter_gets_the_lock_or_an_error),
        TRIAL_TEST(a_wait_that_times_out_leaves_nothing),
    };

    return TRIAL_TESTS_RUN(tests);
}
