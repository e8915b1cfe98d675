/* Without memory: locks that are kept, and those whose changes Redis reports. */
#include "support/keeping.h"
#include "support/plain_peer.h"
#include "trial.h"

#define KEEP_MS 200
#define LAST_MS 1500 /* it is still kept after that time without a turn of this thread */

static struct {
    struct relock_client *client; /* another one, which wants the lock */
    struct relock_lock *orders;
} other;

/* ---- from memory --------------------------------------------------------------------------- */

static void keep(struct trial *trial)
{
    keeping_await(trial->client);
    keeping_fill(trial->client, trial->lock);
}

static void unlock_all(struct trial *trial, int result)
{
    if (result == RELOCK_OK)
        assert_result(relock_unlock(trial->lock), RELOCK_OK);
    relock_force_unlock(trial->lock);
}

static void a_kept_lock_is_acquired_without_memory(void **state)
{
    trial_play_without(
        state, &(struct scene){.whose = ALLOC_MINE,
                               .options = {.keep_ms = LONG_MS, .watchdog_timeout_ms = LONG_MS},
                               .before = keep,
                               .act = trial_trylock,
                               .after = unlock_all});
}

static void hold_to_keep(struct trial *trial)
{
    keeping_await(trial->client);
    trial_hold(trial);
}

static void a_last_release_keeps_without_memory(void **state)
{
    trial_play_without(state, &(struct scene){.whose = ALLOC_MINE,
                                              .options = {.keep_ms = outlast_ms(LAST_MS)},
                                              .before = hold_to_keep,
                                              .act = trial_release});
}

/* ---- given back ---------------------------------------------------------------------------- */

/* On a slow machine the time is over at once, and that play shows nothing. */
static void keep_briefly(struct trial *trial)
{
    uint64_t deadline_ms = deadline_in(SOON_MS);

    do {
        assert_result(relock_lock(trial->lock), RELOCK_OK);
        assert_result(relock_unlock(trial->lock), RELOCK_OK);
    } while (stats_of(trial->client).kept == 0 && now_ms() < deadline_ms);
}

static void a_kept_lock_is_released_at_the_end_of_keep_ms(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.keep_ms = slow_ms(KEEP_MS)},
                                      .before = keep_briefly,
                                      .act = trial_wait_until_free});
}

static void keep_for_long(struct trial *trial)
{
    keep(trial);
    other.client = trial_other_client(trial, &(struct relock_options){0});
    other.orders = kind_lock(trial->f, other.client, "orders");
}

static int recall(struct trial *trial)
{
    int r = relock_trylock(other.orders);

    return r == RELOCK_BUSY ? trial_wait_until_free(trial) : r;
}

static void free_other(struct trial *trial, int result)
{
    assert_result(result, RELOCK_OK);
    assert_true(wait_for_no_keys(trial->f->probe));
    fixture_free_lock(trial->f, other.orders);
    fixture_free_client(trial->f, other.client);
}

/* A recall that is lost breaks the connection, and then all is given back. */
static void a_recalled_lock_is_released(void **state)
{
    trial_play(state,
               &(struct scene){.whose = ALLOC_OTHERS,
                               .options = {.keep_ms = LONG_MS, .watchdog_timeout_ms = LONG_MS},
                               .before = keep_for_long,
                               .act = recall,
                               .after = free_other});
}

/* ---- changes that Redis reports ------------------------------------------------------------ */

static bool is_lost(void *arg)
{
    return relock_valid_ms(((struct trial *)arg)->lock) == 0;
}

/* It is tracked when it is 100 ms old. */
static int lose(struct trial *trial)
{
    let_pass(150);
    probe_int(trial->f->probe, "DEL orders");
    return trial_wait(trial, is_lost, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void unlock_lost(struct trial *trial, int result)
{
    assert_result(result, RELOCK_OK);
    assert_true(wait_until(is_lost, trial, SOON_MS));
    assert_result(relock_unlock(trial->lock), RELOCK_LOST);
}

static void a_lock_that_is_deleted_is_lost(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .is_tracked = true,
                                      .before = trial_hold,
                                      .act = lose,
                                      .after = unlock_lost});
}

static void plain_peer_holds_and_releases(struct trial *trial)
{
    assert_true(plain_peer_lock(trial->f->probe, "orders", PLAIN_PEER, 100));
}

/* It hears of the end of that lease, or looks when it ends. */
static void a_waiter_for_a_plain_lock_gets_it_or_an_error(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .is_tracked = true,
                                      .before = plain_peer_holds_and_releases,
                                      .act = trial_wait_for_lock,
                                      .after = trial_unlock_if_held});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_kept_lock_is_acquired_without_memory),
        TRIAL_TEST(a_last_release_keeps_without_memory),
        TRIAL_TEST(a_kept_lock_is_released_at_the_end_of_keep_ms),
        TRIAL_TEST(a_recalled_lock_is_released),
        TRIAL_TEST(a_lock_that_is_deleted_is_lost),
        TRIAL_TEST_OF(a_waiter_for_a_plain_lock_gets_it_or_an_error, plain),
    };

    trial_refuse_some(argc, argv, 3);
    return TRIAL_TESTS_RUN(tests);
}
