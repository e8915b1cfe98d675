#include "watch.h"

#include "support/wait.h"

#include <stdio.h>

#define NS_PER_MS 1000000
#define LOOK_NS ((uint64_t)20 * NS_PER_MS)
#define BLINK_NS ((uint64_t)200 * NS_PER_MS) /* what may have been meanwhile was not seen */

/* Each says for whom the lock is free: a bit for all, a bit for some. */
static const char *const plain_script = "return 1 - redis.call('exists', KEYS[1])";

/* While a place is kept, who is first in the queue has time to come. */
static const char *const fair_script =
    "local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'\n"
    "local head = redis.call('lindex', 'redisson_lock_queue:' .. tag, 0)\n"
    "local kept = head and redis.call('zscore', 'redisson_lock_timeout:' .. tag, head)\n"
    "local time = redis.call('time')\n"
    "if redis.call('exists', KEYS[1]) == 1 then return 0 end\n"
    "return kept and tonumber(kept) > time[1] * 1000 + time[2] / 1000 and 2 or 3";

/* Readers that are dead, none of whose levels has a key any more, are in nobody's way. */
static const char *const rw_script =
    "local tag = KEYS[1]:find('{', 1, true) and KEYS[1] or '{' .. KEYS[1] .. '}'\n"
    "if redis.call('hget', KEYS[1], 'mode') == 'write' then return 0 end\n"
    "return #redis.call('keys', tag .. ':*:rwlock_timeout:*') > 0 and 2 or 3";

void watch_start(struct watch *watch, const char *socket, struct history *history,
                 const struct names *names)
{
    *watch = (struct watch){.probe = probe_open(socket), .history = history, .names = names};
}

void watch_stop(struct watch *watch)
{
    watch_away(watch);
    probe_close(watch->probe);
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
    /* Seen only once it may have been so for no time at all. */
    if (free.from_ns != 0 && free.from_ns < free.to_ns)
        history_write(watch->history, &free);
    watch->free_ns[lock][side] = 0;
}

static bool is_held(struct watch *watch, int lock)
{
    return probe_int(watch->probe, "EXISTS %s", names_text(lock)) != 0;
}

static void look_at(struct watch *watch, int lock)
{
    enum history_sort sort = watch->names->sorts[lock];
    const char *script = sort == HISTORY_FAIR    ? fair_script
                         : sort == HISTORY_WRITE ? rw_script
                                                 : plain_script;
    long long free_for = probe_int(watch->probe, "EVAL %s 1 %s", script, names_text(lock));

    for (int side = 0; side < WATCH_N_SIDES; side++) {
        if (free_for < 0 || (free_for & 1 << side) == 0)
            end_free(watch, lock, side);
        else if (watch->free_ns[lock][side] == 0)
            watch->free_ns[lock][side] = history_now_ns();
    }
}

void watch_look(struct watch *watch)
{
    uint64_t now_ns = history_now_ns();

    if (now_ns < watch->seen_ns + LOOK_NS)
        return;
    if (now_ns > watch->seen_ns + BLINK_NS)
        watch_away(watch);
    for (int lock = 0; lock < NAMES_N; lock++)
        look_at(watch, lock);
    watch->seen_ns = now_ns;
}

void watch_away(struct watch *watch)
{
    for (int lock = 0; lock < NAMES_N; lock++)
        for (int side = 0; side < WATCH_N_SIDES; side++)
            end_free(watch, lock, side);
}

static bool are_all_free(void *arg)
{
    struct watch *watch = arg;

    for (int lock = 0; lock < NAMES_N; lock++)
        if (is_held(watch, lock))
            return false;
    return true;
}

void watch_all_free(struct watch *watch, uint64_t within_ms)
{
    wait_until(are_all_free, watch, within_ms);
    for (int lock = 0; lock < NAMES_N; lock++) {
        struct history_record stays = {
            .kind = HISTORY_STAYS, .sort = watch->names->sorts[lock], .slot = -1, .lock = lock};

        if (!is_held(watch, lock))
            continue;
        stays.from_ns = stays.to_ns = history_now_ns();
        stays.value = probe_pttl(watch->probe, names_text(lock));
        history_write(watch->history, &stays);
        fprintf(stderr, "lock %d stays: holder %s\n", lock,
                probe_only_field(watch->probe, names_text(lock)));
    }
}
