/*
 * Listener - learns from a resource when a retry is worthwhile there
 *
 * A layer above embeds it: it waits for several resources at once, and has queues of its own. A
 * listener stands on the resource that has the channel. It is notified under the mutex of that
 * resource's client, where it may only take note. A task of the I/O thread does the work that must
 * run without a mutex.
 *
 * Calls of the layer above can also stand in the line of the resource (line.c). Then the listener
 * hears everything that a waiter in the queue of the resource would hear.
 *
 * Threads: with the mutex of the client held.
 */
#ifndef RELOCK_LISTENER_H
#define RELOCK_LISTENER_H

#include "lock/state/client.h"
#include "lock/state/resource.h"
#include "lock/state/task.h"

#include <stdbool.h>

struct relock_listener;

/* Bits: several may be due at the same time. */
enum relock_listener_event {
    RELOCK_HEARD_MESSAGE = 1,   /* on the channel of the lock */
    RELOCK_HEARD_CHANGE = 2,    /* the channel is subscribed, or is not any more: a message before
                                   that may be lost */
    RELOCK_HEARD_TURN = 4,      /* this client is told to acquire the lock */
    RELOCK_HEARD_LATER = 8,     /* with TURN: clients outside of the line go first */
    RELOCK_HEARD_STANDING = 16, /* the place in the line has changed, or is lost */
};

struct relock_listener_ops {
    /* Returns whether `deliver` is to be called for this event. The listener then has to live until
     * that call. If `due` is not 0, such a call is outstanding already. */
    bool (*notify)(struct relock_listener *listener, enum relock_listener_event event);

    /* All events since it was called before. Under no mutex. */
    void (*deliver)(struct relock_listener *listener, unsigned events);
};

struct relock_listener {
    const struct relock_listener_ops *ops; /* constant */
    struct relock_resource *resource;      /* in whose line its calls stand; constant */
    unsigned n_waiting;                    /* calls that keep the channel subscribed */
    unsigned n_standing;                   /* calls that stand in the line */
    struct relock_listener *next, *prev;   /* on the resource with the channel */
    struct relock_task task;               /* posted while there are events to be delivered */
    unsigned due;                          /* those events */
};

/* Returns false when out of memory. */
bool relock_listener_add(struct relock_resource *resource, struct relock_listener *listener);
void relock_listener_remove(struct relock_resource *resource, struct relock_listener *listener);

/* Whether a call waits for the lock: in the queue of the resource, or in its line by a listener. */
bool relock_listeners_await(struct relock_resource *resource);

/* Notifies all listeners of an event on the channel of the resource. */
void relock_listeners_hear(struct relock_client *client, struct relock_resource *resource,
                           enum relock_listener_event event) RELOCK_REQUIRES(client->mutex);

/* Delivers what is due, when the I/O thread has ended. Unlocks the mutex meanwhile. */
void relock_listeners_deliver(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
