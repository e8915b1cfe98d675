/*
 * Stage - the servers, the networks and the processes, and the breaking of them
 *
 * With one server each worker has a network of its own, a proxy; with several, each server. A fault
 * ends when its time is over, and is written to a history, as is the death of a process.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_STAGE_H
#define RELOCK_TEST_STAGE_H

#include "history.h"
#include "pulse.h"
#include "schedule.h"
#include "support/proxy.h"
#include "support/server.h"
#include "watch.h"
#include "worker.h"

struct stage_place {
    struct proxy *proxy;   /* NULL: its network is not its own */
    struct server *server; /* NULL: it is a worker's */
    struct worker worker;
    struct fault fault;      /* its last, */
    uint64_t broken_ns;      /* broken since then; 0: whole */
    struct proxy_rule *rule; /* of that fault, if it is about single commands */
};

struct stage {
    /* set by the caller */
    const char *dir;
    int n_servers;
    int n_workers;
    int n_threads;
    uint64_t seed;
    uint64_t lease_ms;
    bool ignores_leases;
    uint64_t for_ms; /* so long it plays */

    /* its own; zeroed */
    char urls[512]; /* of several servers */
    struct history history;
    struct names names;
    struct watch watch;
    struct stage_place servers[SCHEDULE_MAX_SERVERS];
    struct stage_place places[SCHEDULE_MAX_SLOTS];
    uint64_t until_ns;
    struct pulse pulse; /* of this process: it is everybody's network */
    size_t n_faults[FAULT_N_KINDS];
    size_t n_lives;
    bool failed; /* a worker ended that should not have */
};

/* False if there is no server to be had. */
bool stage_open(struct stage *stage);
void stage_close(struct stage *stage);

/* At its time, or as soon after as its place is whole. */
void stage_break(struct stage *stage, const struct fault *fault);

/* Has a majority of the servers forget all at once, if most have some lock. */
void stage_forget(struct stage *stage);

/* Mends what has been broken for long enough, all of it at the end; looks after workers, locks. */
void stage_step(struct stage *stage, bool is_end);

/* Waits until the workers are done, then until what nobody holds is free, and ends them. */
void stage_finish(struct stage *stage);

#endif
