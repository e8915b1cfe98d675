/*
 * Failover - a master with two replicas and three sentinels, and the ends of one master after the
 * other
 *
 * Before each end one replica is stalled: it stays connected to the sentinels, and gets nothing
 * more from the master. So only the other one acknowledges holds, and the priorities decide which
 * of the two is promoted: in turn the one that has acknowledged, and the stalled one.
 *
 * A master that is cut off is reached by the workers alone, and does not know that it was replaced.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_CHAOS_FAILOVER_H
#define RELOCK_TEST_CHAOS_FAILOVER_H

#include "history.h"
#include "support/sentinels.h"

#include <stdbool.h>

enum failover_end { FAILOVER_CUT_OFF, FAILOVER_KILLED, FAILOVER_STOPPED, FAILOVER_N_ENDS };

struct failover {
    struct sentinels sentinels;
    struct history *history;
    bool only_cut_off; /* every master ends so, and the stalled replica is promoted */
    unsigned n_rounds; /* begins with an even number, which chooses the first end */
    struct failover_cast {
        int master, stalled, heir; /* the heir is promoted */
        enum failover_end end;
    } cast;               /* of this round */
    uint64_t from_ns;     /* the last time when all servers had the same */
    uint64_t happened_ns; /* another server was the master */
    unsigned n_ends[FAILOVER_N_ENDS];
};

/* Ends the program if there is no server. */
void failover_open(struct failover *failover, struct history *history, bool has_tls);
void failover_close(struct failover *failover);

/* The url for the workers. */
const char *failover_url(const struct failover *failover);

/* A round. First it stalls a replica, and lets the workers lock for a while. */
void failover_prepare(struct failover *failover);

/* Then it ends the master and waits until the sentinels have another. */
void failover_happen(struct failover *failover);

/* At last it makes all servers whole again. */
void failover_mend(struct failover *failover);

void failover_print(const struct failover *failover);

#endif
