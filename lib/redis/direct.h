/*
 * Direct - a thread that waits for a message reads it from the pub/sub connection itself
 *
 * Otherwise the I/O thread would read it and wake that thread, which takes longer than to ask Redis
 * after that. The thread polls the socket beside the gate at which it would sleep. What it reads
 * goes to all subscribers, as if the I/O thread had read it. reading.h says when a thread may do
 * so; else it sleeps at its gate, and the I/O thread reads.
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
