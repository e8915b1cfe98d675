/*
 * I/O thread - that of one client, kept from all it does
 *
 * Stands in for poll(), in which it waits for something to do and from which it does not return
 * then. Nothing that the client is asked for meanwhile is sent, no timer of it fires and no answer
 * to it is read.
 *
 * Threads: one at a time calls.
 */
#ifndef RELOCK_TEST_IO_THREAD_H
#define RELOCK_TEST_IO_THREAD_H

#include <stdbool.h>

/* Stops the thread that has a connection to this unix socket (a URL), and waits until it stands
 * still. */
bool io_thread_stop(const char *url);

/* Lets it go on. Returns whether it stood still until now: it goes on by itself after SOON_MS. */
bool io_thread_go_on(void);

#endif
