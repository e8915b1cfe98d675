#include "watch.h"

#include "support/wait.h"

#include <stdio.h>

#define NS_PER_MS 1000000
#define LOOK_NS ((uint64_t)20 * NS_PER_MS)
#define BLINK_NS ((uint64_t)200 * NS_PER_MS) /* what may have been meanwhile was not seen */

void watch_start(struct watch *watch, const char *socket, struct history *history)
{
    *watch = (struct watch){.probe = probe_open(socket), .history = history};
}

void watch_stop(struct watch *watch)
{
    watch_away(watch);
    probe_close(watch->probe);
}

static void end_free(struct watch *watch, int lock)
{
    struct history_record free = {.kind = HISTORY_FREE,
                                  .slot = -1,
                                  .lock = lock,
                                  .from_ns = watch->free_ns[lock],
                                  .to_ns = watch->seen_ns};

    /* Seen only once it may have been so for no time at all. */
    if (watch->free_ns[lock] != 0 && free.from_ns < free.to_ns)
        history_write(watch->history, &free);
    watch->free_ns[lock] = 0;
}

static bool is_free(struct watch *watch, int lock)
{
    return probe_int(watch->probe, "EXISTS %s", worker_lock_name(lock)) == 0;
}

void watch_look(struct watch *watch)
{
    uint64_t now_ns = history_now_ns();

    if (now_ns < watch->seen_ns + LOOK_NS)
        return;
    if (now_ns > watch->seen_ns + BLINK_NS)
        watch_away(watch);
    for (int lock = 0; lock < WORKER_N_LOCKS; lock++) {
        if (!is_free(watch, lock))
            end_free(watch, lock);
        else if (watch->free_ns[lock] == 0)
            watch->free_ns[lock] = history_now_ns();
    }
    watch->seen_ns = now_ns;
}

void watch_away(struct watch *watch)
{
    for (int lock = 0; lock < WORKER_N_LOCKS; lock++)
        end_free(watch, lock);
}

static bool are_all_free(void *arg)
{
    struct watch *watch = arg;

    for (int lock = 0; lock < WORKER_N_LOCKS; lock++)
        if (!is_free(watch, lock))
            return false;
    return true;
}

void watch_all_free(struct watch *watch, uint64_t within_ms)
{
    wait_until(are_all_free, watch, within_ms);
    for (int lock = 0; lock < WORKER_N_LOCKS; lock++) {
        struct history_record stays = {.kind = HISTORY_STAYS, .slot = -1, .lock = lock};

        if (is_free(watch, lock))
            continue;
        stays.from_ns = stays.to_ns = history_now_ns();
        stays.value = probe_pttl(watch->probe, worker_lock_name(lock));
        history_write(watch->history, &stays);
        fprintf(stderr, "lock %d stays: holder %s\n", lock,
                probe_only_field(watch->probe, worker_lock_name(lock)));
    }
}
