/* Without memory: calls that no thread waits in. */
#include "support/reactor.h"

#include "trial.h"

static struct relock_events *events;
static struct outcome acquired;

static void make_queue(struct trial *trial)
{
    events = reactor_events(trial->client);
}

static int acquire(struct trial *trial)
{
    int r = outcome_acquire(trial->lock, &(struct relock_how){.wait_ms = (int64_t)slow_ms(SOON_MS)},
                            events, &acquired);

    return r == RELOCK_OK ? reactor_await(events, &acquired) : r;
}

static void release(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_result(reactor_release(trial->lock, acquired.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void a_lock_is_acquired_or_free(void **state)
{
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = make_queue, .act = acquire, .after = release});
}

static void acquire_first(struct trial *trial)
{
    make_queue(trial);
    assert_result(acquire(trial), RELOCK_OK);
}

static int let_go(struct trial *trial)
{
    struct outcome released;
    int r = outcome_release(trial->lock, acquired.grant.owner, events, &released);

    return r == RELOCK_OK ? reactor_await(events, &released) : r;
}

static void let_go_again(struct trial *trial, int result)
{
    (void)result;
    if (relock_check(trial->lock, acquired.grant.owner, NULL) == RELOCK_OK)
        assert_result(reactor_release(trial->lock, acquired.grant.owner, events), RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void play_releasing(void **state, enum alloc_whose whose)
{
    trial_play(state,
               &(struct scene){
                   .whose = whose, .before = acquire_first, .act = let_go, .after = let_go_again});
}

static void a_lock_is_released_or_held(void **state)
{
    play_releasing(state, ALLOC_MINE);
}

static int make_one(struct trial *trial)
{
    struct relock_events *one;
    int r = relock_events_new(trial->client, &one);

    if (r == RELOCK_OK)
        (void)relock_events_free(one);
    return r;
}

static void a_queue_is_made_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE, .act = make_one});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_lock_is_acquired_or_free),
        TRIAL_TEST(a_lock_is_released_or_held),
        TRIAL_TEST(a_queue_is_made_or_not),
    };
    return TRIAL_TESTS_RUN(tests);
}
