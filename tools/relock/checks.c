#include "checks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_MAX 64
#define SLOW_TRIP_US 20000
#define CLOCK_MS 2000
#define REPLICA_CLOCK_MS 3000 /* a tenth of the default lease */

/* ---- the server ---------------------------------------------------------------------------- */

/* The value of a line `name:value` of INFO; "" if there is none. Valid until the next call but
 * three. */
static const char *field(const struct relock_server_info *info, const char *name)
{
    static char values[4][FIELD_MAX];
    static unsigned next;
    char *value = values[next++ % 4];
    size_t len = strlen(name);

    *value = '\0';
    for (const char *line = info->info; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, len) == 0 && line[len] == ':') {
            (void)snprintf(value, FIELD_MAX, "%.*s", (int)strcspn(line + len + 1, "\r\n"),
                           line + len + 1);
            break;
        }
    }
    return value;
}

static double number(const struct relock_server_info *info, const char *name)
{
    return strtod(field(info, name), NULL);
}

/* Of a server that is only like Redis, INFO may have few fields. */
static bool lacks(const struct relock_server_info *info, const char *name, const char *check,
                  struct findings *findings)
{
    if (*field(info, name))
        return false;
    findings_add(findings, FINDING_NOTE, check, NULL, "not known: INFO has no %s", name);
    return true;
}

static void check_version(const struct relock_server_info *info, struct findings *findings)
{
    const char *valkey = field(info, "valkey_version"), *redis = field(info, "redis_version");
    const char *mode = field(info, *field(info, "redis_mode") ? "redis_mode" : "server_mode");

    if ((*valkey || *redis) && *mode)
        findings_add(findings, FINDING_OK, "server", NULL, "%s: %s %s, %s", info->address,
                     *valkey ? "Valkey" : "Redis", *valkey ? valkey : redis, mode);
    else
        findings_add(findings, FINDING_NOTE, "server",
                     "docs/testing.md lists the servers with which relock is tested",
                     "%s: INFO has no %s: this is no server of Redis or Valkey, or a proxy answers",
                     info->address, *valkey || *redis ? "mode" : "version");
}

static void check_memory(const struct relock_server_info *info, struct findings *findings)
{
    const char *policy = field(info, "maxmemory_policy");
    double most = number(info, "maxmemory"), used = number(info, "used_memory");

    if (lacks(info, "maxmemory_policy", "eviction", findings))
        return;
    if (most == 0 && strcmp(policy, "noeviction") == 0)
        findings_add(findings, FINDING_OK, "eviction", NULL, "maxmemory-policy is noeviction");
    else if (most == 0)
        findings_add(findings, FINDING_NOTE, "eviction", "CONFIG SET maxmemory-policy noeviction",
                     "maxmemory-policy is %s; no maxmemory is set, so nothing is evicted now",
                     policy);
    else if (strcmp(policy, "noeviction") != 0)
        findings_add(findings, FINDING_BAD, "eviction", "CONFIG SET maxmemory-policy noeviction",
                     "maxmemory-policy is %s: the server may evict locks that are held", policy);
    else if (used > 0.9 * most)
        findings_add(findings, FINDING_BAD, "eviction", "raise maxmemory, or delete data",
                     "%.0f %% of maxmemory are used; then no lock can be acquired",
                     100 * used / most);
    else
        findings_add(findings, FINDING_OK, "eviction", NULL,
                     "maxmemory-policy is noeviction, %.0f %% of maxmemory are used",
                     100 * used / most);
}

static void check_persistence(const struct relock_server_info *info, struct findings *findings)
{
    if (lacks(info, "aof_enabled", "persistence", findings))
        return;
    if (number(info, "loading") != 0)
        findings_add(findings, FINDING_BAD, "persistence", "wait", "the server loads its data");
    else if (number(info, "aof_enabled") == 0)
        findings_add(findings, FINDING_NOTE, "persistence",
                     "appendonly yes; or a red lock on independent servers",
                     "no append-only file: a server that crashes and restarts forgets held locks");
    else if (strcmp(field(info, "aof_last_write_status"), "ok") != 0)
        findings_add(findings, FINDING_BAD, "persistence", "look at the log of the server",
                     "the append-only file cannot be written");
    else
        findings_add(findings, FINDING_OK, "persistence", NULL,
                     "append-only file; with appendfsync everysec a crash can lose a second");
}

