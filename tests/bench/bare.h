/*
 * Bare - the same locks with hiredis alone
 *
 * The scripts of the library, sent by EVALSHA over a blocking connection. All arguments are
 * prepared strings of the same length as the library's, so a measurement contains only hiredis, the
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

/* One owner's view of one lock. Contains pointers to itself: do not copy it. */
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

/* One connection, or with `redis+cluster://host:port,host:port` one to each of these nodes. Returns
 * their number. */
unsigned bare_connect_all(const char *url, struct redisContext **redis, unsigned max);

/* Of these nodes, a connection to the one whose key this is. */
struct redisContext *bare_connect_owner(const char *url, const char *key);

/* The hash of the script that acquires a lock. */
const char *bare_lock_sha1(void);

/* `holder` makes the field, as the number of a thread does in the library. */
void bare_lock_init(struct bare_lock *lock, const char *name, unsigned holder);

/* Sets the lease; by default it is 30 s, as in the library. */
void bare_lock_lease(struct bare_lock *lock, uint64_t lease_ms);

/* One round trip each. False when another holds it. */
bool bare_take(struct redisContext *redis, const struct bare_lock *lock);
void bare_give(struct redisContext *redis, const struct bare_lock *lock);

/* Sends the release and leaves its reply to the next command; that command, if the server `owes`
 * such a reply; or just that reply. */
void bare_give_later(struct redisContext *redis, const struct bare_lock *lock);
void bare_take_after(struct redisContext *redis, const struct bare_lock *lock, bool owes);
void bare_await_given(struct redisContext *redis, const struct bare_lock *lock);

/* Subscribes this connection to the lock's channel; waits for the next message. */
void bare_subscribe(struct redisContext *redis, const struct bare_lock *lock);
void bare_await_message(struct redisContext *redis);

/* A plain lock, as redis-py takes and gives it: with a token, and without a message. One round trip
 * each. */
void bare_plain_take(struct redisContext *redis, const char *name);
void bare_plain_give(struct redisContext *redis, const char *name);

/* Deletes a key that is there. */
void bare_delete(struct redisContext *redis, const char *key);

/* False also at a node of a cluster that does not own the key. */
bool bare_exists(struct redisContext *redis, const char *key);

/* The number of connections with a subscription, of any client. */
unsigned bare_subscribers(struct redisContext *redis);

/* A section of the reply to INFO. Free it. */
char *bare_info(struct redisContext *redis, const char *section);

/* Sends many renewals of a held lock at once, then reads all replies. */
void bare_renew(struct redisContext *redis, const struct bare_lock *lock, unsigned n);

/* Renews that many held locks by one script, and has the server track them, as the library does.
 * Before the first time, bare_track() asks for that. */
#define BARE_RENEW_MAX 64

void bare_track(struct redisContext *redis);
void bare_renew_many(struct redisContext *redis, const struct bare_lock *locks, unsigned n);

/* "redis 7.0.15" */
void bare_server_version(struct redisContext *redis, char *version, size_t size);

#endif
