/*
 * Callback - whether this thread is running a callback of the program
 *
 * A callback must not make a call that blocks: that call would wait for the very thread which the
 * callback holds up.
 *
 * Threads: any; each thread is asked about itself.
 */
#ifndef RELOCK_CALLBACK_H
#define RELOCK_CALLBACK_H

#include <stdbool.h>

void relock_callback_enter(void);
void relock_callback_leave(void);
bool relock_callback_is_inside(void);

#endif
