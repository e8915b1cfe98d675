/*
 * Multilock - several locks as one, all or none
 *
 * Threads: as operations.h says.
 */
#ifndef RELOCK_MULTILOCK_H
#define RELOCK_MULTILOCK_H

#include "lock/state/kind.h"

extern const struct relock_kind relock_kind_multi;

#endif
