/* Sentinels and their master with TLS. */
#include "support/certs.h"
#include "support/sentinels.h"

#include <stdio.h>

static struct server *sentinel; /* has the certificates of the fixture's server */
static char files[3][160];

static const char *file(struct fixture *f, int i, const char *name)
{
    snprintf(files[i], sizeof(files[i]), "%s%s", f->server->certs, name);
    return files[i];
}

static int begin(void **state)
{
    struct fixture *f = *state;
    const struct server_options options = {
        .tcp = true,
        .tls = true,
        .sentinel = true,
        .args = {"--tls-cert-file", file(f, 0, CERTS_SERVER), "--tls-key-file",
                 file(f, 1, CERTS_KEY), "--tls-ca-cert-file", file(f, 2, CERTS_CA),
                 "--tls-replication", "yes"},
    };

    sentinel = server_start(&options);
    if (!sentinel)
        fixture_skip();
    sentinels_watch(sentinel, f->server->tls_port);
    return fixture_begin(state);
}

static int end(void **state)
{
    int r = fixture_end(state);

    sentinel = server_stop(sentinel);
    return r;
}

static struct relock_options options_of(struct fixture *f, const char *name)
{
    static char url[128];

    snprintf(url, sizeof(url), "rediss+sentinel://127.0.0.1:%d/" SENTINELS_MASTER,
             sentinel->tls_port);
    return (struct relock_options){
        .url = url, .tls_ca_file = f->server->ca_file, .tls_server_name = name};
}

static void sentinels_and_master_may_have_tls(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = options_of(f, "localhost");
    struct relock_lock *lock = fixture_lock(f, fixture_client(f, &options), "orders");

    f->neighbours = "name=sentinel-";
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_int_equal(probe_n_keys(f->probe), 1);
    assert_result(relock_unlock(lock), RELOCK_OK);
}

static void the_certificates_are_verified(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = options_of(f, "other.example");
    struct relock_client *client;

    f->neighbours = "name=sentinel-";
    options = fixture_options(f, &options);
    assert_result(relock_client_new(&options, &client), RELOCK_E_AUTH);
    assert_true(log_wait(f->log, "the server's certificate is not for", SOON_MS));
}

#define TLS_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

static int start(void **state)
{
    return fixture_start_with(state, &(struct server_options){.tcp = true, .tls = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(sentinels_and_master_may_have_tls),
        TLS_TEST(the_certificates_are_verified),
    };

    return cmocka_run_group_tests(tests, start, fixture_stop);
}
