/*
 * Fake sentinels - two sentinels that a test plays, and a server whose url names them
 *
 * Each gives every question the same answer, which the test may change.
 *
 * Threads: the main one.
 */
#ifndef RELOCK_TEST_FAKE_SENTINELS_H
#define RELOCK_TEST_FAKE_SENTINELS_H

#include "redis/lane/sentinels.h"
#include "redis/server/resolve.h"
#include "redis/server/server.h"
#include "support/late.h"
#include "support/log.h"
#include "unit/common/fake_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define FAKES 2
#define ADDRESS(port) "*2\r\n$9\r\n127.0.0.1\r\n$4\r\n" port "\r\n"

struct fake {
    struct fake_server server;
    _Atomic(const char *) answer; /* the address of the master: that of port 7000 at the start */
    atomic_int epoch;             /* of its configuration, from 0 to 9 */
    atomic_uint n_asked;
};

extern struct fake fakes[FAKES];
extern struct log *lines;
extern struct relock_server server;

/* Around each test. */
int sentinels_begin(void **state);
int sentinels_end(void **state);

void answer_with(int i, const char *answer);

/* Looks the master up. Returns its port, or the result of a lookup that has failed. */
int look_up(struct relock_found *found);

#define SENTINELS_TEST(function) \
    cmocka_unit_test_setup_teardown(function, sentinels_begin, sentinels_end)

#endif
