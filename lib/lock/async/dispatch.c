/*
 * relock_events_*() - the queue of events as the program sees it
 *
 * While a callback runs, the thread counts as inside one: calls that would block are refused there.
 */
#include "base/descriptor.h"
#include "base/fork.h"
#include "base/hash.h"
#include "base/status.h"
#include "lock/hold/holds.h"
#include "lock/state/events.h"
#include "lock/state/lock.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- new and free -------------------------------------------------------------------------- */

static int make(struct relock_client *client, struct relock_events **events)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_events *new = calloc(1, sizeof(*new));
    int err;

    if (!new)
        return RELOCK_E_NOMEM;
    new->client = client;
    new->refs = 1;
    new->is_open = true;
    new->fd = relock_descriptor_eventfd(new);
    if (new->fd >= 0) {
        *events = new;
        return RELOCK_OK;
    }
    err = errno;
    free(new);
    relock_mutex_unlock(&client->mutex);
    relock_log_write(&client->log, RELOCK_LOG_ERROR, "no queue of events was made: %s",
                     relock_descriptor_why(err));
    relock_mutex_lock(&client->mutex);
    return relock_status_result(err);
}

int relock_events_new(struct relock_client *client, struct relock_events **events)
{
    struct relock_guard guard;
    struct relock_events *new = NULL;
    int r;

    if (!client || !events)
        return relock_client_refuse(client, "relock_events_new: `events` is NULL");
    if (!relock_client_enter(client, false, &guard))
        return guard.result;
    r = make(client, &new);
    if (new)
        client->guarded.refs++;
    relock_client_exit(client, &guard);
    if (r == RELOCK_OK)
        *events = new;
    return r;
}

/* Drops the events in the queue, and those that were to come. */
static void empty(struct relock_client *client, struct relock_events *events)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_event *at, *next;

    while (events->losses)
        relock_holds_forget_loss(client, relock_hold_of_loss(events->losses));
    DL_FOREACH_SAFE(events->ended, at, next)
    at->drop(client, at);
    DL_FOREACH(events->outstanding, at)
    at->lose_queue(client, at);
}

static void close_queue(struct relock_client *client, struct relock_events *events)
{
    relock_mutex_lock(&client->mutex);
    events->is_open = false;
    empty(client, events);
    (void)relock_descriptor_close(events->fd);
    (void)relock_events_unref(events);
    relock_mutex_unlock(&client->mutex);
}

static bool is_dispatched(struct relock_client *client, const struct relock_events *events)
{
    bool is;

    relock_mutex_lock(&client->mutex);
    is = events->n_dispatching > 0;
    relock_mutex_unlock(&client->mutex);
    return is;
}

/* The log ends with the client, which the queue may outlive. */
static void log_misuse(struct relock_client *client)
{
    struct relock_guard guard;

    if (!relock_client_enter(client, false, &guard))
        return;
    relock_mutex_unlock(&client->mutex);
    relock_log_write(&client->log, RELOCK_LOG_ERROR,
                     "relock_events_free was called from a callback, or while another thread "
                     "dispatches: the queue is not freed; call it later");
    relock_mutex_lock(&client->mutex);
    relock_client_exit(client, &guard);
}

struct relock_events *relock_events_free(struct relock_events *events)
{
    struct relock_client *client = events ? events->client : NULL;
    struct relock_thread_state thread;

    if (!events)
        return NULL;
    relock_thread_enter(&thread);
    if (client->generation != relock_fork_generation()) {
        relock_descriptor_close_all(events); /* a thread of the parent may have been changing it */
        events = NULL;
    } else if (relock_callback_is_inside() || is_dispatched(client, events)) {
        log_misuse(client);
    } else {
        close_queue(client, events);
        relock_client_unref(client);
        events = NULL;
    }
    relock_thread_restore(&thread);
    return events;
}

int relock_events_fd(const struct relock_events *events)
{
    if (!events)
        return RELOCK_E_INVALID;
    return events->client->generation == relock_fork_generation() ? events->fd : RELOCK_E_FORKED;
}

/* ---- dispatching --------------------------------------------------------------------------- */

static void run_ended(struct relock_client *client, struct relock_events *events, int *n_run)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_event *event;
    int n;

    DL_COUNT(events->ended, event, n);
    for (; n > 0 && (event = events->ended); n--) {
        DL_DELETE(events->ended, event);
        event->deliver(client, event);
        ++*n_run;
    }
}

/* Skips holds whose grant the program has not received yet. */
static struct relock_task *next_loss(const struct relock_events *events)
{
    struct relock_task *loss;

    DL_FOREACH(events->losses, loss)
    if (!relock_hold_of_loss(loss)->unannounced)
        return loss;
    return NULL;
}

/* A client that is being freed waits for a running on_lost, and calls none any more. */
static void tell_losses(struct relock_client *client, struct relock_events *events, int *n_run)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_task *loss;
    int n;

    DL_COUNT(events->losses, loss, n);
    for (; n > 0 && (loss = next_loss(events)); n--) {
        if (client->guarded.state == RELOCK_CLIENT_FREED)
            return;
        relock_task_remove(&events->losses, loss);
        client->guarded.n_calls++;
        relock_losses_tell(client, relock_hold_of_loss(loss));
        relock_client_end_call(client);
        ++*n_run;
    }
}

/* Makes the descriptor unreadable if there is nothing left. */
static void calm(struct relock_events *events)
{
    uint64_t count;

    if (!relock_events_is_empty(events) || !events->is_signalled)
        return;
    if (read(events->fd, &count, sizeof(count)) == sizeof(count))
        events->is_signalled = false;
}

/* The end of a call comes before the loss of what it acquired. */
static int dispatch(struct relock_client *client, struct relock_events *events)
{
    int n = 0;

    relock_mutex_lock(&client->mutex);
    events->n_dispatching++;
    run_ended(client, events, &n);
    tell_losses(client, events, &n);
    calm(events);
    events->n_dispatching--;
    relock_mutex_unlock(&client->mutex);
    return n;
}

int relock_events_dispatch(struct relock_events *events)
{
    struct relock_thread_state thread;
    int n;

    if (!events)
        return RELOCK_E_INVALID;
    if (events->client->generation != relock_fork_generation())
        return RELOCK_E_FORKED;
    if (relock_callback_is_inside())
        return RELOCK_E_DEADLOCK;
    relock_thread_enter(&thread);
    relock_callback_enter();
    n = dispatch(events->client, events);
    relock_callback_exit();
    relock_thread_restore(&thread);
    return n;
}
