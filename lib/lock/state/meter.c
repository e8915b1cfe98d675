#include "lock/state/client.h"

#include <stdlib.h>
#include <string.h>

#define NAME_MAX_LEN (sizeof(((struct relock_contended *)0)->name) - 1)

static bool is_of(const struct relock_contended *counter, const char *name)
{
    return strncmp(counter->name, name, NAME_MAX_LEN) == 0;
}

/* A new counter, or the lowest, which this name takes over. */
static unsigned take_counter(struct relock_meter *meter, const char *name)
{
    unsigned found = 0;

    if (meter->n_names < RELOCK_METER_NAMES) {
        found = meter->n_names++;
    } else {
        for (unsigned i = 1; i < RELOCK_METER_NAMES; i++)
            if (meter->names[i].n < meter->names[found].n)
                found = i;
    }
    memset(meter->names[found].name, 0, sizeof(meter->names[found].name));
    memcpy(meter->names[found].name, name, strnlen(name, NAME_MAX_LEN));
    return found;
}

static unsigned find_counter(struct relock_meter *meter, const char *name)
{
    if (meter->n_names > 0 && is_of(&meter->names[meter->last], name))
        return meter->last;
    for (unsigned i = 0; i < meter->n_names; i++)
        if (is_of(&meter->names[i], name))
            return i;
    return take_counter(meter, name);
}

void relock_meter_contend(struct relock_meter *meter, const char *name)
{
    meter->last = find_counter(meter, name);
    meter->names[meter->last].n++;
}

static int by_count(const void *left, const void *right)
{
    const struct relock_contended *a = left;
    const struct relock_contended *b = right;

    return (a->n < b->n) - (a->n > b->n);
}

void relock_meter_top(const struct relock_meter *meter,
                      struct relock_contended top[RELOCK_CONTENDED_NAMES])
{
    struct relock_meter sorted = *meter;

    qsort(sorted.names, sorted.n_names, sizeof(*sorted.names), by_count);
    memcpy(top, sorted.names, RELOCK_CONTENDED_NAMES * sizeof(*top));
}
