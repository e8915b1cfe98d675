/* A client finds the master by the sentinels, whichever of them answer, and however. */
#include "support/sentinels.h"

#include <stdio.h>
#include <string.h>

static struct server *alone; /* a further sentinel of the test */

static int end(void **state)
{
    alone = server_stop(alone);
    return sentinels_end(state);
}

static int connect_by(struct sentinels *s, const struct relock_options *options)
{
    struct relock_options all = sentinels_options(s, options);
    struct relock_client *client = NULL;
    int r = relock_client_new(&all, &client);

    relock_client_free(client);
    return r;
}

/* A lock works, and its key is at this server. */
static void locks_at(struct sentinels *s, struct relock_client *client, int i)
{
    struct relock_lock *lock = fixture_lock(s->f, client, "orders");

    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(s->probe[i]), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(s->probe[i]), 0);
}

static void a_client_uses_the_master(void **state)
{
    struct sentinels *s = *state;

    locks_at(s, sentinels_client(s, NULL), 0);
    assert_true(log_wait(s->f->log, "the master is 127.0.0.1:", SOON_MS));
}

/* Of the master, and of the servers that may replace it. */
static void let_in(struct sentinels *s, const char *right)
{
    for (int i = 0; i < SENTINELS; i++)
        assert_int_equal(probe_int(s->probe[i], "ACL SETUSER rotated %s", right), 0);
}

/* The connections are replaced one by one, and for a moment there may be none. */
static bool are_cut(void *arg)
{
    return probe_int(arg, "CLIENT KILL USER rotated") > 0;
}

static void a_password_changes_while_a_client_works(void **state)
{
    struct sentinels *s = *state;
    struct relock_client *client;

    for (int i = 0; i < SENTINELS; i++)
        assert_true(probe_make_user(s->probe[i], "rotated", "secret1", "~* &* +@all"));
    client =
        sentinels_client(s, &(struct relock_options){.user = "rotated", .password = "secret1"});
    locks_at(s, client, 0);
    let_in(s, ">secret2");
    let_in(s, "<secret1");
    assert_result(relock_client_set_password(client, "rotated", "secret1"), RELOCK_E_AUTH);
    assert_result(relock_client_set_password(client, "rotated", "secret2"), RELOCK_OK);
    assert_true(wait_until(are_cut, s->probe[0], SOON_MS));
    locks_at(s, client, 0);
}

