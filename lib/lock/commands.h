/*
 * Commands - the operations of a lock that is one key on one server
 *
 * Each is a script of the kind, run over the lanes; only renewals go through the I/O thread.
 *
 * Threads: as operations.h says.
 */
#ifndef RELOCK_COMMANDS_H
#define RELOCK_COMMANDS_H

#include "lock/inspection.h"
#include "lock/request.h"

extern const struct relock_operations relock_command_operations;

/*
 * Asks for the holder of the lock; `number` is that of the caller's hold, 0 for none. Under no
 * mutex, within a call. The caller ends the request, also after a failure. Returns RELOCK_OK or the
 * failure of asking, and why in the request.
 */
int relock_commands_inspect(struct relock_lock *lock, uint64_t number, uint64_t deadline_ms,
                            struct relock_request *request, struct relock_inspection *inspection);

#endif
