/* Without memory: both sides of a read/write lock. */
#include "trial.h"

static struct relock_lock *read_side, *write_side;

/* ---- handles ------------------------------------------------------------------------------- */

static int make_read(struct trial *trial)
{
    return relock_rdlock_new(trial->client, "pages", &read_side);
}

static int make_write(struct trial *trial)
{
    return relock_wrlock_new(trial->client, "pages", &write_side);
}

static void drop(struct trial *trial, int result)
{
    (void)trial;
    (void)result;
    read_side = relock_lock_free(read_side);
    write_side = relock_lock_free(write_side);
}

static void has_read(struct trial *trial)
{
    assert_result(make_read(trial), RELOCK_OK);
}

static void has_write(struct trial *trial)
{
    assert_result(make_write(trial), RELOCK_OK);
}

/* With the last handle the client forgets the name, which may then have another kind. */
static void drop_and_forget(struct trial *trial, int result)
{
    struct relock_lock *plain;

    drop(trial, result);
    assert_result(relock_lock_new(trial->client, "pages", &plain), RELOCK_OK);
    relock_lock_free(plain);
}

static void has_read_or_not(struct trial *trial, int result)
{
    assert_true((result == RELOCK_OK) == (read_side != NULL));
    drop_and_forget(trial, result);
}

static void has_write_or_not(struct trial *trial, int result)
{
    assert_true((result == RELOCK_OK) == (write_side != NULL));
    drop_and_forget(trial, result);
}

static void the_first_handle_of_either_side_is_made_or_not(void **state)
{
    trial_play(state,
               &(struct scene){.whose = ALLOC_MINE, .act = make_read, .after = has_read_or_not});
    trial_play(state,
               &(struct scene){.whose = ALLOC_MINE, .act = make_write, .after = has_write_or_not});
}

static void the_second_handle_of_either_side_is_made_or_not(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = has_write,
                                      .act = make_read,
                                      .after = has_read_or_not});
    /* A reader has the lock as well, and room for its first handle. */
    trial_play_without(state, &(struct scene){.whose = ALLOC_MINE,
                                              .before = has_read,
                                              .act = make_write,
                                              .after = has_write_or_not});
}

/* ---- taking -------------------------------------------------------------------------------- */

static void has_both(struct trial *trial)
{
    has_read(trial);
    has_write(trial);
}

static int try_to_read(struct trial *trial)
{
    (void)trial;
    return relock_trylock(read_side);
}

static int try_to_write(struct trial *trial)
{
    (void)trial;
    return relock_trylock(write_side);
}

/* A lock that was not acquired is not held, and blocks no other owner. */
static void give_up(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_result(relock_unlock(relock_is_mine(read_side) ? read_side : write_side), RELOCK_OK);
    assert_result(relock_unlock(read_side), RELOCK_NOT_OWNER);
    assert_result(relock_unlock(write_side), RELOCK_NOT_OWNER);
    assert_result(relock_timedlock(write_side, SOON_MS), RELOCK_OK);
    assert_result(relock_unlock(write_side), RELOCK_OK);
    drop(trial, result);
}

static void each_side_is_taken_or_free(void **state)
{
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = has_both, .act = try_to_read, .after = give_up});
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = has_both, .act = try_to_write, .after = give_up});
}

static void writes(struct trial *trial)
{
    has_both(trial);
    assert_result(relock_lock(write_side), RELOCK_OK);
}

static void still_writes(struct trial *trial, int result)
{
    assert_result(relock_check(write_side, 0, NULL), RELOCK_OK);
    assert_result(relock_unlock(write_side), RELOCK_OK);
    if (result == RELOCK_OK)
        assert_result(relock_unlock(read_side), RELOCK_OK);
    assert_result(relock_unlock(read_side), RELOCK_NOT_OWNER);
    drop(trial, result);
}

static void a_writer_that_fails_to_read_still_writes(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = writes,
                                      .act = try_to_read,
                                      .after = still_writes});
}

/* A writer of another process, with a short lease. */
static void stranger_writes_briefly(struct trial *trial)
{
    has_both(trial);
    assert_int_equal(probe_int(trial->f->probe, "HSET pages mode write " PEER ":write 1"), 2);
    assert_int_equal(probe_int(trial->f->probe, "PEXPIRE pages 100"), 1);
}

static int wait_to_read(struct trial *trial)
{
    (void)trial;
    return relock_timedlock(read_side, (int64_t)slow_ms(SOON_MS));
}

static int wait_to_write(struct trial *trial)
{
    (void)trial;
    return relock_timedlock(write_side, (int64_t)slow_ms(SOON_MS));
}

static void a_waiter_for_either_side_gets_it_or_an_error(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .before = stranger_writes_briefly,
                                      .act = wait_to_read,
                                      .after = give_up});
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .before = stranger_writes_briefly,
                                      .act = wait_to_write,
                                      .after = give_up});
}

/* ---- giving up ----------------------------------------------------------------------------- */

static void writes_and_reads(struct trial *trial)
{
    writes(trial);
    assert_result(relock_lock(read_side), RELOCK_OK);
}

static int step_down(struct trial *trial)
{
    (void)trial;
    return relock_unlock(write_side);
}

/* The level is released, even if Redis was not told: it is settled later. */
static void reads_on(struct trial *trial, int result)
{
    struct relock_lock *others;

    assert_result(relock_unlock(write_side), RELOCK_NOT_OWNER);
    assert_result(relock_check(read_side, 0, NULL), RELOCK_OK);
    assert_result(relock_rdlock_new(trial->client, "pages", &others), RELOCK_OK);
    actor_begin_timedlock(trial->actor, others, SOON_MS);
    assert_gets_in(trial->actor, others);
    relock_lock_free(others);
    assert_result(relock_unlock(read_side), RELOCK_OK);
    drop(trial, result);
}

static void a_downgrade_happens_though_it_cannot_be_sent_at_once(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_MINE,
                                      .before = writes_and_reads,
                                      .act = step_down,
                                      .after = reads_on});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(the_first_handle_of_either_side_is_made_or_not),
        TRIAL_TEST(the_second_handle_of_either_side_is_made_or_not),
        TRIAL_TEST(each_side_is_taken_or_free),
        TRIAL_TEST(a_writer_that_fails_to_read_still_writes),
        TRIAL_TEST(a_waiter_for_either_side_gets_it_or_an_error),
        TRIAL_TEST(a_downgrade_happens_though_it_cannot_be_sent_at_once),
    };

    return TRIAL_TESTS_RUN(tests);
}
