/*
 * Ident - random identifiers and random numbers
 *
 * Threads: any.
 */
#ifndef RELOCK_IDENT_H
#define RELOCK_IDENT_H

#include <stddef.h>
#include <stdint.h>

#define RELOCK_UUID_LEN 36

/* A random UUID (version 4), in lower case. */
void relock_ident_uuid(char uuid[RELOCK_UUID_LEN + 1]);

/* Random bytes, fit for secrets. */
void relock_ident_random(void *bytes, size_t len);

/* A random number below `below`, to spread events that would coincide. Not for secrets. */
uint32_t relock_ident_jitter(uint32_t below);

#endif
