#include "base/table.h"

#include <stdlib.h>

#define FIRST_BUCKETS 16
#define LAST_BUCKETS (UINT32_C(1) << 31)
#define LINKS_IN_A_BUCKET 4 /* on average at most, as long as there is memory */

static struct relock_table_link **bucket_of(const struct relock_table *table, uint32_t hash)
{
    return &table->buckets[hash & (table->n_buckets - 1)].first;
}

static void push(struct relock_table *table, struct relock_table_link *link)
{
    struct relock_table_link **bucket = bucket_of(table, link->hash);

    link->next = *bucket;
    *bucket = link;
}

/* Without memory for more buckets, the ones that are there get longer. */
static void grow(struct relock_table *table)
{
    struct relock_table old = *table;
    uint32_t n_buckets = old.n_buckets > 0 ? old.n_buckets * 2 : FIRST_BUCKETS;
    struct relock_table_bucket *buckets = calloc(n_buckets, sizeof(*buckets));

    if (!buckets)
        return;
    table->buckets = buckets;
    table->n_buckets = n_buckets;
    for (uint32_t i = 0; i < old.n_buckets; i++) {
        while (old.buckets[i].first) {
            struct relock_table_link *link = old.buckets[i].first;

            old.buckets[i].first = link->next;
            push(table, link);
        }
    }
    free(old.buckets);
}

bool relock_table_add(struct relock_table *table, struct relock_table_link *link, uint32_t hash)
{
    if (table->n_links / LINKS_IN_A_BUCKET >= table->n_buckets && table->n_buckets < LAST_BUCKETS)
        grow(table);
    if (!table->buckets)
        return false;
    link->hash = hash;
    push(table, link);
    table->n_links++;
    return true;
}

void relock_table_remove(struct relock_table *table, struct relock_table_link *link)
{
    struct relock_table_link **at = bucket_of(table, link->hash);

    while (*at != link)
        at = &(*at)->next;
    *at = link->next;
    if (--table->n_links > 0)
        return;
    free(table->buckets);
    *table = (struct relock_table){0};
}

static struct relock_table_link *with_hash(struct relock_table_link *at, uint32_t hash)
{
    while (at && at->hash != hash)
        at = at->next;
    return at;
}

struct relock_table_link *relock_table_find(const struct relock_table *table, uint32_t hash)
{
    return table->buckets ? with_hash(*bucket_of(table, hash), hash) : NULL;
}

struct relock_table_link *relock_table_find_next(const struct relock_table_link *link)
{
    return with_hash(link->next, link->hash);
}

struct relock_table_link *relock_table_next(const struct relock_table *table,
                                            const struct relock_table_link *link)
{
    uint32_t i = 0;

    if (link && link->next)
        return link->next;
    if (link)
        i = (link->hash & (table->n_buckets - 1)) + 1;
    while (i < table->n_buckets && !table->buckets[i].first)
        i++;
    return i < table->n_buckets ? table->buckets[i].first : NULL;
}
