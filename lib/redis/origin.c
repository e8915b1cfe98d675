#include "redis/origin.h"

#include "redis/command.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct relock_origin {
    atomic_uint refs;
    char run[RELOCK_RUN_MAX + 1];
    uint64_t id;
    char address[]; /* as the server sees us */
};

struct relock_origin *relock_origin_new(const char *run, uint64_t id, const char *address,
                                        size_t len)
{
    struct relock_origin *origin = malloc(sizeof(*origin) + len + 1);

    if (!origin)
        return NULL;
    atomic_init(&origin->refs, 1);
    (void)snprintf(origin->run, sizeof(origin->run), "%s", run);
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

/* Over a unix socket all peers are called by its path and port 0. */
static bool has_address_of_its_own(const struct relock_origin *origin)
{
    const char *port = strrchr(origin->address, ':');

    return port && strcmp(port, ":0") != 0;
}

static bool can_be_killed(const struct relock_origin *origin, const struct relock_origin *killer)
{
    if (killer && *killer->run && *origin->run)
        return strcmp(killer->run, origin->run) == 0;
    return has_address_of_its_own(origin);
}

void relock_origin_kill(const struct relock_origin *origin, const struct relock_origin *killer,
                        struct relock_buffer *buffer)
{
    if (!can_be_killed(origin, killer)) {
        relock_command_begin(buffer, 1);
        relock_command_word(buffer, "PING");
        return;
    }
    relock_command_begin(buffer, 6);
    relock_command_word(buffer, "CLIENT");
    relock_command_word(buffer, "KILL");
    relock_command_word(buffer, "ID");
    relock_command_number(buffer, origin->id);
    relock_command_word(buffer, "ADDR");
    relock_command_word(buffer, origin->address);
}
