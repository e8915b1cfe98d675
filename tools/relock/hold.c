#include "hold.h"

#include "clock.h"
#include "lock_list.h"
#include "text.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define CONNECT_MS 1000 /* of the library */
#define MOST_DOUBLINGS 3

static void announce(int fd)
{
    uint64_t one = 1;

    (void)!write(fd, &one, sizeof(one)); /* never fails: nobody adds up to 2^64 */
}

static void on_lost(const struct relock_lost *what, void *arg)
{
    struct hold *hold = arg;

    atomic_store(&hold->lost_reason, what->reason);
    announce(hold->lost_fd);
}

/* ---- the log ------------------------------------------------------------------------------- */

/* Keeps an error. Returns whether it is the same as the one before. */
static bool keep_why(struct hold *hold, const char *text)
{
    bool is_same;

    (void)pthread_mutex_lock(&hold->mutex);
    is_same = strncmp(hold->why, text, sizeof(hold->why) - 1) == 0;
    (void)snprintf(hold->why, sizeof(hold->why), "%s", text);
    (void)pthread_mutex_unlock(&hold->mutex);
    return is_same;
}

/* Each attempt to connect or to acquire logs why it failed: once is enough. And a user may lack the
 * rights of the teller, without which the lock works. */
static void on_record(const struct relock_record *record, void *arg)
{
    struct hold *hold = arg;
    bool is_repeated = false;

    if (!atomic_load(&hold->is_connected))
        is_repeated = record->level == RELOCK_LOG_ERROR && keep_why(hold, record->text);
    else if (record->result == RELOCK_E_CONN &&
             (strstr(record->text, ": not acquired: ") ||
              strstr(record->text, ": its permits were not read or set: ")))
        is_repeated = atomic_exchange(&hold->tells_failure, true);
    else
        is_repeated =
            strstr(record->text, "locks were not read") || strstr(record->text, ": query failed: ");
    if (!is_repeated || hold->options->args.is_verbose)
        session_print(record, &hold->options->args);
}

/* ---- the wait ------------------------------------------------------------------------------ */

/* After an outage. False if it is not to be waited out. */
static bool bear(struct hold *hold, int result)
{
    if (patience_left(&hold->patience) == 0)
        return false;
    if (!hold->tells_outage && !hold->options->is_quiet) {
        text_begin("run", hold->options->title);
        (void)fprintf(stderr, "%s; trying again", relock_strerror(result));
        text_end();
    }
    hold->tells_outage = true;
    return patience_pause(&hold->patience);
}

static bool time_mends(struct hold *hold, int result)
{
    bool mends;

    (void)pthread_mutex_lock(&hold->mutex);
    mends = patience_mends(result, hold->why, hold->settings.url);
    (void)pthread_mutex_unlock(&hold->mutex);
    return mends;
}

/* Later attempts have more time: the resolver may be slow, and its answer is lost with each. */
static uint64_t time_to_connect(const struct hold *hold)
{
    uint64_t ms = hold->settings.connect_timeout_ms;
    int64_t left_ms = patience_left(&hold->patience);
    unsigned n = hold->patience.n_failures;

    ms = (ms ? ms : CONNECT_MS) << (n < MOST_DOUBLINGS ? n : MOST_DOUBLINGS);
    return left_ms > 0 && (uint64_t)left_ms < ms ? (uint64_t)left_ms : ms;
}

/* The client has the time of the attempt that made it for all its life. */
static void take_usual_time(struct hold *hold, struct relock_options *settings)
{
    uint64_t usual_ms =
        hold->settings.connect_timeout_ms ? hold->settings.connect_timeout_ms : CONNECT_MS;
    struct relock_client *usual;

    if (settings->connect_timeout_ms == usual_ms)
        return;
    settings->connect_timeout_ms = usual_ms;
    if (relock_client_new(settings, &usual) != RELOCK_OK)
        return;
    relock_client_free(hold->client);
    hold->client = usual;
}

static int make_client(struct hold *hold)
{
    struct relock_options settings = hold->settings;
    int r;

    do {
        settings.connect_timeout_ms = time_to_connect(hold);
        r = relock_client_new(&settings, &hold->client);
    } while (r != RELOCK_OK && time_mends(hold, r) && bear(hold, r));
    if (r == RELOCK_OK) {
        take_usual_time(hold, &settings);
        atomic_store(&hold->is_connected, true);
    }
    return r;
}

static int make_lock(struct hold *hold, const char *name, struct relock_lock **lock)
{
    const struct run_options *options = hold->options;

    if (options->like)
        return relock_plainlock_like(hold->client, options->like, name, lock);
    return options->constructor(hold->client, name, lock);
}

