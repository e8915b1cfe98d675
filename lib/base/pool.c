#include "base/pool.h"

#include "base/hash.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#if defined(SANITIZED) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FIRST_OBJECTS 1
#define OBJECTS 1
#else
#define FIRST_OBJECTS 4 /* most programs have few */
#define OBJECTS 32
#endif

struct relock_slab {
    struct relock_slab *next, *prev;           /* all slabs of the pool */
    struct relock_slab *room_next, *room_prev; /* those with room */
    uint32_t used;                             /* a bit for each place */
    uint32_t n;                                /* places */
    uint64_t places[];
};

static bool has_room(const struct relock_slab *slab)
{
    return slab->used != UINT32_MAX >> (32 - slab->n);
}

static void *place_of(const struct relock_pool *pool, const struct relock_slab *slab, unsigned nth)
{
    return (char *)slab->places + (nth * pool->size);
}

static struct relock_slab *slab_of(const struct relock_pool *pool, const void *object, unsigned nth)
{
    return RELOCK_CONTAINER(struct relock_slab, places, (char *)object - (nth * pool->size));
}

static struct relock_slab *add_slab(struct relock_pool *pool)
{
    unsigned n = pool->slabs ? OBJECTS : FIRST_OBJECTS;
    struct relock_slab *new = malloc(sizeof(*new) + (n * pool->size));

    if (!new)
        return NULL;
    new->used = 0;
    new->n = n;
    DL_APPEND(pool->slabs, new);
    DL_APPEND2(pool->with_room, new, room_prev, room_next);
    return new;
}

static void free_slab(struct relock_pool *pool, struct relock_slab *slab)
{
    DL_DELETE(pool->slabs, slab);
    DL_DELETE2(pool->with_room, slab, room_prev, room_next);
    free(slab);
}

void *relock_pool_take(struct relock_pool *pool, size_t size, uint8_t *nth)
{
    struct relock_slab *slab = pool->with_room;
    void *object;

    if (!pool->slabs)
        pool->size = size;
    assert(pool->size == size && size % _Alignof(struct relock_slab) == 0);
    if (!slab)
        slab = add_slab(pool);
    if (!slab)
        return NULL;
    *nth = (uint8_t)__builtin_ctz(~slab->used);
    slab->used |= UINT32_C(1) << *nth;
    if (!has_room(slab))
        DL_DELETE2(pool->with_room, slab, room_prev, room_next);
    object = place_of(pool, slab, *nth);
    memset(object, 0, size);
    return object;
}

void relock_pool_give(struct relock_pool *pool, void *object, uint8_t nth)
{
    struct relock_slab *slab = slab_of(pool, object, nth);

    assert(slab->used >> nth & 1);
    if (!has_room(slab))
        DL_PREPEND2(pool->with_room, slab, room_prev, room_next);
    slab->used &= ~(UINT32_C(1) << nth);
    if (slab->used == 0 && (OBJECTS == 1 || slab->room_next || pool->with_room != slab))
        free_slab(pool, slab);
}

void *relock_pool_next(const struct relock_pool *pool, const void *object, uint8_t nth)
{
    const struct relock_slab *slab = object ? slab_of(pool, object, nth) : pool->slabs;
    unsigned from = object ? nth + 1U : 0;

    for (; slab; slab = slab->next, from = 0) {
        uint64_t left = (uint64_t)slab->used >> from;

        if (left)
            return place_of(pool, slab, from + (unsigned)__builtin_ctzll(left));
    }
    return NULL;
}

void relock_pool_deinit(struct relock_pool *pool)
{
    while (pool->slabs) {
        assert(pool->slabs->used == 0);
        free_slab(pool, pool->slabs);
    }
}
