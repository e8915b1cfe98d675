/*
 * Events - a queue of callbacks that the program runs on a thread of its choice
 *
 * The end of an asynchronous call is an event, and so is the loss of a hold that such a call
 * acquired. The descriptor of the queue is readable while it has events. dispatch.c runs their
 * callbacks.
 *
 * The program may free the queue at any time. Then the queue is closed and takes no more events;
 * calls and holds that refer to it go on without it.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_EVENTS_H
#define RELOCK_EVENTS_H

#include "lock/state/client.h"
#include "lock/state/hold.h"

#include <stdbool.h>

/* Embedded in a call. */
struct relock_event {
    /* Runs the callback, with the mutex unlocked, and frees the event. */
    void (*deliver)(struct relock_client *client, struct relock_event *event);
    /* Frees the event without running its callback. May unlock the mutex meanwhile. */
    void (*drop)(struct relock_client *client, struct relock_event *event);
    /* The queue is closed before the call has ended. */
    void (*lose_queue)(struct relock_client *client, struct relock_event *event);
    struct relock_event *next, *prev; /* in one of the lists of a queue */
};

struct relock_events {
    struct relock_client *client; /* constant; a reference until it is closed */
    int fd;                       /* constant until it is closed */
    unsigned refs;                /* of the program, of events and of holds */
    bool is_open;
    bool is_signalled; /* the descriptor is readable */
    unsigned n_dispatching;
    struct relock_event *outstanding; /* not ended yet */
    struct relock_event *ended;
    struct relock_task *losses; /* see `notice` of a hold */
};

static inline struct relock_events *relock_events_ref(struct relock_events *events)
{
    if (events)
        events->refs++;
    return events;
}

/* Takes NULL. Returns NULL. */
struct relock_events *relock_events_unref(struct relock_events *events);

/* The call has begun: its end will be an event. */
void relock_events_expect(struct relock_events *events, struct relock_event *event);

/* The call has ended. Returns false if the queue is closed: then there is no event. */
bool relock_events_end(struct relock_events *events, struct relock_event *event);

/* Adds the loss of the hold, and takes over the caller's reference to the hold. */
void relock_events_add_loss(struct relock_events *events, struct relock_hold *hold);

/* Whether there is something to dispatch. */
static inline bool relock_events_is_empty(const struct relock_events *events)
{
    return !events->ended && !events->losses;
}

#endif
