/*
 * Upheaval - what happens to a cluster while processes lock in it
 *
 * Each is over when it returns: all nodes run, agree and are in sync. Before a master fails, its
 * replica has all that the master had a moment ago, and no slot is half moved. Otherwise the
 * replica could lose even what another one had acknowledged.
 *
 * Threads: that of the cluster.
 */
#ifndef RELOCK_TEST_UPHEAVAL_H
#define RELOCK_TEST_UPHEAVAL_H

#include "support/cluster.h"

#include <stdbool.h>
#include <stdint.h>

/* Names, and whether Redis may lose answered writes that no replica has acknowledged. */
#define UPHEAVAL_MAP(XX)               \
    XX(MOVE, "moves", false)           \
    XX(HAND_OVER, "hand-overs", false) \
    XX(KILL, "deaths", true)           \
    XX(GROWTH, "growths", false)       \
    XX(PAUSE, "pauses", true)

enum upheaval_kind {
#define UPHEAVAL_ENUM_(name, text, loses) UPHEAVAL_##name,
    UPHEAVAL_MAP(UPHEAVAL_ENUM_)
#undef UPHEAVAL_ENUM_
        UPHEAVAL_N_KINDS
};

const char *upheaval_text(enum upheaval_kind kind);
bool upheaval_loses(enum upheaval_kind kind);

void upheaval_play(struct cluster *cluster, enum upheaval_kind kind, unsigned *seed);

/* The same, but a master that fails has stopped writing before, so nothing answered is lost. */
void upheaval_play_gently(struct cluster *cluster, enum upheaval_kind kind, unsigned *seed);

/* This master dies, stands still or hands over, gently, and its replica takes over by order: so no
 * master is replaced because the machine is busy, if the timeout of the nodes is long. */
void upheaval_replace(struct cluster *cluster, enum upheaval_kind kind, size_t master);

#endif
