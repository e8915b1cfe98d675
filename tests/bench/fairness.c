/*
 * Two processes with eight threads each want one lock all the time.
 *
 * First with an empty critical section, for the shares and the longest wait. A wait lasts from
 * before the call until after it, so it contains the time in which the machine ran other threads.
 *
 * Then for the order. A test cannot see when a call joins the queue. So each holder keeps the lock
 * until all other threads of its process wait: the last owner has then queued again, behind all
 * others. This makes the queue of a process known, and its threads must get the lock in the same
 * order in each round. A thread that breaks the order has overtaken another.
 */
#include "bare.h"
#include "rows.h"
#include "support/child.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

#define N_PROCESSES 2
#define N_THREADS 8
#define ORDER_MAX 100000 /* acquisitions of a process whose order is checked */
#define ORDER_PART 5     /* part of the time of the shares */
#define END_MS 60000

enum {
    SHARE,
    LEAST,
    LONGEST,
    PER_SECOND,
    OVERTAKEN,
};

struct contest_thread {
    uint64_t n;
    uint64_t longest_ns;
};

struct contest_process {
    struct contest_thread threads[N_THREADS];
    unsigned char order[ORDER_MAX];
    unsigned n_ordered;
};

/* Memory that both processes share. */
struct contest {
    const char *url;
    char name[NAME_MAX_LEN];
    atomic_bool over;
    bool in_order;
    uint64_t passages; /* guarded by the lock */
    struct contest_process processes[N_PROCESSES];
};

/* A thread of one process. */
struct contestant {
    pthread_t thread;
    unsigned process, number;
    struct contest *contest;
    struct relock_client *client;
    struct relock_lock *lock;
};

/* ---- one process --------------------------------------------------------------------------- */

static void await_all_others(const struct contestant *self)
{
    while (ours_stats(self->client).waiters != N_THREADS - 1 && !atomic_load(&self->contest->over))
        sched_yield();
}

static void remember_order(const struct contestant *self)
{
    struct contest_process *process = &self->contest->processes[self->process];

    await_all_others(self);
    if (process->n_ordered < ORDER_MAX && !atomic_load(&self->contest->over))
        process->order[process->n_ordered++] = (unsigned char)self->number;
}

static void *contend(void *arg)
{
    struct contestant *self = arg;
    struct contest *contest = self->contest;
    struct contest_thread *thread = &contest->processes[self->process].threads[self->number];

    while (!atomic_load(&contest->over)) {
        uint64_t from_ns = now_ns(), took_ns;

        ours_take(self->lock);
        took_ns = now_ns() - from_ns;
        contest->passages++;
        if (contest->in_order)
            remember_order(self);
        ours_give(self->lock);
        thread->n++;
        if (took_ns > thread->longest_ns)
            thread->longest_ns = took_ns;
    }
    return NULL;
}

static int contend_as(unsigned process, struct child *parent, struct contest *contest)
{
    struct contestant contestants[N_THREADS];
    struct relock_client *client = ours_client(contest->url);
    struct relock_lock *lock = ours_lock(client, contest->name);

    ours_take(lock);
    ours_give(lock);
    child_must(child_send(parent, 0));
    child_must(child_await(parent));
    for (unsigned i = 0; i < N_THREADS; i++) {
        contestants[i] = (struct contestant){
            .process = process, .number = i, .contest = contest, .client = client, .lock = lock};
        if (pthread_create(&contestants[i].thread, NULL, contend, &contestants[i]) != 0)
            die("no thread");
    }
    for (unsigned i = 0; i < N_THREADS; i++)
        pthread_join(contestants[i].thread, NULL);
    relock_lock_free(lock);
    relock_client_free(client);
    return EXIT_SUCCESS;
}

static int contend_first(struct child *parent, void *arg)
{
    return contend_as(0, parent, arg);
}

static int contend_second(struct child *parent, void *arg)
{
    return contend_as(1, parent, arg);
}

/* ---- both ---------------------------------------------------------------------------------- */

static uint64_t sum(const struct contest_process *process)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < N_THREADS; i++)
        n += process->threads[i].n;
    return n;
}

