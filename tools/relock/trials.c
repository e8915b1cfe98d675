#include "trials.h"

#include "clock.h"
#include "number_trials.h"
#include "session.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HELD_MS 2000 /* by another doctor */
#define LEASE_MS 30000
#define SHORT_MS 300 /* a lease */
#define LATE_MS 2000 /* its end */
#define POLL_MS 20
#define LEASE_NAME ":lease"

static const struct row {
    const char *name, *kind;
    constructor_fn *held, *wanted;
    int (*try_number)(const struct trials *trials, const char *name); /* of what is no lock */
} rows[] = {
    {"reentrant", "reentrant", relock_lock_new, relock_lock_new, NULL},
    {"fair", "fair", relock_fairlock_new, relock_fairlock_new, NULL},
    {"fenced", "fenced", relock_fencedlock_new, relock_fencedlock_new, NULL},
    {"read", "read-write", relock_rdlock_new, relock_wrlock_new, NULL},
    {"write", "read-write", relock_wrlock_new, relock_rdlock_new, NULL},
    {"spin", "spin", relock_spinlock_new, relock_spinlock_new, NULL},
    {"plain", "plain", relock_plainlock_new, relock_plainlock_new, NULL},
    {"announced", "announced-plain", relock_plainlock_new, relock_plainlock_new, NULL},
    {"semaphore", "semaphore", relock_semaphore_new, relock_semaphore_new, NULL},
    {"unleased", "unleased", NULL, NULL, number_trials_of_unleased},
    {"latch", "latch", NULL, NULL, number_trials_of_latch},
};

#define N_ROWS (sizeof(rows) / sizeof(*rows))
#define MOST_TIMES 5 /* that other doctors are in the way */

/* A thread that waits for the lock while it holds another one. */
struct waiting {
    struct relock_lock *wanted, *own;
    int64_t wait_ms;
    int result;
    pthread_t thread;
};

/* Of one row, on a thread of its own. */
struct trial {
    const struct trials *trials;
    const struct row *row;
    struct relock_lock *held; /* by the holder */
    struct waiting first, second;
    int64_t trips_ms; /* what a waiter needs to find its place */
    int result;
    bool has_thread;
    pthread_t thread;
};

/* ---- numbers ------------------------------------------------------------------------------- */

void trials_note(const struct trials *trials, const char *name)
{
    struct trials_numbers *numbers = trials->numbers;

    (void)pthread_mutex_lock(&numbers->mutex);
    if (numbers->n < TRIALS_MOST_NUMBERS && (numbers->names[numbers->n] = strdup(name)))
        numbers->n++;
    (void)pthread_mutex_unlock(&numbers->mutex);
}

/* A plain lock is a string, too. */
static void delete_number(struct relock_client *client, const char *name)
{
    struct relock_lock *lock = NULL;

    if (relock_plainlock_new(client, name, &lock) == RELOCK_OK)
        (void)relock_force_unlock(lock);
    relock_lock_free(lock);
}

void trials_forget(struct trials_numbers *numbers, struct relock_client *client)
{
    for (size_t i = 0; i < numbers->n; i++) {
        if (client)
            delete_number(client, numbers->names[i]);
        free(numbers->names[i]);
    }
    numbers->n = 0;
}

/* A semaphore is like a lock if it has one permit. */
static int make(const struct trials *trials, struct relock_client *client,
                constructor_fn *constructor, const char *name, struct relock_lock **lock)
{
    bool was_unset = false;
    int r = constructor(client, name, lock);

    if (r != RELOCK_OK)
        return r;
    r = relock_semaphore_init(*lock, 1, &was_unset);
    if (was_unset)
        trials_note(trials, name);
    return r == RELOCK_E_UNSUPPORTED ? RELOCK_OK : r;
}

/* ---- one lock ------------------------------------------------------------------------------ */

static void *wait_for_release(void *arg)
{
    struct waiting *waiting = arg;
    int r = relock_timedlock(waiting->own, HELD_MS);

    waiting->result = r;
    if (r != RELOCK_OK)
        return NULL;
    r = relock_timedlock(waiting->wanted, waiting->wait_ms);
    if (r == RELOCK_OK)
        r = relock_unlock(waiting->wanted);
    waiting->result = trials_first_failure(r, relock_unlock(waiting->own));
    return NULL;
}

static bool begin_wait(struct trial *trial, struct waiting *waiting)
{
    waiting->wait_ms = HELD_MS + trial->trips_ms;
    return pthread_create(&waiting->thread, NULL, wait_for_release, waiting) == 0;
}

