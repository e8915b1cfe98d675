#include "trials.h"

#include "clock.h"
#include "number_trials.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define WAIT_MS 150  /* holds of more than 100 ms are checked */
#define WAIT_TRIPS 4 /* a waiter asks, subscribes, and asks again */
#define HELD_MS 2000 /* by another doctor */
#define LEASE_MS 30000
#define SHORT_MS 300 /* a lease */
#define LATE_MS 2000 /* its end */
#define POLL_MS 20
#define NAME_MAX 4096
#define LEASE_NAME ":lease"

typedef int constructor_fn(struct relock_client *client, const char *name,
                           struct relock_lock **lock);

/* As a lock: of one permit. */
static int new_semaphore(struct relock_client *client, const char *name, struct relock_lock **lock)
{
    int r = relock_semaphore_new(client, name, lock);

    return r == RELOCK_OK ? relock_semaphore_init(*lock, 1, NULL) : r;
}

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
    {"semaphore", "semaphore", new_semaphore, new_semaphore, NULL},
    {"unleased", "unleased", NULL, NULL, number_trials_of_unleased},
    {"latch", "latch", NULL, NULL, number_trials_of_latch},
};

#define N_ROWS (sizeof(rows) / sizeof(*rows))

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

/* ---- one lock ------------------------------------------------------------------------------ */

static int worse(int a, int b)
{
    return a != RELOCK_OK ? a : b;
}

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
    waiting->result = worse(r, relock_unlock(waiting->own));
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

    trial->trips_ms = (int64_t)(WAIT_TRIPS * (clock_ms() - began_ms));
    if (r == RELOCK_OK) /* a second reader */
        r = relock_unlock(wanted);
    return r == RELOCK_BUSY ? RELOCK_OK : r;
}

static int give_up(struct trial *trial)
{
    int r = relock_timedlock(trial->second.wanted, WAIT_MS + trial->trips_ms);

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
    (void)poll(NULL, 0, has_second ? (int)(WAIT_MS + trial->trips_ms) : 0);
    r = worse(r, relock_unlock(trial->held));
    if (has_first)
        (void)pthread_join(trial->first.thread, NULL);
    if (has_second)
        (void)pthread_join(trial->second.thread, NULL);
    return worse(r, worse(trial->first.result, trial->second.result));
}

static int look_and_extend(struct relock_lock *held)
{
    struct relock_holder holder;
    int r = relock_extend(held, 0, LEASE_MS);

    return worse(r, relock_who_holds(held, &holder));
}

/* A semaphore has no levels. */
static int nest(struct relock_lock *held)
{
    struct relock_permits permits;
    int r = relock_semaphore_read(held, &permits);

    if (r != RELOCK_E_UNSUPPORTED)
        return worse(r, look_and_extend(held));
    r = relock_lock(held);
    return r == RELOCK_OK ? worse(look_and_extend(held), relock_unlock(held)) : r;
}

static int try_locks(struct trial *trial)
{
    int r = relock_timedlock(trial->held, HELD_MS);

    if (r != RELOCK_OK)
        return r;
    r = worse(nest(trial->held), measure(trial));
    return r == RELOCK_OK ? be_awaited(trial) : worse(r, relock_unlock(trial->held));
}

static int make_waiting(struct waiting *waiting, struct relock_client *client,
                        const struct row *row, const char *name, const char *own)
{
    int r = row->wanted(client, name, &waiting->wanted);

    return worse(r, row->held(client, own, &waiting->own));
}

static int try_row(struct trial *trial, const char *name)
{
    const struct trials *trials = trial->trials;
    const struct row *row = trial->row;
    char first[NAME_MAX + 1], second[NAME_MAX + 1];
    int r;

    (void)snprintf(first, sizeof(first), "%s:%s:1", trials->name, row->name);
    (void)snprintf(second, sizeof(second), "%s:%s:2", trials->name, row->name);
    r = row->held(trials->holder, name, &trial->held);
    r = worse(r, make_waiting(&trial->first, trials->waiter, row, name, first));
    r = worse(r, make_waiting(&trial->second, trials->other, row, name, second));
    if (r == RELOCK_OK)
        r = try_locks(trial);
    relock_lock_free(trial->held);
    relock_lock_free(trial->first.wanted);
    relock_lock_free(trial->first.own);
    relock_lock_free(trial->second.wanted);
    relock_lock_free(trial->second.own);
    return r;
}

static void *run_trial(void *arg)
{
    struct trial *trial = arg;
    const struct row *row = trial->row;
    char name[NAME_MAX + 1];

    (void)snprintf(name, sizeof(name), "%s:%s", trial->trials->name, row->name);
    trial->result = row->try_number ? row->try_number(trial->trials, name) : try_row(trial, name);
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
static int64_t watch_end(struct relock_lock *held, struct relock_lock *seen)
{
    const struct relock_how how = {.wait_ms = HELD_MS, .lease_ms = SHORT_MS};
    uint64_t began_ms = clock_ms(), ms;
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
    return r == RELOCK_OK ? (int64_t)ms : r;
}

void trials_of_lease(const struct trials *trials, const char *kind)
{
    struct relock_lock *held = NULL, *seen = NULL;
    char name[NAME_MAX + 1];
    const struct row *row = rows;
    int64_t ms;

    while (strcmp(row->kind, kind) != 0)
        row++;
    if (row->try_number)
        return;
    (void)snprintf(name, sizeof(name), "%s:%s" LEASE_NAME, trials->name, row->name);
    ms = row->held(trials->holder, name, &held);
    ms = worse((int)ms, row->held(trials->other, name, &seen));
    if (ms == RELOCK_OK)
        ms = watch_end(held, seen);
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
