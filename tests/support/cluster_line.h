/*
 * Cluster line - the clients that wait for the lock "orders" of a cluster, as Redis has them
 *
 * As support/line.h, which is about one server.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CLUSTER_LINE_H
#define RELOCK_TEST_CLUSTER_LINE_H

#include "support/actor.h"
#include "support/cluster_fixture.h"

#define CLUSTER_LINE "relock_waiters:{orders}:cluster"
#define CLUSTER_TURN "relock_waiters:turn:{orders}:cluster"

/* Clients of which only messages and the times of the line wake waiters, and that hand no hold off
 * once it was held for a moment. `query` of the url: "?pubsub=plain", or "". */
struct relock_client *cluster_line_client(struct clustered *c, const char *query);

/* The same with further options. */
struct relock_client *cluster_line_client_with(struct clustered *c, const char *query,
                                               struct relock_options options);

/* How many clients stand in the line of this lock, by the node that has it. */
long long cluster_line_length(struct clustered *c, const char *name);

/* Waits until it is so many. */
bool cluster_line_wait(struct clustered *c, const char *name, long long n);

/* The actor begins to wait for the lock, and its client is the `n`th in the line on return. */
struct actor *cluster_line_begin(struct clustered *c, struct relock_lock *lock, long long n);

/* The calls of scripts by all nodes. */
long long cluster_line_scripts(struct clustered *c);

/* How many nodes have a key of the line of "orders", or of its turn. */
int cluster_line_n_nodes(struct clustered *c);

#endif
