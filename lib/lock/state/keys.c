#include "lock/state/keys.h"

#include "base/decimal.h"
#include "base/ident.h"

#include <string.h>

bool relock_keys_name(const char *name, size_t *len)
{
    *len = name ? strnlen(name, RELOCK_NAME_MAX + 1) : 0;
    return *len > 0 && *len <= RELOCK_NAME_MAX;
}

bool relock_keys_join(char out[RELOCK_NAME_MAX + 1], const char *prefix, size_t prefix_len,
                      const char *name, size_t *len)
{
    if (!relock_keys_name(name, len) || prefix_len + *len > RELOCK_NAME_MAX)
        return false;
    if (prefix_len > 0)
        memcpy(out, prefix, prefix_len);
    memcpy(out + prefix_len, name, *len + 1);
    *len += prefix_len;
    return true;
}

const char *relock_keys_invalid(const char *name)
{
    if (!name)
        return "the name of a lock is NULL";
    return *name ? "the name of a lock is longer than 4096 bytes, of which `name_prefix` is a part"
                 : "the name of a lock is empty";
}

/* Whether the name follows such a prefix in braces, whichever braces it has. */
static bool adds_braces(const char *prefix)
{
    return prefix[strlen(prefix) - 1] == '{';
}

/* Without a tag, the name is the tag of the other keys: up to the first `}`. With a `{` that begins
 * no tag, the other keys have no tag either, and differ from the name. */
bool relock_keys_share_slot(const char *prefix, const char *name, size_t len)
{
    const char *open = memchr(name, '{', len);
    const char *close;

    if (!open || adds_braces(prefix))
        return !memchr(name, '}', len);
    close = memchr(open, '}', (size_t)(name + len - open));
    return close && close > open + 1;
}

static char *append(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

size_t relock_keys_field(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number,
                         const char *suffix)
{
    char *at = append(out, id, RELOCK_UUID_LEN);

    *at++ = ':';
    at += relock_decimal(at, number);
    at = append(at, suffix, strlen(suffix) + 1) - 1;
    return (size_t)(at - out);
}

size_t relock_keys_channel(char out[RELOCK_CHANNEL_MAX], const char *prefix, const char *name,
                           size_t len)
{
    bool has_brace = adds_braces(prefix);
    bool has_tag = !has_brace && memchr(name, '{', len);
    char *at = append(out, prefix, strlen(prefix));

    if (!has_brace)
        *at++ = ':';
    if (!has_brace && !has_tag)
        *at++ = '{';
    at = append(at, name, len);
    if (!has_tag)
        *at++ = '}';
    *at = '\0';
    return (size_t)(at - out);
}

size_t relock_keys_entry(char out[RELOCK_ENTRY_MAX], const char *id, const char *side)
{
    char *at = append(out, id, RELOCK_UUID_LEN);

    if (side) {
        *at++ = ':';
        at = append(at, side, strlen(side));
    }
    *at = '\0';
    return (size_t)(at - out);
}

static char *append_big_endian(char *at, uint64_t number, unsigned n_bytes)
{
    while (n_bytes-- > 0)
        *at++ = (char)(number >> (8 * n_bytes));
    return at;
}

static unsigned hex_digit(char digit)
{
    return (unsigned)(digit <= '9' ? digit - '0' : digit - 'a' + 10);
}

size_t relock_keys_permits(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number,
                           uint64_t n_permits)
{
    uint64_t serial = number % RELOCK_SERIALS;
    char *at = out;

    for (const char *digit = id; at < out + RELOCK_PERMIT_CLIENT_LEN; digit += 2) {
        digit += *digit == '-';
        *at++ = (char)(hex_digit(digit[0]) << 4 | hex_digit(digit[1]));
    }
    at = append_big_endian(at, (number / RELOCK_SERIALS) << RELOCK_SERIAL_BITS | serial, 8);
    at = append_big_endian(at, n_permits, RELOCK_PERMIT_ID_LEN - RELOCK_PERMIT_INDEX);
    return (size_t)(at - out);
}

size_t relock_keys_inbox(char out[RELOCK_CHANNEL_MAX], const char *id)
{
    return relock_keys_channel(out, RELOCK_CHANNEL_CLIENT, id, RELOCK_UUID_LEN);
}

size_t relock_keys_slot_inbox(char out[RELOCK_CHANNEL_MAX], const char *id, const char *name,
                              size_t len)
{
    static const char begin[] = RELOCK_CHANNEL_CLIENT ":{", middle[] = "}:";
    const char *tag = memchr(name, '{', len);
    const char *end = tag ? memchr(tag, '}', (size_t)(name + len - tag)) : NULL;
    char *at = append(out, begin, strlen(begin));

    at = end ? append(at, tag + 1, (size_t)(end - tag - 1)) : append(at, name, len);
    at = append(at, middle, strlen(middle));
    at = append(at, id, RELOCK_UUID_LEN + 1);
    return (size_t)(at - out) - 1;
}

size_t relock_keys_twin(char out[RELOCK_TWIN_MAX], const char *name, size_t len)
{
    char *at = out;

    if (!memchr(name, '{', len)) {
        *at++ = '{';
        at = append(at, name, len);
        *at++ = '}';
    } else if (name[0] == '{' && name[len - 1] == '}' && !memchr(name + 1, '{', len - 1)) {
        at = append(at, name + 1, len - 2);
    }
    return (size_t)(at - out);
}

uint64_t relock_keys_number(uint64_t owner, uint64_t serial, bool is_cached)
{
    /* The last nine digits are the serial, from 1, so those before them are the owner's. */
    uint64_t first = is_cached ? RELOCK_SERIALS_CACHED : 1;

    return ((owner % RELOCK_OWNERS) * RELOCK_SERIALS) + first +
           (serial % (RELOCK_SERIALS_CACHED - 1));
}

bool relock_keys_is_cached(uint64_t number)
{
    return number % RELOCK_SERIALS >= RELOCK_SERIALS_CACHED;
}

uint64_t relock_keys_serial(uint64_t number)
{
    uint64_t last = number % RELOCK_SERIALS;

    return last >= RELOCK_SERIALS_CACHED ? last - RELOCK_SERIALS_CACHED : last - 1;
}

/* ---- tokens -------------------------------------------------------------------------------- */

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

/* scripts/look.lua computes the same. */
static uint32_t mark_of(const unsigned char *bytes, size_t len)
{
    uint32_t mark = UINT32_C(0x72656c6b);

    for (size_t i = 0; i < len; i++)
        mark = (mark << 5 | mark >> 27) ^ bytes[i];
    return mark;
}

bool relock_tokens_init(struct relock_tokens *tokens)
{
    uint32_t mark;

    if (!relock_ident_random(tokens, sizeof(*tokens)))
        return false;
    mark = mark_of(tokens->client, RELOCK_TOKENS_RANDOM);
    for (size_t i = RELOCK_TOKENS_RANDOM; i < sizeof(tokens->client); i++, mark <<= 8)
        tokens->client[i] = (unsigned char)(mark >> 24);
    return true;
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

size_t relock_keys_permits_hold(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number)
{
    char permits[RELOCK_FIELD_MAX];
    char *at = out;

    (void)relock_keys_permits(permits, id, number, 0);
    for (size_t i = 0; i < RELOCK_PERMIT_INDEX; i++)
        at = write_byte(at, (unsigned char)permits[i]);
    *at = '\0';
    return (size_t)(at - out);
}
