#include "redis/origin.h"

#include "redis/command.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct relock_origin {
    atomic_uint refs;
    uint64_t id;
    char address[]; /* as the server sees us */
};

struct relock_origin *relock_origin_new(uint64_t id, const char *address, size_t len)
{
    struct relock_origin *origin = malloc(sizeof(*origin) + len + 1);

    if (!origin)
        return NULL;
    atomic_init(&origin->refs, 1);
    origin->id = id;
    memcpy(origin->address, address, len);
    origin->address[len] = '\0';
    return origin;
}

struct relock_origin *relock_origin_ref(struct relock_origin *origin)
{
    atomic_fetch_add(&origin->refs, 1);
    return origin;
}

struct relock_origin *relock_origin_unref(struct relock_origin *origin)
{
    if (origin && atomic_fetch_sub(&origin->refs, 1) == 1)
        free(origin);
    return NULL;
}

void relock_origin_kill(const struct relock_origin *origin, struct relock_buffer *buffer)
{
    relock_command_begin(buffer, 6);
    relock_command_word(buffer, "CLIENT");
    relock_command_word(buffer, "KILL");
    relock_command_word(buffer, "ID");
    relock_command_number(buffer, origin->id);
    relock_command_word(buffer, "ADDR");
    relock_command_word(buffer, origin->address);
}
