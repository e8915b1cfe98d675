/* Without memory: latches and unleased semaphores. */
#include "trial.h"

static struct relock_latch *latch;
static struct relock_unleased *jobs;

/* ---- handles ------------------------------------------------------------------------------- */

static int make_both(struct trial *trial)
{
    int r = relock_latch_new(trial->client, "start", &latch);

    if (r == RELOCK_OK)
        r = relock_unleased_new(trial->client, "jobs", &jobs);
    return r;
}

static void free_both(struct trial *trial, int result)
{
    (void)trial;
    (void)result;
    latch = relock_latch_free(latch);
    jobs = relock_unleased_free(jobs);
}

static void handles_are_made_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE, .act = make_both, .after = free_both});
}

/* ---- commands ------------------------------------------------------------------------------ */

static void begin(struct trial *trial)
{
    assert_result(make_both(trial), RELOCK_OK);
    probe_int(trial->f->probe, "MSET start 5 jobs 5");
}

/* Its connections are gone. */
static void begin_cut(struct trial *trial)
{
    begin(trial);
    assert_true(probe_int(trial->f->probe, "CLIENT KILL TYPE normal SKIPME yes") > 0);
}

/* The program is told that it does not know if the command was sent: no memory for the answer. */
static int known(struct trial *trial, int result)
{
    trial->seen = result == RELOCK_E_CONN;
    return result == RELOCK_E_CONN ? RELOCK_E_NOMEM : result;
}

static int count_down(struct trial *trial)
{
    return known(trial, relock_latch_count_down(latch));
}

static int acquire(struct trial *trial)
{
    return known(trial, relock_unleased_acquire(jobs, 1, SOON_MS, NULL));
}

static int release(struct trial *trial)
{
    return known(trial, relock_unleased_release(jobs, 1));
}

static void has_run(struct trial *trial, const char *key, long long after, int result)
{
    long long now = probe_int(trial->f->probe, "GET %s", key);

    if (result == RELOCK_OK)
        assert_int_equal(now, after);
    else if (!trial->seen)
        assert_int_equal(now, 5);
    else
        assert_true(now == 5 || now == after);
    probe_int(trial->f->probe, "DEL start jobs");
    free_both(trial, result);
}

static void has_counted(struct trial *trial, int result)
{
    has_run(trial, "start", 4, result);
}

static void has_acquired(struct trial *trial, int result)
{
    has_run(trial, "jobs", 4, result);
}

static void has_released(struct trial *trial, int result)
{
    has_run(trial, "jobs", 6, result);
}

static void a_command_runs_once_or_not_at_all(void **state)
{
    static void (*const begins[])(struct trial *) = {begin, begin_cut};

    for (size_t i = 0; i < 2; i++) {
        trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                          .before = begins[i],
                                          .act = count_down,
                                          .after = has_counted});
        trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                          .before = begins[i],
                                          .act = acquire,
                                          .after = has_acquired});
        trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                          .before = begins[i],
                                          .act = release,
                                          .after = has_released});
    }
}

/* ---- waiting ------------------------------------------------------------------------------- */

/* The actor, which has memory, opens the latch as soon as the call waits. */
static int open_latch(void *arg)
{
    struct trial *trial = arg;

    while (!trial->done && stats_of(trial->client).waits == 0)
        let_pass(1);
    return relock_latch_delete(latch, NULL);
}

static void begin_to_wait(struct trial *trial)
{
    assert_result(make_both(trial), RELOCK_OK);
    probe_int(trial->f->probe, "SET start 1");
    actor_begin(trial->actor, open_latch, trial);
}

static int wait_for_latch(struct trial *trial)
{
    (void)trial;
    return relock_latch_wait(latch, RELOCK_FOREVER, NULL);
}

static void has_waited(struct trial *trial, int result)
{
    int opened = actor_result(trial->actor);

    assert_true(opened == RELOCK_OK || opened == RELOCK_E_CONN || opened == RELOCK_E_NOMEM);
    probe_int(trial->f->probe, "DEL start");
    free_both(trial, result);
}

/* Without memory for the subscription, it looks every recheck_ms. */
static void a_waiter_gets_through_or_its_call_fails(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = begin_to_wait,
                                      .act = wait_for_latch,
                                      .after = has_waited});
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .before = begin_to_wait,
                                      .act = wait_for_latch,
                                      .after = has_waited});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(handles_are_made_or_not),
        TRIAL_TEST(a_command_runs_once_or_not_at_all),
        TRIAL_TEST(a_waiter_gets_through_or_its_call_fails),
    };

    return TRIAL_TESTS_RUN(tests);
}
