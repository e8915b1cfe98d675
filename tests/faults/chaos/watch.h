/*
 * Watch - looks from outside whether locks are free, and writes it down
 *
 * It asks the server over a connection of its own. A lock that was free each time it looked, and it
 * looked often enough, becomes one record; of a read/write lock one for those who want to write,
 * and one for those who want to read; of a fair lock one while nobody's place is kept, and one
 * whether it is or not.
 *
 * Threads: one at a time.
 */
#ifndef RELOCK_TEST_WATCH_H
#define RELOCK_TEST_WATCH_H

#include "history.h"
#include "names.h"
#include "support/probe.h"

/* For whom it is free: all, or some: readers, and in a fair queue the patient. */
enum watch_side { WATCH_ALL, WATCH_SOME, WATCH_N_SIDES };

struct watch {
    struct probe *probe;
    struct history *history;
    const struct names *names;
    uint64_t free_ns[NAMES_N][WATCH_N_SIDES]; /* since then; 0: it is not */
    uint64_t seen_ns;                         /* when it looked last */
};

void watch_start(struct watch *watch, const char *socket, struct history *history,
                 const struct names *names);
void watch_stop(struct watch *watch);

/* Looks at all locks, if that was not done just now. The server must answer. */
void watch_look(struct watch *watch);

/* It cannot look for a while. */
void watch_away(struct watch *watch);

/* Waits until all locks are free; writes down each that does not become so in time. */
void watch_all_free(struct watch *watch, uint64_t within_ms);

#endif
