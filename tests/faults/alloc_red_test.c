/* Without memory: red locks, of three names on one server, each with a client of its own. */
#include "trial.h"

#define N 3

static struct relock_client *clients[N];
static struct relock_lock *members[N];
static struct relock_lock *red;

static int make(struct trial *trial)
{
    (void)trial;
    return relock_redlock_new(members, N, &red);
}

static void has_members(struct trial *trial)
{
    static const char *const names[N] = {"a", "b", "c"};

    for (size_t i = 0; i < N; i++) {
        assert_result(relock_client_new(&trial->options, &clients[i]), RELOCK_OK);
        assert_result(relock_lock_new(clients[i], names[i], &members[i]), RELOCK_OK);
    }
}

static bool is_held_everywhere(void *arg)
{
    struct trial *trial = arg;

    return probe_n_keys(trial->f->probe) == N;
}

/* On a machine so slow that a server is late, this may fail. */
static void unlock(void)
{
    int r = relock_unlock(red);

    if (r != RELOCK_E_CONN)
        assert_result(r, RELOCK_OK);
}

/* Each client is connected, and stays so. */
static void has_red(struct trial *trial)
{
    bool is_held = false;

    has_members(trial);
    assert_result(make(trial), RELOCK_OK);
    for (int i = 0; i < 100 && !is_held; i++) {
        assert_result(relock_timedlock(red, SOON_MS), RELOCK_OK);
        is_held = is_held_everywhere(trial);
        unlock();
        if (!is_held)
            let_pass(10);
    }
    assert_true(is_held);
}

static void drop(struct trial *trial, int result)
{
    (void)trial;
    (void)result;
    red = relock_lock_free(red);
    for (size_t i = 0; i < N; i++) {
        members[i] = relock_lock_free(members[i]);
        clients[i] = relock_client_free(clients[i]);
    }
}

static void a_handle_is_made_or_not(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE, .before = has_members, .act = make, .after = drop});
}

static int take(struct trial *trial)
{
    (void)trial;
    return relock_trylock(red);
}

static void give_up(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        unlock();
    assert_result(relock_check(red, 0, NULL), RELOCK_NOT_OWNER);
    assert_result(relock_timedlock(red, SOON_MS), RELOCK_OK);
    unlock();
    drop(trial, result);
}

static void a_red_lock_is_taken_or_not(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_MINE, .before = has_red, .act = take, .after = give_up});
}

static void has_taken(struct trial *trial)
{
    has_red(trial);
    assert_result(relock_lock(red), RELOCK_OK);
}

static int extend(struct trial *trial)
{
    (void)trial;
    return relock_extend(red, 0, LONG_MS);
}

static void still_held(struct trial *trial, int result)
{
    assert_result(relock_check(red, 0, NULL), RELOCK_OK);
    give_up(trial, RELOCK_OK);
    (void)result;
}

static void a_red_lock_is_extended_or_not(void **state)
{
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = has_taken, .act = extend, .after = still_held});
}

static int ask(struct trial *trial)
{
    struct relock_holder holder;

    (void)trial;
    return relock_who_holds(red, &holder);
}

static void a_query_answers_or_fails(void **state)
{
    trial_play(
        state,
        &(struct scene){.whose = ALLOC_MINE, .before = has_taken, .act = ask, .after = still_held});
}

static int release(struct trial *trial)
{
    (void)trial;
    return relock_unlock(red);
}

static void is_given_up(struct trial *trial, int result)
{
    (void)result;
    give_up(trial, RELOCK_E_NOMEM);
}

static void a_red_lock_is_released_without_memory(void **state)
{
    trial_play(state,
               &(struct scene){
                   .whose = ALLOC_MINE, .before = has_taken, .act = release, .after = is_given_up});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_handle_is_made_or_not),
        TRIAL_TEST(a_red_lock_is_taken_or_not),
        TRIAL_TEST(a_red_lock_is_extended_or_not),
        TRIAL_TEST(a_query_answers_or_fails),
        TRIAL_TEST(a_red_lock_is_released_without_memory),
    };
    return TRIAL_TESTS_RUN(tests);
}
