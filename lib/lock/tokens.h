/*
 * Tokens - what stands in Redis for the holds of plain locks
 *
 * 20 bytes in hex: 12 that the client drew when it was made, and the number of the hold, enciphered
 * with a key that it drew as well. So each hold has one of its own, which cannot be guessed from
 * others, and nobody has to keep it: whoever has the number can write it again.
 *
 * Threads: any.
 */
#ifndef RELOCK_TOKENS_H
#define RELOCK_TOKENS_H

#include "lock/keys.h"

struct relock_tokens {
    unsigned char client[12];
    uint32_t key[4];
};

void relock_tokens_init(struct relock_tokens *tokens);

/* The token of the hold with that number, with its NUL. Returns its length. */
size_t relock_tokens_write(const struct relock_tokens *tokens, uint64_t number,
                           char out[RELOCK_FIELD_MAX]);

#endif
