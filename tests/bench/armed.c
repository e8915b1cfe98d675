/*
 * One client holds many locks, once with client tracking and once without: the commands that arm
 * them, and the memory that Redis needs for that. Then it acquires and releases as many locks for a
 * moment each, which must cost nothing more.
 *
 * Redis counts the reports that it sends, too: the keys that it tracks are those of its INFO.
 */
#include "bare.h"
#include "counts.h"
#include "rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_HOLDS 10000
#define ARMED_NS UINT64_C(60000000000)

enum { CHECKS, MEMORY, PAIR_COMMANDS, PAIR_MEMORY, BARE_MEMORY };

struct held {
    struct relock_client *client;
    struct relock_lock **locks;
    unsigned n;
};

static double info_number(struct redisContext *redis, const char *section, const char *field)
{
    char *info = bare_info(redis, section);
    const char *at = strstr(info, field);
    double number = at ? strtod(at + strlen(field), NULL) : 0;

    free(info);
    return number;
}

static double used_memory(struct redisContext *redis)
{
    return info_number(redis, "memory", "used_memory:");
}

static void await_tracked(struct redisContext *redis, unsigned n)
{
    uint64_t until_ns = now_ns() + ARMED_NS;

    while (info_number(redis, "stats", "tracking_total_keys:") < n) {
        if (now_ns() > until_ns)
            die("not all locks were armed");
        sleep_ns(10000000);
    }
}

static void open_client(const struct plan *plan, struct held *held, unsigned flags)
{
    /* No renewal falls into the measurement. */
    const struct relock_options options = {.watchdog_timeout_ms = 600000, .flags = flags};
    char name[NAME_MAX_LEN];

    held->client = ours_client_with(plan->url, &options);
    for (unsigned i = 0; i < held->n; i++) {
        row_name(name, "armed", i);
        held->locks[i] = ours_lock(held->client, name);
    }
}

static void close_client(struct held *held)
{
    for (unsigned i = 0; i < held->n; i++)
        relock_lock_free(held->locks[i]);
    relock_client_free(held->client);
}

/* Bytes of Redis for each lock that is held. */
static double hold_all(struct redisContext *redis, const struct held *held, bool is_tracked,
                       struct line *lines)
{
    struct counts before;
    double empty;

    ours_take(held->locks[0]);
    ours_give(held->locks[0]); /* all connections are there */
    counts_settle(redis);
    empty = used_memory(redis);
    before = counts_now(redis);
    for (unsigned i = 0; i < held->n; i++)
        ours_take(held->locks[i]);
    if (is_tracked)
        await_tracked(redis, held->n);
    counts_settle(redis);
    if (is_tracked)
        series_add(&lines[CHECKS].series, (double)counts_since(redis, &before).tracked / held->n);
    return (used_memory(redis) - empty) / held->n;
}

static void pass_all(struct redisContext *redis, const struct held *held, struct line *lines)
{
    struct counts before, counts;
    double empty;

    for (unsigned i = 0; i < held->n; i++)
        ours_give(held->locks[i]);
    counts_settle(redis);
    empty = used_memory(redis);
    before = counts_now(redis);
    for (unsigned i = 0; i < held->n; i++) {
        ours_take(held->locks[i]);
        ours_give(held->locks[i]);
    }
    counts = counts_since(redis, &before);
    series_add(&lines[PAIR_COMMANDS].series,
               (double)(counts.scripts + counts.tracked) / held->n - 2);
    series_add(&lines[PAIR_MEMORY].series, (used_memory(redis) - empty) / held->n);
}

static void run_round(const struct plan *plan, struct redisContext *redis, struct held *held,
                      struct line *lines)
{
    double bare;

    open_client(plan, held, RELOCK_NO_TRACKING);
    bare = hold_all(redis, held, false, lines);
    for (unsigned i = 0; i < held->n; i++)
        ours_give(held->locks[i]);
    close_client(held);
    series_add(&lines[BARE_MEMORY].series, bare);

    open_client(plan, held, 0);
    series_add(&lines[MEMORY].series, hold_all(redis, held, true, lines) - bare);
    pass_all(redis, held, lines);
    close_client(held);
}

static struct result *add_result(struct report *report, unsigned n)
{
    struct result *result;
    char title[96];

    snprintf(title, sizeof(title), "%u locks that client tracking guards", n);
    result = report_add(report, "armed", title);
    result_add_line(result, "checks", "for each hold, further commands", "commands");
    result_add_line(result, "memory", "for each hold, further memory of Redis", "bytes");
    result_add_line(result, "pair_commands", "for each short pair, further commands", "commands");
    result_add_line(result, "pair_memory", "for each short pair, memory of Redis", "bytes");
    result_add_line(result, "bare_memory", "without tracking, memory of Redis for a hold", "bytes");
    return result;
}

void row_armed(const struct plan *plan, struct report *report)
{
    struct held held = {.n = plan_size(plan, N_HOLDS)};
    struct redisContext *redis = bare_connect(plan->url);
    struct line *lines = add_result(report, held.n)->lines;

    held.locks = calloc(held.n, sizeof(held.locks[0]));
    if (!held.locks)
        die("out of memory");
    for (unsigned round = 0; round < plan->long_rounds; round++)
        run_round(plan, redis, &held, lines);
    free(held.locks);
    bare_close(redis);
}
