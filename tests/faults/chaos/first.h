/*
 * First - the worker that is first in the line of a lock
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CHAOS_FIRST_H
#define RELOCK_TEST_CHAOS_FIRST_H

#include "stage.h"

/* The slot of the first worker in line that is not broken, of those that are told soon. -1: there
 * is none. */
int first_in_line(struct stage *stage, int lock);

#endif
