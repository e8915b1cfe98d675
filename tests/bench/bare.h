/*
 * Bare - what the same locking costs with hiredis alone
 *
 * The scripts of the library, sent by EVALSHA over a blocking connection. All arguments are texts
 * made beforehand, as long as those that the library sends, so what is measured is hiredis, the
 * socket and the server. A failure ends the program.
 *
 * Threads: one at a time for each connection.
 */
#ifndef RELOCK_BENCH_BARE_H
#define RELOCK_BENCH_BARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisContext;

#define BARE_TAKE_ARGS 7
#define BARE_GIVE_ARGS 8

/* One owner's view of one lock. Points into itself: not to be copied. */
struct bare_lock {
    char name[96];
    char field[64];
    char channel[128];
    char lease[24];
    const char *take[BARE_TAKE_ARGS];
    size_t take_len[BARE_TAKE_ARGS];
    const char *give[BARE_GIVE_ARGS];
    size_t give_len[BARE_GIVE_ARGS];
};

/* `redis://host[:port]` or `unix://path`. The scripts are loaded. */
struct redisContext *bare_connect(const char *url);
struct redisContext *bare_close(struct redisContext *redis);

/* Of the script that takes a lock. */
const char *bare_lock_sha1(void);

/* `holder` makes the field, as the number of a thread does in the library. */
void bare_lock_init(struct bare_lock *lock, const char *name, unsigned holder);

/* Instead of the 30 s that the library takes. */
void bare_lock_lease(struct bare_lock *lock, uint64_t lease_ms);

/* One round trip each. False when another holds it. */
bool bare_take(struct redisContext *redis, const struct bare_lock *lock);
void bare_give(struct redisContext *redis, const struct bare_lock *lock);

/* Gives this connection to the announcements of the lock, and waits for the next of them. */
void bare_subscribe(struct redisContext *redis, const struct bare_lock *lock);
void bare_await_message(struct redisContext *redis);

bool bare_exists(struct redisContext *redis, const char *key);

/* Connections that have subscribed to something, whoever made them. */
unsigned bare_subscribers(struct redisContext *redis);

/* A section of the answer to INFO, to be freed. */
char *bare_info(struct redisContext *redis, const char *section);

/* Sends many renewals of a lock that is held at once, then reads all answers. */
void bare_renew(struct redisContext *redis, const struct bare_lock *lock, unsigned n);

/* "redis 7.0.15" */
void bare_server_version(struct redisContext *redis, char *version, size_t size);

#endif
