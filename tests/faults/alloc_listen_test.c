/* Without memory on the I/O thread: subscribing, reconnecting. */
#include "trial.h"

#include <stdio.h>
#include <string.h>

/* Two such names do not fit into the first buffer for commands. */
#define LONG_A "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONG_NAME LONG_A LONG_A LONG_A LONG_A
#define PARCELS "parcels" LONG_NAME
#define CHANNEL "redisson_lock__channel:{" PARCELS "}"

/* ---- subscribing --------------------------------------------------------------------------- */

static void peer_holds_briefly(struct trial *trial)
{
    assert_true(peer_lock(trial->f->probe, "orders", PEER, 300));
}

/* If the machine stood still meanwhile, the lease of the peer has ended, and the call did not wait:
 * once more. */
static int wait_behind_peer(struct trial *trial)
{
    uint64_t before = stats_of(trial->client).contended;
    int r = trial_wait_for_lock(trial);

    while (r == RELOCK_OK && stats_of(trial->client).contended == before) {
        assert_result(relock_unlock(trial->lock), RELOCK_OK);
        peer_holds_briefly(trial);
        r = trial_wait_for_lock(trial);
    }
    return r;
}

static void a_waiter_without_a_subscription_gets_the_lock(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .before = peer_holds_briefly,
                                      .act = wait_behind_peer,
                                      .after = trial_unlock});
}

static void peer_holds_parcels(struct trial *trial)
{
    trial->other = fixture_lock(trial->f, trial->client, PARCELS);
    assert_true(peer_lock(trial->f->probe, PARCELS, PEER, LONG_MS));
}

static bool is_subscribed(void *arg)
{
    return probe_subscribers(((struct trial *)arg)->f->probe, CHANNEL) == 1;
}

static int actor_begins_to_wait(struct trial *trial)
{
    actor_begin_lock(trial->actor, trial->other);
    return trial_wait(trial, is_subscribed, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

/* The actor waits for PARCELS, subscribed. */
static void actor_waits(struct trial *trial)
{
    peer_holds_parcels(trial);
    actor_begin_lock(trial->actor, trial->other);
    assert_true(probe_wait_subscribers(trial->f->probe, CHANNEL, 1));
    assert_true(wait_for_waiters(trial->client, 1));
}

static void actor_gets_in(struct trial *trial)
{
    assert_true(probe_wait_subscribers(trial->f->probe, CHANNEL, 1));
    assert_true(peer_unlock(trial->f->probe, PARCELS, PEER));
    assert_gets_in(trial->actor, trial->other);
    fixture_free_lock(trial->f, trial->other);
}

static void waits(struct trial *trial, int result)
{
    assert_result(result, RELOCK_OK);
    actor_gets_in(trial);
}

static void a_subscription_is_retried_in_time(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.recheck_ms = LONG_MS},
                                      .before = peer_holds_parcels,
                                      .act = actor_begins_to_wait,
                                      .after = waits});
}

/* ---- connecting again ---------------------------------------------------------------------- */

/* No thread waits for it any more, and for a while it stays subscribed. */
static void subscribe_another(struct trial *trial)
{
    struct relock_lock *letters = fixture_lock(trial->f, trial->client, "letters" LONG_NAME);

    assert_true(peer_lock(trial->f->probe, "letters" LONG_NAME, PEER, LONG_MS));
    assert_result(fixture_timedlock(letters, 20), RELOCK_TIMEOUT);
    assert_true(peer_unlock(trial->f->probe, "letters" LONG_NAME, PEER));
    fixture_free_lock(trial->f, letters);
}

static void two_are_subscribed(struct trial *trial)
{
    subscribe_another(trial);
    actor_waits(trial);
    trial->seen = stats_of(trial->client).reconnects;
}

static void hold_and_actor_waits(struct trial *trial)
{
    trial_hold(trial);
    two_are_subscribed(trial);
}

/* The waiter is subscribed, and renewals can be sent. */
static bool has_connected_again(void *arg)
{
    struct trial *trial = arg;
    struct relock_stats stats;

    return relock_client_stats(trial->client, &stats, sizeof(stats)) == RELOCK_OK &&
           stats.reconnects > trial->seen &&
           (stats.waiters == 0 || probe_subscribers(trial->f->probe, CHANNEL) == 1);
}

static int lose_subscriptions(struct trial *trial)
{
    probe_int(trial->f->probe, "CLIENT KILL TYPE pubsub SKIPME yes");
    return trial_wait(trial, has_connected_again, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void every_wanted_channel_is_subscribed_again(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.recheck_ms = LONG_MS},
                                      .before = two_are_subscribed,
                                      .act = lose_subscriptions,
                                      .after = waits});
}

