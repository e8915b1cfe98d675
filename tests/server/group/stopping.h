/*
 * Stopping - a thread that stops inside a call of the library until the test lets it go on
 *
 * Each call that enters a client disables thread cancellation first, so it stops there: stopping.c
 * stands in for pthread_setcancelstate. So do calls that make a cancel, as a multi lock does with
 * its own. One thread can be stopped at a time.
 *
 * Threads: the stopping thread sets stops_at; the others are for the main thread.
 */
#ifndef RELOCK_TEST_STOPPING_H
#define RELOCK_TEST_STOPPING_H

#include "support/actor.h"

/* The thread stops when it disables cancellation for the nth time; 0: never. */
extern _Thread_local int stops_at;

/* Waits until the actor's thread has stopped; false if its call ended instead. */
bool stopping_wait(struct actor *actor);

void stopping_go_on(void);

#endif
