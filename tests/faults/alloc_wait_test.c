/* Without memory: waiting for a lock. */
#include "support/keeping.h"
#include "trial.h"

static void peer_holds_briefly(struct trial *trial)
{
    assert_true(peer_lock(trial->f->probe, "orders", PEER, 100));
}

static void a_waiter_gets_the_lock_or_an_error(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .before = peer_holds_briefly,
                                      .act = trial_wait_for_lock,
                                      .after = trial_unlock_if_held});
}

/* Its first attempt, for which nothing is prepared, joins the line. */
static void peer_holds_briefly_and_inbox_is_open(struct trial *trial)
{
    keeping_await(trial->client);
    peer_holds_briefly(trial);
}

static void unlock_for_good(struct trial *trial, int result)
{
    trial_unlock_if_held(trial, result);
    relock_force_unlock(trial->lock);
}

static void a_waiter_in_the_line_gets_the_lock_or_an_error(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .options = {.keep_ms = LONG_MS},
                                      .before = peer_holds_briefly_and_inbox_is_open,
                                      .act = trial_wait_for_lock,
                                      .after = unlock_for_good});
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
                                      .before = trial_peer_holds,
                                      .act = wait_in_vain,
                                      .after = trial_peer_goes});
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
    trial_peer_holds(trial);
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
    trial_peer_goes(trial, result);
}

static void a_cancelled_wait_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .answer = RELOCK_CANCELLED,
                                      .before = peer_holds_and_actor_fires,
                                      .act = wait_cancelled,
                                      .after = free_cancel});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_waiter_gets_the_lock_or_an_error),
        TRIAL_TEST(a_waiter_in_the_line_gets_the_lock_or_an_error),
        TRIAL_TEST(a_wait_that_times_out_leaves_nothing),
        TRIAL_TEST(a_cancelled_wait_leaves_nothing),
        TRIAL_TEST_OF(a_waiter_gets_the_lock_or_an_error, fair),
        TRIAL_TEST_OF(a_wait_that_times_out_leaves_nothing, fair),
    };

    trial_refuse_some(argc, argv, 3);
    return TRIAL_TESTS_RUN(tests);
}
