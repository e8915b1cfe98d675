/*
 * Crew - the workers of a stage
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CREW_H
#define RELOCK_TEST_CREW_H

#include "stage.h"

/* Starts the next life of the worker in this slot. */
void crew_start(struct stage *stage, int slot);

/* Kills it, and writes that to the history. */
void crew_kill(struct stage *stage, struct worker *worker);

/* It ended by itself: prints the end of its log. The run has failed. */
void crew_blame(struct stage *stage, const struct worker *worker, int status);

#endif
