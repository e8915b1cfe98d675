/*
 * Asking - threads that share a lane to a script server
 *
 * Each asks for ECHO of a letter, so often. On the terms of talk.h.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_ASKING_H
#define RELOCK_TEST_ASKING_H

#include "redis/exchange.h"
#include "support/actor.h"
#include "talk.h"

#define N_ASKING 3

/* A deadline that comes, but not before what is asked has been sent. */
#define SENT_WITHIN_MS 2000

struct asking {
    struct actor *actor;
    struct relock_exchange exchange;
    char commands[64];
    char text[2];
    uint64_t deadline_ms;
};

extern struct relock_lane *const lane;
extern struct asking asking[N_ASKING];

int asking_setup(void **state);
int asking_teardown(void **state);

void asking_prepare(struct asking *at, char letter, unsigned n, uint64_t deadline_ms);

/* For an actor: asks what was prepared. */
int asking_ask(void *at);

/* The thread asks, the first one driving, the others standing in the queue in this order. */
void asking_begin(int i, char letter, unsigned n, uint64_t deadline_ms);

/* Whether `*n` exchanges stand in the queue. */
bool asking_n_queued(void *n);

/* How it ended. A failure that was sent drops its conn_id and its orphan. */
void asking_has_answer(int i);
void asking_has_failed(int i, bool sent, const char *why);

#define ASKING_TEST(function) \
    cmocka_unit_test_setup_teardown(function, asking_setup, asking_teardown)

#endif
