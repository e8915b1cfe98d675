#include "base/log.h"
#include "base/private.h"

#include "base/clock.h"
#include "base/hash.h"
#include "base/thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- writing a line ------------------------------------------------------------------------ */

static const char *const level_names[] = {
    [RELOCK_LOG_ERROR] = "error",
    [RELOCK_LOG_WARNING] = "warning",
    [RELOCK_LOG_INFO] = "info",
    [RELOCK_LOG_DEBUG] = "debug",
};

/* Not through stdio: while this thread is blocked by a full pipe, it must not hold a lock of
 * stderr. */
static void write_to_stderr(const char *text, int left)
{
    while (left > 0) {
        ssize_t n = write(STDERR_FILENO, text, (size_t)left);

        if (n >= 0) {
            text += n;
            left -= (int)n;
        } else if (errno == EAGAIN) {
            (void)poll(&(struct pollfd){.fd = STDERR_FILENO, .events = POLLOUT}, 1, -1);
        } else if (errno != EINTR) {
            return;
        }
    }
}

void relock_sink_write(const struct relock_sink *sink, const struct relock_record *record)
{
    if (sink->record || sink->log) {
        relock_callback_enter();
        if (sink->record)
            sink->record(record, sink->arg);
        else
            sink->log(record->level, record->text, sink->arg);
        relock_callback_exit();
    } else if (record->level <= RELOCK_LOG_WARNING) {
        char text[RELOCK_LINE_MAX + sizeof("relock: warning: \n")];

        write_to_stderr(text, snprintf(text, sizeof(text), "relock: %s: %s\n",
                                       level_names[record->level], record->text));
    }
}

/* ---- causes that repeat -------------------------------------------------------------------- */

struct relock_repeated {
    struct relock_repeated *next;
    struct relock_cause cause;
    uint64_t since_ms;          /* when the current period began */
    unsigned n_admitted;        /* lines written in the current period */
    unsigned n_held_back;       /* lines held back in the current period */
    int level;                  /* of the latest line held back */
    char line[RELOCK_LINE_MAX]; /* the latest line held back */
};

static uint64_t end_ms(const struct relock_repeated *at)
{
    return relock_clock_after(at->since_ms, RELOCK_REPEATS_PERIOD_MS);
}

static struct relock_repeated *get(struct relock_repeats *repeats, struct relock_cause cause,
                                   uint64_t now_ms)
{
    struct relock_repeated *at;

    for (at = repeats->causes; at; at = at->next)
        if (at->cause.what == cause.what && at->cause.which == cause.which)
            return at;
    at = calloc(1, sizeof(*at));
    if (!at)
        return NULL;
    at->cause = cause;
    at->since_ms = now_ms;
    LL_PREPEND(repeats->causes, at);
    return at;
}

bool relock_repeats_admit(struct relock_repeats *repeats, struct relock_cause cause, int level,
                          const char *line, uint64_t now_ms)
{
    struct relock_repeated *at = get(repeats, cause, now_ms);

    if (!at)
        return true;
    if (at->n_held_back == 0 && now_ms >= end_ms(at)) {
        at->since_ms = now_ms;
        at->n_admitted = 0;
    }
    if (at->n_admitted < RELOCK_REPEATS_AT_ONCE) {
        at->n_admitted++;
        return true;
    }
    at->n_held_back++;
    at->level = level;
    (void)snprintf(at->line, sizeof(at->line), "%s", line);
    return false;
}

static void tell(const struct relock_repeated *at, uint64_t now_ms, char *line, size_t size)
{
    unsigned long long s = (now_ms - at->since_ms + 999) / 1000;

    if (at->n_held_back == 1)
        (void)snprintf(line, size, "%s", at->line);
    else
        (void)snprintf(line, size, "%s ... and %u more in the last %llu s", at->line,
                       at->n_held_back - 1, s > 0 ? s : 1);
}

bool relock_repeats_take(struct relock_repeats *repeats, uint64_t now_ms, bool end, int *level,
                         char *line, size_t size)
{
    for (struct relock_repeated *at = repeats->causes; at; at = at->next) {
        if (at->n_held_back == 0 || (now_ms < end_ms(at) && !end))
            continue;
        tell(at, now_ms, line, size);
        *level = at->level;
        at->n_held_back = 0;
        at->since_ms = now_ms; /* n_admitted stays: this new period admits no line */
        return true;
    }
    return false;
}

