/*
 * Table - finds structs by the hash of a name
 *
 * Each struct embeds a link of 16 bytes, where uthash's handle takes 56: for structs of which a
 * program has many. The caller computes the hashes, and compares the names of those found. The
 * order of the elements is that of no list, and changes when the table grows.
 *
 * Threads: any, under a mutex of the owner.
 */
#ifndef RELOCK_TABLE_H
#define RELOCK_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_table_link {
    struct relock_table_link *next; /* in the same bucket */
    uint32_t hash;
};

struct relock_table_bucket {
    struct relock_table_link *first;
};

struct relock_table {
    struct relock_table_bucket *buckets; /* NULL while the table is empty */
    uint32_t n_buckets;                  /* a power of two */
    uint32_t n_links;
};

/* Returns false when out of memory. */
bool relock_table_add(struct relock_table *table, struct relock_table_link *link, uint32_t hash);

void relock_table_remove(struct relock_table *table, struct relock_table_link *link);

/* An element with that hash, and another one; NULL: none. */
struct relock_table_link *relock_table_find(const struct relock_table *table, uint32_t hash);
struct relock_table_link *relock_table_find_next(const struct relock_table_link *link);

/* All elements: the first one for NULL. Returns NULL at the end. Meanwhile none is added. */
struct relock_table_link *relock_table_next(const struct relock_table *table,
                                            const struct relock_table_link *link);

#endif
