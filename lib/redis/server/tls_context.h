/*
 * Tls context - what all TLS connections to one server have in common
 *
 * It has the trusted certificates, the program's own certificate, and the last session that the
 * server has offered. A new connection resumes that session, which saves the server a signature.
 * The certificate is then not verified again, so after an hour a new session begins.
 *
 * Threads: any; new and free while no other uses it.
 */
#ifndef RELOCK_TLS_CONTEXT_H
#define RELOCK_TLS_CONTEXT_H

#include "base/log.h"

#include <relock.h>
#include <stdbool.h>
#include <stdint.h>

struct relock_tls_context;
struct ssl_st;

/* Of one connection: when the server's certificate was verified. */
struct relock_tls_verified {
    struct relock_tls_context *context;
    uint64_t at_ms;
};

/*
 * Reads the files that the options name. `host` is the name in the server's certificate, unless the
 * options have another, without a dot at its end.
 *
 * Returns RELOCK_OK; RELOCK_E_INVALID, and the log has the cause; RELOCK_E_NOMEM. A build without
 * OpenSSL returns RELOCK_E_UNSUPPORTED.
 */
int relock_tls_context_new(const struct relock_options *options, const char *host,
                           const struct relock_log *log, struct relock_tls_context **context);

/* No connection may be left. Takes NULL. Returns NULL. */
struct relock_tls_context *relock_tls_context_free(struct relock_tls_context *context);

/* The name, or the address, that the server's certificate must have. */
const char *relock_tls_context_name(const struct relock_tls_context *context);

/* Makes a connection that will verify the server, or resume the last session. `verified` lives as
 * long as the connection, which writes it. Between relock_tls_guard_enter and exit. Returns NULL
 * when out of memory. */
struct ssl_st *relock_tls_context_begin(struct relock_tls_context *context,
                                        struct relock_tls_verified *verified);

/* Whether the server's certificate, which OpenSSL has accepted, has the name. OpenSSL skips this
 * check when it lacks the memory to copy the name. Between enter and exit. */
bool relock_tls_context_has_name(const struct relock_tls_context *context,
                                 const struct ssl_st *ssl);

/* Forgets the session: a handshake has failed. Between enter and exit. */
void relock_tls_context_forget(struct relock_tls_context *context);

/* ---- tls guard ------------------------------------------------------------------------------- */

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

/* Returns false, without entering, if OpenSSL has ended. */
bool relock_tls_guard_enter(void);
void relock_tls_guard_exit(void);

/* Whether a call has lacked memory since enter. Empties the queue of errors. Between enter and
 * exit. */
bool relock_tls_guard_lacked_memory(void);

#endif
