/*
 * Hand - how a process acquires and releases one lock: with the library, or with bare connections
 *
 * Threads: one.
 */
#ifndef RELOCK_BENCH_HAND_H
#define RELOCK_BENCH_HAND_H

#include "bare.h"

#include <stdbool.h>
#include <stdint.h>

struct hand {
    const struct hand_kind *kind;
    struct relock_client *client; /* ours */
    struct relock_lock *lock;
    struct redisContext *redis, *subscriber; /* bare */
    struct bare_lock bare_lock;
};

struct hand_kind {
    void (*open)(struct hand *hand, const char *url, const char *name, unsigned side);
    bool (*take)(struct hand *hand); /* returns whether it slept meanwhile */
    void (*give)(struct hand *hand);
    uint64_t (*close)(struct hand *hand); /* returns how often it retried without a message */
};

extern const struct hand_kind hand_ours;

/* A message, then an EVALSHA: the least that a lock woken by messages needs. */
extern const struct hand_kind hand_bare;

#endif
