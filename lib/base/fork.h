/*
 * Fork - detects that this process is a forked child
 *
 * A child must neither use its parent's connections nor own its locks. So an object that belongs to
 * one process stores the generation in which it was made, and compares it.
 *
 * The process mutex guards data of the whole process. fork() waits for it, so in the child the
 * mutex is free and the data is consistent.
 *
 * Threads: any.
 */
#ifndef RELOCK_FORK_H
#define RELOCK_FORK_H

#include "base/thread.h"

/* One higher in each child. Returns 0 if the fork handlers could not be registered. */
unsigned relock_fork_generation(void);

extern struct relock_mutex relock_process_mutex;

#endif
