/*
 * A client holds many locks of different names. In another client a hundred threads wait, each for
 * one of them. The holder releases these, the threads acquire and release them, and wait for the
 * next ones. So every name is contended once, and the cost per name must not grow with the number
 * of names.
 */
#include "bare.h"
#include "counts.h"
#include "rows.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#define N_MANY 10000
#define N_FEW 1000
#define N_THREADS 100
#define N_CLIENTS 2 /* a holder and a waiter */
#define LOOK_NS 100000

enum {
    MANY_US,
    FEW_US,
    SUBSCRIBES,
    SUBSCRIBERS,
};

/* The locks of one size. At each index, the locks of both clients have the same name. */
struct names {
    struct relock_client *holder, *waiter;
    struct relock_lock **held, **wanted;
    unsigned n, n_threads;
    atomic_uint n_got;
};

struct waiting {
    pthread_t thread;
    struct names *names;
    unsigned number;
};

static void *wait_for_each(void *arg)
{
    struct waiting *waiting = arg;
    struct names *names = waiting->names;

    for (unsigned i = waiting->number; i < names->n; i += names->n_threads) {
        ours_take(names->wanted[i]);
        ours_give(names->wanted[i]);
        atomic_fetch_add(&names->n_got, 1);
    }
    return NULL;
}

static void release_in_turns(struct names *names)
{
    for (unsigned i = 0; i < names->n; i += names->n_threads) {
        while (atomic_load(&names->n_got) != i)
            sleep_ns(LOOK_NS);
        ours_await_waiters(names->waiter, names->n_threads);
        for (unsigned j = i; j < i + names->n_threads; j++)
            ours_give(names->held[j]);
    }
}

/* In microseconds. */
static double us_each(struct names *names)
{
    struct waiting *waiting = calloc(names->n_threads, sizeof(*waiting));
    uint64_t from_ns, took_ns;

    if (!waiting)
        die("out of memory");
    atomic_store(&names->n_got, 0);
    for (unsigned i = 0; i < names->n; i++)
        ours_take(names->held[i]);
    from_ns = now_ns();
    for (unsigned i = 0; i < names->n_threads; i++) {
        waiting[i] = (struct waiting){.names = names, .number = i};
        if (pthread_create(&waiting[i].thread, NULL, wait_for_each, &waiting[i]) != 0)
            die("no thread %u of %u", i + 1, names->n_threads);
    }
    release_in_turns(names);
    for (unsigned i = 0; i < names->n_threads; i++)
        pthread_join(waiting[i].thread, NULL);
    took_ns = now_ns() - from_ns;
    free(waiting);
    return (double)took_ns / 1000 / names->n;
}

/* New clients, so that no earlier subscription is left. */
static void open_names(struct names *names, const struct plan *plan, unsigned n)
{
    char name[NAME_MAX_LEN];

    names->n_threads = plan_size(plan, N_THREADS);
    names->n = plan_size(plan, n) / names->n_threads * names->n_threads;
    names->holder = ours_client(plan->url);
    names->waiter = ours_client(plan->url);
    names->held = calloc(names->n, sizeof(names->held[0]));
    names->wanted = calloc(names->n, sizeof(names->wanted[0]));
    if (!names->held || !names->wanted)
        die("out of memory");
    for (unsigned i = 0; i < names->n; i++) {
        row_name(name, "named", i);
        names->held[i] = ours_lock(names->holder, name);
        names->wanted[i] = ours_lock(names->waiter, name);
    }
}

static void close_names(struct names *names, struct redisContext *redis)
{
    for (unsigned i = 0; i < names->n; i++) {
        must_be_gone(redis, relock_lock_name(names->held[i]));
        relock_lock_free(names->held[i]);
        relock_lock_free(names->wanted[i]);
    }
    relock_client_free(names->holder);
    relock_client_free(names->waiter);
    free(names->held);
    free(names->wanted);
}

static void run_round(const struct plan *plan, struct redisContext *redis, struct line *lines)
{
    static struct names names;
    struct counts counts;

    open_names(&names, plan, N_MANY);
    counts = counts_now(redis);
    series_add(&lines[MANY_US].series, us_each(&names));
    counts = counts_since(redis, &counts);
    series_add(&lines[SUBSCRIBES].series, (double)counts.subscribes / names.n);
    series_add(&lines[SUBSCRIBERS].series, (double)bare_subscribers(redis) / N_CLIENTS);
    close_names(&names, redis);

    open_names(&names, plan, N_FEW);
    series_add(&lines[FEW_US].series, us_each(&names));
    close_names(&names, redis);
}

static struct result *add_result(const struct plan *plan, struct report *report)
{
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "%u names that are waited for, and %u", plan_size(plan, N_MANY),
             plan_size(plan, N_FEW));
    result = report_add(report, "names", title);
    result_add_line(result, "many", "many: from one holder to the next, each", "us");
    result_add_line(result, "few", "few: from one holder to the next, each", "us");
    result_add_line(result, "subscribes", "SUBSCRIBE for each name", "commands");
    result_add_line(result, "subscribers", "of each client, connections that have subscribed",
                    "connections");
    result_add_ratio(result, "many / few", MANY_US, FEW_US, AT_MOST, 2);
    result_add_limit(result, SUBSCRIBES, AT_MOST, 1);
    result_add_limit(result, SUBSCRIBERS, AT_MOST, 1);
    return result;
}

void row_names(const struct plan *plan, struct report *report)
{
    struct redisContext *redis = bare_connect(plan->url);
    struct result *result = add_result(plan, report);

    for (unsigned round = 0; round < plan->long_rounds; round++)
        run_round(plan, redis, result->lines);
    bare_close(redis);
}