static int be_cut_off(struct trial *trial)
{
    probe_int(trial->f->probe, "CLIENT KILL TYPE pubsub SKIPME yes");
    probe_int(trial->f->probe, "CLIENT KILL TYPE normal SKIPME yes");
    return trial_wait(trial, has_connected_again, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void holds_and_waits(struct trial *trial, int result)
{
    actor_gets_in(trial);
    if (trial->for_good)
        trial_unlock(trial, result);
    else
        trial_still_holds(trial, result);
}

static void connections_are_restored(void **state)
{
    struct fixture *f = *state;
    char url[64];

    snprintf(url, sizeof(url), "redis://" USER ":" PASSWORD "@127.0.0.1:%d", f->server->port);
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.url = url,
                                                  .client_name = "shop",
                                                  .recheck_ms = LONG_MS,
                                                  .watchdog_timeout_ms = slow_ms(LEASE_MS)},
                                      .before = hold_and_actor_waits,
                                      .act = be_cut_off,
                                      .after = holds_and_waits});
}

/* The connection of the I/O thread; the last command on the lane was another one. Redis before
 * 7.0 logs the first only. */
static bool has_logged_in(void *arg)
{
    struct probe *probe = ((struct trial *)arg)->f->probe;

    return probe_n_clients(probe, "cmd=client|info user=" USER) +
               probe_n_clients(probe, "cmd=client user=" USER) ==
           1;
}

static void hold_connected(struct trial *trial)
{
    trial_hold(trial);
    assert_true(wait_until(has_logged_in, trial, SOON_MS));
}

static int be_cut_off_from_a_name(struct trial *trial)
{
    probe_int(trial->f->probe, "CLIENT KILL TYPE normal SKIPME yes");
    return trial_wait(trial, has_logged_in, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void connections_to_a_host_name_are_restored(void **state)
{
    struct fixture *f = *state;
    char url[64];

    snprintf(url, sizeof(url), "redis://localhost:%d", f->server->port);
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.url = url,
                                                  .user = USER,
                                                  .password = PASSWORD,
                                                  .watchdog_timeout_ms = LONG_MS},
                                      .before = hold_connected,
                                      .act = be_cut_off_from_a_name,
                                      .after = trial_unlock});
}

/* ---- a long message ------------------------------------------------------------------------ */

#define LONG_MESSAGE 20000

static bool has_woken(void *arg)
{
    return stats_of(((struct trial *)arg)->client).wakes > 0;
}

/* Repeats, because a message that arrives while the waiter asks wakes no thread. */
static bool hears_much(void *arg)
{
    struct trial *trial = arg;
    char text[LONG_MESSAGE + 1] = "";

    memset(text, 'x', LONG_MESSAGE);
    assert_int_equal(probe_int(trial->f->probe, "PUBLISH " CHANNEL " %s", text), 1);
    return wait_until(has_woken, trial, 100);
}

static void actor_has_heard_much(struct trial *trial)
{
    actor_waits(trial);
    assert_true(wait_until(hears_much, trial, SOON_MS));
    trial->seen = stats_of(trial->client).wakes;
}

static bool hears_more(void *arg)
{
    struct trial *trial = arg;
    struct relock_stats stats;

    probe_int(trial->f->probe, "PUBLISH " CHANNEL " 0");
    return relock_client_stats(trial->client, &stats, sizeof(stats)) == RELOCK_OK &&
           (stats.wakes > trial->seen || stats.reconnects > 0);
}

static int hear_more(struct trial *trial)
{
    return trial_wait(trial, hears_more, trial) ? RELOCK_OK : RELOCK_TIMEOUT;
}

/* hiredis may crash when a large buffer cannot be replaced. */
static void a_message_after_a_long_one_wakes_the_waiter(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = {.recheck_ms = LONG_MS,
                                                  .keep_ms = 1}, /* the I/O thread reads */
                                      .before = actor_has_heard_much,
                                      .act = hear_more,
                                      .after = waits});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_waiter_without_a_subscription_gets_the_lock),
        TRIAL_TEST(a_subscription_is_retried_in_time),
        TRIAL_TEST(every_wanted_channel_is_subscribed_again),
        TRIAL_TEST(connections_are_restored),
        TRIAL_TEST(connections_to_a_host_name_are_restored),
        TRIAL_TEST(a_message_after_a_long_one_wakes_the_waiter),
    };

    trial_refuse_some(argc, argv, 3);
    return TRIAL_TESTS_RUN(tests);
}
