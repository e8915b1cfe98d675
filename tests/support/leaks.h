/*
 * Leaks - the open descriptors and the threads of this process
 *
 * Threads: any, but others must not open or start anything meanwhile.
 */
#ifndef RELOCK_TEST_LEAKS_H
#define RELOCK_TEST_LEAKS_H

#include <stdbool.h>
#include <stddef.h>

struct leaks {
    size_t n_fds;
    size_t n_threads;
};

struct leaks leaks_now(void);

/* Waits until no more is open than `before`; a joined thread may take a moment to leave the
 * kernel's list. Otherwise prints the difference on stderr. */
bool leaks_none_since(const struct leaks *before);

#endif
