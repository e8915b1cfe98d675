/*
 * Inspection - the holder of a lock, as Redis reports it
 *
 * Threads: any; these are pure functions.
 */
#ifndef RELOCK_INSPECTION_H
#define RELOCK_INSPECTION_H

#include "lock/state/kind.h"

/* The scripts cut longer ids of holders. None of these is an owner's: another program has written
 * its data to the key of the lock. */
#define RELOCK_INSPECTION_ID_MAX 1024

/* The levels that an owner has of a lock, as this process knows. */
struct relock_claim {
    uint64_t owner;
    uint64_t number; /* of its hold; 0: none */
    unsigned count;  /* its levels */
};

struct relock_inspection {
    struct relock_holder holder;
    bool is_locked;     /* an owner holds it; of a read/write lock, this side of it */
    unsigned own_count; /* levels of the caller */
};

/* Reads the reply of an inspect script. Returns false if the reply is something else. */
bool relock_inspection_read(const struct redisReply *reply, struct relock_inspection *inspection);

/* For kinds with only a token Redis knows no levels: the caller's own are filled in. */
void relock_inspection_count(struct relock_inspection *inspection, const struct relock_kind *kind,
                             unsigned count);

#endif
