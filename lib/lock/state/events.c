#include "lock/state/events.h"

#include "base/hash.h"

#include <stdlib.h>
#include <unistd.h>

struct relock_events *relock_events_unref(struct relock_events *events)
{
    if (events && --events->refs == 0)
        free(events);
    return NULL;
}

/* The write cannot fail: the counter is 0 or 1. */
static void signal_descriptor(struct relock_events *events)
{
    static const uint64_t one = 1;

    if (events->is_signalled)
        return;
    events->is_signalled = true;
    if (write(events->fd, &one, sizeof(one)) < 0)
        events->is_signalled = false;
}

void relock_events_expect(struct relock_events *events, struct relock_event *event)
{
    (void)relock_events_ref(events);
    DL_APPEND(events->outstanding, event);
}

bool relock_events_end(struct relock_events *events, struct relock_event *event)
{
    DL_DELETE(events->outstanding, event);
    if (!events->is_open)
        return false;
    DL_APPEND(events->ended, event);
    signal_descriptor(events);
    return true;
}

void relock_events_add_loss(struct relock_events *events, struct relock_hold *hold)
{
    relock_task_add(&events->losses, &hold->loss);
    signal_descriptor(events);
}
