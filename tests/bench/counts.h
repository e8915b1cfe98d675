/*
 * Counts - the commands that Redis received: INFO commandstats
 *
 * Only commands that came over a connection: without the commands of scripts, and without INFO
 * itself. PUBLISH and SPUBLISH are counted apart, from scripts too.
 *
 * Threads: as the connection.
 */
#ifndef RELOCK_BENCH_COUNTS_H
#define RELOCK_BENCH_COUNTS_H

#include <stdint.h>

struct redisContext;

struct counts {
    uint64_t all;
    uint64_t scripts;    /* EVALSHA and EVAL */
    uint64_t subscribes; /* SUBSCRIBE and SSUBSCRIBE */
    uint64_t pings;
    uint64_t tracked;    /* CLIENT CACHING: a tracked command, perhaps a script, follows each */
    uint64_t publishes;  /* not in `all` */
    uint64_t scripts_us; /* in which the server ran `scripts` */
};

struct counts counts_now(struct redisContext *redis);
struct counts counts_since(struct redisContext *redis, const struct counts *before);

/* Waits until Redis has received no command for a while; ends the program if that takes too
 * long. */
void counts_settle(struct redisContext *redis);

#endif