static void a_client_uses_the_database_of_the_url(void **state)
{
    struct sentinels *s = *state;
    struct relock_lock *lock;
    char url[300];

    snprintf(url, sizeof(url), "%s/3", s->url);
    lock = fixture_lock(s->f, sentinels_client(s, &(struct relock_options){.url = url}), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(s->probe[0]), 0);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void sentinels_that_are_down_are_passed_over(void **state)
{
    struct sentinels *s = *state;

    server_kill(s->sentinel[0]);
    server_kill(s->sentinel[1]);
    locks_at(s, sentinels_client(s, NULL), 0);
}

static void a_sentinel_that_hangs_is_passed_over(void **state)
{
    struct sentinels *s = *state;

    server_pause(s->sentinel[0]);
    locks_at(s, sentinels_client(s, NULL), 0);
    server_resume(s->sentinel[0]);
}

/* It watches a replica and takes it for the master. */
static void a_sentinel_that_names_a_replica_is_not_believed(void **state)
{
    struct sentinels *s = *state;
    char url[256];

    alone = sentinels_alone(s->server[1]->port, NULL);
    sentinels_url(url, alone, s->sentinel[0], SENTINELS_MASTER);
    locks_at(s, sentinels_client(s, &(struct relock_options){.url = url}), 0);
    assert_true(log_wait_least(s->f->log, "says the sentinel", 2, SOON_MS));
}

static void a_sentinel_that_names_a_dead_server_is_not_believed(void **state)
{
    struct sentinels *s = *state;
    char url[256];

    server_kill(s->server[2]);
    alone = sentinels_alone(s->server[2]->port, NULL);
    sentinels_url(url, alone, s->sentinel[0], SENTINELS_MASTER);
    locks_at(s, sentinels_client(s, &(struct relock_options){.url = url}), 0);
}

static void without_any_sentinel_no_client_is_made(void **state)
{
    struct sentinels *s = *state;

    for (int i = 0; i < SENTINELS; i++)
        server_kill(s->sentinel[i]);
    assert_result(connect_by(s, NULL), RELOCK_E_CONN);
    assert_true(log_wait_n(s->f->log, "no client was made: ", 1, SOON_MS));
    assert_true(log_wait(s->f->log, "Connection refused", SOON_MS));
}

static void a_lazy_client_waits_for_the_sentinels(void **state)
{
    struct sentinels *s = *state;
    struct relock_client *client;

    for (int i = 0; i < SENTINELS; i++)
        server_kill(s->sentinel[i]);
    client = sentinels_client(s, &(struct relock_options){.flags = RELOCK_LAZY});
    server_restart(s->sentinel[2]);
    locks_at(s, client, 0);
}

static void an_unknown_master_is_an_error(void **state)
{
    struct sentinels *s = *state;
    struct relock_options options = {.flags = RELOCK_LAZY};
    char url[256];

    sentinels_url(url, s->sentinel[0], s->sentinel[1], "nobody");
    options.url = url;
    assert_result(connect_by(s, &options), RELOCK_E_SERVER);
    assert_true(log_wait(s->f->log, "it knows no master of this name", SOON_MS));
}

static void a_server_in_place_of_a_sentinel_is_an_error(void **state)
{
    struct sentinels *s = *state;
    struct relock_options options = {0};
    char url[256];

    sentinels_url(url, s->server[0], NULL, SENTINELS_MASTER);
    options.url = url;
    assert_result(connect_by(s, &options), RELOCK_E_UNSUPPORTED);
    assert_true(log_wait(s->f->log, "this is no Sentinel", SOON_MS));
}

static bool has_subscriber(void *arg)
{
    return probe_n_clients(arg, " sub=1 ") == 1;
}

static void sentinels_have_credentials_of_their_own(void **state)
{
    struct sentinels *s = *state;
    struct relock_options options = {0};
    struct probe *probe;
    char url[256];

    alone = sentinels_alone(s->server[0]->port, "secret");
    sentinels_url(url, alone, NULL, SENTINELS_MASTER);
    options.url = url;
    assert_result(connect_by(s, &options), RELOCK_E_AUTH);
    options.sentinel_user = "watcher";
    options.sentinel_password = "wrong";
    assert_result(connect_by(s, &options), RELOCK_E_AUTH);
    options.sentinel_password = "secret";
    locks_at(s, sentinels_client(s, &options), 0);
    assert_int_equal(log_count(s->f->log, "secret"), 0);
    probe = probe_open(alone->socket);
    (void)probe_text(probe, "AUTH admin secret");
    assert_true(wait_until(has_subscriber, probe, SOON_MS));
    probe_close(probe);
    assert_int_equal(log_count(s->f->log, "NOPERM"), 0);
}

static void a_client_listens_to_every_sentinel(void **state)
{
    struct sentinels *s = *state;

    sentinels_client(s, NULL);
    for (int i = 0; i < SENTINELS; i++)
        assert_true(wait_until(has_subscriber, s->at_sentinel[i], SOON_MS));
}

static void a_forked_child_closes_the_connections_to_the_sentinels_too(void **state)
{
    struct sentinels *s = *state;
    struct relock_client *client;
    int64_t n_before;

    for (int i = 0; i < SENTINELS; i++)
        assert_false(has_subscriber(s->at_sentinel[i])); /* the probes are connected */
    n_before = child_descriptors(NULL);
    client = sentinels_client(s, NULL);
    for (int i = 0; i < SENTINELS; i++)
        assert_true(wait_until(has_subscriber, s->at_sentinel[i], SOON_MS));
    assert_int_equal(child_descriptors(client), n_before);
    locks_at(s, client, 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, sentinels_begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_client_uses_the_master),
        TEST(a_password_changes_while_a_client_works),
        TEST(a_client_uses_the_database_of_the_url),
        TEST(sentinels_that_are_down_are_passed_over),
        TEST(a_sentinel_that_hangs_is_passed_over),
        TEST(a_sentinel_that_names_a_replica_is_not_believed),
        TEST(a_sentinel_that_names_a_dead_server_is_not_believed),
        TEST(without_any_sentinel_no_client_is_made),
        TEST(a_lazy_client_waits_for_the_sentinels),
        TEST(an_unknown_master_is_an_error),
        TEST(a_server_in_place_of_a_sentinel_is_an_error),
        TEST(sentinels_have_credentials_of_their_own),
        TEST(a_client_listens_to_every_sentinel),
        TEST(a_forked_child_closes_the_connections_to_the_sentinels_too),
    };

    return STEADY_SENTINELS_TESTS_RUN(tests);
}
