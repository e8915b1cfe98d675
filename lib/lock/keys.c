#include "lock/keys.h"

#include <stdio.h>
#include <string.h>

bool relock_keys_name(const char *name, size_t *len)
{
    *len = name ? strnlen(name, RELOCK_NAME_MAX + 1) : 0;
    return *len > 0 && *len <= RELOCK_NAME_MAX;
}

size_t relock_keys_field(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number)
{
    return (size_t)snprintf(out, RELOCK_FIELD_MAX, "%s:%llu", id, (unsigned long long)number);
}

size_t relock_keys_channel(char out[RELOCK_CHANNEL_MAX], const char *name, size_t len)
{
    bool has_tag = memchr(name, '{', len) != NULL;

    return (size_t)snprintf(out, RELOCK_CHANNEL_MAX, "redisson_lock__channel:%s%.*s%s",
                            has_tag ? "" : "{", (int)len, name, has_tag ? "" : "}");
}

uint64_t relock_keys_number(uint64_t owner, uint64_t serial)
{
    /* 1 to RELOCK_SERIALS - 1: the number before the last nine digits stays the owner's. */
    return ((owner % RELOCK_OWNERS) * RELOCK_SERIALS) + 1 + (serial % (RELOCK_SERIALS - 1));
}
