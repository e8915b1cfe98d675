#include "support/fork_lock.h"

#include "support/child.h"
#include "support/wait.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool is_used, has_begun, is_held;
static bool was_free; /* written by the handler */

struct use {
    fork_lock_fn *call;
    void *arg;
};

static bool has_ended(void *arg)
{
    (void)arg;
    return !is_held;
}

static bool has_fork_begun(void *arg)
{
    (void)arg;
    return has_begun;
}

static void before_fork(void)
{
    if (!is_used)
        return;
    has_begun = true;
    was_free = wait_until(has_ended, NULL, SOON_MS);
}

static void *hold_and_call(void *arg)
{
    const struct use *use = arg;

    if (wait_until(has_fork_begun, NULL, SOON_MS))
        use->call(use->arg);
    is_held = false;
    return NULL;
}

static int exit_at_once(struct child *parent, void *arg)
{
    (void)parent;
    (void)arg;
    return EXIT_SUCCESS;
}

void fork_lock_register(void)
{
    if (pthread_atfork(before_fork, NULL, NULL) != 0)
        abort();
}

bool fork_lock_outlasts(fork_lock_fn *call, void *arg)
{
    struct use use = {call, arg};
    struct child *child;
    pthread_t thread;

    was_free = false;
    has_begun = false;
    is_held = true;
    is_used = true;
    if (pthread_create(&thread, NULL, hold_and_call, &use) != 0)
        abort();
    child = child_start(exit_at_once, NULL);
    is_used = false;
    pthread_join(thread, NULL);
    return child_wait(child, SOON_MS) == EXIT_SUCCESS && was_free;
}
