/* Connections with TLS: which certificates are accepted, on both sides, and what the log says of
 * the others. */
#include "support/certs.h"
#include "support/fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

/* A file among the certificates, by one of some buffers. */
static const char *file(struct fixture *f, const char *name)
{
    static char paths[16][160];
    static size_t n;
    char *path = paths[n++ % COUNT(paths)];

    snprintf(path, sizeof(paths[0]), "%s%s", f->server->certs, name);
    return path;
}

static void serve(struct fixture *f, const char *certificate)
{
    assert_int_equal(probe_int(f->probe, "CONFIG SET tls-cert-file tls/%s", certificate), 0);
}

static void ask_clients(struct fixture *f, const char *yes_or_no)
{
    assert_int_equal(probe_int(f->probe, "CONFIG SET tls-auth-clients %s", yes_or_no), 0);
}

static void speak(struct fixture *f, const char *versions)
{
    assert_int_equal(probe_int(f->probe, "CONFIG SET tls-protocols %s", versions), 0);
}

static int begin(void **state)
{
    int r = fixture_begin(state);

    serve(*state, CERTS_SERVER);
    ask_clients(*state, "no");
    speak(*state, "TLSv1.2 TLSv1.3");
    return r;
}

static int connect_with(struct fixture *f, const struct relock_options *options)
{
    struct relock_options all = fixture_options(f, options);
    struct relock_client *client = NULL;
    int r;

    log_clear(f->log);
    r = relock_client_new(&all, &client);
    relock_client_free(client);
    return r;
}

/* Also of a lazy client: trying again would not help. */
static void is_rejected(struct fixture *f, const struct relock_options *options, const char *why)
{
    struct relock_options lazy = *options;

    lazy.flags |= RELOCK_LAZY;
    assert_result(connect_with(f, options), RELOCK_E_AUTH);
    if (log_count(f->log, why) != 1)
        log_print(f->log);
    assert_int_equal(log_count(f->log, why), 1);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_ERROR), 1);
    assert_result(connect_with(f, &lazy), RELOCK_E_AUTH);
}

/* ---- the server's certificate -------------------------------------------------------------- */

static void a_bad_certificate_is_rejected_and_the_log_says_why(void **state)
{
    static const struct {
        const char *file, *why;
    } bad[] = {
        {CERTS_EXPIRED, "has expired"},
        {CERTS_OTHER, "is not for 127.0.0.1"},
        {CERTS_STRANGER, "no trusted CA has signed the server's certificate"},
        {CERTS_SELF, "no trusted CA has signed the server's certificate (self-signed"},
    };
    struct fixture *f = *state;

    for (size_t i = 0; i < COUNT(bad); i++) {
        serve(f, bad[i].file);
        is_rejected(f, &(struct relock_options){0}, bad[i].why);
    }
}

static void without_a_ca_file_the_system_decides(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.url = f->server->tls_url};

    is_rejected(f, &options, "set tls_ca_file");
    setenv("SSL_CERT_FILE", f->server->ca_file, 1); /* OpenSSL's name for the system's CAs */
    assert_result(connect_with(f, &options), RELOCK_OK);
    unsetenv("SSL_CERT_FILE");
}

static void the_certificate_must_have_the_name_of_the_url_or_of_the_option(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.tls_ca_file = f->server->ca_file};
    char url[64];

    snprintf(url, sizeof(url), "rediss://localhost:%d", f->server->tls_port);
    options.url = url;
    assert_result(connect_with(f, &options), RELOCK_OK);
    options.tls_server_name = "127.0.0.1";
    assert_result(connect_with(f, &options), RELOCK_OK);
    options.tls_server_name = "other.example";
    is_rejected(f, &options, "is not for other.example");

    serve(f, CERTS_OTHER);
    assert_result(connect_with(f, &options), RELOCK_OK);
    options.tls_server_name = NULL;
    is_rejected(f, &options, "is not for localhost");
}

/* The dot says that the name is complete. Certificates leave it out. */
static void a_dot_at_the_end_of_a_name_does_not_count(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.tls_ca_file = f->server->ca_file,
                                     .tls_server_name = "localhost."};

    assert_result(connect_with(f, &options), RELOCK_OK);
    options.tls_server_name = "localhost..";
    is_rejected(f, &options, "is not for localhost.");
}

static void a_name_that_no_certificate_can_have_is_refused(void **state)
{
    char longest[257];
    const char *const names[] = {"", ".", longest};
    struct fixture *f = *state;

    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t i = 0; i < COUNT(names); i++) {
        struct relock_options options = {.tls_server_name = names[i]};

        assert_result(connect_with(f, &options), RELOCK_E_INVALID);
        assert_int_equal(log_count(f->log, "is empty or has more than 255 characters"), 1);
    }
}

static void only_the_flag_turns_verification_off(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.url = f->server->tls_url, .flags = RELOCK_TLS_INSECURE};

    serve(f, CERTS_SELF);
    assert_result(connect_with(f, &options), RELOCK_OK);
    assert_int_equal(log_count(f->log, "is not verified"), 1);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_WARNING), 1);
}

/* ---- the client's certificate -------------------------------------------------------------- */

