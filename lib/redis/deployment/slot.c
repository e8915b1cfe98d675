#include "redis/deployment/slot.h"

#include <stdint.h>
#include <string.h>

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
