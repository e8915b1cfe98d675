/*
 * Spinlock - waiting by asking again, where publishing costs too much
 *
 * Threads: any.
 */
#ifndef RELOCK_SPINLOCK_H
#define RELOCK_SPINLOCK_H

#include <stdint.h>

/* How long to wait after a try in vain, when it was `pause_ms` before it; 0 for the first. */
uint64_t relock_spinlock_pause_ms(uint64_t pause_ms);

#endif
