/* Without memory: releasing a lock, extending it and querying it. */
#include "trial.h"

#include <pthread.h>

#define N_KEYS 40 /* more than libc reserves for each thread */

static void hold_twice(struct trial *trial)
{
    trial_hold(trial);
    trial_hold(trial);
}

static void hold_and_cut(struct trial *trial)
{
    trial_hold(trial);
    assert_true(probe_int(trial->f->probe, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

static void is_given_up(struct trial *trial, int result)
{
    (void)result;
    assert_result(relock_check(trial->lock, 0, NULL), RELOCK_NOT_OWNER);
}

/* ---- giving up ----------------------------------------------------------------------------- */

static void the_last_level_is_released(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = trial_hold,
                                      .act = trial_release,
                                      .after = is_given_up});
}

static void the_last_level_is_released_over_a_new_connection(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = hold_and_cut,
                                      .act = trial_release,
                                      .after = is_given_up});
}

static void an_inner_level_is_released_and_the_outer_stays(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = hold_twice,
                                      .act = trial_release,
                                      .after = trial_unlock_in_any_case});
}

static void hold_and_actor_waits(struct trial *trial)
{
    trial_hold(trial);
    actor_begin_lock(trial->actor, trial->lock);
    assert_true(wait_for_waiters(trial->client, 1));
}

/* It may not be handed off any more. */
static void hold_long_and_actor_waits(struct trial *trial)
{
    hold_and_actor_waits(trial);
    let_pass(5);
}

static void actor_has_it(struct trial *trial, int result)
{
    (void)result;
    assert_gets_in(trial->actor, trial->lock);
}

static void a_hold_is_handed_off_without_memory(void **state)
{
    trial_play_without(state, &(struct scene){.whose = ALLOC_MINE,
                                              .options = {.handoff_ms = LONG_MS},
                                              .before = hold_and_actor_waits,
                                              .act = trial_release,
                                              .after = actor_has_it});
}

static void a_waiter_gets_the_lock_when_the_release_cannot_be_sent(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .options = {.handoff_ms = 1},
                                      .before = hold_long_and_actor_waits,
                                      .act = trial_release,
                                      .after = actor_has_it});
}

static void hold_and_lose(struct trial *trial)
{
    trial_hold(trial);
    assert_int_equal(probe_int(trial->f->probe, "DEL orders"), 1);
}

static void a_lost_hold_is_released(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_LOST,
                                      .before = hold_and_lose,
                                      .act = trial_release,
                                      .after = is_given_up});
}

/* The library notices the end of a thread by thread-specific data, which needs memory too. */
static void *lock_and_end(void *arg)
{
    struct trial *trial = arg;

    trial->seen = (uint64_t)(int64_t)relock_lock(trial->lock);
    return NULL;
}

static int a_thread_ends(struct trial *trial)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, lock_and_end, trial) != 0)
        return RELOCK_BUSY;
    pthread_join(thread, NULL);
    return RELOCK_OK;
}

static void it_was_told(struct trial *trial, int result)
{
    int r = (int)(int64_t)trial->seen;

    assert_result(result, RELOCK_OK);
    if (r != RELOCK_OK)
        assert_result(r, RELOCK_E_NOMEM);
}

static void a_thread_that_ends_releases_its_holds(void **state)
{
    trial_play(state,
               &(struct scene){.whose = ALLOC_OTHERS, .act = a_thread_ends, .after = it_was_told});
}

/* ---- keeping and asking -------------------------------------------------------------------- */

static int extend(struct trial *trial)
{
    return relock_extend(trial->lock, 0, slow_ms(2 * LEASE_MS));
}

static void a_failed_extension_keeps_the_hold(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = trial_hold,
                                      .act = extend,
                                      .after = trial_unlock_in_any_case});
}

static int who_holds(struct trial *trial)
{
    struct relock_holder holder;

    return relock_who_holds(trial->lock, &holder);
}

static int is_locked(struct trial *trial)
{
    bool locked;

    return relock_is_locked(trial->lock, &locked);
}

static int hold_count(struct trial *trial)
{
    unsigned count;

    return relock_hold_count(trial->lock, &count);
}

static int ttl_ms(struct trial *trial)
{
    int64_t ms;

    return relock_ttl_ms(trial->lock, &ms);
}

static void a_query_changes_nothing(void **state)
{
    int (*const questions[])(struct trial *) = {who_holds, is_locked, hold_count, ttl_ms};

    for (size_t i = 0; i < sizeof(questions) / sizeof(*questions); i++)
        trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                          .before = trial_hold,
                                          .act = questions[i],
                                          .after = trial_unlock_in_any_case});
}

static int force(struct trial *trial)
{
    return relock_force_unlock(trial->lock);
}

/* Without an answer: the command may have run. */
static void peer_is_out(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_int_equal(probe_n_keys(trial->f->probe), 0);
    else
        probe_int(trial->f->probe, "DEL orders");
}

static void a_lock_is_freed_by_force_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = trial_peer_holds,
                                      .act = force,
                                      .after = peer_is_out});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(the_last_level_is_released),
        TRIAL_TEST(the_last_level_is_released_over_a_new_connection),
        TRIAL_TEST(an_inner_level_is_released_and_the_outer_stays),
        TRIAL_TEST(a_hold_is_handed_off_without_memory),
        TRIAL_TEST(a_waiter_gets_the_lock_when_the_release_cannot_be_sent),
        TRIAL_TEST(a_lost_hold_is_released),
        TRIAL_TEST(a_thread_that_ends_releases_its_holds),
        TRIAL_TEST(a_failed_extension_keeps_the_hold),
        TRIAL_TEST(a_query_changes_nothing),
        TRIAL_TEST(a_lock_is_freed_by_force_or_not),
    };

    for (int i = 0; i < N_KEYS; i++) {
        pthread_key_t key;

        if (pthread_key_create(&key, NULL) != 0)
            return 1;
    }
    return TRIAL_TESTS_RUN(tests);
}
