/*
 * Redisson - where it is, and a player with it
 *
 * Threads: as support/player.h.
 */
#ifndef RELOCK_TEST_REDISSON_H
#define RELOCK_TEST_REDISSON_H

#include "support/player.h"

#define REDISSON_CONNECTIONS "name=redisson" /* what CLIENT LIST has of its connections */

/* Where build.sh has put this version ("newest", "3.27.2"), below RELOCK_TEST_REDISSON. NULL if it
 * has not: says why, and that the test is skipped. */
const char *redisson_find(const char *version);

/* The folder is that of redisson_find(); orders and answers: java/Player.java. */
struct player *redisson_start(const char *folder, const char *url, uint64_t watchdog_ms);

#endif
