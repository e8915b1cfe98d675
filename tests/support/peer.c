#include "support/peer.h"

#include <stdio.h>
#include <string.h>

static const char lock_script[] =
    "if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[2]) == 1 then"
    "    redis.call('hincrby', KEYS[1], ARGV[2], 1)"
    "    redis.call('pexpire', KEYS[1], ARGV[1])"
    "    return 'got' "
    "end "
    "return redis.call('pttl', KEYS[1])";

static const char unlock_script[] =
    "if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return -1 end "
    "local count = redis.call('hincrby', KEYS[1], ARGV[3], -1) "
    "if count > 0 then"
    "    redis.call('pexpire', KEYS[1], ARGV[2])"
    "    redis.call('set', KEYS[3], 0, 'px', ARGV[5])"
    "    return 0 "
    "end "
    "redis.call('del', KEYS[1]) "
    "redis.call(ARGV[4], KEYS[2], ARGV[1]) "
    "redis.call('set', KEYS[3], 1, 'px', ARGV[5]) "
    "return 1";

static const char usurp_script[] = "redis.call('del', KEYS[1]) "
                                   "redis.call('hset', KEYS[1], ARGV[2], 1) "
                                   "return redis.call('pexpire', KEYS[1], ARGV[1])";

bool peer_lock(struct probe *probe, const char *name, const char *holder, uint64_t lease_ms)
{
    return strcmp(probe_text(probe, "EVAL %s 1 %s %llu %s", lock_script, name,
                             (unsigned long long)lease_ms, holder),
                  "got") == 0;
}

bool peer_unlock(struct probe *probe, const char *name, const char *holder)
{
    char channel[512], latch[512];
    long long left;

    peer_channel(name, channel, sizeof(channel));
    snprintf(latch, sizeof(latch), "redisson_unlock_latch:%s", strchr(channel, '{'));
    left = probe_int(probe, "EVAL %s 3 %s %s %s 0 %d %s PUBLISH 13500", unlock_script, name,
                     channel, latch, PEER_LEASE_MS, holder);
    probe_int(probe, "DEL %s", latch);
    return left >= 0;
}

bool peer_usurp(struct probe *probe, const char *name, const char *holder, uint64_t lease_ms)
{
    return probe_int(probe, "EVAL %s 1 %s %llu %s", usurp_script, name,
                     (unsigned long long)lease_ms, holder) == 1;
}

void peer_channel(const char *name, char *channel, size_t size)
{
    snprintf(channel, size,
             strchr(name, '{') ? "redisson_lock__channel:%s" : "redisson_lock__channel:{%s}", name);
}
