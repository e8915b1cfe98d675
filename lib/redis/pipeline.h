/*
 * Pipeline - scripts that the I/O thread runs, without waiting for one before the next
 *
 * Their answers come in the order of the questions. A connection that breaks answers all that is
 * under way with RELOCK_E_CONN and is made again; whoever still wants something asks again then.
 *
 * Threads: the I/O thread; new and free while that does not run; reconnects from any.
 */
#ifndef RELOCK_PIPELINE_H
#define RELOCK_PIPELINE_H

#include "redis/server.h"

#include <stdbool.h>
#include <stdint.h>

struct relock_pipeline;
struct relock_loop;
struct relock_call;
struct relock_origin;
struct redisReply;

/*
 * What came of a call: RELOCK_OK and the reply; RELOCK_AGAIN when the server did not have the
 * script, which has been sent since; RELOCK_E_CONN when there was no answer; RELOCK_E_SERVER,
 * RELOCK_E_AUTH and the error.
 */
typedef void relock_pipeline_fn(void *arg, int result, const struct redisReply *reply);

/* Called when the connection is there, and so whenever it is there again. */
typedef void relock_pipeline_up_fn(void *arg);

/* `answer_ms` is the longest that an answer may take before the connection is given up. */
int relock_pipeline_new(struct relock_loop *loop, const struct relock_server *server,
                        uint64_t answer_ms, relock_pipeline_up_fn *up, void *arg,
                        struct relock_pipeline **pipeline);

/* What is under way is not answered any more. Takes NULL. Returns NULL. */
struct relock_pipeline *relock_pipeline_free(struct relock_pipeline *pipeline);

void relock_pipeline_open(struct relock_pipeline *pipeline);
bool relock_pipeline_is_up(const struct relock_pipeline *pipeline);

/* Of the connection that is up; NULL when none is, or the server does not say. The pipeline's. */
struct relock_origin *relock_pipeline_origin(const struct relock_pipeline *pipeline);
uint64_t relock_pipeline_reconnects(const struct relock_pipeline *pipeline);
void relock_pipeline_abandon(struct relock_pipeline *pipeline);

/*
 * Asks; `fn` is called once, later. The call is not looked at after that.
 *
 * Returns RELOCK_OK; RELOCK_E_CONN while the connection is down, RELOCK_E_NOMEM: `fn` is not
 * called.
 */
int relock_pipeline_call(struct relock_pipeline *pipeline, const struct relock_call *call,
                         relock_pipeline_fn *fn, void *arg);

/* Has the server answer something, if it has not been asked anything. */
void relock_pipeline_ping(struct relock_pipeline *pipeline);

/* Since when the server has not answered, over all connections; RELOCK_NEVER when it has, all that
 * it was asked. */
uint64_t relock_pipeline_silent_ms(const struct relock_pipeline *pipeline);

/* Sends right away what was asked in this turn. */
void relock_pipeline_flush(struct relock_pipeline *pipeline);

/* Kills a connection; what comes of it is not reported. Returns as relock_pipeline_call. */
int relock_pipeline_kill(struct relock_pipeline *pipeline, const struct relock_origin *origin);

#endif
