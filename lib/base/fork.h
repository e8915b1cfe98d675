/*
 * Fork - which copy of the process this is
 *
 * A child must not act for its parent: not use its connections, not own its locks. So whatever
 * belongs to one process keeps the generation in which it was made.
 *
 * The process mutex guards what is shared by the whole process. fork() waits for it, so in the
 * child it is free and what it guards is whole.
 *
 * Threads: any.
 */
#ifndef RELOCK_FORK_H
#define RELOCK_FORK_H

#include "base/thread.h"

/* Grows by one in each child; 0 when the system has no room for what must be done at a fork. */
unsigned relock_fork_generation(void);

extern struct relock_mutex relock_process_mutex;

#endif
