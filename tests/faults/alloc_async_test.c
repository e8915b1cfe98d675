/* Without memory: asynchronous calls. */
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

/* ---- on the I/O thread --------------------------------------------------------------------- */

#define N_PAIRS 3

/* Calls that wait for each other, as each has an owner of its own, and release at once. */
static struct pair {
    struct relock_lock *lock;
    int result; /* REACTOR_NOTHING: it goes on */
} pairs[N_PAIRS];

static void end_pair(int result, void *arg)
{
    ((struct pair *)arg)->result = result;
}

static void release_at_once(int result, const struct relock_grant *grant, void *arg)
{
    struct pair *pair = arg;

    if (result == RELOCK_OK)
        result = relock_release_async(pair->lock, grant->owner, events, end_pair, pair);
    if (result != RELOCK_OK)
        pair->result = result;
}

static bool have_ended(void *arg)
{
    (void)arg;
    (void)relock_events_dispatch(events);
    for (unsigned i = 0; i < N_PAIRS; i++)
        if (pairs[i].result == REACTOR_NOTHING)
            return false;
    return true;
}

/* If memory stays refused, they end after it is back. */
static int run_pairs(struct trial *trial)
{
    const struct relock_how how = {.wait_ms = NEVER_MS};
    int r = RELOCK_OK;

    for (unsigned i = 0; i < N_PAIRS && r == RELOCK_OK; i++) {
        pairs[i] = (struct pair){trial->lock, REACTOR_NOTHING};
        r = relock_acquire_async(trial->lock, &how, events, release_at_once, &pairs[i]);
    }
    if (r != RELOCK_OK)
        return r;
    return trial_wait(trial, have_ended, NULL) ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void all_have_ended(struct trial *trial, int result)
{
    (void)trial;
    (void)result;
    assert_true(wait_until(have_ended, NULL, SOON_MS));
    for (unsigned i = 0; i < N_PAIRS; i++)
        if (pairs[i].result != RELOCK_E_NOMEM)
            assert_result(pairs[i].result, RELOCK_OK);
    assert_null(relock_events_free(events));
}

static void play_pairs(void **state, void (*before)(struct trial *trial), size_t step)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .step = step,
                                      .before = before,
                                      .act = run_pairs,
                                      .after = all_have_ended});
}

static void calls_end_and_leave_nothing(void **state)
{
    play_pairs(state, make_queue, 1);
}

static void peer_holds_briefly(struct trial *trial)
{
    make_queue(trial);
    assert_true(peer_lock(trial->f->probe, "orders", PEER, 100));
}

static void waits_end_and_leave_nothing(void **state)
{
    play_pairs(state, peer_holds_briefly, 5);
}

static void connections_break(struct trial *trial)
{
    make_queue(trial);
    assert_true(probe_int(trial->f->probe, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

static void calls_over_new_connections_end_and_leave_nothing(void **state)
{
    play_pairs(state, connections_break, 1);
}

static void scripts_are_gone(struct trial *trial)
{
    make_queue(trial);
    (void)probe_int(trial->f->probe, "SCRIPT FLUSH");
}

static void calls_whose_scripts_must_be_loaded_end_and_leave_nothing(void **state)
{
    play_pairs(state, scripts_are_gone, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_lock_is_acquired_or_free),
        TRIAL_TEST(a_lock_is_released_or_held),
        TRIAL_TEST(a_queue_is_made_or_not),
        TRIAL_TEST(calls_end_and_leave_nothing),
        TRIAL_TEST(waits_end_and_leave_nothing),
        TRIAL_TEST_OF(waits_end_and_leave_nothing, fair),
        TRIAL_TEST(calls_over_new_connections_end_and_leave_nothing),
        TRIAL_TEST(calls_whose_scripts_must_be_loaded_end_and_leave_nothing),
    };
    return TRIAL_TESTS_RUN(tests);
}
