/*
 * Hooks - how multi and red locks take part in the life of the clients of their members
 *
 * Threads: any.
 */
#ifndef RELOCK_HOOKS_H
#define RELOCK_HOOKS_H

#include "lock/lock.h"

/*
 * Prepares the clients of these locks, which are to be members. Under no mutex. Returns RELOCK_OK,
 * RELOCK_E_NOMEM, or that a client cannot be entered.
 */
int relock_hooks_attach(struct relock_lock *const *locks, size_t n);

#endif
