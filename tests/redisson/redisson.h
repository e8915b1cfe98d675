/*
 * Redisson - where it is, and a player with it
 *
 * Threads: as support/player.h.
 */
#ifndef RELOCK_TEST_REDISSON_H
#define RELOCK_TEST_REDISSON_H

#include "support/player.h"

#define REDISSON_CONNECTIONS "name=redisson" /* how its connections appear in CLIENT LIST */

/* The folder where build.sh has put this version ("newest", "3.27.2"), below
 * RELOCK_TEST_REDISSON. If it is missing, prints that the test is skipped, and returns NULL. */
const char *redisson_find(const char *version);

/* `folder` is from redisson_find(). Orders and answers: java/Player.java. */
struct player *redisson_start(const char *folder, const char *url, uint64_t watchdog_ms);

#endif
