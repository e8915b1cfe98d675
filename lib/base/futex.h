/*
 * Futex - sleeps until a word in memory changes, and wakes the sleeper
 *
 * Waking uses the address alone and does not access the word, which may have been freed by then. So
 * a thread that sleeps at the same address for another reason may be woken, and has to expect that.
 *
 * Threads: any.
 */
#ifndef RELOCK_FUTEX_H
#define RELOCK_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while the word is `value`, for `ms` at most. May return early. */
void relock_futex_wait(atomic_uint *word, unsigned value, uint64_t ms);

/* Wakes one thread that sleeps at this address. */
void relock_futex_wake(atomic_uint *word);

#endif
