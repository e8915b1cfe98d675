/* OpenSSL copies the expected name before it verifies a certificate. It goes on if that fails for
 * lack of memory, and accepts any name. So this program replaces the function that copies. */
#include "support/fixture.h"

#include <dlfcn.h>
#include <stdio.h>

struct X509_VERIFY_PARAM_st;
typedef int copy_fn(struct X509_VERIFY_PARAM_st *to, const struct X509_VERIFY_PARAM_st *from);

copy_fn X509_VERIFY_PARAM_set1;

static unsigned n_refused;
static bool refuses;

int X509_VERIFY_PARAM_set1(struct X509_VERIFY_PARAM_st *to, const struct X509_VERIFY_PARAM_st *from)
{
    copy_fn *copy;

    *(void **)&copy = dlsym(RTLD_NEXT, "X509_VERIFY_PARAM_set1");
    n_refused += refuses;
    return refuses ? 0 : copy(to, from);
}

/* Returns the result without memory. */
static int connect_to(struct fixture *f, const char *host, const char *name)
{
    struct relock_options options = {.tls_ca_file = f->server->ca_file, .tls_server_name = name};
    struct relock_client *client;
    char url[64];
    int r;

    snprintf(url, sizeof(url), "rediss://%s:%d", host, f->server->tls_port);
    options.url = url;
    options = fixture_options(f, &options);
    n_refused = 0;
    refuses = true;
    r = relock_client_new(&options, &client);
    refuses = false;
    assert_true(n_refused > 0);
    if (r == RELOCK_OK)
        relock_client_free(client);
    return r;
}

static void a_name_that_openssl_has_not_checked_is_checked(void **state)
{
    struct fixture *f = *state;

    assert_result(connect_to(f, "localhost", NULL), RELOCK_OK);
    assert_result(connect_to(f, "127.0.0.1", NULL), RELOCK_OK);
    assert_result(connect_to(f, "127.0.0.1", "other.example"), RELOCK_E_NOMEM);
    assert_result(connect_to(f, "127.0.0.1", "127.0.0.2"), RELOCK_E_NOMEM);
    assert_int_equal(log_count(f->log, "out of memory to check the server's certificate"), 2);
}

static int start(void **state)
{
    return fixture_start_with(state, &(struct server_options){.tls = true});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_name_that_openssl_has_not_checked_is_checked),
    };

    return cmocka_run_group_tests(tests, start, fixture_stop);
}
