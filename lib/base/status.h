/*
 * Status - results inside the library
 *
 * 0 is done; below 0 is a failure, or an answer of the public API, that is passed up unchanged;
 * above 0 is an outcome on which the one caller decides, and which it never passes up.
 */
#ifndef RELOCK_STATUS_H
#define RELOCK_STATUS_H

#include <relock.h>

#define RELOCK_AGAIN 1 /* not yet: come back when the descriptor is ready, or the time has come */

#define RELOCK_REPLICA 2 /* the server is a replica: no use as long as it is */

/* What the system refused, and where it is a limit, which one. */
const char *relock_status_errno(int err);

#endif