static int make_locks(struct hold *hold)
{
    const struct run_options *options = hold->options;
    int r = RELOCK_OK;

    hold->members = calloc(options->n_names, sizeof(struct relock_lock *));
    if (!hold->members)
        return RELOCK_E_NOMEM;
    for (size_t i = 0; i < options->n_names && r == RELOCK_OK; i++)
        r = make_lock(hold, options->names[i], &hold->members[i]);
    if (r == RELOCK_OK && options->n_names == 1)
        hold->lock = hold->members[0];
    else if (r == RELOCK_OK)
        r = relock_multilock_new(hold->members, options->n_names, &hold->lock);
    return r;
}

static int change_number(struct hold *hold)
{
    int r = relock_semaphore_set(hold->lock, hold->options->n_permits);

    hold->has_changed_number = r == RELOCK_OK;
    return r;
}

/* Of those that start first, one sets the number, and all others find it. After an outage in its
 * wait, one that has changed it accepts what others have made of it. */
static int agree_on_number(struct hold *hold)
{
    const struct run_options *options = hold->options;
    struct relock_permits permits;
    bool was_unset = false;
    int r;

    if (options->changes_number && !hold->has_changed_number)
        return change_number(hold);
    r = relock_semaphore_init(hold->lock, options->n_permits, &was_unset);
    if (r != RELOCK_OK || was_unset || options->changes_number)
        return r;
    r = relock_semaphore_read(hold->lock, &permits);
    if (r != RELOCK_OK)
        return r;
    hold->other_number = permits.n_free + (int64_t)permits.n_out;
    hold->has_other_number = hold->other_number != (int64_t)options->n_permits;
    return hold->has_other_number ? RELOCK_E_INVALID : RELOCK_OK;
}

/* With a fixed lease, a second level has the watchdog renew the hold if it lasts longer. */
static bool has_two_levels(const struct hold *hold)
{
    return hold->how.lease_ms > 0;
}

static int attempt(struct hold *hold)
{
    struct relock_how again = hold->how;
    int r;

    hold->how.wait_ms = patience_left(&hold->patience);
    if (hold->how.wait_ms == 0 && hold->patience.wait_ms > 0)
        hold->how.wait_ms = 1; /* 0 would give a silent server more time */
    r = relock_acquire(hold->lock, &hold->how, &hold->grant);
    if (r != RELOCK_OK || !has_two_levels(hold))
        return r;
    again.lease_ms = 0;
    r = relock_acquire(hold->lock, &again, NULL);
    if (r != RELOCK_OK)
        (void)relock_release(hold->lock, hold->how.owner);
    return r;
}

static const char *obstacle_of(const struct hold *hold, int kind)
{
    bool wants_permits = hold->options->n_permits > 0;

    switch (kind) {
    case RELOCK_KIND_NONE:
        return NULL;
    case RELOCK_KIND_SEMAPHORE:
    case RELOCK_KIND_MAYBE_SEMAPHORE:
    case RELOCK_KIND_MAYBE_LATCH:
    case RELOCK_KIND_NUMBER:
        return wants_permits ? NULL
                             : "its key is a number, as that of a semaphore: use another name, or "
                               "--permits";
    default:
        if (wants_permits)
            return "its key has data that is no semaphore, such as a lock of another kind: use "
                   "another name, or wait until the key is gone";
        return kind == RELOCK_KIND_FOREIGN ? "a lock of another library that relock cannot share "
                                             "has this name"
               : kind == RELOCK_KIND_OTHER
                   ? "its key has data that is no lock: use another name, or delete the key"
                   : NULL;
    }
}

const char *hold_obstacle(const struct hold *hold)
{
    struct lock_list list = {0};
    const char *obstacle = NULL;

    if (hold->options->like) /* its key is not the name; the log says what is wrong */
        return NULL;
    if (lock_list_find_name(&list, hold->client, hold_title(hold)) == RELOCK_OK)
        obstacle = obstacle_of(hold, list.rows[0].kind);
    lock_list_free(&list);
    return obstacle;
}

/* RELOCK_E_SERVER may be about this lock alone, as when its key has another type. A client that has
 * just begun is not ready yet. */
static bool is_outage(const struct hold *hold, int result)
{
    return result == RELOCK_E_CONN || result == RELOCK_E_REPLICAS ||
           (result == RELOCK_E_SERVER && patience_left(&hold->patience) > 0 &&
            !hold_obstacle(hold) && relock_client_ready(hold->client, NULL) != RELOCK_OK);
}

