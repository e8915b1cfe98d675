/* Offspring - the processes that this one has started, directly or not */
#ifndef RELOCK_TOOL_OFFSPRING_H
#define RELOCK_TOOL_OFFSPRING_H

#include <stdbool.h>
#include <sys/types.h>

/* From now on, processes whose parents end become children of this one, as they do of process 1. So
 * no process that the command starts leaves the offspring. The children that there are do not
 * count: the command has not started them. */
void offspring_adopt(void);

/* Sends a signal to the offspring in the process group of this process. Other processes may be in
 * that group, too: the shell script that runs this one, or the rest of a pipeline. Needs /proc;
 * without it, only `child` gets the signal. */
void offspring_signal(pid_t child, int number);

/* Reaps children that have ended, up to `child`. Returns whether that has ended; it is not
 * reaped. */
bool offspring_reap(pid_t child);

#endif
