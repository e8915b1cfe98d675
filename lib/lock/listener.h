/*
 * Listener - learns from a resource when a retry is worthwhile there
 *
 * A layer above embeds it: it waits for several resources at once, and has queues of its own. A
 * listener stands on the resource that has the channel. It is notified under the mutex of that
 * resource's client, where it may only take note; relock_listeners_deliver does the work that must
 * run without a mutex.
 *
 * Threads: with the mutex of the client held; relock_listeners_deliver: the I/O thread, without.
 */
#ifndef RELOCK_LISTENER_H
#define RELOCK_LISTENER_H

#include "lock/resource.h"

struct relock_listener_ops {
    /* Returns whether `deliver` is to be called: until then the listener has to stay. */
    bool (*notify)(struct relock_listener *listener, bool is_message);

    /* Under no mutex. */
    void (*deliver)(struct relock_listener *listener, bool is_message);
};

struct relock_listener {
    const struct relock_listener_ops *ops; /* constant */
    unsigned n_waiting;                    /* calls that keep the channel subscribed */
    struct relock_listener *next, *prev;   /* on the resource */
    struct relock_listener *next_due;      /* the I/O thread's: notified and not delivered */
};

void relock_listener_add(struct relock_resource *resource, struct relock_listener *listener);
void relock_listener_remove(struct relock_resource *resource, struct relock_listener *listener);

/* Whether a call waits for a notification. */
bool relock_listeners_wait(const struct relock_resource *resource);

/* Notifies all. Returns those that are to be delivered, linked by `next_due`. */
struct relock_listener *relock_listeners_notify(struct relock_resource *resource, bool is_message);
void relock_listeners_deliver(struct relock_listener *due, bool is_message);

#endif
