/*
 * Commands - the operations of a lock that is one key on one server
 *
 * Each is a script of the kind, run over the lanes; only renewals go through the I/O thread.
 *
 * Threads: as kind.h says of operations.
 */
#ifndef RELOCK_COMMANDS_H
#define RELOCK_COMMANDS_H

#include "lock/hold/acquire.h"
#include "lock/state/inspection.h"
#include "lock/wake/request.h"

extern const struct relock_operations relock_command_operations;

/*
 * Asks for the holder of the lock; `number` is that of the caller's hold, 0 for none. Under no
 * mutex, within a call. The caller ends the request, also after a failure. Returns RELOCK_OK or the
 * failure of asking, and why in the request.
 */
int relock_commands_inspect(struct relock_lock *lock, uint64_t number, uint64_t deadline_ms,
                            struct relock_request *request, struct relock_inspection *inspection);

/*
 * The parts of these operations for an asynchronous call: they write its script, which is to give
 * the hold one level more than it has, and read the reply. After a failure without a reply,
 * relock_async_fail() fills the answer.
 */
void relock_commands_write_lock(const struct relock_acquire *acquire,
                                const struct relock_hold *hold, struct relock_request *request)
    RELOCK_REQUIRES(acquire->client->mutex);
void relock_commands_read_ask(const struct relock_acquire *acquire, struct relock_hold *hold,
                              const struct redisReply *reply, struct relock_answer *answer);
void relock_commands_read_nest(const struct relock_acquire *acquire, const struct redisReply *reply,
                               struct relock_answer *answer);

/* Whether the release puts the client into the line of the lock again. */
bool relock_commands_waits_again(const struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* `joins`: what relock_commands_waits_again() returned before the command was sent. After a
 * failure, `reply` is NULL. */
void relock_commands_read_release(struct relock_client *client, const struct relock_hold *hold,
                                  bool joins, const struct redisReply *reply,
                                  struct relock_answer *answer) RELOCK_REQUIRES(client->mutex);

#endif
