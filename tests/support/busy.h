/*
 * Busy - a server that runs a script which never ends, and answers BUSY
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_BUSY_H
#define RELOCK_TEST_BUSY_H

#include "support/actor.h"
#include "support/probe.h"
#include "support/server.h"

/* On return the server is busy. `probe` leads to it. Returns the actor that runs the script. */
struct actor *busy_begin(struct server *server, struct probe *probe);

/* On return the server is busy no longer. */
void busy_end(struct probe *probe, struct actor *looping);

#endif
