#include "lock/state/tokens.h"

#include "base/ident.h"

#define ROUNDS 32
#define DELTA UINT32_C(0x9e3779b9)

/* XTEA is a permutation, so no two numbers have the same token. */
static uint64_t encipher(const uint32_t key[4], uint64_t number)
{
    uint32_t a = (uint32_t)(number >> 32), b = (uint32_t)number, sum = 0;

    for (int i = 0; i < ROUNDS; i++) {
        a += (((b << 4) ^ (b >> 5)) + b) ^ (sum + key[sum & 3]);
        sum += DELTA;
        b += (((a << 4) ^ (a >> 5)) + a) ^ (sum + key[(sum >> 11) & 3]);
    }
    return ((uint64_t)a << 32) | b;
}

static char *write_byte(char *at, unsigned byte)
{
    static const char digits[] = "0123456789abcdef";

    *at++ = digits[byte >> 4];
    *at++ = digits[byte & 15];
    return at;
}

bool relock_tokens_init(struct relock_tokens *tokens)
{
    return relock_ident_random(tokens, sizeof(*tokens));
}

size_t relock_tokens_write(const struct relock_tokens *tokens, uint64_t number,
                           char out[RELOCK_FIELD_MAX])
{
    uint64_t block = encipher(tokens->key, number);
    char *at = out;

    for (size_t i = 0; i < sizeof(tokens->client); i++)
        at = write_byte(at, tokens->client[i]);
    for (int shift = 56; shift >= 0; shift -= 8)
        at = write_byte(at, (block >> shift) & 0xff);
    *at = '\0';
    return (size_t)(at - out);
}
