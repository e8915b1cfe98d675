/*
 * Life - how multi and red locks are made, and how their groups end
 *
 * They take part in the life of the clients of their members through a hook, which is attached to a
 * client when the first such lock is made.
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
