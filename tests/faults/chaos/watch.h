/*
 * Watch - observes whether locks are free, and records it
 *
 * It asks each server over its own connection. A lock that was free at each look, with looks in
 * quick succession, becomes one record. A read/write lock has one record for waiting writers and
 * one for waiting readers. A fair lock has one for the time without a kept place, and one for the
 * whole time. A red lock is free unless a majority of all servers has it, not counting those that
 * are broken, or were a while ago. Of a cluster, it asks the owner of the lock; while the slot is
 * half moved, the master that has the lock, or gets it. Without servers it observes nothing. A
 * semaphore is free while all its permits are, and held while one is out or has vanished.
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
#include <stdio.h>

/* For whom it is free: all, or some: readers, and in a fair queue the head. */
enum watch_side { WATCH_ALL, WATCH_SOME, WATCH_N_SIDES };

struct cluster;

struct watch {
    struct probe *probes[SCHEDULE_MAX_SERVERS]; /* of a cluster: that of the first node */
    size_t n;
    struct cluster *cluster;                 /* NULL: none */
    struct probe *owner[NAMES_N];            /* of each lock in a cluster */
    struct probe *heir[NAMES_N];             /* gets the slot of the lock; NULL: not half moved */
    int slot[NAMES_N];                       /* then */
    uint64_t whole_ns[SCHEDULE_MAX_SERVERS]; /* answers since then; UINT64_MAX: it is broken */
    uint64_t recovery_ns;                    /* of one of several servers */
    struct history *history;
    const struct names *names;
    uint64_t free_ns[NAMES_N][WATCH_N_SIDES]; /* free since then; 0: not free */
    uint64_t seen_ns;                         /* time of the last look */
    FILE *lines;                              /* see watch_keep_lines(); NULL: not kept */
    bool is_kept[NAMES_N];                    /* the line was, since the lock is free */
};

void watch_start(struct watch *watch, struct server *const *servers, size_t n,
                 struct history *history, const struct names *names);
void watch_start_cluster(struct watch *watch, struct cluster *cluster, struct history *history,
                         const struct names *names);
void watch_stop(struct watch *watch);

/* Writes who stands in the line of each lock that stays free, and who of them listens, into the
 * file "lines" of this folder. If waiters sleep there, that shows whether they were told. */
void watch_keep_lines(struct watch *watch, const char *dir);

/* Looks at all locks, unless it has just done so. Servers that are not broken must answer. */
void watch_look(struct watch *watch);

/* Marks a server as broken, or as mended. */
void watch_break(struct watch *watch, size_t server);
void watch_mend(struct watch *watch, size_t server);

/* The slot of a lock of a cluster is half moved to this node; then it is there. */
void watch_move(struct watch *watch, int lock, int slot, struct probe *heir);
void watch_moved(struct watch *watch, int lock);

/* The node of a cluster that has the lock now, or would get it; after watch_move(), only for the
 * next command. Without a cluster, the server. */
struct probe *watch_place(struct watch *watch, int lock);

/* The number of servers that have a lock. All must answer. */
size_t watch_count(struct watch *watch, int lock);

/* Waits until all locks are free; records each that does not become free in time. */
void watch_all_free(struct watch *watch, uint64_t within_ms);

#endif
