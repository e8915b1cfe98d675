/*
 * Direct - a thread that waits for a message reads it from the pub/sub connection itself
 *
 * If the I/O thread read the message, it would have to wake that thread. This takes longer than the
 * command that follows. So the thread polls the socket beside the gate at which it would sleep, and
 * passes each message to all subscribers, as the I/O thread would. reading.h says when a thread may
 * do so. Otherwise it sleeps at its gate, and the I/O thread reads.
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_DIRECT_H
#define RELOCK_DIRECT_H

#include "base/gate.h"

struct relock_pubsub;

/* Waits until the gate is open and closes it again, or until `deadline_ms`. The pubsub is shared:
 * relock_pubsub_share. */
void relock_direct_wait(struct relock_pubsub *pubsub, struct relock_gate *gate,
                        uint64_t deadline_ms);

#endif
