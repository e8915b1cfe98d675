/*
 * Question - commands to a server from a background thread of the library
 *
 * The functions block until the deadline, and return early when the thread is to stop.
 *
 * Threads: its user.
 */
#ifndef RELOCK_QUESTION_H
#define RELOCK_QUESTION_H

#include "redis/sync_conn.h"

#include <stdatomic.h>

struct relock_question {
    struct relock_sync_conn *conn;
    const atomic_bool *stops; /* the thread is to stop */
    uint64_t deadline_ms;
};

/* The end of the next wait, after which to check whether the question is over; and the check. */
uint64_t relock_question_slice_ms(const struct relock_question *question);
bool relock_question_is_over(const struct relock_question *question);

/* Connects. Then append the commands to `conn->wire.out`, send them, and receive each reply, which
 * the caller frees. They return as the functions of sync_conn.h, RELOCK_AGAIN if it is over, and
 * the cause of a failure is in `conn->wire.why`. */
int relock_question_reach(struct relock_question *question);
int relock_question_send(struct relock_question *question);
int relock_question_receive(struct relock_question *question, struct redisReply **reply);

#endif