/* The attempt without a wait may take its time, also to connect, and shows how long a wait has to
 * be: one that ends before the server has answered would look like a fault. */
static int measure(struct trial *trial)
{
    struct relock_lock *wanted = trial->second.wanted;
    uint64_t began_ms = clock_ms();
    int r = relock_trylock(wanted);

    trial->trips_ms = (int64_t)(TRIALS_WAIT_TRIPS * (clock_ms() - began_ms));
    if (r == RELOCK_OK) /* a second reader */
        r = relock_unlock(wanted);
    return r == RELOCK_BUSY ? RELOCK_OK : r;
}

static int give_up(struct trial *trial)
{
    int r = relock_timedlock(trial->second.wanted, TRIALS_WAIT_MS + trial->trips_ms);

    if (r == RELOCK_OK)
        r = relock_unlock(trial->second.wanted);
    return r == RELOCK_TIMEOUT || r == RELOCK_BUSY ? RELOCK_OK : r;
}

/* The second waiter comes twice: it gives up, and then it stands behind the first. */
static int be_awaited(struct trial *trial)
{
    bool has_first = begin_wait(trial, &trial->first), has_second;
    int r = has_first ? give_up(trial) : RELOCK_E_NOMEM;

    has_second = r == RELOCK_OK && begin_wait(trial, &trial->second);
    (void)poll(NULL, 0, has_second ? (int)(TRIALS_WAIT_MS + trial->trips_ms) : 0);
    r = trials_first_failure(r, relock_unlock(trial->held));
    if (has_first)
        (void)pthread_join(trial->first.thread, NULL);
    if (has_second)
        (void)pthread_join(trial->second.thread, NULL);
    return trials_first_failure(r, trials_first_failure(trial->first.result, trial->second.result));
}

static int look_and_extend(struct relock_lock *held)
{
    struct relock_holder holder;
    int r = relock_extend(held, 0, LEASE_MS);

    return trials_first_failure(r, relock_who_holds(held, &holder));
}

/* A semaphore has no levels. */
static int nest(struct relock_lock *held)
{
    struct relock_permits permits;
    int r = relock_semaphore_read(held, &permits);

    if (r != RELOCK_E_UNSUPPORTED)
        return trials_first_failure(r, look_and_extend(held));
    r = relock_lock(held);
    return r == RELOCK_OK ? trials_first_failure(look_and_extend(held), relock_unlock(held)) : r;
}

static int try_locks(struct trial *trial)
{
    int r = relock_timedlock(trial->held, HELD_MS);

    if (r != RELOCK_OK)
        return r;
    r = trials_first_failure(nest(trial->held), measure(trial));
    return r == RELOCK_OK ? be_awaited(trial) : trials_first_failure(r, relock_unlock(trial->held));
}

static int make_waiting(struct trial *trial, struct waiting *waiting, struct relock_client *client,
                        const char *name, const char *own)
{
    const struct row *row = trial->row;
    int r = make(trial->trials, client, row->wanted, name, &waiting->wanted);

    return trials_first_failure(r, make(trial->trials, client, row->held, own, &waiting->own));
}

static int try_row(struct trial *trial, const char *name)
{
    const struct trials *trials = trial->trials;
    const struct row *row = trial->row;
    char first[ARGS_NAME_MAX + 1], second[ARGS_NAME_MAX + 1];
    int r;

    (void)snprintf(first, sizeof(first), "%s:%s:1", trials->name, row->name);
    (void)snprintf(second, sizeof(second), "%s:%s:2", trials->name, row->name);
    trial->held = NULL;
    trial->first = trial->second = (struct waiting){0};
    r = make(trials, trials->holder, row->held, name, &trial->held);
    r = trials_first_failure(r, make_waiting(trial, &trial->first, trials->waiter, name, first));
    r = trials_first_failure(r, make_waiting(trial, &trial->second, trials->other, name, second));
    if (r == RELOCK_OK)
        r = try_locks(trial);
    relock_lock_free(trial->held);
    relock_lock_free(trial->first.wanted);
    relock_lock_free(trial->first.own);
    relock_lock_free(trial->second.wanted);
    relock_lock_free(trial->second.own);
    return r;
}

