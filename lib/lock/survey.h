/*
 * Survey - one question about a lock of several, put to all of its servers at the same time
 *
 * A survey ends as soon as its outcome is certain: for a red lock that takes a quorum of answers
 * that agree, so a minority that is down or hangs costs nothing; for a multi lock an answer for
 * each member. A server that cannot be asked is asked again while there is time.
 *
 * Answers may come after the thread that asked has gone, so a survey is counted.
 *
 * Threads: any, under no mutex, but for what is said otherwise.
 */
#ifndef RELOCK_SURVEY_H
#define RELOCK_SURVEY_H

#include "lock/inspection.h"
#include "lock/lock.h"

struct relock_survey;
struct redisReply;

/*
 * Asks who holds a multi or red lock, inside a call on its client. `count` is how many levels the
 * caller has of it here. Blocks up to `command_timeout_ms`. Returns RELOCK_OK, or a failure of
 * asking and why.
 */
int relock_survey_run(struct relock_lock *lock, unsigned count,
                      struct relock_inspection *inspection, char why[RELOCK_WHY_MAX]);

struct relock_survey *relock_survey_ref(struct relock_survey *survey);

/* Under any mutex. */
void relock_survey_unref(struct relock_survey *survey);

/* The nth lock that a server is asked about. Constant; under any mutex. */
struct relock_lock *relock_survey_lock(const struct relock_survey *survey, size_t nth);

/* What came of the question about the nth lock: RELOCK_OK and the reply, or a failure. */
void relock_survey_tell(struct relock_survey *survey, size_t nth, int result,
                        const struct redisReply *reply);

#endif
