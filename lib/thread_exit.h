/*
 * Thread exit - releases the locks that a thread still holds when it ends
 *
 * Threads: any.
 */
#ifndef RELOCK_THREAD_EXIT_H
#define RELOCK_THREAD_EXIT_H

/* From the first call on, the exit of each thread that holds locks is noticed. */
void relock_thread_exit_watch(void);

#endif
