/*
 * Usage - what this process takes of the machine
 *
 * Threads: any.
 */
#ifndef RELOCK_BENCH_USAGE_H
#define RELOCK_BENCH_USAGE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes given out by malloc(), its own administration included; 0 where nobody counts them. */
size_t usage_memory(void);

/* Processor time of the calling thread, and of all others that live. */
uint64_t usage_own_cpu_ns(void);
uint64_t usage_others_cpu_ns(void);

#endif
