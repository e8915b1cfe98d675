#include "redis/io/private.h"

#include "base/descriptor.h"
#include "redis/server/loop.h"

#include <stdlib.h>
#include <sys/eventfd.h>

struct relock_reading *relock_reading_new(struct relock_loop *loop, const void *scope)
{
    struct relock_reading *new = calloc(1, sizeof(*new));

    if (!new)
        return NULL;
    new->event_fd = relock_descriptor_eventfd(scope);
    if (new->event_fd < 0) {
        free(new);
        return NULL;
    }
    new->loop = loop;
    relock_mutex_init(&new->mutex);
    return new;
}

struct relock_reading *relock_reading_free(struct relock_reading *reading)
{
    if (!reading)
        return NULL;
    relock_mutex_deinit(&reading->mutex);
    (void)relock_descriptor_close(reading->event_fd);
    free(reading);
    return NULL;
}

RELOCK_UNCHECKED void relock_reading_lock(struct relock_reading *reading)
{
    if (reading)
        relock_mutex_lock(&reading->mutex);
}

RELOCK_UNCHECKED void relock_reading_unlock(struct relock_reading *reading)
{
    if (reading)
        relock_mutex_unlock(&reading->mutex);
}

bool relock_reading_is_left(const struct relock_reading *reading,
                            const struct relock_async_conn *conn)
{
    return reading && reading->shared.polled == conn && reading->shared.n_waiting == 1 &&
           !reading->shared.is_needed;
}

bool relock_reading_is_due(const struct relock_reading *reading,
                           const struct relock_async_conn *conn, bool is_left_for_a_while)
{
    unsigned n_polling = reading->shared.polled == conn ? 1 : 0;

    if (reading->shared.is_needed || reading->shared.n_waiting > n_polling)
        return true;
    return n_polling == 0 && !is_left_for_a_while;
}

void relock_reading_watch(struct relock_reading *reading, const struct relock_async_conn *conn)
{
    if (reading && reading->shared.left == conn)
        reading->shared.left = NULL;
}

void relock_reading_end(struct relock_reading *reading, const struct relock_async_conn *conn)
{
    relock_reading_watch(reading, conn);
    if (!reading || reading->shared.polled != conn)
        return;
    reading->shared.polled = NULL;
    (void)eventfd_write(reading->event_fd, 1);
}
