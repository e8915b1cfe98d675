/* Without memory on the I/O thread: renewing and settling. */
#include "renew_now.h"
#include "trial.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>

#define RENEWED_MS 20000 /* a lease that outlasts each trial */

/* ---- renewing ------------------------------------------------------------------------------ */

static int be_renewed(struct trial *trial)
{
    renew_now(trial->client);
    return trial_wait(trial, trial_has_been_renewed, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

/* The next renewal works, and none has been lost. */
static void still_holds(struct trial *trial, int result)
{
    trial->seen = stats_of(trial->client).renewed;
    renew_now(trial->client);
    assert_true(wait_until(trial_has_been_renewed, trial, SOON_MS));
    assert_int_equal(stats_of(trial->client).lost, 0);
    trial_unlock(trial, result);
}

static void a_renewal_is_retried_in_time(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.watchdog_timeout_ms = slow_ms(RENEWED_MS)},
                                      .before = trial_hold,
                                      .act = be_renewed,
                                      .after = still_holds});
}

static void hold_and_flush(struct trial *trial)
{
    trial_hold(trial);
    probe_int(trial->f->probe, "SCRIPT FLUSH");
}

static void a_renewal_whose_script_must_be_loaded_is_retried_in_time(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.watchdog_timeout_ms = slow_ms(RENEWED_MS)},
                                      .before = hold_and_flush,
                                      .act = be_renewed,
                                      .after = still_holds});
}

/* Some holds share a script, and each is still held. */
#define N_MORE 4

static struct relock_lock *more[N_MORE];

static void hold_many(struct trial *trial)
{
    char name[16];

    trial_hold(trial);
    for (int i = 0; i < N_MORE; i++) {
        snprintf(name, sizeof(name), "orders%d", i);
        more[i] = fixture_lock(trial->f, trial->client, name);
        assert_result(relock_lock(more[i]), RELOCK_OK);
    }
}

static bool have_all_been_renewed(void *arg)
{
    struct trial *trial = arg;
    struct relock_stats stats;

    return relock_client_stats(trial->client, &stats, sizeof(stats)) == RELOCK_OK &&
           stats.renewed > trial->seen + N_MORE;
}

static int all_be_renewed(struct trial *trial)
{
    renew_now(trial->client);
    return trial_wait(trial, have_all_been_renewed, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void all_are_still_held(struct trial *trial, int result)
{
    trial->seen = stats_of(trial->client).renewed;
    renew_now(trial->client);
    assert_true(wait_until(have_all_been_renewed, trial, SOON_MS));
    for (int i = 0; i < N_MORE; i++) {
        assert_result(relock_unlock(more[i]), RELOCK_OK);
        fixture_free_lock(trial->f, more[i]);
    }
    still_holds(trial, result);
}

static void renewals_of_many_holds_are_retried_in_time(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.watchdog_timeout_ms = slow_ms(RENEWED_MS)},
                                      .before = hold_many,
                                      .act = all_be_renewed,
                                      .after = all_are_still_held});
}

static void renewals_of_many_tracked_holds_are_retried_in_time(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.watchdog_timeout_ms = slow_ms(RENEWED_MS)},
                                      .is_tracked = true,
                                      .before = hold_many,
                                      .act = all_be_renewed,
                                      .after = all_are_still_held});
}

/* ---- settling ------------------------------------------------------------------------------ */

static sem_t may_end;

static void *lock_and_end(void *arg)
{
    struct trial *trial = arg;

    alloc_spare();
    trial->seen = relock_lock(trial->lock) == RELOCK_OK;
    atomic_store(&trial->done, true);
    while (sem_wait(&may_end) != 0)
        ;
    return NULL;
}

static pthread_t thread;

static bool is_done(void *arg)
{
    return atomic_load(&((struct trial *)arg)->done);
}

static void a_thread_holds(struct trial *trial)
{
    sem_init(&may_end, 0, 0);
    assert_int_equal(pthread_create(&thread, NULL, lock_and_end, trial), 0);
    assert_true(wait_until(is_done, trial, SOON_MS));
    assert_int_equal(trial->seen, 1);
}

static int the_thread_ends(struct trial *trial)
{
    sem_post(&may_end);
    pthread_join(thread, NULL);
    return trial_wait_until_free(trial);
}

static void a_hold_without_an_owner_is_released(void **state)
{
    trial_play(state, &(struct scene){
                          .whose = ALLOC_OTHERS, .before = a_thread_holds, .act = the_thread_ends});
}

/* Whether Redis granted it is unknown: the connection is killed, and the hold's number released. */
static int take_from_who_does_not_answer(struct trial *trial)
{
    int r;

    server_pause(trial->f->server);
    r = relock_trylock(trial->lock);
    server_resume(trial->f->server);
    return trial_wait_until_free(trial) == RELOCK_OK ? r : RELOCK_TIMEOUT;
}

static void a_grant_that_no_caller_received_is_released(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.command_timeout_ms = outlast_ms(1100)},
                                      .answer = RELOCK_E_CONN,
                                      .act = take_from_who_does_not_answer});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_renewal_is_retried_in_time),
        TRIAL_TEST(a_renewal_whose_script_must_be_loaded_is_retried_in_time),
        TRIAL_TEST(renewals_of_many_holds_are_retried_in_time),
        TRIAL_TEST(renewals_of_many_tracked_holds_are_retried_in_time),
        TRIAL_TEST(a_hold_without_an_owner_is_released),
        TRIAL_TEST(a_grant_that_no_caller_received_is_released),
    };

    trial_refuse_some(argc, argv, 3);
    return TRIAL_TESTS_RUN(tests);
}
