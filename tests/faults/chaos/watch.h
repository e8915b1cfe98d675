/*
 * Watch - looks from outside whether locks are free, and writes it down
 *
 * It asks each server over a connection of its own. A lock that was free each time it looked, and
 * it looked often enough, becomes one record; of a read/write lock one for waiting writers
 * and one for waiting readers; of a fair lock one while no place is kept, and one
 * whether it is or not. A red lock is free when it is on a majority of all servers, not counting
 * those that are broken, or were a while ago.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_WATCH_H
#define RELOCK_TEST_WATCH_H

#include "history.h"
#include "names.h"
#include "schedule.h"
#include "support/probe.h"
#include "support/server.h"

#include <stdbool.h>

/* For whom it is free: all, or some: readers, and in a fair queue the patient. */
enum watch_side { WATCH_ALL, WATCH_SOME, WATCH_N_SIDES };

struct watch {
    struct probe *probes[SCHEDULE_MAX_SERVERS];
    size_t n;
    uint64_t whole_ns[SCHEDULE_MAX_SERVERS]; /* since then; UINT64_MAX: it is broken */
    uint64_t recovery_ns;                    /* of one of several servers */
    struct history *history;
    const struct names *names;
    uint64_t free_ns[NAMES_N][WATCH_N_SIDES]; /* since then; 0: it is not */
    uint64_t seen_ns;                         /* when it looked last */
};

void watch_start(struct watch *watch, struct server *const *servers, size_t n,
                 struct history *history, const struct names *names);
void watch_stop(struct watch *watch);

/* Looks at all locks, if that was not done just now. Servers that are not broken must answer. */
void watch_look(struct watch *watch);

/* This server is broken, until it is mended. */
void watch_break(struct watch *watch, size_t server);
void watch_mend(struct watch *watch, size_t server);

/* On how many servers a lock is. All must answer. */
size_t watch_count(struct watch *watch, int lock);

/* Waits until all locks are free; writes down each that does not become so in time. */
void watch_all_free(struct watch *watch, uint64_t within_ms);

#endif
