/*
 * Ident - random identifiers and random numbers
 *
 * Threads: any.
 */
#ifndef RELOCK_IDENT_H
#define RELOCK_IDENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELOCK_UUID_LEN 36

/* A random UUID (version 4), in lower case. Returns false with errno if the system gives no random
 * bytes, as in a sandbox that denies getrandom. */
bool relock_ident_uuid(char uuid[RELOCK_UUID_LEN + 1]);

/* Random bytes, fit for secrets. Returns false with errno, as relock_ident_uuid. */
bool relock_ident_random(void *bytes, size_t len);

/* A random number below `below`, to spread events that would coincide. Not for secrets: it asks
 * only the clock, so a sandbox that denies getrandom does not matter. */
uint32_t relock_ident_jitter(uint32_t below);

#endif
