/* Calls of OpenSSL beside a fork and beside its end. */
#include "redis/server/private.h"
#include "redis/server/tls_context.h"

#include "base/clock.h"
#include "base/status.h"
#include "base/thread.h"
#include "support/child.h"
#include "support/fork_lock.h"
#include "support/wait.h"

#include <openssl/crypto.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* No fork comes between the changes of these. */
static int first, second;
static struct relock_gate halfway, forked;

static void *change_both(void *arg)
{
    if (!relock_tls_guard_enter())
        abort();
    first++;
    relock_gate_open(&halfway);
    let_pass(20); /* a fork that does not wait would happen now */
    second++;
    relock_tls_guard_exit();
    (void)relock_gate_wait(&forked, RELOCK_NEVER);
    return arg;
}

static int find_both_changed(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    child_must(first == 1);
    child_must(second == 1);
    child_must(relock_tls_guard_enter());
    relock_tls_guard_exit();
    return EXIT_SUCCESS;
}

static int fork_again(struct child *parent, void *arg)
{
    (void)parent;
    return child_wait(child_start(find_both_changed, arg), SOON_MS);
}

static void fork_beside_a_call(child_fn *run)
{
    pthread_t thread;

    first = second = 0;
    relock_gate_init(&halfway);
    relock_gate_init(&forked);
    assert_int_equal(pthread_create(&thread, NULL, change_both, NULL), 0);
    assert_true(relock_gate_wait(&halfway, RELOCK_NEVER));
    assert_int_equal(child_wait(child_start(run, NULL), SOON_MS), EXIT_SUCCESS);
    relock_gate_open(&forked);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void fork_waits_until_no_thread_is_inside(void **state)
{
    (void)state;
    fork_beside_a_call(find_both_changed);
}

/* In the parent, a thread is inside, or wants to be. */
static void a_child_of_a_busy_process_can_fork(void **state)
{
    (void)state;

    for (int i = 0; i < 10; i++)
        fork_beside_a_call(fork_again);
}

static void make_a_call(void *arg)
{
    (void)arg;
    if (!relock_tls_guard_enter())
        abort();
    relock_tls_guard_exit();
}

/* Else a thread with that lock waits for fork(), and fork() for the lock. */
static void fork_waits_for_locks_of_the_program_before_it_stops_calls(void **state)
{
    (void)state;
    assert_true(fork_lock_outlasts(make_a_call, NULL));
}

static int end_openssl(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    child_must(relock_tls_guard_enter());
    relock_tls_guard_exit();
    OPENSSL_cleanup();
    child_must(!relock_tls_guard_enter());
    return EXIT_SUCCESS;
}

static void no_thread_enters_after_the_end_of_openssl(void **state)
{
    (void)state;
    assert_int_equal(child_wait(child_start(end_openssl, NULL), SOON_MS), EXIT_SUCCESS);
}

static int begin(void **state)
{
    (void)state;
    return relock_tls_guard_init();
}

static int end(void **state)
{
    (void)state;
    child_end_all();
    return 0;
}

#define GUARD_TEST(function) cmocka_unit_test_setup_teardown(function, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        GUARD_TEST(fork_waits_until_no_thread_is_inside),
        GUARD_TEST(a_child_of_a_busy_process_can_fork),
        GUARD_TEST(fork_waits_for_locks_of_the_program_before_it_stops_calls),
        GUARD_TEST(no_thread_enters_after_the_end_of_openssl),
    };

    fork_lock_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
