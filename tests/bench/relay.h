/*
 * Relay - a process that stands for a network: bytes arrive later, in order
 *
 * Threads: the main one, while no other runs: this forks.
 */
#ifndef RELOCK_BENCH_RELAY_H
#define RELOCK_BENCH_RELAY_H

#include <stdint.h>

struct relay;

/* To the unix socket at `path`. The bytes of either side arrive `delay_ns` later. */
struct relay *relay_start(const char *path, uint64_t delay_ns);
struct relay *relay_stop(struct relay *relay);

/* redis://127.0.0.1:port */
const char *relay_url(const struct relay *relay);

#endif
