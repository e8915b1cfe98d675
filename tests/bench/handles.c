/*
 * Handles of different names, made and freed without a command: a few at a time, and many. If any
 * function searched the whole table, each of the many would cost a hundred times as much.
 */
#include "rows.h"
#include "usage.h"

#include <stdlib.h>

#define N_MANY 100000
#define N_FEW 1000

enum {
    MANY_NS,
    FEW_NS,
    MANY_BYTES,
    FEW_BYTES,
};

struct handles {
    struct relock_client *client;
    struct relock_lock **locks;
    char (*names)[NAME_MAX_LEN];
    unsigned n;
};

static void make(struct handles *handles, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        handles->locks[i] = ours_lock(handles->client, handles->names[i]);
}

static void drop(struct handles *handles, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        relock_lock_free(handles->locks[i]);
}

/* Makes and frees all handles, `n` at a time. */
static double ns_each(struct handles *handles, unsigned n)
{
    uint64_t from_ns = now_ns();
    unsigned done = 0;

    for (; done < handles->n; done += n) {
        make(handles, n);
        drop(handles, n);
    }
    return (double)(now_ns() - from_ns) / done;
}

static double bytes_each(struct handles *handles, unsigned n)
{
    size_t before = usage_memory(), after;

    make(handles, n);
    after = usage_memory();
    drop(handles, n);
    return (double)(after - before) / n;
}

static struct result *add_result(struct report *report, unsigned n_many, unsigned n_few)
{
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "%u lock handles, and %u at a time", n_many, n_few);
    result = report_add(report, "handles", title);
    result_add_line(result, "many_ns", "many: made and freed, each", "ns");
    result_add_line(result, "few_ns", "few at a time: made and freed, each", "ns");
    result_add_line(result, "many_bytes", "many: memory of each", "bytes");
    result_add_line(result, "few_bytes", "few: memory of each", "bytes");
    result_add_ratio(result, "time, many / few", MANY_NS, FEW_NS, AT_MOST, 5);
    result_add_ratio(result, "memory, many / few", MANY_BYTES, FEW_BYTES, AT_MOST, 1.25);
    return result;
}

void row_handles(const struct plan *plan, struct report *report)
{
    struct handles handles = {.n = plan_size(plan, N_MANY)};
    unsigned n_few = plan_size(plan, N_FEW);
    struct line *lines = add_result(report, handles.n, n_few)->lines;

    handles.client = ours_client(plan->url);
    handles.locks = calloc(handles.n, sizeof(handles.locks[0]));
    handles.names = calloc(handles.n, sizeof(handles.names[0]));
    if (!handles.locks || !handles.names)
        die("out of memory");
    for (unsigned i = 0; i < handles.n; i++)
        row_name(handles.names[i], "handle", i);

    (void)ns_each(&handles, handles.n); /* warms up */
    for (unsigned round = 0; round < plan->rounds; round++) {
        series_add(&lines[MANY_NS].series, ns_each(&handles, handles.n));
        series_add(&lines[FEW_NS].series, ns_each(&handles, n_few));
        series_add(&lines[MANY_BYTES].series, bytes_each(&handles, handles.n));
        series_add(&lines[FEW_BYTES].series, bytes_each(&handles, n_few));
    }

    relock_client_free(handles.client);
    free(handles.locks);
    free(handles.names);
}
