/*
 * Usage - the memory and the processor time of this process
 *
 * Threads: any.
 */
#ifndef RELOCK_BENCH_USAGE_H
#define RELOCK_BENCH_USAGE_H

#include <stddef.h>
#include <stdint.h>

/* Bytes allocated by malloc(), with its own overhead; 0 where this is not counted. */
size_t usage_memory(void);

/* Processor time of the calling thread, and of all other living threads. */
uint64_t usage_own_cpu_ns(void);
uint64_t usage_others_cpu_ns(void);

#endif
