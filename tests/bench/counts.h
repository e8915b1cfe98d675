/*
 * Counts - what Redis says it was asked: INFO commandstats
 *
 * Only what came over a connection: the commands inside of scripts are left out, and so is the
 * question itself.
 *
 * Threads: as the connection.
 */
#ifndef RELOCK_BENCH_COUNTS_H
#define RELOCK_BENCH_COUNTS_H

#include <stdint.h>

struct redisContext;

struct counts {
    uint64_t all;
    uint64_t scripts; /* EVALSHA and EVAL */
    uint64_t subscribes;
    uint64_t pings;
};

struct counts counts_now(struct redisContext *redis);
struct counts counts_since(struct redisContext *redis, const struct counts *before);

/* Waits until Redis has not been asked for a while; ends the program if that does not come. */
void counts_settle(struct redisContext *redis);

#endif
