/* A library that was built without OpenSSL. */
#include "support/fixture.h"

static void a_url_with_tls_is_unsupported(void **state)
{
    struct fixture *f = *state;
    struct relock_options options =
        fixture_options(f, &(struct relock_options){.url = "rediss://127.0.0.1:6379"});
    struct relock_client *client;

    assert_result(relock_client_new(&options, &client), RELOCK_E_UNSUPPORTED);
    assert_int_equal(log_count_grave(f->log, RELOCK_LOG_ERROR), 1);
    assert_int_equal(log_count(f->log, "built without OpenSSL"), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(a_url_with_tls_is_unsupported),
    };

    return SERVER_TESTS_RUN(tests);
}
