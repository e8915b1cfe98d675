/*
 * I/O thread - stops the I/O thread of a client, or another thread that polls its connection
 *
 * Replaces poll(), in which the thread waits for work, and does not return from it. Until the
 * thread goes on, no command posted to it is sent, no timer fires and no reply is read.
 *
 * Threads: one at a time calls.
 */
#ifndef RELOCK_TEST_IO_THREAD_H
#define RELOCK_TEST_IO_THREAD_H

#include <stdbool.h>

/* Stops the thread that has a connection to this unix socket (a URL), and waits until it stands
 * still. */
bool io_thread_stop(const char *url);

/* The same for a thread of the program that waits for messages of such a client. */
bool io_thread_stop_waiter(const char *url);

/* Lets it go on. Returns whether it stood still until now: it goes on by itself after SOON_MS. */
bool io_thread_go_on(void);

#endif
