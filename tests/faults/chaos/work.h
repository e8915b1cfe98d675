/*
 * Work - the inside of a worker's process
 *
 * Its threads come for locks, again and again, until the given time.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_WORK_H
#define RELOCK_TEST_WORK_H

#include "worker.h"

/* Works, and returns when all threads are done and have given up what they held. */
void work_begin(const struct worker_options *options);

/* Frees the client. */
void work_end(void);

#endif