/* Another doctor may delete a number that it has set, while this one uses it. */
static void *run_trial(void *arg)
{
    struct trial *trial = arg;
    const struct row *row = trial->row;
    char name[ARGS_NAME_MAX + 1];
    int n = 0;

    (void)snprintf(name, sizeof(name), "%s:%s", trial->trials->name, row->name);
    do {
        trial->result =
            row->try_number ? row->try_number(trial->trials, name) : try_row(trial, name);
    } while (trial->result == RELOCK_E_NO_PERMITS && ++n < MOST_TIMES);
    return NULL;
}

static bool is_chosen(const struct row *row, const char *const *kinds)
{
    while (*kinds && strcmp(*kinds, row->kind) != 0)
        kinds++;
    return *kinds != NULL;
}

void trials_of_kinds(const struct trials *trials, const char *const *kinds)
{
    struct trial all[N_ROWS] = {{0}};

    for (size_t i = 0; i < N_ROWS; i++) {
        all[i] = (struct trial){.trials = trials, .row = &rows[i], .result = RELOCK_E_NOMEM};
        all[i].has_thread = is_chosen(&rows[i], kinds) &&
                            pthread_create(&all[i].thread, NULL, run_trial, &all[i]) == 0;
    }
    for (size_t i = 0; i < N_ROWS; i++) {
        int r;

        if (all[i].has_thread)
            (void)pthread_join(all[i].thread, NULL);
        r = all[i].result;
        if (is_chosen(&rows[i], kinds))
            findings_add(
                trials->findings, r == RELOCK_OK ? FINDING_OK : FINDING_BAD, rows[i].name,
                r == RELOCK_E_AUTH ? "`relock acl` prints the rights that this user needs" : NULL,
                r == RELOCK_OK ? "acquired, waited for and released" : "%s", relock_strerror(r));
    }
}

/* ---- the end of a lease -------------------------------------------------------------------- */

bool trials_expect(const struct relock_record *record)
{
    size_t len = record->lock ? strlen(record->lock) : 0, ends = strlen(LEASE_NAME);

    return record->result == RELOCK_LOST && len > ends &&
           strcmp(record->lock + len - ends, LEASE_NAME) == 0;
}

/* Returns how long the lock was held, or how long it has been if it does not end; below 0: why that
 * could not be seen. */
static int64_t watch_end(const struct row *row, struct relock_lock *held, struct relock_lock *seen)
{
    const struct relock_how how = {
        .wait_ms = HELD_MS,
        .lease_ms = SHORT_MS,
        .permits = row->held == relock_semaphore_new,
    };
    struct relock_permits permits;
    uint64_t began_ms, ms;
    bool is_locked = true;
    int r = relock_acquire(held, &how, NULL);

    if (r != RELOCK_OK)
        return r;
    began_ms = clock_ms();
    do {
        (void)poll(NULL, 0, POLL_MS);
        r = relock_is_locked(seen, &is_locked);
        ms = clock_ms() - began_ms;
    } while (r == RELOCK_OK && is_locked && ms < SHORT_MS + LATE_MS);
    (void)relock_unlock(held);
    if (is_locked)
        (void)relock_force_unlock(seen);
    (void)relock_semaphore_read(seen, &permits); /* a permit that has expired comes back */
    return r == RELOCK_OK ? (int64_t)ms : r;
}

void trials_of_lease(const struct trials *trials, const char *kind)
{
    struct relock_lock *held = NULL, *seen = NULL;
    char name[ARGS_NAME_MAX + 1];
    const struct row *row = rows;
    int64_t ms;

    while (strcmp(row->kind, kind) != 0)
        row++;
    if (row->try_number)
        return;
    (void)snprintf(name, sizeof(name), "%s:%s" LEASE_NAME, trials->name, row->name);
    ms = make(trials, trials->holder, row->held, name, &held);
    ms = trials_first_failure((int)ms, make(trials, trials->other, row->held, name, &seen));
    if (ms == RELOCK_OK)
        ms = watch_end(row, held, seen);
    relock_lock_free(held);
    relock_lock_free(seen);
    if (ms < 0)
        findings_add(trials->findings, FINDING_NOTE, "lease", NULL, "its end was not seen: %s",
                     relock_strerror((int)ms));
    else if (ms >= SHORT_MS + LATE_MS)
        findings_add(trials->findings, FINDING_BAD, "lease",
                     "use a server whose keys expire, and whose clock goes on",
                     "a lease of %d ms has not ended after %lld ms: the lock of a holder that dies "
                     "would stay for ever",
                     SHORT_MS, (long long)ms);
    else
        findings_add(trials->findings, FINDING_OK, "lease", NULL,
                     "one of %d ms ended after %lld ms", SHORT_MS, (long long)ms);
}
