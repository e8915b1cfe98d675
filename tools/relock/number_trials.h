/*
 * Number trials - short lives of a latch and of an unleased semaphore
 *
 * One client closes it, a second one waits until it is open, a third one gives up.
 */
#ifndef RELOCK_TOOL_NUMBER_TRIALS_H
#define RELOCK_TOOL_NUMBER_TRIALS_H

#include "trials.h"

/* Returns RELOCK_OK, or the first failure. The latch is deleted; the semaphore stays, with 0, and
 * trials_forget() deletes it. */
int number_trials_of_latch(const struct trials *trials, const char *name);
int number_trials_of_unleased(const struct trials *trials, const char *name);

#endif
