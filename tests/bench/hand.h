/*
 * Hand - a process' way to take and give one lock: with the library, or with bare connections
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
    bool (*take)(struct hand *hand); /* whether it slept meanwhile */
    void (*give)(struct hand *hand);
    uint64_t (*close)(struct hand *hand); /* returns how often it asked without being woken */
};

extern const struct hand_kind hand_ours;

/* A message, then an EVALSHA: no lock that wakes by a message can be quicker than that. */
extern const struct hand_kind hand_bare;

#endif
