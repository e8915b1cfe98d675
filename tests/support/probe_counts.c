#include "support/probe_counts.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long long info_number(struct probe *probe, const char *section, const char *before)
{
    redisReply *reply = probe_reply(probe, "INFO %s", section);
    const char *found = reply && reply->str ? strstr(reply->str, before) : NULL;
    long long n = found ? strtoll(found + strlen(before), NULL, 10) : 0;

    freeReplyObject(reply);
    return n;
}

long long probe_calls(struct probe *probe, const char *command)
{
    char before[128];

    snprintf(before, sizeof(before), "cmdstat_%s:calls=", command);
    return info_number(probe, "commandstats", before);
}

long long probe_script_calls(struct probe *probe)
{
    return probe_calls(probe, "evalsha") + probe_calls(probe, "eval");
}

long long probe_reads(struct probe *probe)
{
    return info_number(probe, "stats", "total_reads_processed:");
}

/* Without the commands inside scripts, and without this query. */
static bool is_left_out(const char *command)
{
    static const char *const left_out[] = {
        "exists",  "hexists", "hset",    "hget",   "hgetall", "hmget", "hkeys", "hdel",
        "hincrby", "pttl",    "pexpire", "del",    "publish", "set",   "info",  "time",
        "llen",    "lpos",    "lindex",  "lrange", "lrem",    "rpush"};

    for (size_t i = 0; i < sizeof(left_out) / sizeof(left_out[0]); i++)
        if (strcmp(command, left_out[i]) == 0)
            return true;
    return false;
}

long long probe_commands(struct probe *probe)
{
    redisReply *reply = probe_reply(probe, "INFO commandstats");
    char none[1] = "";
    char *rest = reply && reply->str ? reply->str : none;
    long long n = 0;

    for (char *line = strtok_r(rest, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        char command[64];
        long long calls;

        if (sscanf(line, "cmdstat_%63[^:]:calls=%lld", command, &calls) == 2 &&
            !is_left_out(command))
            n += calls;
    }
    freeReplyObject(reply);
    return n;
}

long long probe_subscribers(struct probe *probe, const char *channel)
{
    redisReply *reply = probe_reply(probe, "PUBSUB NUMSUB %s", channel);
    long long n = reply && reply->elements == 2 ? reply->element[1]->integer : PROBE_REFUSED;

    freeReplyObject(reply);
    return n;
}

static long long n_channels_like(struct probe *probe, const char *sort, const char *pattern)
{
    redisReply *reply = probe_reply(probe, "PUBSUB %s %s", sort, pattern);
    long long n = reply ? (long long)reply->elements : PROBE_REFUSED;

    freeReplyObject(reply);
    return n;
}

long long probe_n_channels(struct probe *probe)
{
    return n_channels_like(probe, "CHANNELS", "*");
}

long long probe_n_lock_channels(struct probe *probe)
{
    return n_channels_like(probe, "CHANNELS", "redisson_*");
}

long long probe_n_sharded_channels(struct probe *probe)
{
    return n_channels_like(probe, "SHARDCHANNELS", "redisson_*");
}
