/*
 * Tls guard - keeps fork() and the end of the process away from calls of OpenSSL
 *
 * OpenSSL has locks and tables for the whole process. So neither of these happens while a thread is
 * between enter and exit:
 *
 * - fork(): the child would find the locks locked for ever. It waits only after the fork handlers
 * that were registered after this library was loaded.
 * - The end of OpenSSL, at the end of a process that has begun to use it before us. Our threads may
 *   still run then, and would use freed tables.
 *
 * Both functions also empty this thread's queue of errors: OpenSSL looks into it, and other users
 * of OpenSSL in this thread must not find errors of ours. In between, ThreadSanitizer reports
 * nothing: it does not see how OpenSSL passes memory from thread to thread.
 *
 * Threads: any. Between enter and exit a thread does not enter again, and waits for nothing, with
 * one exception: a new context reads its files there.
 */
#ifndef RELOCK_TLS_GUARD_H
#define RELOCK_TLS_GUARD_H

#include <stdbool.h>

/* Starts OpenSSL; further calls do nothing. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_tls_guard_init(void);

/* Returns false, without entering, if OpenSSL has ended. */
bool relock_tls_guard_enter(void);
void relock_tls_guard_exit(void);

/* Whether a call has lacked memory since enter. Empties the queue of errors. Between enter and
 * exit. */
bool relock_tls_guard_lacked_memory(void);

#endif
