/*
 * Stage - shared by the fuzzers of the I/O thread's connections
 *
 * A loop whose thread does not run, and a server to connect to. The first byte of an input selects
 * the options, the rest is the play.
 */
#ifndef RELOCK_TEST_STAGE_H
#define RELOCK_TEST_STAGE_H

#include "fuzz.h"
#include "hostile.h"
#include "redis/server/loop.h"
#include "redis/server/server.h"

/* Bits of the first byte. */
#define STAGE_LOGS_IN 1
#define STAGE_BYTE_BY_BYTE 2
#define STAGE_OWN 4 /* for the fuzzer's own choice */

#define STAGE_TIMEOUT_MS 300

struct stage {
    unsigned choice;
    struct fuzz_play play;
    struct relock_log log;
    struct relock_options options;
    struct relock_server server;
    struct relock_loop *loop;
};

void stage_begin(struct stage *stage, const uint8_t *data, size_t size);

/* The same with the url of a sentinel, whose server is to be connected to. */
void stage_begin_at(struct stage *stage, const uint8_t *data, size_t size, const char *url);

void stage_perform(struct stage *stage, void (*act)(char letter));

/* Call this after the connections on the loop have been freed. */
void stage_end(struct stage *stage);

#endif
