/*
 * Stage - the servers, the networks and the processes, and their faults
 *
 * With one server each worker has its own network, a proxy; with several, each server has. There is
 * no proxy at hot locks: fifty of them would use more of the machine than the workers. Nor is there
 * one with TLS, which a proxy could not read, nor one with sentinels, which tell the addresses. In
 * a cluster each node has one, and announces it as its address, but not at hot locks. A fault ends
 * when its time is over, and is written to a history, as is the death of a process. The move of a
 * slot excuses no waiter if its lock is reentrant.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_STAGE_H
#define RELOCK_TEST_STAGE_H

#include "failover.h"
#include "history.h"
#include "nodes.h"
#include "pulse.h"
#include "schedule.h"
#include "support/cluster.h"
#include "support/proxy.h"
#include "support/server.h"
#include "watch.h"
#include "worker.h"

struct stage_place {
    struct proxy *proxy;   /* NULL: it shares the network */
    struct server *server; /* NULL: it belongs to a worker */
    struct worker worker;
    struct fault fault;      /* its last fault, */
    uint64_t broken_ns;      /* when it was broken; 0: not broken */
    struct proxy_rule *rule; /* rule of that fault, if it affects single commands */
};

struct stage {
    /* set by the caller */
    const char *dir;
    int n_servers;
    int n_workers;
    int n_threads;
    enum names_set set;
    uint64_t seed;
    uint64_t lease_ms;
    uint64_t keep_ms; /* of the workers' clients */
    bool has_numbers; /* the workers use latches and unleased semaphores, too */
    bool ignores_leases;
    bool has_tls;    /* the workers connect with TLS */
    bool is_cluster; /* instead of a server */
    bool is_plain;   /* its messages are not sharded */
    unsigned min_replicas;
    bool is_silent;  /* no message may be published */
    uint64_t for_ms; /* length of the play */

    /* internal; zeroed */
    char urls[512]; /* for workers that have no network of their own */
    struct history history;
    struct names names;
    struct cluster *cluster;
    unsigned upheaval_seed;
    struct nodes_move move;
    struct watch watch;
    struct failover failover; /* has the servers, if there are sentinels */
    struct stage_place servers[SCHEDULE_MAX_SERVERS];
    struct stage_place places[SCHEDULE_MAX_SLOTS];
    uint64_t until_ns;
    struct pulse pulse; /* of this process, which is the network of all */
    size_t n_faults[FAULT_N_KINDS];
    size_t n_aimed; /* of these, at the first in line */
    size_t n_lives;
    bool failed; /* a worker ended unexpectedly */
};

/* False if no server can be started. */
bool stage_open(struct stage *stage);
void stage_close(struct stage *stage);

/* Breaks something, at the planned time or when its place has been mended. */
void stage_break(struct stage *stage, const struct fault *fault);

/* Whether the fault there has lasted as long as was planned. */
bool stage_is_due(const struct stage_place *place);

/* Lets a majority of the servers lose all data at once, if most of them have some lock. */
void stage_forget(struct stage *stage);

/* Ends the silence, so that the last waiters are served soon. */
void stage_let_publish(struct stage *stage);

/* Mends the places whose faults are over, or all at the end. Checks the workers and the locks. */
void stage_step(struct stage *stage, bool is_end);

/* Waits until the workers are done, then until locks without a holder are free, and ends the
 * workers. */
void stage_finish(struct stage *stage);

#endif
