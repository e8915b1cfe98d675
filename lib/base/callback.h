/*
 * Callback - whether this thread is inside a callback of the program
 *
 * From there nothing that blocks may be called: it would wait for the thread that it holds up.
 *
 * Threads: each has its own answer.
 */
#ifndef RELOCK_CALLBACK_H
#define RELOCK_CALLBACK_H

#include <stdbool.h>

void relock_callback_enter(void);
void relock_callback_leave(void);
bool relock_callback_is_inside(void);

#endif