/* A semaphore that was deleted, or whose server lost its data, gets its number again. */
static bool goes_on(struct hold *hold, int result)
{
    if (result == RELOCK_E_NO_PERMITS)
        return patience_left(&hold->patience) != 0;
    return is_outage(hold, result) && bear(hold, result);
}

static void begin_to_tell(struct hold *hold)
{
    hold->teller.options = hold->options;
    hold->teller.client = hold->client;
    hold->teller.locks = hold->members;
    hold->teller.owner = hold->how.owner;
    hold->teller.cancel = hold->how.cancel;
    hold->teller.stop_fd = hold->stop_fd;
    teller_begin(&hold->teller);
}

static int acquire(struct hold *hold)
{
    int r = make_client(hold);

    if (r == RELOCK_OK)
        r = make_locks(hold);
    if (r != RELOCK_OK)
        return r;
    if (hold->patience.wait_ms > 0)
        begin_to_tell(hold);
    do {
        r = hold->options->n_permits > 0 ? agree_on_number(hold) : RELOCK_OK;
        if (r == RELOCK_OK)
            r = attempt(hold);
    } while (goes_on(hold, r));
    return r;
}

static void *wait_for_it(void *arg)
{
    struct hold *hold = arg;

    hold->result = acquire(hold);
    announce(hold->stop_fd);
    announce(hold->over_fd);
    return NULL;
}

bool hold_begin(struct hold *hold, const struct run_options *options)
{
    hold->options = options;
    hold->settings = (struct relock_options){
        .watchdog_timeout_ms = options->lease_ms,
        .deadlock_ms = options->period_ms > 0 ? 1 : 0, /* who holds it is recorded after 1 ms */
        .connections = 1,
        .on_record = on_record,
        .arg = hold,
    };
    session_read(&options->args, &hold->settings);
    hold->how.lease_ms = options->period_ms / 10 * 9;
    hold->how.owner = relock_owner_new();
    hold->how.on_lost = on_lost;
    hold->how.arg = hold;
    hold->how.permits = options->n_permits > 0;
    hold->how.permit_ids = options->n_permits > 0 ? hold->permit_id : NULL;
    hold->over_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hold->lost_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hold->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    hold->patience = (struct patience){
        .wait_ms = options->wait_ms,
        .began_ms = clock_ms(),
        .stop_fd = hold->stop_fd,
    };
    (void)pthread_mutex_init(&hold->mutex, NULL);
    return hold->over_fd >= 0 && hold->lost_fd >= 0 && hold->stop_fd >= 0 &&
           relock_cancel_new(&hold->how.cancel) == RELOCK_OK &&
           pthread_create(&hold->thread, NULL, wait_for_it, hold) == 0;
}

bool hold_stop(struct hold *hold)
{
    relock_cancel_fire(hold->how.cancel);
    announce(hold->stop_fd);
    return atomic_load(&hold->is_connected);
}

int hold_join(struct hold *hold)
{
    (void)pthread_join(hold->thread, NULL);
    return hold->result;
}

const char *hold_title(const struct hold *hold)
{
    return hold->grant.failed_member ? hold->grant.failed_member : hold->options->title;
}

int hold_release(struct hold *hold)
{
    int r = RELOCK_OK;

    for (int levels = has_two_levels(hold) ? 2 : 1; levels > 0; levels--)
        r = relock_release(hold->lock, hold->how.owner);
    return r;
}

void hold_end(struct hold *hold)
{
    teller_join(&hold->teller);
    if (hold->members && hold->lock != hold->members[0])
        relock_lock_free(hold->lock);
    for (size_t i = 0; hold->members && i < hold->options->n_names; i++)
        relock_lock_free(hold->members[i]);
    free(hold->members);
    relock_client_free(hold->client);
    (void)relock_cancel_free(hold->how.cancel);
}

const char *hold_lost_text(const struct hold *hold)
{
    switch (atomic_load(&hold->lost_reason)) {
    case RELOCK_LOST_EXPIRED:
        return "its lease expired";
    case RELOCK_LOST_GONE:
        return hold->options->n_permits > 0
                   ? "it is gone: it was broken or deleted, or the server lost its data"
                   : "its key is gone: it was broken or deleted, or the server lost its data";
    case RELOCK_LOST_TAKEN:
        return "another owner holds it, or another program has replaced its key";
    case RELOCK_LOST_REPLICAS:
        return "too few replicas acknowledged its renewals";
    default:
        return "it was not renewed in time";
    }
}
