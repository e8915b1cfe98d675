#include "watch.h"

#include "support/cluster_view.h"
#include "support/wait.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_MS 1000000
#define NS_PER_S 1000000000
#define LOOK_NS ((uint64_t)20 * NS_PER_MS)
#define BLINK_NS ((uint64_t)200 * NS_PER_MS) /* longer gaps count as not observed */
#define RECOVERY_MS 2000
#define STAYS_FREE_NS ((uint64_t)300 * NS_PER_MS)

/* Each returns for whom the lock is free: a bit for all, a bit for some. */
static const char *const plain_script = "return 1 - redis.call('exists', KEYS[1])";

/* While a place is kept, the head of the queue has time to retry. */
static const char *const fair_script =
    "local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'\n"
    "local head = redis.call('lindex', 'redisson_lock_queue:' .. tag, 0)\n"
    "local kept = head and redis.call('zscore', 'redisson_lock_timeout:' .. tag, head)\n"
    "local time = redis.call('time')\n"
    "if redis.call('exists', KEYS[1]) == 1 then return 0 end\n"
    "return kept and tonumber(kept) > time[1] * 1000 + time[2] / 1000 and 2 or 3";

/* Dead readers, without a key for any level, block no other. */
static const char *const rw_script =
    "local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'\n"
    "if redis.call('hget', KEYS[1], 'mode') == 'write' then return 0 end\n"
    "return #redis.call('keys', tag .. ':*:rwlock_timeout:*') > 0 and 2 or 3";

/* No permit is out. Those that have expired are not. */
static const char *const semaphore_script =
    "local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'\n"
    "local time = redis.call('time')\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "return redis.call('zcount', tag .. ':timeout', '(' .. now, '+inf') == 0 and 1 or 0";

/* The entries, each with the number of those that listen to its inbox, and the state of the line.
 */
static const char *const line_script =
    "local tag = '{' .. KEYS[1] .. '}' .. ARGV[1]\n"
    "local found = {}\n"
    "for _, entry in ipairs(redis.call('lrange', 'relock_waiters:' .. tag, 0, -1)) do\n"
    "    local id = entry:sub(1, 36)\n"
    "    local inbox = ARGV[1] == '' and 'relock_client:{' .. id .. '}'\n"
    "        or 'relock_client:{' .. KEYS[1] .. '}:' .. id\n"
    "    local n = redis.call('pubsub', 'numsub', inbox)[2]\n"
    "    if ARGV[1] ~= '' then n = n + redis.call('pubsub', 'shardnumsub', inbox)[2] end\n"
    "    found[#found + 1] = entry .. '=' .. n\n"
    "end\n"
    "found[#found + 1] = '/'\n"
    "for _, text in ipairs(redis.call('hgetall', 'relock_waiters:turn:' .. tag)) do\n"
    "    found[#found + 1] = text\n"
    "end\n"
    "return found";

/* How many of all permits are out, or have vanished. */
static const char *const missing_script =
    "local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'\n"
    "local time = redis.call('time')\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "local free = tonumber(redis.call('get', KEYS[1]) or 0)\n"
    "return ARGV[1] - free - redis.call('zcount', tag .. ':timeout', '-inf', now)";

void watch_start(struct watch *watch, struct server *const *servers, size_t n,
                 struct history *history, const struct names *names)
{
    *watch = (struct watch){.n = n, .history = history, .names = names};
    for (size_t i = 0; i < n; i++)
        watch->probes[i] = probe_open(servers[i]->socket);
    if (n > 1)
        watch->recovery_ns = slow_ms(RECOVERY_MS) * NS_PER_MS;
}

static void find_owner(struct watch *watch, int lock)
{
    watch->owner[lock] = cluster_probe(watch->cluster, names_text(lock));
}

static void find_owners(struct watch *watch)
{
    for (int lock = 0; lock < watch->names->n; lock++)
        find_owner(watch, lock);
}

void watch_start_cluster(struct watch *watch, struct cluster *cluster, struct history *history,
                         const struct names *names)
{
    *watch = (struct watch){.n = 1, .cluster = cluster, .history = history, .names = names};
    watch->probes[0] = cluster->node[0].probe;
    find_owners(watch);
}

