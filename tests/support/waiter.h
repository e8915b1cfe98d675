/*
 * Waiter - an actor that waits for a lock that a peer holds
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_WAITER_H
#define RELOCK_TEST_WAITER_H

#include "support/actor.h"
#include "support/fixture.h"
#include "support/peer.h"

/* PEER acquires the lock, and the actor waits for it: its client is subscribed on return. */
void waiter_begin(struct fixture *f, struct actor *waiter, struct relock_lock *lock);

/* The peer releases the lock, and the actor acquires and releases it. */
void waiter_gets_in(struct fixture *f, struct actor *waiter, struct relock_lock *lock);

#endif
