/*
 * Keys - the names of fields and channels in Redis, in Redisson's format
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
/* The id of a client and ":write". */
#define RELOCK_ENTRY_MAX 48
#define RELOCK_CHANNEL_MAX (RELOCK_NAME_MAX + 32 + RELOCK_FIELD_MAX)

/* The ids of permits, in a semaphore of Redisson's; see relock_keys_permits(). */
#define RELOCK_PERMIT_ID_LEN 16
#define RELOCK_PERMIT_CLIENT_LEN 6
#define RELOCK_PERMIT_INDEX 14 /* where the index of the permit is, two bytes */

/* A channel's name begins with one of these. Behind the last, the name follows in braces, whichever
 * braces it has. */
#define RELOCK_CHANNEL_LOCK "redisson_lock__channel"
#define RELOCK_CHANNEL_RW "redisson_rwlock"
#define RELOCK_CHANNEL_SEMAPHORE "redisson_sc"
#define RELOCK_CHANNEL_CLIENT "relock_client"
#define RELOCK_CHANNEL_LATCH "redisson_countdownlatch__channel__{"

/* The whole name of a channel: clients of a cluster hear there of releases in half moved slots. */
#define RELOCK_CHANNEL_ALARM "relock_client:{moving}"

/* The messages of a release, and of a write lock's release. */
#define RELOCK_MESSAGE_FREE "0"
#define RELOCK_MESSAGE_FREE_WRITE "1"
/* Of a semaphore the script says how many permits are free; this one where no script says it. */
#define RELOCK_MESSAGE_PERMIT "1"

/* The sides of a read/write lock, in scripts, entries and messages. */
#define RELOCK_SIDE_READ "read"
#define RELOCK_SIDE_WRITE "write"

/* The number of a hold is the owner's number times this, plus a serial. */
#define RELOCK_SERIALS UINT64_C(1000000000)

#define RELOCK_SERIAL_BITS 30 /* as many as a serial has */

/* From this serial on, the number says that its client caches the hold: see cache.c. */
#define RELOCK_SERIALS_CACHED (RELOCK_SERIALS / 2)

/* The number of owners that fit into the integer that Redisson reads. */
#define RELOCK_OWNERS ((uint64_t)INT64_MAX / RELOCK_SERIALS)

/* Whether this can be the name of a lock, and its length. */
bool relock_keys_name(const char *name, size_t *len);

/*
 * Writes the name of a lock with its prefix, and a NUL; sets the length. Returns false if this
 * cannot be the name of a lock.
 */
bool relock_keys_join(char out[RELOCK_NAME_MAX + 1], const char *prefix, size_t prefix_len,
                      const char *name, size_t *len);

/* Why this cannot be the name of a lock: a constant string. */
const char *relock_keys_invalid(const char *name);

/* Whether a cluster puts the key of this name, its channel, whose name begins with `prefix`, and
 * all its other keys into one slot. */
bool relock_keys_share_slot(const char *prefix, const char *name, size_t len);

/* These write a text with its NUL and return its length. */
size_t relock_keys_field(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number,
                         const char *suffix);
size_t relock_keys_channel(char out[RELOCK_CHANNEL_MAX], const char *prefix, const char *name,
                           size_t len);

/* The entry of a client in the line of a lock. `side` of a read/write lock, or NULL. */
size_t relock_keys_entry(char out[RELOCK_ENTRY_MAX], const char *id, const char *side);

/*
 * The argument of scripts for the permits of a hold, RELOCK_PERMIT_ID_LEN bytes: the id of a permit
 * with the number of permits in place of its index. An id is the first six bytes of the client's
 * id, the number of the hold as 8 bytes (the owner's, shifted by RELOCK_SERIAL_BITS, and the
 * serial), and the index of the permit in the hold, from 0. All numbers begin with their highest
 * byte.
 */
size_t relock_keys_permits(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number,
                           uint64_t n_permits);

/* What the ids of the permits of this hold begin with, in hex: the first
 * RELOCK_PERMIT_CLIENT_DIGITS of these are the same for all holds of the client. */
#define RELOCK_PERMIT_CLIENT_DIGITS ((size_t)2 * RELOCK_PERMIT_CLIENT_LEN)
#define RELOCK_PERMIT_HOLD_DIGITS ((size_t)2 * RELOCK_PERMIT_INDEX)
size_t relock_keys_permits_hold(char out[RELOCK_FIELD_MAX], const char *id, uint64_t number);

/* The inbox of a client: the channel on which it is told that it is its turn. */
size_t relock_keys_inbox(char out[RELOCK_CHANNEL_MAX], const char *id);

/* The inbox of a client of a cluster for the locks with the tag of this one: it has their slot. The
 * names share a slot with their channels: relock_keys_share_slot(). */
size_t relock_keys_slot_inbox(char out[RELOCK_CHANNEL_MAX], const char *id, const char *name,
                              size_t len);

/*
 * The other name that shares the channel and the queue in Redisson's format: `{x}` for `x`, `x` for
 * `{x}`. Returns its length; 0 if there is none.
 */
size_t relock_keys_twin(char out[RELOCK_TWIN_MAX], const char *name, size_t len);

/* The number of the client's `serial`th hold; the serial alone makes it unique. */
uint64_t relock_keys_number(uint64_t owner, uint64_t serial, bool is_cached);

/* Whether the number was made with `is_cached`. */
bool relock_keys_is_cached(uint64_t number);

/* The serial in a number. It grows from hold to hold of a client, and begins anew after half a
 * billion. */
uint64_t relock_keys_serial(uint64_t number);

#define RELOCK_TOKENS_PREFIX 12 /* bytes with which all tokens of a client begin */
#define RELOCK_TOKENS_RANDOM 8  /* of them; the others show whose tokens they are */

/*
 * The values in Redis of the holds of plain locks. A token is 20 bytes in hex: 8 random bytes of
 * the client, 4 that follow from them, and the number of the hold, encrypted with a random key of
 * the client. So tokens are unique and cannot be guessed from each other, and none is stored: it
 * can be computed from the number again. By the 4 bytes, lib/look tells a token from a hash sum.
 */
struct relock_tokens {
    unsigned char client[RELOCK_TOKENS_PREFIX];
    uint32_t key[4];
};

/* Returns false with errno, as relock_ident_random. */
bool relock_tokens_init(struct relock_tokens *tokens);

/* Writes the token of the hold with that number, with its NUL. Returns its length. */
size_t relock_tokens_write(const struct relock_tokens *tokens, uint64_t number,
                           char out[RELOCK_FIELD_MAX]);

#endif