void watch_move(struct watch *watch, int lock, int slot, struct probe *heir)
{
    watch->slot[lock] = slot;
    watch->heir[lock] = heir;
}

void watch_moved(struct watch *watch, int lock)
{
    watch->owner[lock] = watch->heir[lock];
    watch->heir[lock] = NULL;
}

/* A half-moved slot has few keys. */
static bool is_still_here(const struct watch *watch, int lock)
{
    const char *name = names_text(lock);
    char keys[PROBE_TEXT_MAX], *rest = keys;

    snprintf(keys, sizeof(keys), "%s",
             probe_list(watch->owner[lock], "CLUSTER GETKEYSINSLOT %d 1000", watch->slot[lock]));
    for (char *key = strtok_r(rest, " ", &rest); key; key = strtok_r(NULL, " ", &rest))
        if (strcmp(key, name) == 0)
            return true;
    return false;
}

struct probe *watch_place(struct watch *watch, int lock)
{
    if (!watch->cluster)
        return watch->probes[0];
    if (!watch->heir[lock] || is_still_here(watch, lock))
        return watch->owner[lock];
    probe_int(watch->heir[lock], "ASKING");
    return watch->heir[lock];
}

static struct probe *probe_of(struct watch *watch, size_t server, int lock)
{
    return watch->cluster ? watch_place(watch, lock) : watch->probes[server];
}

static void end_free(struct watch *watch, int lock, enum watch_side side)
{
    struct history_record free = {.kind = HISTORY_FREE,
                                  .sort = watch->names->sorts[lock],
                                  .slot = -1,
                                  .lock = lock,
                                  .from_ns = watch->free_ns[lock][side],
                                  .to_ns = watch->seen_ns};

    if (side == WATCH_SOME && free.sort == HISTORY_WRITE)
        free.sort = HISTORY_READ;
    else if (side == WATCH_SOME)
        free.value = HISTORY_KEPT;
    /* A lock that was seen free only once may have been so for an instant. */
    if (free.from_ns != 0 && free.from_ns < free.to_ns)
        history_write(watch->history, &free);
    watch->free_ns[lock][side] = 0;
    if (side == WATCH_ALL)
        watch->is_kept[lock] = false;
}

static bool has_lock(struct watch *watch, size_t server, int lock)
{
    struct probe *probe = probe_of(watch, server, lock);

    if (watch->names->sorts[lock] == HISTORY_SEMAPHORE)
        return probe_int(probe, "EVAL %s 1 %s %d", missing_script, names_text(lock),
                         NAMES_N_PERMITS) != 0;
    return probe_int(probe, "EXISTS %s", names_text(lock)) != 0;
}

size_t watch_count(struct watch *watch, int lock)
{
    size_t n = 0;

    for (size_t i = 0; i < watch->n; i++)
        n += has_lock(watch, i, lock);
    return n;
}

/* ---- one server ---------------------------------------------------------------------------- */

static long long ask_one(struct watch *watch, int lock)
{
    enum history_sort sort = watch->names->sorts[lock];
    const char *script = sort == HISTORY_FAIR        ? fair_script
                         : sort == HISTORY_WRITE     ? rw_script
                         : sort == HISTORY_SEMAPHORE ? semaphore_script
                                                     : plain_script;

    return probe_int(probe_of(watch, 0, lock), "EVAL %s 1 %s", script, names_text(lock));
}

/* ---- several ------------------------------------------------------------------------------- */

static bool is_whole(const struct watch *watch, size_t server, uint64_t now_ns)
{
    uint64_t whole_ns = watch->whole_ns[server];

    return whole_ns != UINT64_MAX && now_ns >= whole_ns + watch->recovery_ns;
}

static long long ask_all(struct watch *watch, int lock)
{
    uint64_t now_ns = history_now_ns();
    size_t n_free = 0;

    for (size_t i = 0; i < watch->n; i++)
        if (is_whole(watch, i, now_ns))
            n_free += probe_int(watch->probes[i], "EXISTS %s", names_text(lock)) == 0;
    return n_free > watch->n / 2;
}

/* ---- the line ------------------------------------------------------------------------------ */

