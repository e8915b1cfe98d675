/*
 * Work - the inside of a worker's process
 *
 * Its threads acquire locks repeatedly, until the given time.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_WORK_H
#define RELOCK_TEST_WORK_H

#include "worker.h"

/* Works, and returns when all threads have released their locks and ended. */
void work_begin(const struct worker_options *options);

/* Frees the client. */
void work_end(void);

#endif
