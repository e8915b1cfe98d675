#include "support/probe_wait.h"

#include "support/probe_counts.h"
#include "support/wait.h"

#include <string.h>

struct expected {
    struct probe *probe;
    const char *name;
    long long n;
};

static bool has_subscribers(void *arg)
{
    struct expected *expected = arg;

    return probe_subscribers(expected->probe, expected->name) == expected->n;
}

bool probe_wait_subscribers(struct probe *probe, const char *channel, long long n)
{
    return wait_until(has_subscribers, &(struct expected){probe, channel, n}, SOON_MS);
}

static bool exists(void *arg)
{
    struct expected *expected = arg;

    return probe_int(expected->probe, "EXISTS %s", expected->name) == expected->n;
}

bool probe_wait_key(struct probe *probe, const char *key)
{
    return wait_until(exists, &(struct expected){probe, key, 1}, SOON_MS);
}

bool probe_wait_no_key(struct probe *probe, const char *key, uint64_t within_ms)
{
    return wait_until(exists, &(struct expected){probe, key, 0}, within_ms);
}

static bool has_replica(void *arg)
{
    return strstr(probe_text(arg, "INFO replication"), "state=online") != NULL;
}

bool probe_wait_replica(struct probe *probe)
{
    return wait_until(has_replica, probe, 6 * (uint64_t)SOON_MS);
}

static bool has_lock_channels(void *arg)
{
    struct expected *expected = arg;

    return probe_n_lock_channels(expected->probe) == expected->n;
}

bool probe_wait_lock_channels(struct probe *probe, long long n)
{
    return wait_until(has_lock_channels, &(struct expected){probe, .n = n}, SOON_MS);
}

static bool has_run_scripts(void *arg)
{
    struct expected *expected = arg;

    return probe_script_calls(expected->probe) >= expected->n;
}

bool probe_wait_script_calls(struct probe *probe, long long n, uint64_t within_ms)
{
    return wait_until(has_run_scripts, &(struct expected){probe, .n = n}, within_ms);
}

static bool has_length(void *arg)
{
    struct expected *expected = arg;

    return probe_int(expected->probe, "LLEN relock_waiters:{%s}", expected->name) == expected->n;
}

bool probe_wait_in_line(struct probe *probe, const char *name, long long n)
{
    return wait_until(has_length, &(struct expected){probe, name, n}, SOON_MS);
}
