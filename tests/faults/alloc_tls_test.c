/* Out of memory while connections with TLS are made and replaced. */
#include "trial.h"

#include "support/certs.h"

#include <openssl/crypto.h>
#include <stdio.h>

/* OpenSSL makes some six thousand requests for a client. */
#define STEP 11

static struct relock_options tls_options(struct fixture *f, const char *server_name)
{
    return (struct relock_options){.url = f->server->tls_url,
                                   .tls_ca_file = f->server->ca_file,
                                   .tls_server_name = server_name};
}

/* Without memory OpenSSL may send a poor handshake, which the server refuses, or find fault with a
 * good certificate. */
static int without_excuse(int result)
{
    bool has_excuse = alloc_refused() > 0;

    return has_excuse && (result == RELOCK_E_CONN || result == RELOCK_E_AUTH) ? RELOCK_E_NOMEM
                                                                              : result;
}

static int new_client(struct trial *trial)
{
    return without_excuse(trial_new_client(trial));
}

static void a_client_that_cannot_be_made_leaves_nothing(void **state)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .options = tls_options(*state, NULL),
                                      .step = STEP,
                                      .makes_client = true,
                                      .act = new_client,
                                      .finally = OPENSSL_thread_stop});
}

/* ---- what must not be trusted -------------------------------------------------------------- */

static void is_never_accepted(void **state, const struct relock_options *options)
{
    trial_play(state, &(struct scene){.whose = ALLOC_ALL,
                                      .options = *options,
                                      .answer = RELOCK_E_AUTH,
                                      .step = STEP,
                                      .makes_client = true,
                                      .act = new_client,
                                      .finally = OPENSSL_thread_stop});
}

static void a_wrong_name_is_never_accepted(void **state)
{
    struct relock_options options = tls_options(*state, "other.example");

    is_never_accepted(state, &options);
}

static void a_stranger_is_never_accepted(void **state)
{
    struct fixture *f = *state;
    struct relock_options options = tls_options(f, NULL);
    char strangers_ca[128];

    snprintf(strangers_ca, sizeof(strangers_ca), "%s" CERTS_STRANGERS_CA, f->server->certs);
    options.tls_ca_file = strangers_ca;
    is_never_accepted(state, &options);
}

/* ---- connecting again ---------------------------------------------------------------------- */

static void a_connection_of_the_io_thread_is_restored(void **state)
{
    struct relock_options options = tls_options(*state, NULL);

    options.watchdog_timeout_ms = LONG_MS;
    trial_play(state, &(struct scene){.whose = ALLOC_OTHERS,
                                      .options = options,
                                      .step = STEP,
                                      .before = trial_hold_connected,
                                      .act = trial_connect_again,
                                      .after = trial_unlock,
                                      .finally = OPENSSL_thread_stop});
}

static int start(void **state)
{
    return trial_group_start_with(state, &(struct server_options){.tcp = true, .tls = true});
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_TEST(a_client_that_cannot_be_made_leaves_nothing),
        TRIAL_TEST(a_wrong_name_is_never_accepted),
        TRIAL_TEST(a_stranger_is_never_accepted),
        TRIAL_TEST(a_connection_of_the_io_thread_is_restored),
    };

    trial_refuse_some(argc, argv, 3);
    return cmocka_run_group_tests(tests, start, fixture_stop);
}
