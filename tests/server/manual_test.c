/* The examples of the manual pages, as main() of examples/pages.c runs them: they call each
 * function. */
#include "support/fixture.h"
#include "support/sanitizer.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

int run_the_examples(int argc, char **argv);

#define main run_the_examples
#include "../../examples/pages.c"
#undef main

/* What docs/planning.md says that a call needs, and this program itself. */
#define STACK_NEEDED ((size_t)40 * 1024)
/* ThreadSanitizer keeps what it knows of a thread in that thread's stack: about 1 MiB with some
 * versions. */
#define STACK_SIZE ((size_t)4 * 1024 * 1024)
#define UNTOUCHED 0xa5

static char url[sizeof(((struct server *)NULL)->unix_url)];

static void *run_examples(void *arg)
{
    char name[] = "pages", password[] = "secret";
    char *arguments[] = {name, url, password};

    (void)arg;
    return run_the_examples(3, arguments) == EXIT_SUCCESS ? url : NULL;
}

static size_t used(const unsigned char *stack)
{
    size_t n = 0;

    while (n < STACK_SIZE && stack[n] == UNTOUCHED)
        n++;
    return STACK_SIZE - n;
}

static void each_example_succeeds_with_a_small_stack(void **state)
{
    struct fixture *f = *state;
    void *stack =
        mmap(NULL, STACK_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_attr_t attributes;
    pthread_t thread;
    void *done;

    assert_true(stack != MAP_FAILED);
    memset(stack, UNTOUCHED, STACK_SIZE);
    strcpy(url, f->server->unix_url);
    assert_int_equal(probe_int(f->probe, "CONFIG SET requirepass secret"), 0);
    assert_int_equal(pthread_attr_init(&attributes), 0);
    assert_int_equal(pthread_attr_setstack(&attributes, stack, STACK_SIZE), 0);
    assert_int_equal(pthread_create(&thread, &attributes, run_examples, NULL), 0);
    assert_int_equal(pthread_join(thread, &done), 0);
    assert_true(done != NULL);
    print_message("%zu bytes of the stack were used\n", used(stack));
    if (!UNDER_ASAN && !UNDER_TSAN)
        assert_true(used(stack) <= STACK_NEEDED);
    pthread_attr_destroy(&attributes);
    munmap(stack, STACK_SIZE);
    assert_int_equal(probe_int(f->probe, "DEL redisson_lock_token:{ledger} encoders"), 2);
    assert_int_equal(probe_int(f->probe, "DEL scanners"), 1);
    assert_int_equal(probe_int(f->probe, "CONFIG SET requirepass %s", ""), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVER_TEST(each_example_succeeds_with_a_small_stack),
    };
    return SERVER_TESTS_RUN(tests);
}
