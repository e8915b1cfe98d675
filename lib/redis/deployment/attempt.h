/*
 * Attempt - runs the script of a call once, over one lane
 *
 * It first kills the connection that the fence of the call names. It loads the script if the server
 * lacks it, and counts replicas if the call asks for them. Whether another attempt follows, and at
 * which node, is the caller's decision.
 *
 * Threads: those inside the lane.
 */
#ifndef RELOCK_ATTEMPT_H
#define RELOCK_ATTEMPT_H

#include <stdbool.h>
#include <stdint.h>

struct relock_call;
struct relock_lane;

/*
 * `asks`: the script is to follow ASKING. Returns RELOCK_OK and the reply of the call, which may be
 * a refusal; RELOCK_AGAIN, if the server refuses CLIENT KILL for now; or as relock_lane_ask.
 */
int relock_attempt_run(struct relock_call *call, struct relock_lane *lane, bool asks,
                       uint64_t deadline_ms);

/* Keeps the reason of a failure. Returns `result`. */
int relock_attempt_fail(struct relock_call *call, int result, const char *why);

/* Kills the connection that the fence names, if there is one, and drops the fence. Returns as
 * relock_attempt_run. */
int relock_attempt_kill_fence(struct relock_call *call, struct relock_lane *lane,
                              uint64_t deadline_ms);

#endif
