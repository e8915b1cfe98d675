/*
 * Tokens - the values in Redis of the holds of plain locks
 *
 * A token is 20 bytes in hex: 12 random bytes of the client and the number of the hold, encrypted
 * with a random key of the client. So tokens are unique and cannot be guessed from each other, and
 * none is stored: it can be computed from the number again.
 *
 * Threads: any.
 */
#ifndef RELOCK_TOKENS_H
#define RELOCK_TOKENS_H

#include "lock/state/keys.h"

#define RELOCK_TOKENS_PREFIX 12 /* bytes with which all tokens of a client begin */

struct relock_tokens {
    unsigned char client[RELOCK_TOKENS_PREFIX];
    uint32_t key[4];
};

/* Returns false with errno, as relock_ident_random. */
bool relock_tokens_init(struct relock_tokens *tokens);

/* Writes the token of the hold with that number, with its NUL. Returns its length. */
size_t relock_tokens_write(const struct relock_tokens *tokens, uint64_t number,
                           char out[RELOCK_FIELD_MAX]);

#endif
