#include "checks.h"

#include "clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIELD_MAX 64
#define WAIT_MS 100
#define WAIT_TRIPS 4 /* a waiter asks, subscribes, and asks again */
#define HELD_MS 3000 /* by another doctor */
#define SLOW_TRIP_US 20000
#define CLOCK_MS 2000
#define REPLICA_CLOCK_MS 3000 /* a tenth of the default lease */
#define NAME_MAX 4096

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

static void check_version(const struct relock_server_info *info, struct findings *findings)
{
    const char *valkey = field(info, "valkey_version");

    findings_add(findings, FINDING_OK, "server", NULL, "%s: %s %s, %s", info->address,
                 *valkey ? "Valkey" : "Redis", *valkey ? valkey : field(info, "redis_version"),
                 field(info, "redis_mode"));
}

static void check_memory(const struct relock_server_info *info, struct findings *findings)
{
    const char *policy = field(info, "maxmemory_policy");
    double most = number(info, "maxmemory"), used = number(info, "used_memory");

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

    if (most > 0 && n > 0.9 * most)
        findings_add(findings, FINDING_BAD, "connections", "raise maxclients",
                     "%.0f of %.0f connections are used", n, most);
    else
        findings_add(findings, FINDING_OK, "connections", NULL, "%.0f of %.0f are used", n, most);
}

static void check_clock(const struct relock_server_info *info, struct findings *findings)
{
    long long ahead_ms = (long long)info->clock_ahead_ms;
    bool is_off = ahead_ms > CLOCK_MS || ahead_ms < -CLOCK_MS;

    if (info->clock_ahead_ms == INT64_MIN) {
        findings_add(findings, FINDING_NOTE, "clock",
                     "give this user the right to TIME, if the server has it",
                     "the server does not tell its time (TIME)");
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

/* ---- the kinds ----------------------------------------------------------------------------- */

typedef int constructor_fn(struct relock_client *client, const char *name,
                           struct relock_lock **lock);

/* The attempt without a wait may take its time, also to connect, and shows how long a wait has to
 * be: one that ends before the server has answered would look like a fault. */
static int wait_for(struct relock_lock *wanted)
{
    uint64_t began_ms = clock_ms();
    int r = relock_trylock(wanted);
    uint64_t trip_ms = clock_ms() - began_ms;

    return r == RELOCK_BUSY ? relock_timedlock(wanted, (int64_t)(WAIT_MS + WAIT_TRIPS * trip_ms))
                            : r;
}

/* Returns RELOCK_OK if all went as it should. */
static int try_locks(struct relock_lock *held, struct relock_lock *wanted)
{
    int r = relock_timedlock(held, HELD_MS), waited;

    if (r != RELOCK_OK)
        return r;
    waited = wait_for(wanted);
    if (waited == RELOCK_OK) /* both sides may hold a read lock */
        waited = relock_unlock(wanted);
    else if (waited == RELOCK_TIMEOUT || waited == RELOCK_BUSY)
        waited = RELOCK_OK;
    r = relock_unlock(held);
    return r != RELOCK_OK ? r : waited;
}

static int try_kind(struct relock_client *holder, struct relock_client *waiter, const char *name,
                    constructor_fn *constructor)
{
    struct relock_lock *held = NULL, *wanted = NULL;
    int r = constructor(holder, name, &held);

    if (r == RELOCK_OK)
        r = constructor(waiter, name, &wanted);
    if (r == RELOCK_OK)
        r = try_locks(held, wanted);
    relock_lock_free(held);
    relock_lock_free(wanted);
    return r;
}

void checks_of_kinds(struct relock_client *holder, struct relock_client *waiter, const char *name,
                     struct findings *findings)
{
    static const struct {
        const char *name;
        constructor_fn *constructor;
    } kinds[] = {
        {"reentrant", relock_lock_new},    {"fair", relock_fairlock_new},
        {"fenced", relock_fencedlock_new}, {"read", relock_rdlock_new},
        {"write", relock_wrlock_new},      {"spin", relock_spinlock_new},
        {"plain", relock_plainlock_new},
    };
    char full[NAME_MAX + 1];

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        int r;

        (void)snprintf(full, sizeof(full), "%s:%s", name, kinds[i].name);
        r = try_kind(holder, waiter, full, kinds[i].constructor);
        findings_add(findings, r == RELOCK_OK ? FINDING_OK : FINDING_BAD, kinds[i].name,
                     r == RELOCK_E_AUTH ? "give the user the rights of docs/wire.md" : NULL,
                     r == RELOCK_OK ? "acquired, waited for and released" : "%s",
                     relock_strerror(r));
    }
}
