/*
 * Place - where the processes of a soak lock: a server, or a cluster of three masters
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_SOAK_PLACE_H
#define RELOCK_TEST_SOAK_PLACE_H

#include <stdbool.h>

struct server;
struct cluster;

struct place {
    struct server *server;   /* NULL: a cluster */
    struct cluster *cluster; /* NULL: a server */
    const char *url;
    const char *dir; /* a folder that is removed at the end */
};

/* False if there is no program to start. */
bool place_open(struct place *place, bool in_cluster);
void place_close(struct place *place);

/* The keys of all masters. */
long long place_n_keys(const struct place *place);

#endif
