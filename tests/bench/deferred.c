#include "bare.h"
#include "crowd.h"
#include "rows.h"

#include <string.h>

#define THREADS_MAX 16

/* Each thread uses so many locks in turn, as a program does that uses each name once. */
#define LOCKS 64

enum {
    OURS,
    BARE,
    OURS_WAITING,
    BARE_WAITING,
};

struct thread {
    struct relock_lock *deferring[LOCKS], *waiting[LOCKS]; /* of two clients */
    struct redisContext *redis;
    struct bare_lock bare[LOCKS];
    unsigned n;
    bool owes; /* the server, the answer to a release */
};

static const unsigned sizes[] = {1, 4, THREADS_MAX};

static void deferring_pair(void *arg)
{
    struct thread *thread = arg;
    struct relock_lock *lock = thread->deferring[thread->n++ % LOCKS];

    ours_take(lock);
    ours_give(lock);
}

static void waiting_pair(void *arg)
{
    struct thread *thread = arg;
    struct relock_lock *lock = thread->waiting[thread->n++ % LOCKS];

    ours_take(lock);
    ours_give(lock);
}

/* The reply to each release is read with that to the next command. */
static void bare_deferring_pair(void *arg)
{
    struct thread *thread = arg;
    const struct bare_lock *lock = &thread->bare[thread->n++ % LOCKS];

    bare_take_after(thread->redis, lock, thread->owes);
    bare_give_later(thread->redis, lock);
    thread->owes = true;
}

static void bare_waiting_pair(void *arg)
{
    struct thread *thread = arg;
    const struct bare_lock *lock = &thread->bare[thread->n++ % LOCKS];

    if (!bare_take(thread->redis, lock))
        die("%s is held by another", lock->name);
    bare_give(thread->redis, lock);
}

static void settle_debts(struct thread *threads)
{
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        if (threads[i].owes)
            bare_await_given(threads[i].redis, threads[i].bare);
        threads[i].owes = false;
    }
}

static double run(struct thread *threads, unsigned n_threads, crowd_step_fn *step, double seconds)
{
    struct crowd_count count = crowd_run(n_threads, step, threads, sizeof(threads[0]), seconds);

    settle_debts(threads);
    return count.per_second;
}

static struct line *add_result(struct report *report, unsigned n_threads)
{
    struct result *result;
    char id[32], title[96];

    snprintf(id, sizeof(id), "deferred_%u", n_threads);
    snprintf(title, sizeof(title), "%u thread%s, a release leaves its reply to the next command",
             n_threads, n_threads > 1 ? "s" : "");
    result = report_add(report, id, title);
    result_add_line(result, "relock", "relock, RELOCK_DEFER_RELEASES", "pairs/s");
    result_add_line(result, "bare", "a bare connection each, likewise", "pairs/s");
    result_add_line(result, "relock_waiting", "relock, without the flag", "pairs/s");
    result_add_line(result, "bare_waiting", "a bare connection each that waits", "pairs/s");
    result_add_ratio(result, "relock / bare", OURS, BARE, AT_LEAST, 0.9);
    result_add_ratio(result, "bare / bare that waits", BARE, BARE_WAITING, NO_TARGET, 0);
    return result->lines;
}

static void measure(const struct plan *plan, unsigned n_threads, struct thread *threads,
                    struct report *report)
{
    static crowd_step_fn *const steps[] = {deferring_pair, bare_deferring_pair, waiting_pair,
                                           bare_waiting_pair};
    struct line *lines = add_result(report, n_threads);

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) /* warms up */
        (void)run(threads, n_threads, steps[i], plan->seconds / 4);
    for (unsigned round = 0; round < plan->rounds; round++)
        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
            series_add(&lines[i].series, run(threads, n_threads, steps[i], plan->seconds));
}

static void prepare(struct thread *threads, const struct plan *plan,
                    struct relock_client *deferring, struct relock_client *waiting)
{
    char name[NAME_MAX_LEN];

    for (unsigned i = 0; i < THREADS_MAX; i++) {
        threads[i].redis = bare_connect(plan->url);
        for (unsigned j = 0; j < LOCKS; j++) {
            row_name(name, "def_", i * LOCKS + j);
            threads[i].deferring[j] = ours_lock(deferring, name);
            row_name(name, "wait", i * LOCKS + j);
            threads[i].waiting[j] = ours_lock(waiting, name);
            row_name(name, "bare", i * LOCKS + j);
            bare_lock_init(&threads[i].bare[j], name, i + 1);
        }
    }
}

void row_deferred(const struct plan *plan, struct report *report)
{
    static struct thread threads[THREADS_MAX];
    struct relock_options options = {.flags = RELOCK_DEFER_RELEASES};
    struct relock_client *deferring = ours_client_with(plan->url, &options);
    struct relock_client *waiting = ours_client(plan->url);
    struct redisContext *redis = bare_connect(plan->url);

    memset(threads, 0, sizeof(threads));
    prepare(threads, plan, deferring, waiting);
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        measure(plan, sizes[i], threads, report);
    if (ours_stats(deferring).deferred == 0)
        die("no release was deferred");
    relock_client_free(deferring); /* after the last answers */
    for (unsigned i = 0; i < THREADS_MAX; i++) {
        for (unsigned j = 0; j < LOCKS; j++) {
            must_be_gone(redis, relock_lock_name(threads[i].deferring[j]));
            relock_lock_free(threads[i].deferring[j]);
            relock_lock_free(threads[i].waiting[j]);
        }
        bare_close(threads[i].redis);
    }
    relock_client_free(waiting);
    bare_close(redis);
}