void watch_keep_lines(struct watch *watch, const char *dir)
{
    char path[256];

    snprintf(path, sizeof(path), "%s/lines", dir);
    watch->lines = fopen(path, "we");
    if (watch->lines)
        setvbuf(watch->lines, NULL, _IOLBF, 0);
}

static void keep_line(struct watch *watch, int lock)
{
    uint64_t free_ns = watch->free_ns[lock][WATCH_ALL], now_ns = history_now_ns();

    if (!watch->lines || watch->is_kept[lock] || free_ns == 0 || now_ns < free_ns + STAYS_FREE_NS)
        return;
    watch->is_kept[lock] = true;
    fprintf(watch->lines, "%llu.%09llu lock %d: %s\n", (unsigned long long)(now_ns / NS_PER_S),
            (unsigned long long)(now_ns % NS_PER_S), lock,
            probe_list(probe_of(watch, 0, lock), "EVAL %s 1 %s %s", line_script, names_text(lock),
                       watch->cluster ? ":cluster" : ""));
}

/* ---- looking ------------------------------------------------------------------------------- */

static void look_at(struct watch *watch, int lock)
{
    long long free_for = watch->n > 1 ? ask_all(watch, lock) : ask_one(watch, lock);

    /* On a busy machine a master may be replaced though nothing has broken it. */
    if (free_for == PROBE_REFUSED && watch->cluster && !watch->heir[lock])
        find_owner(watch, lock);
    for (int side = 0; side < WATCH_N_SIDES; side++) {
        if (free_for < 0 || (free_for & 1 << side) == 0)
            end_free(watch, lock, side);
        else if (watch->free_ns[lock][side] == 0)
            watch->free_ns[lock][side] = history_now_ns();
    }
    if (!watch->heir[lock])
        keep_line(watch, lock);
}

static void look_away(struct watch *watch)
{
    for (int lock = 0; lock < watch->names->n; lock++)
        for (int side = 0; side < WATCH_N_SIDES; side++)
            end_free(watch, lock, side);
}

void watch_look(struct watch *watch)
{
    uint64_t now_ns = history_now_ns();

    if (now_ns < watch->seen_ns + LOOK_NS || watch->n == 0 ||
        (watch->n == 1 && !is_whole(watch, 0, now_ns)))
        return;
    if (now_ns > watch->seen_ns + BLINK_NS)
        look_away(watch);
    for (int lock = 0; lock < watch->names->n; lock++)
        look_at(watch, lock);
    watch->seen_ns = now_ns;
}

void watch_stop(struct watch *watch)
{
    look_away(watch);
    if (watch->lines)
        fclose(watch->lines);
    for (size_t i = 0; i < watch->n && !watch->cluster; i++)
        probe_close(watch->probes[i]);
}

void watch_break(struct watch *watch, size_t server)
{
    if (watch->n == 1)
        look_away(watch);
    watch->whole_ns[server] = UINT64_MAX;
}

void watch_mend(struct watch *watch, size_t server)
{
    if (watch->cluster)
        find_owners(watch);
    watch->whole_ns[server] = history_now_ns();
}

static bool are_all_free(void *arg)
{
    struct watch *watch = arg;

    for (int lock = 0; lock < watch->names->n; lock++)
        if (watch_count(watch, lock) > 0)
            return false;
    return true;
}

static void print_keys(struct watch *watch, int lock)
{
    for (size_t i = 0; i < watch->n; i++)
        fprintf(stderr, "lock %d on server %zu: %s, for %lld ms\n", lock, i,
                probe_text(probe_of(watch, i, lock), "TYPE %s", names_text(lock)),
                probe_pttl(probe_of(watch, i, lock), names_text(lock)));
}

void watch_all_free(struct watch *watch, uint64_t within_ms)
{
    wait_until(are_all_free, watch, within_ms);
    for (int lock = 0; lock < watch->names->n; lock++) {
        struct history_record stays = {
            .kind = HISTORY_STAYS, .sort = watch->names->sorts[lock], .slot = -1, .lock = lock};

        if (watch_count(watch, lock) == 0)
            continue;
        stays.from_ns = stays.to_ns = history_now_ns();
        stays.value = (int64_t)watch_count(watch, lock);
        history_write(watch->history, &stays);
        print_keys(watch, lock);
    }
}
