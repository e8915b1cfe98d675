/*
 * Old master - the fate of a master, and the time until clients use the next one
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_OLD_MASTER_H
#define RELOCK_TEST_OLD_MASTER_H

#include "support/sentinels.h"

enum fate { KILLED, STOPPED, REPLACED };

extern enum fate fate; /* of the present test */

/* By the argument of a program: "killed", "stopped", "replaced". */
enum fate fate_named(const char *name);

/* The first server meets its fate. */
void end_master(struct sentinels *s);

/* Waits until there is a new master and the client is there, and returns its index. Until then, an
 * old master that lives may still answer calls of this client. */
int await_new_master(struct sentinels *s, struct relock_client *client);

#endif
