/*
 * Echo - repeats the message of a release at the node that has the slot, while it is half moved
 *
 * While the slot of a lock moves in a cluster, a script that finds no key at the old node runs at
 * the new one (ASK), and what it publishes on a sharded channel stays there. But waiters listen at
 * the old node until the move ends, and an interrupted move never ends. So after a release the
 * client publishes the message once more at the old node. Too many messages do no harm: a waiter
 * that hears one asks once. Scripts with several keys wait until the slot has moved, so they need
 * no echo.
 *
 * Threads: any, with the mutex of the client held.
 */
#ifndef RELOCK_ECHO_H
#define RELOCK_ECHO_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

/* This client has freed the lock. Does nothing unless a slot of the cluster is half moved. */
void relock_echo_release(struct relock_client *client, const struct relock_resource *resource)
    RELOCK_REQUIRES(client->mutex);

#endif
