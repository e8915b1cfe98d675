/*
 * Pool - memory for many objects of one size, which finds all of them again
 *
 * The objects stand side by side in slabs, so each takes its size and 2 bytes more; malloc() adds
 * up to 24, and a list of all objects 16. A slab is freed when its last object is given back and
 * another slab has room: so a single object that comes and goes needs no memory each time.
 *
 * In a build with a sanitizer each object has a slab of its own, which is freed with it. So its use
 * after that is found, as with malloc().
 *
 * Threads: any, under a mutex of the owner.
 */
#ifndef RELOCK_POOL_H
#define RELOCK_POOL_H

#include <stddef.h>
#include <stdint.h>

struct relock_slab;

struct relock_pool {
    struct relock_slab *slabs;     /* all */
    struct relock_slab *with_room; /* those that have room for an object */
    size_t size;                   /* of each object */
};

/* Returns an object with 0 in it, and sets `nth`, which is told to the pool with the object. NULL
 * when out of memory. `size` is the same for all objects, and a multiple of the alignment of a
 * struct with a uint64_t: 8, or 4 on i386. */
void *relock_pool_take(struct relock_pool *pool, size_t size, uint8_t *nth);

void relock_pool_give(struct relock_pool *pool, void *object, uint8_t nth);

/* All objects, in some order: the first one for NULL. Returns NULL at the end. Meanwhile others may
 * be taken, which may be missed, and given back. */
void *relock_pool_next(const struct relock_pool *pool, const void *object, uint8_t nth);

/* Frees the pool, to which all objects were given back. */
void relock_pool_deinit(struct relock_pool *pool);

#endif
