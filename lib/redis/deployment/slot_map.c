#include "redis/deployment/slot_map.h"
#include "redis/deployment/private.h"

#include "redis/server/reply.h"

#include <string.h>

/* ---- the slot of a key --------------------------------------------------------------------- */

/* CRC-16/XMODEM, polynomial 0x1021, for four bits at a time. */
static uint16_t crc16(const char *data, size_t len)
{
    static const uint16_t table[] = {
        0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
        0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
    };
    unsigned crc = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned byte = (unsigned char)data[i];

        crc = (crc << 4 & 0xffff) ^ table[(crc >> 12) ^ (byte >> 4)];
        crc = (crc << 4 & 0xffff) ^ table[(crc >> 12) ^ (byte & 15)];
    }
    return (uint16_t)crc;
}

static struct relock_text tag_of(struct relock_text key)
{
    const char *open = memchr(key.data, '{', key.len);
    const char *end = key.data + key.len;
    const char *close = open ? memchr(open + 1, '}', (size_t)(end - open - 1)) : NULL;

    if (!close || close == open + 1)
        return key;
    return (struct relock_text){open + 1, (size_t)(close - open - 1)};
}

unsigned relock_slot_of(struct relock_text key)
{
    struct relock_text tag = tag_of(key);

    return crc16(tag.data, tag.len) % RELOCK_SLOTS;
}

#define PORT_MAX 65535

/* In place of a host name that a node does not know. */
#define UNKNOWN "?"

/* ---- addresses ----------------------------------------------------------------------------- */

static bool take_host(struct relock_address *address, const char *host, size_t len)
{
    if (len > RELOCK_HOST_MAX || memchr(host, '\0', len))
        return false;
    memcpy(address->host, host, len);
    address->host[len] = '\0';
    return strcmp(address->host, UNKNOWN) != 0;
}

/* A node that does not know a host name may still know the address: { ..., "ip", "10.0.0.7" }. */
static bool take_ip(struct relock_address *address, const struct redisReply *more)
{
    const struct redisReply *at;
    const char *text;
    size_t len;

    for (size_t i = 0; (at = relock_reply_at(more, i)); i += 2)
        if (relock_reply_is(at, "ip"))
            return relock_reply_text(relock_reply_at(more, i + 1), &text, &len) && len > 0 &&
                   take_host(address, text, len);
    return false;
}

/* { host, port, id, more } */
static bool take_node(struct relock_address *address, const struct redisReply *node)
{
    const struct redisReply *host = relock_reply_at(node, 0);
    const char *text = "";
    size_t len = 0;
    int64_t port;

    if (!host || !relock_reply_integer(relock_reply_at(node, 1), &port) || port < 1 ||
        port > PORT_MAX)
        return false;
    address->port = (uint16_t)port;
    if (!relock_reply_is_nil(host) && !relock_reply_text(host, &text, &len))
        return false;
    return take_host(address, text, len) || take_ip(address, relock_reply_at(node, 3));
}

/* ---- the map ------------------------------------------------------------------------------- */

bool relock_slot_map_read(const struct redisReply *reply, size_t index,
                          struct relock_slot_range *range)
{
    const struct redisReply *at = relock_reply_at(reply, index);
    int64_t first, last;

    if (!relock_reply_integer(relock_reply_at(at, 0), &first) ||
        !relock_reply_integer(relock_reply_at(at, 1), &last))
        return false;
    if (first < 0 || first > last || last >= RELOCK_SLOTS)
        return false;
    range->first = (unsigned)first;
    range->last = (unsigned)last;
    return take_node(&range->master, relock_reply_at(at, 2));
}

/* ---- redirections -------------------------------------------------------------------------- */

static const char *after(const char *text, const char *word)
{
    size_t len = strlen(word);

    return strncmp(text, word, len) == 0 ? text + len : NULL;
}

/* Returns what follows the number; NULL if there is none, or it is larger than `max`. */
static const char *read_number(const char *text, unsigned long max, unsigned long *number)
{
    const char *at = text;

    for (*number = 0; *at >= '0' && *at <= '9'; at++) {
        *number = *number * 10 + (unsigned long)(*at - '0');
        if (*number > max)
            return NULL;
    }
    return at > text ? at : NULL;
}

/* Addresses of IPv6 have colons of their own. */
static bool read_address(struct relock_address *address, const char *text)
{
    const char *colon = strrchr(text, ':');
    unsigned long port = 0;
    const char *end = colon ? read_number(colon + 1, PORT_MAX, &port) : NULL;

    if (!end || port == 0 || (*end != '\0' && *end != ' '))
        return false;
    address->port = (uint16_t)port;
    return take_host(address, text, (size_t)(colon - text));
}

bool relock_slot_map_redirect(const char *error, struct relock_redirect *redirect)
{
    const char *moved = after(error, "MOVED ");
    const char *rest = moved ? moved : after(error, "ASK ");
    unsigned long slot = 0;

    rest = rest ? read_number(rest, RELOCK_SLOTS - 1, &slot) : NULL;
    if (!rest || *rest != ' ')
        return false;
    redirect->kind = moved ? RELOCK_REDIRECT_MOVED : RELOCK_REDIRECT_ASK;
    redirect->slot = (unsigned)slot;
    return read_address(&redirect->node, rest + 1);
}
