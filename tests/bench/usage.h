/*
 * Usage - the memory and the processor time of processes
 *
 * Threads: any.
 */
#ifndef RELOCK_BENCH_USAGE_H
#define RELOCK_BENCH_USAGE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Bytes allocated by malloc() in this process, with its own overhead; 0 where this is not counted.
 */
size_t usage_memory(void);

/* Bytes of this process that are in memory, in pages. */
size_t usage_resident(void);

/* Threads of this process. */
unsigned usage_threads(void);

/* Processor time of a process, and of all programs on all cores, in steps of 10 ms. */
uint64_t usage_process_cpu_ns(pid_t pid);
uint64_t usage_machine_cpu_ns(void);

/* Processor time of the calling thread, and of all other living threads. */
uint64_t usage_own_cpu_ns(void);
uint64_t usage_others_cpu_ns(void);

#endif
