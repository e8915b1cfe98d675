/* A build without OpenSSL. */
#include "support/log.h"

#include <relock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void cannot_be_made(const struct relock_options *options, int result, const char *why)
{
    struct relock_options all = *options;
    struct relock_client *client = NULL;
    struct log *lines = log_new();

    all.on_log = log_write;
    all.arg = lines;
    assert_int_equal(relock_client_new(&all, &client), result);
    assert_null(client);
    assert_int_equal(log_count(lines, why), 1);
    assert_int_equal(log_count_grave(lines, RELOCK_LOG_ERROR), 1);
    log_free(lines);
}

static void a_url_with_tls_is_unsupported(void **state)
{
    static const char why[] = "this library was built without OpenSSL";

    (void)state;
    cannot_be_made(&(struct relock_options){.url = "rediss://127.0.0.1"}, RELOCK_E_UNSUPPORTED,
                   why);
    cannot_be_made(&(struct relock_options){.url = "rediss://127.0.0.1", .flags = RELOCK_LAZY},
                   RELOCK_E_UNSUPPORTED, why);
    cannot_be_made(&(struct relock_options){.url = "rediss://127.0.0.1", .tls_ca_file = "none"},
                   RELOCK_E_UNSUPPORTED, why);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_with_tls_is_unsupported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