static void a_server_can_require_a_client_certificate(void **state)
{
    static const char *const versions[] = {"TLSv1.2", "TLSv1.3"};
    struct fixture *f = *state;

    ask_clients(f, "yes");
    for (size_t i = 0; i < COUNT(versions); i++) {
        speak(f, versions[i]);
        is_rejected(f, &(struct relock_options){0}, "requires a client certificate");
        is_rejected(f, &(struct relock_options){.tls_cert_file = file(f, CERTS_STRANGE_CLIENT)},
                    "rejects the client certificate");
        assert_result(
            connect_with(f, &(struct relock_options){.tls_cert_file = file(f, CERTS_CLIENT)}),
            RELOCK_OK);
        assert_result(
            connect_with(f, &(struct relock_options){.tls_cert_file = file(f, CERTS_CLIENT),
                                                     .tls_key_file = file(f, CERTS_CLIENT_KEY)}),
            RELOCK_OK);
        assert_int_equal(log_count(f->log, versions[i]), log_count(f->log, "TLSv1"));
    }
}

static void a_client_certificate_may_be_optional(void **state)
{
    struct fixture *f = *state;

    ask_clients(f, "optional");
    assert_result(connect_with(f, NULL), RELOCK_OK);
    assert_result(connect_with(f, &(struct relock_options){.tls_cert_file = file(f, CERTS_CLIENT)}),
                  RELOCK_OK);
}

/* ---- files --------------------------------------------------------------------------------- */

static void a_file_that_cannot_be_used_is_named_in_the_log(void **state)
{
    struct fixture *f = *state;
    const struct {
        struct relock_options options;
        const char *why;
    } bad[] = {
        {{.tls_ca_file = file(f, "none.pem")}, "tls_ca_file /"},
        {{.tls_ca_file = f->server->certs}, "tls_ca_file /"},
        {{.tls_ca_file = file(f, CERTS_KEY)}, "tls_ca_file /"},
        {{.tls_cert_file = file(f, "none.pem")}, "No such file"},
        {{.tls_cert_file = file(f, CERTS_CLIENT_KEY)}, "tls_cert_file /"},
        {{.tls_cert_file = file(f, CERTS_SERVER)}, "it has no private key: set tls_key_file"},
        {{.tls_cert_file = file(f, CERTS_SERVER), .tls_key_file = file(f, CERTS_SERVER)},
         "server.pem: it has no private key"},
        {{.tls_cert_file = file(f, CERTS_SERVER), .tls_key_file = file(f, "none.pem")},
         "none.pem: No such file"},
        {{.tls_cert_file = file(f, CERTS_SERVER), .tls_key_file = file(f, CERTS_CLIENT_KEY)},
         "mismatch"},
        {{.tls_cert_file = file(f, CERTS_SERVER), .tls_key_file = file(f, CERTS_OTHER_TYPE_KEY)},
         "other-type.key: it is not the key of tls_cert_file"},
        {{.tls_cert_file = file(f, CERTS_CLIENT), .tls_key_file = file(f, CERTS_LOCKED_KEY)},
         "locked.key: the key has a passphrase"},
        {{.tls_key_file = file(f, CERTS_CLIENT_KEY)}, "no tls_cert_file"},
    };

    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_result(connect_with(f, &bad[i].options), RELOCK_E_INVALID);
        if (log_count(f->log, bad[i].why) != 1)
            log_print(f->log);
        assert_int_equal(log_count(f->log, bad[i].why), 1);
        assert_int_equal(log_count_grave(f->log, RELOCK_LOG_ERROR), 1);
    }
}

static void urls_have_the_same_parts_with_tls(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = {.tls_ca_file = f->server->ca_file};
    struct relock_lock *lock;
    char url[96];

    probe_int(f->probe, "ACL SETUSER locker reset on ~* &* +@all >s3cret");
    snprintf(url, sizeof(url), "rediss://locker:s3cret@127.0.0.1:%d/3", f->server->tls_port);
    options.url = url;
    lock = fixture_lock(f, fixture_client(f, &options), "orders");
    assert_result(relock_lock(lock), RELOCK_OK);
    assert_true(probe_n_clients(f->probe, " user=locker ") >= 1);
    probe_int(f->probe, "SELECT 3");
    assert_int_equal(probe_n_keys(f->probe), 1);
    probe_int(f->probe, "SELECT 0");
    assert_result(relock_unlock(lock), RELOCK_OK);
    assert_int_equal(log_count(f->log, "s3cret"), 0);
}

static int start(void **state)
{
    return fixture_start_with(state, &(struct server_options){.tls = true});
}

#define TLS_TEST(function) cmocka_unit_test_setup_teardown(function, begin, fixture_end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TLS_TEST(a_bad_certificate_is_rejected_and_the_log_says_why),
        TLS_TEST(without_a_ca_file_the_system_decides),
        TLS_TEST(the_certificate_must_have_the_name_of_the_url_or_of_the_option),
        TLS_TEST(a_dot_at_the_end_of_a_name_does_not_count),
        TLS_TEST(a_name_that_no_certificate_can_have_is_refused),
        TLS_TEST(only_the_flag_turns_verification_off),
        TLS_TEST(a_server_can_require_a_client_certificate),
        TLS_TEST(a_client_certificate_may_be_optional),
        TLS_TEST(a_file_that_cannot_be_used_is_named_in_the_log),
        TLS_TEST(urls_have_the_same_parts_with_tls),
    };

    return cmocka_run_group_tests(tests, start, fixture_stop);
}
