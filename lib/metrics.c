/*
 * relock_stats_print: the counters of a client in the text format of Prometheus.
 *
 * Numbers are written without printf's %f, whose decimal point depends on the locale.
 */
#include "lock/state/lock.h"

#include <relock.h>

#include <ctype.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

/* The limits of the printed buckets are the powers of 2 from 32 us to 71 minutes. */
#define FIRST_LIMIT 5
#define LAST_LIMIT 32

#define US_PER_S 1000000

struct page {
    char *text;
    size_t size, len;
    const char *labels; /* of each line; "": none */
};

static const struct number {
    const char *name, *type, *help;
    size_t at;
} numbers[] = {
#define NUMBER(field, name, type, help)                        \
    {                                                          \
        name, type, help, offsetof(struct relock_stats, field) \
    }
    NUMBER(acquired, "acquired_total", "counter", "First levels granted by Redis."),
    NUMBER(passed_on, "passed_on_total", "counter", "First levels handed off between threads."),
    NUMBER(reused, "reused_total", "counter", "First levels acquired from memory."),
    NUMBER(recalled, "recalled_total", "counter", "Kept locks asked back by another client."),
    NUMBER(contended, "contended_total", "counter", "Acquires that met another owner."),
    NUMBER(waits, "waits_total", "counter", "Sleeps of first waiters."),
    NUMBER(wakes, "wakes_total", "counter", "Sleeps that a message ended."),
    NUMBER(rechecks, "rechecks_total", "counter", "Sleeps that recheck_ms ended."),
    NUMBER(renewed, "renewed_total", "counter", "Successful renewals."),
    NUMBER(renewal_failures, "renewal_failures_total", "counter", "Renewals without an answer."),
    NUMBER(lost, "lost_total", "counter", "Lost holds."),
    NUMBER(deferred, "deferred_total", "counter", "Releases that did not wait for the answer."),
    NUMBER(deferred_lost, "deferred_lost_total", "counter", "Such releases of lost holds."),
    NUMBER(reconnects, "reconnects_total", "counter", "Connections made again."),
    NUMBER(deadlocks, "deadlocks_total", "counter", "Waits refused because they closed a cycle."),
    NUMBER(log_dropped, "log_dropped_total", "counter", "Dropped log lines."),
    NUMBER(holds, "holds", "gauge", "Holds now."),
    NUMBER(kept, "kept", "gauge", "Locks kept now that nobody holds."),
    NUMBER(waiters, "waiters", "gauge", "Waiting calls now."),
    NUMBER(permits, "permits", "gauge", "Permits of semaphores that owners have now."),
    NUMBER(permit_waiters, "permit_waiters", "gauge", "Calls that wait for permits now."),
    NUMBER(permits_lost, "permits_lost_total", "counter", "Permits of lost holds."),
    NUMBER(connected, "connected", "gauge", "1 if the connections for renewals are up."),
#undef NUMBER
};

static const struct {
    const char *name, *help;
    size_t at;
} histograms[] = {
#define HISTOGRAM(field, name, help)                     \
    {                                                    \
        name, help, offsetof(struct relock_stats, field) \
    }
    HISTOGRAM(wait, "wait_seconds", "Time to acquire a first level."),
    HISTOGRAM(hold, "hold_seconds", "Time from the first level to the last release."),
    HISTOGRAM(round_trip, "round_trip_seconds", "Time of commands that acquire or release."),
    HISTOGRAM(margin, "renewal_margin_seconds", "Certain time left at renewals."),
#undef HISTOGRAM
};

static const struct {
    int result;
    const char *name;
} results[] = {
#define RESULT(name, value, text) {value, #name},
    RELOCK_STATUS_MAP(RESULT)
#undef RESULT
};

#define COUNT(array) (sizeof(array) / sizeof(*(array)))

