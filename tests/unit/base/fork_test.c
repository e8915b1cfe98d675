/* The generation of a process: how forks are detected. */
#include "base/fork.h"

#include "base/clock.h"
#include "base/thread.h"
#include "lock/state/client.h"
#include "support/child.h"
#include "support/fork_lock.h"
#include "support/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static bool process_mutex_is_free(void)
{
    if (pthread_mutex_trylock(&relock_process_mutex.pthread) != 0)
        return false;
    pthread_mutex_unlock(&relock_process_mutex.pthread);
    return true;
}

static void the_generation_of_a_process_does_not_change(void **state)
{
    unsigned generation = relock_fork_generation();

    (void)state;

    assert_true(generation > 0); /* 0 means "never set" */
    assert_int_equal(relock_fork_generation(), generation);
}

static int have_grandchild(struct child *parent, void *arg)
{
    const unsigned *generation = arg;

    (void)parent;
    child_must(relock_fork_generation() == *generation + 2);
    child_must(process_mutex_is_free());
    return EXIT_SUCCESS;
}

static int be_child(struct child *parent, void *arg)
{
    const unsigned *generation = arg;
    struct child *grandchild;

    (void)parent;
    child_must(relock_fork_generation() == *generation + 1);
    child_must(process_mutex_is_free());
    grandchild = child_start(have_grandchild, arg);
    child_must(child_wait(grandchild, SOON_MS) == EXIT_SUCCESS);
    child_must(relock_fork_generation() == *generation + 1);
    return EXIT_SUCCESS;
}

static void the_generation_grows_in_each_child_and_only_there(void **state)
{
    unsigned generation = relock_fork_generation();

    (void)state;

    for (int i = 0; i < 2; i++) {
        struct child *child = child_start(be_child, &generation);

        assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
        assert_int_equal(relock_fork_generation(), generation);
        assert_true(process_mutex_is_free());
    }
}

/* ---- while another thread has the process mutex -------------------------------------------- */

/* In this test, the process mutex guards these. */
static int first, second;
static struct relock_gate halfway, forked;

static void *change_both(void *arg)
{
    (void)arg;
    relock_mutex_lock(&relock_process_mutex);
    first++;
    relock_gate_open(&halfway);
    let_pass(20); /* a fork that does not wait would happen now */
    second++;
    relock_mutex_unlock(&relock_process_mutex);
    (void)relock_gate_wait(&forked, RELOCK_NEVER);
    return NULL;
}

static int find_both_changed(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    child_must(process_mutex_is_free());
    child_must(first == 1);
    child_must(second == 1);
    return EXIT_SUCCESS;
}

static void fork_waits_for_the_process_mutex(void **state)
{
    struct child *child;
    pthread_t thread;

    (void)state;

    (void)relock_fork_generation();
    relock_gate_init(&halfway);
    relock_gate_init(&forked);
    assert_int_equal(pthread_create(&thread, NULL, change_both, NULL), 0);
    assert_true(relock_gate_wait(&halfway, RELOCK_NEVER));

    child = child_start(find_both_changed, NULL);
    relock_gate_open(&forked);
    assert_int_equal(child_wait(child, SOON_MS), EXIT_SUCCESS);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(process_mutex_is_free());
}

static void use_process_mutex(void *arg)
{
    (void)arg;
    relock_mutex_lock(&relock_process_mutex);
    relock_mutex_unlock(&relock_process_mutex);
}

/* Else a thread with that lock waits for fork(), and fork() for the lock. */
static void fork_waits_for_locks_of_the_program_before_the_process_mutex(void **state)
{
    (void)state;
    assert_true(fork_lock_outlasts(use_process_mutex, NULL));
}

static int end_children(void **state)
{
    (void)state;
    child_end_all();
    return 0;
}

/* A thread of the parent may have locked the mutex, and it does not exist in the child. */
static void a_child_drops_a_reference_to_a_client_without_its_mutex(void **state)
{
    struct relock_client *client = relock_client_alloc();

    (void)state;

    assert_non_null(client);
    client->generation++;
    relock_mutex_lock(&client->mutex);
    relock_client_unref(client);
    assert_int_equal(client->guarded.refs, 1);
    relock_mutex_unlock(&client->mutex);
    client->generation--;
    relock_client_unref(client);
}

#define FORK_TEST(function) cmocka_unit_test_teardown(function, end_children)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FORK_TEST(a_child_drops_a_reference_to_a_client_without_its_mutex),
        FORK_TEST(the_generation_of_a_process_does_not_change),
        FORK_TEST(the_generation_grows_in_each_child_and_only_there),
        FORK_TEST(fork_waits_for_the_process_mutex),
        FORK_TEST(fork_waits_for_locks_of_the_program_before_the_process_mutex),
    };

    fork_lock_register();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
