/*
 * Asking - threads that share a lane to a script server
 *
 * Each thread sends ECHO of its letter, once or several times; to make that long, the first one
 * also has padding. As talk.h.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_ASKING_H
#define RELOCK_TEST_ASKING_H

#include "redis/lane/lane.h"
#include "support/actor.h"
#include "unit/common/talk.h"

#define N_ASKING 3

/* A deadline that passes in a test, but leaves enough time to send. */
#define SENT_WITHIN_MS 2000

/* So many bytes go out beside no driver. While they have no answer, nothing else does. */
#define ASKING_LONG 4096

struct asking {
    struct actor *actor;
    struct relock_exchange exchange;
    char commands[ASKING_LONG + 128];
    char text[2];
    uint64_t deadline_ms;
};

extern struct relock_lane *const lane;
extern struct asking asking[N_ASKING];

int asking_setup(void **state);
int asking_teardown(void **state);

/* As talk_as(), before anything is asked: the lane uses the label of its server. */
void asking_as(const struct relock_options *options);

void asking_prepare(struct asking *at, char letter, unsigned n, uint64_t deadline_ms);
void asking_prepare_padded(struct asking *at, char letter, unsigned n, int padding,
                           uint64_t deadline_ms);

/* For an actor: sends the prepared commands. */
int asking_ask(void *at);

/* Thread `i` asks what was prepared. */
void asking_start(int i);

/* Thread `i` sends its commands. Thread 0 drives. Its commands are long, so that the others queue,
 * in this order. */
void asking_begin(int i, char letter, unsigned n, uint64_t deadline_ms);

/* Thread `i` sends a short command, which reaches the server before any further reply. The first
 * one drives, and the others send beside it. */
void asking_send(int i, char letter, uint64_t deadline_ms);

/* The server expects the next ECHO of this letter. */
void asking_expect(char letter, bool is_padded);

/* Delays thread `i`, which sleeps at its gate, until its deadline, as a busy system would. */
void asking_hold_up(int i);

/* Whether `*n` exchanges stand in the queue. */
bool asking_n_queued(void *n);

/* Check how an exchange ended. If a failed one was sent, its conn_id and its orphan are dropped. */
void asking_has_answer(int i);
void asking_has_failed(int i, bool sent, const char *why);

#define ASKING_TEST(function) \
    cmocka_unit_test_setup_teardown(function, asking_setup, asking_teardown)

#endif
