#include "counts.h"

#include "bare.h"
#include "measure.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_NS UINT64_C(300000000)
#define SETTLE_NS UINT64_C(60000000000)

/* The commands that scripts call, and INFO. */
static bool is_left_out(const char *command)
{
    static const char *const left_out[] = {"exists",  "hexists",  "hset",   "hget",    "hmget",
                                           "hkeys",   "hdel",     "pttl",   "pexpire", "del",
                                           "publish", "spublish", "info",   "time",    "llen",
                                           "lpos",    "lindex",   "lrange", "lrem",    "rpush"};

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strcmp(command, left_out[i]) == 0)
            return true;
    return false;
}

static bool is_script(const char *command)
{
    return strcmp(command, "evalsha") == 0 || strcmp(command, "eval") == 0;
}

static void add(struct counts *counts, const char *line)
{
    char command[64];
    unsigned long long calls, took_us;

    if (sscanf(line, "cmdstat_%63[^:]:calls=%llu,usec=%llu", command, &calls, &took_us) != 3)
        return;
    if (strcmp(command, "publish") == 0 || strcmp(command, "spublish") == 0)
        counts->publishes += calls;
    if (is_left_out(command))
        return;
    counts->all += calls;
    if (is_script(command)) {
        counts->scripts += calls;
        counts->scripts_us += took_us;
    } else if (strcmp(command, "subscribe") == 0 || strcmp(command, "ssubscribe") == 0)
        counts->subscribes += calls;
    else if (strcmp(command, "ping") == 0)
        counts->pings += calls;
    else if (strcmp(command, "client|caching") == 0)
        counts->tracked += calls;
}

struct counts counts_now(struct redisContext *redis)
{
    struct counts counts = {0};
    char *info = bare_info(redis, "commandstats");
    char *rest = info;

    for (char *line = strtok_r(rest, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest))
        add(&counts, line);
    free(info);
    return counts;
}

struct counts counts_since(struct redisContext *redis, const struct counts *before)
{
    struct counts counts = counts_now(redis);

    counts.all -= before->all;
    counts.scripts -= before->scripts;
    counts.subscribes -= before->subscribes;
    counts.pings -= before->pings;
    counts.tracked -= before->tracked;
    counts.publishes -= before->publishes;
    counts.scripts_us -= before->scripts_us;
    return counts;
}

void counts_settle(struct redisContext *redis)
{
    uint64_t until_ns = now_ns() + SETTLE_NS;
    struct counts last = counts_now(redis);

    for (;;) {
        sleep_ns(QUIET_NS);
        if (counts_since(redis, &last).all == 0)
            return;
        if (now_ns() > until_ns)
            die("Redis is asked again and again");
        last = counts_now(redis);
    }
}
