/*
 * Question - asks a server something, on a thread of the library that may be told to stop
 *
 * It blocks until the deadline, and ends soon after the thread was told to stop.
 *
 * Threads: its user.
 */
#ifndef RELOCK_QUESTION_H
#define RELOCK_QUESTION_H

#include "redis/sync_conn.h"

#include <stdatomic.h>

struct relock_question {
    struct relock_sync_conn *conn;
    const atomic_bool *stops; /* no answer is wanted any more */
    uint64_t deadline_ms;
};

/* When to look whether it is over, and whether it is. */
uint64_t relock_question_slice_ms(const struct relock_question *question);
bool relock_question_is_over(const struct relock_question *question);

/* Connects. Then append the commands to `conn->wire.out`, send them, and receive each reply, which
 * the caller frees. They return as the functions of sync_conn.h, RELOCK_AGAIN if it is over, and
 * the cause of a failure is in `conn->wire.why`. */
int relock_question_reach(struct relock_question *question);
int relock_question_send(struct relock_question *question);
int relock_question_receive(struct relock_question *question, struct redisReply **reply);

#endif