uint64_t relock_repeats_next_ms(const struct relock_repeats *repeats)
{
    uint64_t next_ms = RELOCK_NEVER;

    for (const struct relock_repeated *at = repeats->causes; at; at = at->next)
        if (at->n_held_back > 0 && end_ms(at) < next_ms)
            next_ms = end_ms(at);
    return next_ms;
}

void relock_repeats_deinit(struct relock_repeats *repeats)
{
    struct relock_repeated *at, *next;

    LL_FOREACH_SAFE(repeats->causes, at, next)
    free(at);
    repeats->causes = NULL;
}

/* ---- the logger's queue -------------------------------------------------------------------- */

struct line {
    struct line *next, *prev;
    uint64_t n_dropped; /* lines dropped between the previous line and this one */
    struct relock_record record;
    char text[]; /* of the record, and behind it the name of the lock */
};

/* The lines that the thread writes next. */
struct taken {
    struct relock_record record;
    struct line *line; /* that the record belongs to; NULL: `text` */
    char text[RELOCK_LINE_MAX];
};

struct relock_logger {
    /* constant */
    struct relock_sink sink;
    pthread_t thread; /* used by relock_logger_free alone */

    struct relock_mutex mutex;
    struct relock_cond work;        /* signalled when the thread has something to do */
    struct relock_cond over;        /* signalled when the thread has ended its work */
    atomic_uint_fast64_t n_dropped; /* all lines dropped so far */

    struct {
        struct line *lines;
        unsigned n_lines;
        uint64_t n_dropped; /* lines dropped since one was queued */
        struct relock_repeats repeats;
        bool ending;      /* no line will be added any more */
        bool ended;       /* the thread has written its last line */
        bool is_given_up; /* the thread writes no more, and frees the logger */
    } guarded;            /* by mutex */
};

static void destroy(struct relock_logger *logger)
{
    struct line *line, *next;

    DL_FOREACH_SAFE(logger->guarded.lines, line, next)
    free(line);
    relock_repeats_deinit(&logger->guarded.repeats);
    relock_cond_deinit(&logger->over);
    relock_cond_deinit(&logger->work);
    relock_mutex_deinit(&logger->mutex);
    free(logger);
}

/* ---- the thread ---------------------------------------------------------------------------- */

static void take_dropped(uint64_t *n_dropped, struct taken *taken)
{
    taken->record.level = RELOCK_LOG_WARNING;
    (void)snprintf(taken->text, sizeof(taken->text),
                   "%llu log lines were dropped here: on_log or stderr blocks or is too slow",
                   (unsigned long long)*n_dropped);
    *n_dropped = 0;
}

static void take_first(struct relock_logger *logger, struct taken *taken)
    RELOCK_REQUIRES(logger->mutex)
{
    struct line *line = logger->guarded.lines;

    taken->record = line->record;
    taken->line = line;
    DL_DELETE(logger->guarded.lines, line);
    logger->guarded.n_lines--;
}

/* Returns whether there is a line to write now. */
static bool take(struct relock_logger *logger, struct taken *taken) RELOCK_REQUIRES(logger->mutex)
{
    struct line *line = logger->guarded.lines;
    uint64_t *n_dropped = line ? &line->n_dropped : &logger->guarded.n_dropped;

    taken->line = NULL;
    taken->record = (struct relock_record){.text = taken->text};
    if (logger->guarded.is_given_up)
        return false;
    if (*n_dropped > 0) {
        take_dropped(n_dropped, taken);
        return true;
    }
    if (line) {
        take_first(logger, taken);
        return true;
    }
    return relock_repeats_take(&logger->guarded.repeats, relock_clock_now_ms(),
                               logger->guarded.ending, &taken->record.level, taken->text,
                               sizeof(taken->text));
}

