/*
 * Keys - what a lock is called in Redis, as Redisson calls it
 *
 * Threads: any.
 */
#ifndef RELOCK_KEYS_H
#define RELOCK_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RELOCK_NAME_MAX 4096
#define RELOCK_TWIN_MAX (RELOCK_NAME_MAX + 2)
#define RELOCK_FIELD_MAX 64
#define RELOCK_CHANNEL_MAX (RELOCK_NAME_MAX + 32 + RELOCK_FIELD_MAX)

/* What stands before the name in that of a channel. */
#define RELOCK_CHANNEL_LOCK "redisson_lock__channel"
#define RELOCK_CHANNEL_RW "redisson_rwlock"

/* The message that says "free"; that a writer's lock is. */
#define RELOCK_MESSAGE_FREE "0"
#define RELOCK_MESSAGE_FREE_WRITE "1"

/* An owner's number times this, plus a serial, is the number of a hold. */
#define RELOCK_SERIALS UINT64_C(1000000000)

/* So many owners fit into what Redisson reads as a number. */
#define RELOCK_OWNERS ((uint64_t)INT64_MAX / RELOCK_SERIALS)

/* Whether a lock can be called that; its length. */
bool relock_keys_name(const char *name, size_t *len);

/* Each writes a text with its NUL and returns its length. */
size_t relock_keys_field(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number,
                         const char *suffix);
size_t relock_keys_channel(char out[RELOCK_CHANNEL_MAX], const char *prefix, const char *name,
                           size_t len);

/*
 * The other name to which Redisson gives the same channel and queue: `{x}` for `x`, `x` for `{x}`.
 * Returns its length; 0 when there is none.
 */
size_t relock_keys_twin(char out[RELOCK_TWIN_MAX], const char *name, size_t len);

/* The number of the hold that is the `serial`th of its client: that alone makes it the only one. */
uint64_t relock_keys_number(uint64_t owner, uint64_t serial);

#endif
