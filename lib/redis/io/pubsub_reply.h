/*
 * Pubsub reply - what comes over a pub/sub connection: messages, and replies to its commands
 *
 * Threads: as each function says; with the mutex of a shared connection locked.
 */
#ifndef RELOCK_PUBSUB_REPLY_H
#define RELOCK_PUBSUB_REPLY_H

#include <stdbool.h>

struct redisReply;
struct relock_pubsub;

/* Anything that comes while the connection of the pubsub `arg` is up. The I/O thread. */
void relock_pubsub_take_reply(void *arg, const struct redisReply *reply);

/* Takes what comes while no command is unanswered, so that it can only be a message. Returns false
 * for anything else, which ends the connection. Any thread. */
bool relock_pubsub_hear(struct relock_pubsub *pubsub, const struct redisReply *reply);

#endif
