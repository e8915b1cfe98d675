/*
 * Status - the results of internal functions
 *
 * 0 is success. A negative result is a failure or an answer of the public API, and is returned
 * unchanged. A positive result is an outcome that the immediate caller handles and never returns.
 */
#ifndef RELOCK_STATUS_H
#define RELOCK_STATUS_H

#include <relock.h>

/* Not finished: call again when the descriptor is ready or the time has come. */
#define RELOCK_AGAIN 1

/* The server is a replica, which takes no locks. */
#define RELOCK_REPLICA 2

/* Another server has the key, and is known. */
#define RELOCK_MOVED 3

/* The text for an errno. For a limit that was reached, it names the limit. */
const char *relock_status_errno(int err);

/* The result of a call that failed because a system call did, with this errno: RELOCK_E_UNSUPPORTED
 * if a sandbox denies the system call, else RELOCK_E_NOMEM. */
int relock_status_result(int err);

#endif
