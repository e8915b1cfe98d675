/*
 * Spinlock - waiting by asking again, where publishing costs too much
 *
 * Threads: any.
 */
#ifndef RELOCK_SPINLOCK_H
#define RELOCK_SPINLOCK_H

#include <stdint.h>

/*
 * The first pause. Who waits behind an owner of this process makes it too when that one is gone:
 * nobody is told of a release, so another process gets its turn only if it finds the lock free.
 */
#define RELOCK_SPINLOCK_FIRST_MS 2

/* How long to wait after a try in vain, when it was `pause_ms` before it. */
uint64_t relock_spinlock_pause_ms(uint64_t pause_ms);

#endif
