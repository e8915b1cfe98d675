/*
 * Slot map - which slot a key belongs to, and what a node of a cluster says about the slots
 *
 * The reply to CLUSTER SLOTS lists ranges of slots with their master and its replicas. The error of
 * a command names the node that has the slot of its key.
 *
 * Threads: any.
 */
#ifndef RELOCK_SLOT_MAP_H
#define RELOCK_SLOT_MAP_H

#include "redis/server/command.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The slot of a key: CRC16 of the key's hash tag: the text between the first `{` and the next `}`.
 * Without one, or if it is empty, of the whole key. */
unsigned relock_slot_of(struct relock_text key);

#define RELOCK_HOST_MAX 255

/* The address of a node. */
struct relock_address {
    char host[RELOCK_HOST_MAX + 1]; /* "": that of the node that was asked */
    uint16_t port;
};

enum relock_redirect_kind {
    RELOCK_REDIRECT_MOVED, /* the slot is at that node from now on */
    RELOCK_REDIRECT_ASK,   /* the slot is on its way there: for this command only */
};

struct relock_redirect {
    enum relock_redirect_kind kind;
    unsigned slot;
    struct relock_address node;
};

/* Reads "MOVED <slot> <host>:<port>" and ASK. Returns false if the error is neither, or names no
 * node. */
bool relock_slot_map_redirect(const char *error, struct relock_redirect *redirect);

#endif
