/*
 * Probe counts - the commands that a server has run, and its channels with subscribers
 *
 * Threads: that of the probe.
 */
#ifndef RELOCK_TEST_PROBE_COUNTS_H
#define RELOCK_TEST_PROBE_COUNTS_H

#include "support/probe.h"

/* Calls so far of a command, as `INFO commandstats` counts them, and of all scripts. */
long long probe_calls(struct probe *probe, const char *command);
long long probe_script_calls(struct probe *probe);

/* How often the server has read from a connection so far: commands that come together take one. */
long long probe_reads(struct probe *probe);

/* All commands so far that came over a connection, without this query. The server also counts the
 * commands inside scripts; those are left out by name, even if a connection sent them. */
long long probe_commands(struct probe *probe);

long long probe_subscribers(struct probe *probe, const char *channel);

/* Channels with subscribers: all, and those of locks, without the inboxes of clients. */
long long probe_n_channels(struct probe *probe);
long long probe_n_lock_channels(struct probe *probe);

/* The same of sharded channels. */
long long probe_n_sharded_channels(struct probe *probe);

#endif
