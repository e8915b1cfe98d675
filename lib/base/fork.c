#include "base/fork.h"

#include <stdatomic.h>

struct relock_mutex relock_process_mutex = {.pthread = PTHREAD_MUTEX_INITIALIZER};

static atomic_uint generation = 1;
static bool is_watched; /* written before main() */

static void prepare(void) RELOCK_ACQUIRES(relock_process_mutex)
{
    relock_mutex_lock(&relock_process_mutex);
}

static void in_parent(void) RELOCK_RELEASES(relock_process_mutex)
{
    relock_mutex_unlock(&relock_process_mutex);
}

static void in_child(void) RELOCK_RELEASES(relock_process_mutex)
{
    atomic_fetch_add(&generation, 1);
    relock_mutex_unlock(&relock_process_mutex);
}

/* Handlers that are registered later run before ours. They may wait for threads that wait for the
 * process mutex. */
__attribute__((constructor)) static void register_handlers(void)
{
    is_watched = pthread_atfork(prepare, in_parent, in_child) == 0;
}

unsigned relock_fork_generation(void)
{
    return is_watched ? atomic_load_explicit(&generation, memory_order_relaxed) : 0;
}
