/*
 * Alloc - memory that runs out when a test says so
 *
 * Stands in for malloc and its kin, and for pthread_create, in the whole program: the shared
 * libraries call it too. So a test counts how often memory is asked for, has the n-th request
 * refused, and sees the blocks that leaked.
 *
 *     for (nth = 1;; nth++) {
 *         alloc_fail(ALLOC_MINE, nth, 1);
 *         r = relock_lock(lock);
 *         if (alloc_stop() == 0)
 *             break; // it does not ask so often: all of them have been refused
 *         ...
 *     }
 *
 * Allocations of libev never fail here: without memory libev ends the process by itself. Its
 * allocator can be changed for the whole process only, which is not for a library to do.
 *
 * To be compiled into the program itself. A sanitizer brings an allocator of its own: ask
 * alloc_is_ours() first.
 *
 * Threads: any allocates; one at a time calls what stands here.
 */
#ifndef RELOCK_TEST_ALLOC_H
#define RELOCK_TEST_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* Whether the program, libc and libev allocate here. */
bool alloc_is_ours(void);

enum alloc_whose {
    ALLOC_NOBODYS,
    ALLOC_MINE,   /* requests of the calling thread */
    ALLOC_OTHERS, /* requests of all other threads */
    ALLOC_ALL,
};

/* Helpers of the test: the calling thread counts as one for ALLOC_MINE alone. */
void alloc_spare(void);

#define ALLOC_FROM_THEN_ON ((size_t)-1)

/* From now on the `nth` request and those behind it, `n` in all, are refused. */
void alloc_fail(enum alloc_whose whose, size_t nth, size_t n);

/* How many have been refused since. */
size_t alloc_refused(void);

/* Ends that. Returns how many were refused. */
size_t alloc_stop(void);

/* How much is in use, without the blocks allocated before the first mark. */
struct alloc_mark {
    size_t n_blocks;
    size_t serial; /* of the last request */
};

struct alloc_mark alloc_mark(void);

/* Waits until no more is in use than at the mark; a detached thread may need a moment. Otherwise
 * prints on stderr which callers allocated the rest. Memory of the dynamic linker for threads does
 * not count: it keeps their stacks for later threads. */
bool alloc_nothing_since(const struct alloc_mark *mark);

#endif
