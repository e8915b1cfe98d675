/*
 * Question - commands to a server from a background thread of the library
 *
 * The functions block until the deadline, and return early when the thread is to stop.
 *
 * Threads: its user.
 */
#ifndef RELOCK_QUESTION_H
#define RELOCK_QUESTION_H

#include "redis/lane/sync_conn.h"

#include <stdatomic.h>

struct relock_question {
    struct relock_sync_conn *conn;
    const atomic_bool *stops; /* the thread is to stop */
    uint64_t deadline_ms;
};

/* When to end the next wait, to check whether the question is over. */
uint64_t relock_question_slice_ms(const struct relock_question *question);

/* Whether the deadline has passed or the thread is to stop. */
bool relock_question_is_over(const struct relock_question *question);

/* To ask: reach connects; append the commands to `conn->wire.out`; send them; receive each reply,
 * which the caller frees. Each returns as the functions of sync_conn.h, and RELOCK_AGAIN if the
 * question is over. The cause of a failure is in `conn->wire.why`. */
int relock_question_reach(struct relock_question *question);
int relock_question_send(struct relock_question *question);
int relock_question_receive(struct relock_question *question, struct redisReply **reply);

#endif
