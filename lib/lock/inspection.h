/*
 * Inspection - who holds a lock, as Redis says
 *
 * What one server says of one lock, and what the answers about its members say of a lock that is
 * made of several.
 *
 * Threads: any; all of these are pure.
 */
#ifndef RELOCK_INSPECTION_H
#define RELOCK_INSPECTION_H

#include "lock/kind.h"

struct redisReply;

struct relock_inspection {
    struct relock_holder holder;
    bool is_locked;     /* somebody holds it; of a read/write lock, this side of it */
    unsigned own_count; /* levels of the caller */
};

/* What the server of one member of a red lock said. */
struct relock_opinion {
    bool is_known; /* it answered: else only what the client knows counts */
    bool is_ours;  /* it has the caller's vote */
    struct relock_inspection inspection;
};

/* Reads what the inspect scripts return. Returns false when the reply is something else. */
bool relock_inspection_read(const struct redisReply *reply, struct relock_inspection *inspection);

/* Redis knows no levels of kinds that have a token only: the caller's own are counted here. */
void relock_inspection_count(struct relock_inspection *inspection, const struct relock_kind *kind,
                             unsigned count);

/*
 * Of a multi lock: `whole` begins as all 0, takes its members in order, and is ended with the
 * levels that the caller has of it here. It is held when any of them is.
 */
void relock_inspection_add(struct relock_inspection *whole, const struct relock_inspection *member,
                           const char *name, bool is_first);
void relock_inspection_end(struct relock_inspection *whole, unsigned count);

/*
 * Of a red lock with `n` members, of which the caller has `count` levels here. At least a quorum of
 * the opinions must be known. The lock is free when a quorum of servers say so. Else it is free
 * again when so many leases have ended that a quorum is.
 */
struct relock_inspection relock_inspection_of_red(const struct relock_opinion *opinions, size_t n,
                                                  unsigned count);

#endif
