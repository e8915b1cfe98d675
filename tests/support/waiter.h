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

/* The client waits once, for another lock, so that its inbox is open: a refused attempt joins the
 * line at once. */
void waiter_open_inbox(struct fixture *f, struct relock_client *client);

/* PEER acquires the lock, and the actor waits for it: its client is subscribed on return. */
void waiter_begin(struct fixture *f, struct actor *waiter, struct relock_lock *lock);

/* The peer releases the lock, and the actor acquires and releases it. */
void waiter_gets_in(struct fixture *f, struct actor *waiter, struct relock_lock *lock);

#endif
