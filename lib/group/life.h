/*
 * Life - how groups are made, and how they end
 *
 * The end of a group locks the mutexes of its members' clients, but its last reference may be
 * dropped under one of them. So a group without references is reaped later, by the next thread that
 * comes by without a mutex: an I/O thread, at the latest.
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_LIFE_H
#define RELOCK_LIFE_H

#include "group/group.h"

/* Frees the groups without references. */
void relock_group_reap(void);

#endif
