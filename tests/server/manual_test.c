/* The examples of the manual pages, as main() of examples/pages.c runs them. */
#include "support/fixture.h"

int run_the_examples(int argc, char **argv);

#define main run_the_examples
#include "../../examples/pages.c"
#undef main

static void each_example_of_the_manual_succeeds(void **state)
{
    struct fixture *f = *state;
    char name[] = "pages", password[] = "secret";
    char *arguments[] = {name, f->server->unix_url, password};

    assert_int_equal(probe_int(f->probe, "CONFIG SET requirepass %s", password), 0);
    assert_int_equal(run_the_examples(3, arguments), EXIT_SUCCESS);
    assert_int_equal(probe_int(f->probe, "DEL redisson_lock_token:{ledger}"), 1);
    assert_int_equal(probe_int(f->probe, "CONFIG SET requirepass %s", ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_example_of_the_manual_succeeds),
    };
    return SERVER_TESTS_RUN(tests);
}
