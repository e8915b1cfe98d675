/*
 * Slot - which of a cluster's slots a key belongs to
 *
 * Threads: any.
 */
#ifndef RELOCK_SLOT_H
#define RELOCK_SLOT_H

#include "redis/server/command.h"

#define RELOCK_SLOTS 16384

/* CRC16 of the key's hash tag: the text between the first `{` and the next `}`. Without one, or if
 * it is empty, of the whole key. */
unsigned relock_slot_of(struct relock_text key);

#endif
