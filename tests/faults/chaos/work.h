/*
 * Work - what a worker does inside its process
 *
 * Its threads come for locks, again and again, until the hour that they were told.
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
