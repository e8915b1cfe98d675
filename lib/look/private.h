/*
 * Private - what the files of lib/look share, and nobody else
 */
#ifndef RELOCK_LOOK_PRIVATE_H
#define RELOCK_LOOK_PRIVATE_H

#include "base/decimal.h"
#include "lock/state/client.h"
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
 * Sight - one call of lib/look: begins and ends it, asks about one lock, and scans for keys
 *
 *     if (!relock_sight_begin(&sight, client))
 *         return sight.result;
 *     ...
 *     return relock_sight_end(&sight, r);
 *
 * Threads: its caller's. Between begin and end, the client is entered and its mutex is not held.
 */

#define RELOCK_PEER_NAME_MAX 128

/* Permits of an acquire, as they are reported. */
struct relock_sight_permits {
    struct relock_permits_info info;
    char id[RELOCK_PERMIT_HEX_MAX + 1];
    char client_name[RELOCK_PEER_NAME_MAX];
    char record[RELOCK_SINCE_KEY_MAX]; /* of its age; "": none, or it was read */
    char hold[RELOCK_DECIMAL_MAX];     /* the field there: a number */
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
    int result;                           /* of begin */
    char why[RELOCK_WHY_MAX];             /* the cause of a failure */
    char peer[RELOCK_PEER_NAME_MAX];      /* the name that was found last */
    char peer_id[RELOCK_UUID_LEN + 1];    /* of the same client */
    struct relock_sight_permits *permits; /* of the semaphore that was described last; or NULL */
    bool is_lock; /* what was described last is held, and looks like a lock */
};

/* Enters the client. False, with a result, if it cannot. */
bool relock_sight_begin(struct relock_sight *sight, struct relock_client *client);

/* Logs a failure, leaves the client and returns `result`. */
int relock_sight_end(struct relock_sight *sight, int result);

/* Finds the name of the client whose id is at the beginning of `owner`, or "": `sight->peer`. The
 * first such call asks all servers for CLIENT LIST. */
void relock_sight_find_name(struct relock_sight *sight, const char *owner);

/* The deadline of a command that is sent now. */
uint64_t relock_sight_deadline(const struct relock_sight *sight);

/*
 * Asks for the kind of a lock and the first `n` of those that wait: scripts/look.lua. The caller
 * ends the call with relock_call_end(), also after a failure. Returns as relock_call_run.
 */
int relock_sight_ask(struct relock_sight *sight, struct relock_text name, unsigned n,
                     struct relock_call *call);

/* Describes the lock that relock_sight_ask() was about. Asks for its holder. Returns as
 * relock_call_run. */
int relock_sight_describe(struct relock_sight *sight, const struct relock_call *looked,
                          struct relock_lock_info *info);

/* Takes a page of keys, an array, of this node. Returns RELOCK_OK, a failure, or RELOCK_SCAN_END:
 * no further page is wanted. */
#define RELOCK_SCAN_END 1
typedef int relock_scan_fn(void *arg, struct relock_node *node, const struct redisReply *keys);

/* Finds all keys of these types, on all servers, whose names match a pattern. `types` ends with
 * NULL. Returns RELOCK_OK, a failure of `fn`, or one of relock_nodes_ask. */
int relock_scan(struct relock_sight *sight, struct relock_text pattern, const char *const *types,
                relock_scan_fn *fn, void *arg);

#endif
