/*
 * Trials - short lives of locks, which show whether a user may use them
 *
 * Each kind of lock gets all that its rights are for (rights.h), as far as a healthy server lets
 * it: the holder nests and extends; one waiter, which holds another lock meanwhile, gets the lock
 * after the release; a second waiter gives up.
 */
#ifndef RELOCK_TOOL_TRIALS_H
#define RELOCK_TOOL_TRIALS_H

#include "findings.h"

#include <relock.h>

#include <pthread.h>
#include <stddef.h>

#define TRIALS_MOST_NUMBERS 8

/* The numbers of semaphores that trials have set, and nobody before. They stay until
 * trials_forget(). */
struct trials_numbers {
    pthread_mutex_t mutex;
    char *names[TRIALS_MOST_NUMBERS]; /* guarded by mutex */
    size_t n;                         /* the same */
};

struct trials {
    struct relock_client *holder, *waiter, *other;
    const char *name; /* the names of the locks begin with it */
    struct findings *findings;
    struct trials_numbers *numbers;
};

/* The longest `name`, so that there is room for what the names of the locks add. */
#define TRIALS_NAME_MAX 4000

/* For the clients of trials: a wait that shows all that a longer one would. */
#define TRIALS_DEADLOCK_MS 50
#define TRIALS_RECHECK_MS 500

/* How long a waiter waits that gives up: a hold of more than 100 ms is checked. A slow server needs
 * so many trips more: the waiter asks, subscribes, and asks again. */
#define TRIALS_WAIT_MS 150
#define TRIALS_WAIT_TRIPS 4

/* Tries locks of these kinds of rights.h, all at the same time, and adds what it found. NULL stands
 * behind the last. */
void trials_of_kinds(const struct trials *trials, const char *const *kinds);

/* Acquires a lock of this kind with a short lease, leaves it, and looks whether it ends. Does
 * nothing for a kind without leases. */
void trials_of_lease(const struct trials *trials, const char *kind);

/* The first of two results that is a failure; else RELOCK_OK. */
static inline int trials_first_failure(int a, int b)
{
    return a != RELOCK_OK ? a : b;
}

/* Takes note of such a number. */
void trials_note(const struct trials *trials, const char *name);

/* Deletes these numbers, as far as the user of this client may. It is not one of those that tried
 * them. NULL: they stay. */
void trials_forget(struct trials_numbers *numbers, struct relock_client *client);

/* Whether a log line is about this end. */
bool trials_expect(const struct relock_record *record);

#endif