static void put(struct page *page, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void put(struct page *page, const char *format, ...)
{
    size_t room = page->len < page->size ? page->size - page->len : 0;
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(room > 0 ? page->text + page->len : NULL, room, format, args);
    va_end(args);
    if (n > 0)
        page->len += (size_t)n;
}

static void put_title(struct page *page, const char *name, const char *type, const char *help)
{
    put(page, "# HELP relock_%s %s\n# TYPE relock_%s %s\n", name, help, name, type);
}

static void put_count(struct page *page, uint64_t n)
{
    put(page, " %llu\n", (unsigned long long)n);
}

static void put_seconds(struct page *page, uint64_t us)
{
    put(page, "%llu.%06llu", (unsigned long long)(us / US_PER_S),
        (unsigned long long)(us % US_PER_S));
}

/* The name of a line with no label but those of the client. */
static void put_name(struct page *page, const char *name, const char *suffix)
{
    if (*page->labels)
        put(page, "relock_%s%s{%s}", name, suffix, page->labels);
    else
        put(page, "relock_%s%s", name, suffix);
}

/* The name of a line with a further label, whose value and end follow. */
static void put_labelled(struct page *page, const char *name, const char *label)
{
    put(page, "relock_%s{%s%s%s=\"", name, page->labels, *page->labels ? "," : "", label);
}

static void put_numbers(struct page *page, const struct relock_stats *stats)
{
    for (size_t i = 0; i < COUNT(numbers); i++) {
        put_title(page, numbers[i].name, numbers[i].type, numbers[i].help);
        put_name(page, numbers[i].name, "");
        put_count(page, *(const uint64_t *)((const char *)stats + numbers[i].at));
    }
}

static void put_oldest(struct page *page, uint64_t us)
{
    static const char metric[] = "oldest_hold_seconds";

    put_title(page, metric, "gauge", "Age of the oldest hold now.");
    put_name(page, metric, "");
    put(page, " ");
    put_seconds(page, us);
    put(page, "\n");
}

static void put_results(struct page *page, const char *name, const char *help,
                        const uint64_t counts[RELOCK_RESULTS])
{
    put_title(page, name, "counter", help);
    for (size_t i = 0; i < COUNT(results); i++) {
        put_labelled(page, name, "result");
        for (const char *at = results[i].name; *at; at++)
            put(page, "%c", tolower((unsigned char)*at));
        put(page, "\"}");
        put_count(page, counts[-results[i].result]);
    }
}

static void put_histogram(struct page *page, const char *name, const char *help,
                          const struct relock_histogram *histogram)
{
    char bucket[64];
    uint64_t n = 0;
    unsigned i = 0;

    (void)snprintf(bucket, sizeof(bucket), "%s_bucket", name);
    put_title(page, name, "histogram", help);
    for (unsigned limit = FIRST_LIMIT; limit <= LAST_LIMIT; limit++) {
        for (; i < 4 * (limit - 1); i++) /* the bucket that begins at this power of 2 */
            n += histogram->buckets[i];
        put_labelled(page, bucket, "le");
        put_seconds(page, UINT64_C(1) << limit);
        put(page, "\"}");
        put_count(page, n);
    }
    put_labelled(page, bucket, "le");
    put(page, "+Inf\"}");
    put_count(page, histogram->count);
    put_name(page, name, "_sum");
    put(page, " ");
    put_seconds(page, histogram->sum_us);
    put(page, "\n");
    put_name(page, name, "_count");
    put_count(page, histogram->count);
}

static void put_contended(struct page *page, const struct relock_contended *names)
{
    static const char metric[] = "contended_names_total";

    put_title(page, metric, "counter", "Acquires that met another owner, of the most contended.");
    for (size_t i = 0; i < RELOCK_CONTENDED_NAMES && names[i].n > 0; i++) {
        put_labelled(page, metric, "name");
        for (const char *at = names[i].name; *at; at++) {
            if (*at == '"' || *at == '\\')
                put(page, "\\%c", *at);
            else if (*at >= ' ' && *at <= '~')
                put(page, "%c", *at);
            else
                put(page, "\\\\x%02x", (unsigned char)*at);
        }
        put(page, "\"}");
        put_count(page, names[i].n);
    }
}

int relock_stats_print(struct relock_client *client, const char *labels, char *text, size_t size,
                       size_t *len)
{
    struct page page = {.size = size, .labels = labels ? labels : ""};
    struct relock_stats stats;
    int r;

    page.text = text;
    if (!len || (!text && size > 0))
        return relock_client_refuse(client, "relock_stats_print: `text` or `len` is NULL");
    r = relock_client_stats(client, &stats, sizeof(stats));
    if (r < 0)
        return r;
    put_numbers(&page, &stats);
    put_oldest(&page, stats.oldest_hold_us);
    put_results(&page, "acquires_total", "Calls that acquire.", stats.acquires);
    put_results(&page, "releases_total", "Calls that release.", stats.releases);
    for (size_t i = 0; i < COUNT(histograms); i++)
        put_histogram(&page, histograms[i].name, histograms[i].help,
                      (const struct relock_histogram *)((const char *)&stats + histograms[i].at));
    put_contended(&page, stats.contended_names);
    *len = page.len;
    return RELOCK_OK;
}