static void *run(void *arg)
{
    struct relock_logger *logger = arg;
    struct taken taken;
    bool is_given_up;

    relock_mutex_lock(&logger->mutex);
    for (;;) {
        if (take(logger, &taken)) {
            relock_mutex_unlock(&logger->mutex);
            relock_sink_write(&logger->sink, &taken.record);
            free(taken.line);
            relock_mutex_lock(&logger->mutex);
        } else if (logger->guarded.ending) {
            break;
        } else {
            (void)relock_cond_wait_until(&logger->work, &logger->mutex,
                                         relock_repeats_next_ms(&logger->guarded.repeats));
        }
    }
    logger->guarded.ended = true;
    is_given_up = logger->guarded.is_given_up;
    relock_cond_broadcast(&logger->over);
    relock_mutex_unlock(&logger->mutex);
    if (is_given_up)
        destroy(logger);
    return NULL;
}

/* ---- other threads ------------------------------------------------------------------------- */

int relock_logger_new(const struct relock_sink *sink, struct relock_logger **logger)
{
    struct relock_logger *new = calloc(1, sizeof(*new));

    if (!new)
        return RELOCK_E_NOMEM;
    new->sink = *sink;
    atomic_init(&new->n_dropped, 0);
    relock_mutex_init(&new->mutex);
    relock_cond_init(&new->work);
    relock_cond_init(&new->over);
    if (relock_thread_start(&new->thread, "relock:log", run, new) < 0) {
        destroy(new);
        return RELOCK_E_NOMEM;
    }
    *logger = new;
    return RELOCK_OK;
}

static void enqueue(struct relock_logger *logger, const struct relock_record *record)
    RELOCK_REQUIRES(logger->mutex)
{
    size_t size = strlen(record->text) + 1;
    size_t lock_size = record->lock ? strlen(record->lock) + 1 : 0;
    struct line *line = NULL;

    if (logger->guarded.n_lines < RELOCK_LOGGER_QUEUE_MAX)
        line = malloc(sizeof(*line) + size + lock_size);
    if (!line) {
        logger->guarded.n_dropped++;
        atomic_fetch_add(&logger->n_dropped, 1);
        return;
    }
    *line = (struct line){.n_dropped = logger->guarded.n_dropped, .record = *record};
    memcpy(line->text, record->text, size);
    line->record.text = line->text;
    if (record->lock)
        line->record.lock = memcpy(line->text + size, record->lock, lock_size);
    logger->guarded.n_dropped = 0;
    logger->guarded.n_lines++;
    DL_APPEND(logger->guarded.lines, line);
}

void relock_logger_put(struct relock_logger *logger, struct relock_cause cause,
                       const struct relock_record *record)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_repeats *repeats = &logger->guarded.repeats;
    uint64_t next_ms;
    bool is_news = true;

    relock_mutex_lock(&logger->mutex);
    next_ms = relock_repeats_next_ms(repeats);
    /* Debug lines are never held back: their reader needs all of them. */
    if (record->level == RELOCK_LOG_DEBUG ||
        relock_repeats_admit(repeats, cause, record->level, record->text, now_ms))
        enqueue(logger, record);
    else
        is_news = relock_repeats_next_ms(repeats) < next_ms;
    if (is_news)
        relock_cond_signal(&logger->work);
    relock_mutex_unlock(&logger->mutex);
}

uint64_t relock_logger_dropped(const struct relock_logger *logger)
{
    return atomic_load(&logger->n_dropped);
}

struct relock_logger *relock_logger_free(struct relock_logger *logger)
{
    uint64_t deadline_ms = relock_clock_in(RELOCK_LOGGER_END_MS);
    bool in_time = true, is_left;
    pthread_t thread;

    if (!logger)
        return NULL;
    thread = logger->thread;
    relock_mutex_lock(&logger->mutex);
    logger->guarded.ending = true;
    relock_cond_signal(&logger->work);
    while (!logger->guarded.ended && in_time)
        in_time = relock_cond_wait_until(&logger->over, &logger->mutex, deadline_ms);
    logger->guarded.is_given_up = is_left = !logger->guarded.ended;
    relock_mutex_unlock(&logger->mutex);
    if (is_left) {
        (void)pthread_detach(thread); /* the logger may be gone */
        return NULL;
    }
    (void)pthread_join(thread, NULL);
    destroy(logger);
    return NULL;
}
