/*
 * Private - what the files of lib/look share, and nobody else
 */
#ifndef RELOCK_LOOK_PRIVATE_H
#define RELOCK_LOOK_PRIVATE_H

#include "base/decimal.h"
#include "lock/state/client.h"
#include "redis/deployment/run.h"
#include "redis/deployment/topology.h"
#include "redis/lane/call.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <relock.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply;

/* ---- since ----------------------------------------------------------------------------------- */

#define RELOCK_SINCE_KEY_MAX 64

/* The key of the record of a client, by its id or by what its tokens begin with. */
void relock_since_key(char out[RELOCK_SINCE_KEY_MAX], const char *id, size_t len);

/* ---- sight ----------------------------------------------------------------------------------- */

/*
 * Sight - one call of lib/look: begins and ends it, asks about locks, and scans for keys
 *
 *     if (!relock_sight_begin(&sight, client))
 *         return sight.result;
 *     ...
 *     return relock_sight_end(&sight, r);
 *
 * Threads: its caller's. Between begin and end, the client is entered and its mutex is not held.
 */

#define RELOCK_PEER_NAME_MAX 128

/* The age of a hold, which its client has recorded. */
struct relock_sight_age {
    char record[RELOCK_SINCE_KEY_MAX]; /* "": there is none */
    const char *field;                 /* of the hold, in the record */
    int64_t *held_ms;                  /* -1 until it was read */
    char *client_name; /* of RELOCK_PEER_NAME_MAX bytes; if "", the record may have it */
    struct relock_sight_age *next, *prev; /* of those to be read */
};

/* Permits of an acquire, as they are reported. */
struct relock_sight_permits {
    struct relock_permits_info info;
    char id[RELOCK_PERMIT_HEX_MAX + 1];
    char client_name[RELOCK_PEER_NAME_MAX];
    char hold[RELOCK_DECIMAL_MAX];
    struct relock_sight_age age;
};

/* A lock, as it is reported. */
struct relock_sight_lock {
    struct relock_lock_info info;
    char *name; /* its key, with a NUL; owned */
    char client_name[RELOCK_PEER_NAME_MAX];
    struct relock_sight_age age;
    struct relock_sight_permits *permits; /* of a semaphore, or NULL; owned */
    bool is_lock;                         /* it is held, and looks like a lock */
};

/* Of the clients, by their ids. CLIENT LIST shows each connection of a client as
 * `<client_name>:<client id>`; a lock in Redis shows the id alone. */
struct relock_names {
    struct redisReply **lists; /* of each server */
    size_t n_lists;
    bool were_asked;
};

struct relock_sight {
    struct relock_client *client;
    struct relock_guard guard;
    struct relock_names names;
    int result;                        /* of begin */
    char why[RELOCK_WHY_MAX];          /* the cause of a failure */
    char peer[RELOCK_PEER_NAME_MAX];   /* the name that was found last */
    char peer_id[RELOCK_UUID_LEN + 1]; /* of the same client */
    struct relock_sight_age *ages;     /* to be read */
};

/* Enters the client. False, with a result, if it cannot. */
bool relock_sight_begin(struct relock_sight *sight, struct relock_client *client);

/* Logs a failure, leaves the client and returns `result`. */
int relock_sight_end(struct relock_sight *sight, int result);

/* Finds the name of the client whose id is at the beginning of `owner`, or "": `sight->peer`. The
 * first such call asks all servers for CLIENT LIST. */
void relock_sight_find_name(struct relock_sight *sight, const char *owner);

/* Without a first node, no server can be asked: RELOCK_E_CONN, else RELOCK_OK. */
int relock_sight_check(struct relock_sight *sight, const struct relock_node *first);

/* The deadline of a command that is sent now. */
uint64_t relock_sight_deadline(const struct relock_sight *sight);

/* Locks that one script looks at, and holds whose ages one script reads. In a cluster, there is a
 * script for each slot, and many go out together. */
#define RELOCK_SIGHT_MANY RELOCK_CALLS_AT_ONCE

/*
 * Asks for a lock, and the first `n_waiters` of those that wait for it: scripts/look.lua. The reply
 * has one element. The caller ends the call with relock_call_end(), also after a failure. Returns
 * as relock_call_run.
 */
int relock_sight_ask(struct relock_sight *sight, const struct relock_text *name, unsigned n_waiters,
                     struct relock_call *call);

/*
 * Asks for up to RELOCK_SIGHT_MANY locks, by a script for all of them, or in a cluster for those of
 * each slot, which stand together. The `*n_calls` calls follow each other as their locks do: each
 * has one key and `n_more_keys`. A reply has an element for each of these, or for the first ones. A
 * call without a reply is to be made anew, lock by lock. The caller ends the calls. Returns as
 * relock_call_try_all.
 */
int relock_sight_ask_all(struct relock_sight *sight, const struct relock_text *names, size_t n,
                         struct relock_call calls[RELOCK_SIGHT_MANY], size_t *n_calls);

/* Describes the lock of this name, by its element of the reply without waiters. The caller frees
 * what the lock owns, also after a failure. Returns RELOCK_OK, RELOCK_E_NOMEM or RELOCK_E_SERVER.
 */
int relock_sight_describe(struct relock_sight *sight, struct relock_text name,
                          const struct redisReply *element, struct relock_sight_lock *lock);

/* Has relock_sight_read_ages() read for how long the lock is held, or its permits. */
void relock_sight_want_ages(struct relock_sight *sight, struct relock_sight_lock *lock);

/* Reads the ages that are wanted, of `n` locks. Those that cannot be read stay unknown. */
void relock_sight_read_ages(struct relock_sight *sight, size_t n);

void relock_sight_lock_deinit(struct relock_sight_lock *lock);

/* Takes a page of keys, an array, of this node. Returns RELOCK_OK, a failure, or RELOCK_SCAN_END:
 * no further page is wanted. */
#define RELOCK_SCAN_END 1
typedef int relock_scan_fn(void *arg, struct relock_node *node, const struct redisReply *keys);

/* Finds all keys of these types, on all servers, whose names match a pattern. `types` ends with
 * NULL. Returns RELOCK_OK, a failure of `fn`, or one of relock_nodes_ask. */
int relock_scan(struct relock_sight *sight, struct relock_text pattern, const char *const *types,
                relock_scan_fn *fn, void *arg);

#endif
