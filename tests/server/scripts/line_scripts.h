/*
 * Line scripts - the scripts of the lock "orders" by hand, as clients in its line run them
 *
 * The kind is that of support/kinds.h. The functions that take `f` and an id run a script of the
 * client with this id.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_LINE_SCRIPTS_H
#define RELOCK_TEST_LINE_SCRIPTS_H

#include "support/line.h"

#define HOLDER "11111111-2222-4333-8444-555555555555"
#define A "aaaaaaaa-1d2f-4c6b-9a8e-3f1e2d4c5b6a"
#define B "bbbbbbbb-6a7b-4e8c-8d9f-0a1b2c3d4e5f"
#define C "cccccccc-0a53-4b6c-8f2e-5a1d3c7b9e10"
#define D "dddddddd-7c1e-4f2a-b3d4-6e5f4a3b2c1d"

#define CHANNEL "channel of orders"
#define LEASE_MS "600000"

/* The scripts of the kind. */
const char *lock_body(void);
const char *unlock_body(void);
const char *force_body(void);

/* The hold of a client. Valid until the next call. */
const char *field_of(const char *id);

/* A first attempt. The reply: a token or nothing if it was granted; else the lease, the place, and
 * whether the holder knows no line. */
const char *ask_for(struct fixture *f, const char *name, const char *id, bool listens);

bool is_granted(struct fixture *f, const char *id);
int place_of(struct fixture *f, const char *id); /* -1: granted */
bool is_reserved(struct fixture *f, const char *id);

/* The last release; and that of a client that waits again, which returns the number of receivers
 * plus one, and its place. */
long long give(struct fixture *f, const char *id);
const char *give_and_wait(struct fixture *f, const char *id);
const char *give_and_wait_in_cluster(struct fixture *f, const char *id);

void leave(struct fixture *f, const char *id);

/* Another client acquires the lock, though it is reserved. */
void barge(struct fixture *f);

/* HOLDER has the lock, and A, B, C wait for it; the test hears what they are told. */
struct scene {
    struct fixture *f;
    struct listener *a, *b, *c, *holder;
};

struct scene scene_of(struct fixture *f);
void scene_end(struct scene *scene);

bool hears_nothing(struct listener *listener);

/* Whether these stand in the line, in this order; "" for nobody. */
bool line_is(struct fixture *f, const char *first, const char *second, const char *third);

#endif
