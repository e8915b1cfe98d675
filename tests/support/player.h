/*
 * Player - a process with another library of locks, which follows the orders of a test
 *
 * Its threads are named by the test, are made when they are first named, and each is an owner of
 * its own. A thread does its orders one after the other and answers each when it is done, so one
 * may wait for a lock while others go on:
 *
 *     order = player_begin(player, "bob", "lock fair orders");
 *     ...
 *     assert_string_equal(player_answer(player, order), "ok");
 *
 * It says "ready", reads one order a line, and answers with the number of the order, from 1, and
 * the answer. The program and its tests define the orders: redisson/java's
 * Player.java, interop/duo.h. An answer that does not come within SOON_MS is "".
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

struct player;

/* Starts the program, with its arguments up to a NULL, and waits until it is connected; ends the
 * test program if it does not come up. */
struct player *player_start(const char *const *argv);

/* SIGKILL, and frees. Takes NULL, returns NULL. */
struct player *player_end(struct player *player);

/* Gives an order: a verb and its arguments. */
unsigned player_begin(struct player *player, const char *thread, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Waits for its answer, which is valid until the player is ended. If none comes in time, the test
 * is late; not if the player is gone. */
const char *player_answer(struct player *player, unsigned order);
const char *player_answer_within(struct player *player, unsigned order, uint64_t within_ms);

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
