/* Out of memory with a sentinel: asking it for the master, and subscribing to its messages. */
#include "trial.h"

#include "support/sentinels.h"

static struct server *sentinel;
static struct probe *at_sentinel;

static struct relock_options sentinel_options(void)
{
    static char url[256];

    sentinels_url(url, sentinel, NULL, SENTINELS_MASTER);
    return (struct relock_options){.url = url};
}

static void a_client_that_cannot_be_made_leaves_nothing(void **state)
{
    struct relock_options options = sentinel_options();

    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .makes_client = true,
                                      .options = options,
                                      .act = trial_new_client});
}

/* ---- connecting again ---------------------------------------------------------------------- */

static void a_connection_of_the_io_thread_finds_the_master_again(void **state)
{
    struct relock_options options = sentinel_options();

    options.watchdog_timeout_ms = LONG_MS;
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = options,
                                      .before = trial_hold_connected,
                                      .act = trial_connect_again,
                                      .after = trial_unlock});
}

static bool has_subscribed(void *arg)
{
    (void)arg;
    return probe_n_clients(at_sentinel, " sub=1 ") == 1;
}

static void hold_and_listen(struct trial *trial)
{
    trial_hold_connected(trial);
    assert_true(wait_until(has_subscribed, NULL, SOON_MS));
}

static int be_cut_off_the_sentinel(struct trial *trial)
{
    probe_int(at_sentinel, "CLIENT KILL TYPE pubsub");
    return trial_wait(trial, has_subscribed, NULL) ? RELOCK_OK : RELOCK_TIMEOUT;
}

static void listen_and_unlock(struct trial *trial, int result)
{
    assert_true(wait_until(has_subscribed, NULL, SOON_MS));
    trial_unlock(trial, result);
}

static void a_client_listens_to_its_sentinel_again(void **state)
{
    struct relock_options options = sentinel_options();

    options.watchdog_timeout_ms = LONG_MS;
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = options,
                                      .before = hold_and_listen,
                                      .act = be_cut_off_the_sentinel,
                                      .after = listen_and_unlock});
}

/* ---- the program --------------------------------------------------------------------------- */

static int start(void **state)
{
    struct fixture *f;

    if (trial_group_start(state) != 0)
        return -1;
    f = *state;
    f->neighbours = "name=sentinel-";
    sentinel = sentinels_alone(f->server->port, NULL);
    at_sentinel = probe_open(sentinel->socket);
    (void)probe_text(at_sentinel, "PING"); /* so that no play connects it */
    return 0;
}

static int stop(void **state)
{
    probe_close(at_sentinel);
    server_stop(sentinel);
    return fixture_stop(state);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_client_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_connection_of_the_io_thread_finds_the_master_again),
        TRIAL_TEST(a_client_listens_to_its_sentinel_again),
    };

    trial_refuse_some(argc, argv, 23);
    return cmocka_run_group_tests(tests, start, stop);
}
