/*
 * The memory of a program that has many locks: handles alone, then held, then waited for.
 *
 * One client makes the handles and acquires each lock once. Then another client, which waits
 * without threads, wants each of some of them, and after that each of them twice.
 */
#include "rows.h"
#include "usage.h"

#include <poll.h>
#include <stdlib.h>

#define N_HELD 100000
#define N_HELD_WHOLE 1000000
#define N_WAITED_FOR 1000
#define WITHIN_NS UINT64_C(60000000000)
#define REST_NS 500000000
#define RESTS_MAX 20

enum {
    HANDLE,
    HELD,
    RESIDENT,
    FIRST_WAIT,
    NEXT_WAIT,
};

struct memory {
    struct relock_client *client;
    struct relock_lock **locks;
    unsigned n;
    unsigned n_outstanding; /* waits */
};

static void make(struct memory *memory)
{
    char name[NAME_MAX_LEN];

    for (unsigned i = 0; i < memory->n; i++) {
        row_name(name, "held", i);
        memory->locks[i] = ours_lock(memory->client, name);
    }
}

static void release(const struct memory *memory)
{
    for (unsigned i = 0; i < memory->n; i++) {
        ours_give(memory->locks[i]);
        relock_lock_free(memory->locks[i]);
    }
}

/* ---- waits --------------------------------------------------------------------------------- */

static void count_cancelled(int result, const struct relock_grant *grant, void *arg)
{
    struct memory *memory = arg;

    (void)grant;
    if (result != RELOCK_CANCELLED)
        die("a wait that is cancelled: %s", relock_strerror(result));
    memory->n_outstanding--;
}

/* When each call has asked, and sleeps. */
static size_t memory_at_rest(void)
{
    size_t was, is = usage_memory();
    unsigned n = 0;

    do {
        was = is;
        sleep_ns(REST_NS);
        is = usage_memory();
    } while (is != was && ++n < RESTS_MAX);
    return is;
}

/* A wait for each of these locks; returns what each takes. */
static double add_waits(struct memory *memory, struct relock_client *client,
                        struct relock_lock **locks, unsigned n, const struct relock_how *how,
                        struct relock_events *events)
{
    size_t before = memory_at_rest();

    for (unsigned i = 0; i < n; i++, memory->n_outstanding++)
        ours_must(relock_acquire_async(locks[i], how, events, count_cancelled, memory), "acquire");
    ours_await_waiters(client, memory->n_outstanding);
    return ((double)memory_at_rest() - (double)before) / n;
}

static void finish(const struct memory *memory, struct relock_events *events)
{
    uint64_t until_ns = now_ns() + WITHIN_NS;
    struct pollfd fd = {.fd = relock_events_fd(events), .events = POLLIN};

    while (memory->n_outstanding > 0) {
        if (now_ns() > until_ns)
            die("%u calls have not ended", memory->n_outstanding);
        if (poll(&fd, 1, 1000) > 0)
            (void)relock_events_dispatch(events);
    }
}

static void wait_for(struct memory *memory, const struct plan *plan, unsigned n, struct line *lines)
{
    struct relock_client *client = ours_client(plan->url);
    struct relock_lock **locks = calloc(n, sizeof(*locks));
    struct relock_how how = {.wait_ms = RELOCK_FOREVER};
    struct relock_events *events;

    if (!locks)
        die("out of memory");
    for (unsigned i = 0; i < n; i++)
        locks[i] = ours_lock(client, relock_lock_name(memory->locks[i]));
    ours_must(relock_events_new(client, &events), "a queue");
    ours_must(relock_cancel_new(&how.cancel), "a cancel");
    series_add(&lines[FIRST_WAIT].series, add_waits(memory, client, locks, n, &how, events));
    series_add(&lines[NEXT_WAIT].series, add_waits(memory, client, locks, n, &how, events));

    relock_cancel_fire(how.cancel);
    finish(memory, events);
    relock_events_free(events);
    relock_cancel_free(how.cancel);
    for (unsigned i = 0; i < n; i++)
        relock_lock_free(locks[i]);
    relock_client_free(client);
    free(locks);
}

/* ---- the row ------------------------------------------------------------------------------- */

static void run_round(const struct plan *plan, struct memory *memory, unsigned n_waited_for,
                      struct line *lines)
{
    /* The watchdog would be busy with the first locks while the last ones are acquired. */
    struct relock_options options = {.watchdog_timeout_ms = 600000};
    size_t empty, resident, with_handles;

    memory->client = ours_client_with(plan->url, &options);
    empty = usage_memory();
    resident = usage_resident();
    make(memory);
    with_handles = usage_memory();
    for (unsigned i = 0; i < memory->n; i++)
        ours_take(memory->locks[i]);
    series_add(&lines[HANDLE].series, (double)(with_handles - empty) / memory->n);
    series_add(&lines[HELD].series, (double)(usage_memory() - empty) / memory->n);
    series_add(&lines[RESIDENT].series, ((double)usage_resident() - (double)resident) / memory->n);

    wait_for(memory, plan, n_waited_for, lines);
    release(memory);
    relock_client_free(memory->client);
}

static struct result *add_result(struct report *report, unsigned named, unsigned n,
                                 unsigned n_waited_for)
{
    struct result *result;
    char id[32], title[96];

    snprintf(id, sizeof(id), "memory_%u", named);
    snprintf(title, sizeof(title), "memory of %u locks, of which %u are waited for", n,
             n_waited_for);
    result = report_add(report, id, title);
    result_add_line(result, "handle", "a handle", "bytes");
    result_add_line(result, "held", "a held lock with its handle", "bytes");
    result_add_line(result, "resident", "the same, of what is resident", "bytes");
    result_add_line(result, "first_wait", "the first wait for a lock", "bytes");
    result_add_line(result, "next_wait", "a further wait for it", "bytes");
    result_add_limit(result, HELD, AT_MOST, 400);
    return result;
}

static void measure(const struct plan *plan, struct report *report, unsigned n)
{
    struct memory memory = {.n = plan_size(plan, n)};
    unsigned n_waited_for = plan_size(plan, N_WAITED_FOR);
    struct result *result = add_result(report, n, memory.n, n_waited_for);

    memory.locks = calloc(memory.n, sizeof(memory.locks[0]));
    if (!memory.locks)
        die("out of memory");
    for (unsigned round = 0; round < plan->long_rounds; round++)
        run_round(plan, &memory, n_waited_for, result->lines);
    free(memory.locks);
}

void row_memory(const struct plan *plan, struct report *report)
{
    measure(plan, report, plan->grid.whole ? N_HELD_WHOLE : N_HELD);
}