static void run_contest(struct contest *contest, const char *url, bool in_order, double seconds)
{
    child_fn *const run[N_PROCESSES] = {contend_first, contend_second};
    struct child *children[N_PROCESSES];

    *contest = (struct contest){.url = url, .in_order = in_order};
    row_name(contest->name, "fair", in_order);
    for (unsigned i = 0; i < N_PROCESSES; i++)
        children[i] = child_start(run[i], contest);
    for (unsigned i = 0; i < N_PROCESSES; i++)
        if (!child_await(children[i]))
            die("a process does not come up");
    for (unsigned i = 0; i < N_PROCESSES; i++)
        (void)child_send(children[i], 0);
    sleep_ns(seconds_to_ns(seconds));
    atomic_store(&contest->over, true);
    for (unsigned i = 0; i < N_PROCESSES; i++)
        if (child_wait(children[i], END_MS) != EXIT_SUCCESS)
            die("a process failed");
    if (sum(&contest->processes[0]) + sum(&contest->processes[1]) != contest->passages)
        die("two were inside at once: some passages are missing");
}

/* ---- the row ------------------------------------------------------------------------------- */

static void add_shares(struct line *lines, const struct contest *contest, double seconds)
{
    const struct contest_process *processes = contest->processes;
    uint64_t least = UINT64_MAX, longest_ns = 0;

    for (unsigned i = 0; i < N_PROCESSES; i++) {
        for (unsigned j = 0; j < N_THREADS; j++) {
            const struct contest_thread *thread = &processes[i].threads[j];

            least = thread->n < least ? thread->n : least;
            longest_ns = thread->longest_ns > longest_ns ? thread->longest_ns : longest_ns;
        }
    }
    series_add(&lines[SHARE].series,
               100.0 * (double)sum(&processes[0]) / (double)contest->passages);
    series_add(&lines[LEAST].series,
               100.0 * (double)least * N_PROCESSES * N_THREADS / (double)contest->passages);
    series_add(&lines[LONGEST].series, (double)longest_ns / 1e6);
    series_add(&lines[PER_SECOND].series, (double)contest->passages / seconds);
}

/* Once all threads are queued, the next one is always the one that was inside longest ago. */
static unsigned count_overtaken(const struct contest_process *process)
{
    unsigned n = 0;

    for (unsigned i = N_THREADS; i < process->n_ordered; i++)
        n += process->order[i] != process->order[i - N_THREADS];
    return n;
}

static struct result *add_result(const struct plan *plan, struct report *report)
{
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "two processes x %d threads on one lock for %g s", N_THREADS,
             plan->long_seconds);
    result = report_add(report, "fairness", title);
    result_add_line(result, "share", "share of the first process", "%");
    result_add_line(result, "least", "the thread that got least, of an equal share", "%");
    result_add_line(result, "longest_wait", "longest wait of any thread", "ms");
    result_add_line(result, "acquisitions", "both processes together", "acquisitions/s");
    result_add_line(result, "overtaken", "threads overtaken by one that queued later", "times");
    result_add_limit(result, SHARE, AT_LEAST, 35);
    result_add_limit(result, SHARE, AT_MOST, 65);
    result_add_limit(result, OVERTAKEN, AT_MOST, 0);
    return result;
}

void row_fairness(const struct plan *plan, struct report *report)
{
    struct result *result = add_result(plan, report);
    struct redisContext *redis = bare_connect(plan->url);
    struct contest *contest =
        mmap(NULL, sizeof(*contest), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    unsigned long n_ordered = 0;

    if (contest == MAP_FAILED)
        die("out of memory");
    for (unsigned round = 0; round < plan->long_rounds; round++) {
        unsigned overtaken = 0;

        run_contest(contest, plan->url, false, plan->long_seconds);
        add_shares(result->lines, contest, plan->long_seconds);
        must_be_gone(redis, contest->name);

        run_contest(contest, plan->url, true, plan->long_seconds / ORDER_PART);
        for (unsigned i = 0; i < N_PROCESSES; i++) {
            overtaken += count_overtaken(&contest->processes[i]);
            n_ordered += contest->processes[i].n_ordered;
        }
        series_add(&result->lines[OVERTAKEN].series, overtaken);
        must_be_gone(redis, contest->name);
    }
    result_note(result, "the order was checked in %lu acquisitions", n_ordered);
    munmap(contest, sizeof(*contest));
    bare_close(redis);
}
