/*
 * Futex - waiting for a word to change, and waking who waits
 *
 * Waking only needs the address: nothing is read or written there, so the word may be gone by then.
 * Whoever has come to wait at that address meanwhile is woken for nothing, and has to expect it.
 *
 * Threads: any.
 */
#ifndef RELOCK_FUTEX_H
#define RELOCK_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/* Sleeps while the word is `value`, for `ms` at most; may also wake early. */
void relock_futex_wait(atomic_uint *word, unsigned value, uint64_t ms);

/* Wakes one thread that sleeps there. */
void relock_futex_wake(atomic_uint *word);

#endif
