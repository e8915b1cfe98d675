#include "redis/lane/question.h"

#include "base/clock.h"
#include "base/status.h"

#include <stdio.h>

/* The longest wait that does not notice that the thread is to stop. */
#define SLICE_MS 50

bool relock_question_is_over(const struct relock_question *question)
{
    return atomic_load(question->stops) || relock_clock_now_ms() >= question->deadline_ms;
}

uint64_t relock_question_slice_ms(const struct relock_question *question)
{
    return relock_clock_sooner(relock_clock_in(SLICE_MS), question->deadline_ms);
}

int relock_question_reach(struct relock_question *question)
{
    int r;

    do {
        r = relock_sync_conn_connect(question->conn, relock_question_slice_ms(question));
    } while (r == RELOCK_AGAIN && !relock_question_is_over(question));
    return r;
}

int relock_question_send(struct relock_question *question)
{
    struct relock_sync_conn *conn = question->conn;

    if (!conn->wire.out.failed)
        return relock_sync_conn_send(conn, question->deadline_ms);
    (void)snprintf(conn->wire.why, sizeof(conn->wire.why), "%.100s: out of memory for a command",
                   conn->server->label);
    return RELOCK_E_NOMEM;
}

int relock_question_receive(struct relock_question *question, struct redisReply **reply)
{
    int r;

    do {
        r = relock_sync_conn_receive(question->conn, relock_question_slice_ms(question), reply);
    } while (r == RELOCK_AGAIN && !relock_question_is_over(question));
    return r;
}