static void check_failover(const struct relock_server_info *info, struct findings *findings)
{
    int n = (int)number(info, "connected_slaves");

    if (lacks(info, "connected_slaves", "failover", findings))
        return;
    if (n == 0)
        findings_add(findings, FINDING_NOTE, "failover", NULL,
                     "no replica: while this server is down, no lock can be acquired");
    else
        findings_add(findings, FINDING_NOTE, "failover",
                     "min_replicas = 1 makes this less likely; a red lock avoids it",
                     "replicas: %d; a failover can lose a lock that is held", n);
}

static void check_connections(const struct relock_server_info *info, struct findings *findings)
{
    double n = number(info, "connected_clients"), most = number(info, "maxclients");

    if (lacks(info, "maxclients", "connections", findings))
        return;
    if (n > 0.9 * most)
        findings_add(findings, FINDING_BAD, "connections", "raise maxclients",
                     "%.0f of %.0f connections are used", n, most);
    else
        findings_add(findings, FINDING_OK, "connections", NULL, "%.0f of %.0f are used", n, most);
}

static void check_clock(const struct relock_server_info *info, struct findings *findings)
{
    long long ahead_ms = (long long)info->clock_ahead_ms;
    bool is_off = ahead_ms > CLOCK_MS || ahead_ms < -CLOCK_MS;

    if (info->clock_result != RELOCK_OK) {
        findings_add(findings, FINDING_NOTE, "clock",
                     info->clock_result == RELOCK_E_UNSUPPORTED
                         ? "ask the server itself, if this is a proxy: redis-cli TIME"
                         : "give this user the right to TIME, if the server has it",
                     info->clock_result == RELOCK_E_UNSUPPORTED
                         ? "the answer to TIME is not a number of seconds and one of microseconds"
                         : "the server does not tell its time (TIME)");
        return;
    }
    findings_add(findings, is_off ? FINDING_NOTE : FINDING_OK, "clock",
                 is_off ? "run NTP on both machines" : NULL,
                 "the server's is %lld ms %s that of this machine%s",
                 ahead_ms < 0 ? -ahead_ms : ahead_ms, ahead_ms < 0 ? "behind" : "ahead of",
                 is_off ? "; --once-per and Redisson's fair locks need close clocks" : "");
}

static void check_round_trip(const struct relock_server_info *info, struct findings *findings)
{
    bool is_slow = info->round_trip_us > SLOW_TRIP_US;

    findings_add(findings, is_slow ? FINDING_NOTE : FINDING_OK, "round trip",
                 is_slow ? "run the server nearer; an acquire and a release are one each" : NULL,
                 "%.2f ms", (double)info->round_trip_us / 1000);
}

static void check_replica(const struct relock_replica_info *replica, struct findings *findings)
{
    long long ahead_ms = (long long)replica->clock_ahead_ms;

    if (replica->result != RELOCK_OK)
        findings_add(findings, FINDING_NOTE, "replica clock",
                     "compare its clock with the master's by hand", "%s could not be asked: %s",
                     replica->address, relock_strerror(replica->result));
    else if (ahead_ms > REPLICA_CLOCK_MS)
        findings_add(findings, FINDING_BAD, "replica clock", "run NTP on both machines",
                     "%s is %lld ms ahead of its master: once promoted, it ends leases that much "
                     "too early, so a lock can have two owners",
                     replica->address, ahead_ms);
    else if (ahead_ms < -REPLICA_CLOCK_MS)
        findings_add(findings, FINDING_NOTE, "replica clock", "run NTP on both machines",
                     "%s is %lld ms behind its master: once promoted, it frees the locks of dead "
                     "holders that much later",
                     replica->address, -ahead_ms);
    else
        findings_add(findings, FINDING_OK, "replica clock", NULL, "%s is %lld ms %s its master",
                     replica->address, ahead_ms < 0 ? -ahead_ms : ahead_ms,
                     ahead_ms < 0 ? "behind" : "ahead of");
}

bool checks_of_server(const struct relock_server_info *info, void *arg)
{
    check_version(info, arg);
    check_memory(info, arg);
    check_persistence(info, arg);
    check_failover(info, arg);
    check_connections(info, arg);
    check_clock(info, arg);
    check_round_trip(info, arg);
    for (const struct relock_replica_info *at = info->replicas; at; at = at->next)
        check_replica(at, arg);
    return true;
}
