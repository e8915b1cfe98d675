/*
 * Player - a process with Redisson in it that does what it is told
 *
 * Its threads are named by the test, are made when they are first named, and each is an owner of
 * its own. A thread does its orders one after the other and answers each when it is done, so one
 * may wait for a lock while others go on:
 *
 *     order = player_begin(player, "bob", "lock fair orders");
 *     ...
 *     assert_string_equal(player_answer(player, order), "ok");
 *
 * Orders and answers: java/Player.java. An answer that does not come within SOON_MS is "".
 *
 * The process is ended by its own pid and dies with the test program.
 *
 * Threads: the one that started it, which must live as long: the process dies with its thread.
 */
#ifndef RELOCK_TEST_PLAYER_H
#define RELOCK_TEST_PLAYER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define PLAYER_CONNECTIONS "name=redisson" /* what CLIENT LIST has of its connections */

struct player;

/* Where build.sh has put this version ("newest", "3.27.2"), below RELOCK_TEST_REDISSON. NULL if it
 * has not: says why, and that the test is skipped. */
const char *player_find(const char *version);

/* Starts the process and waits until it is connected; ends the test program if it does not come
 * up. `folder` is that of player_find(). */
struct player *player_start(const char *folder, const char *url, uint64_t watchdog_ms);

/* SIGKILL, and frees. Takes NULL, returns NULL. */
struct player *player_end(struct player *player);

/* Gives an order: VERB KIND NAME [NUMBERS]. */
unsigned player_begin(struct player *player, const char *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Waits for its answer, which is valid until the player is ended. */
const char *player_answer(struct player *player, unsigned order);

/* Whether there is no answer yet. */
bool player_is_busy(struct player *player, unsigned order);

/* Whether a thread waits for a lock, and has asked for the last time until it is woken. */
bool player_is_asleep(struct player *player, const char *thread);

/* Whether it lives and has answered all. */
bool player_is_idle(struct player *player);

/* Ends its threads, which have nothing to do, and forgets their locks. */
void player_forget(struct player *player);

/* Gives one and waits for the answer. */
const char *player_do(struct player *player, const char *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Sends the last order, "die", or a SIGKILL, and waits until the process is gone. */
bool player_dies(struct player *player);
void player_kill(struct player *player);

#endif
