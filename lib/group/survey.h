/*
 * Survey - asks all servers of a multi or red lock for its holder, at the same time
 *
 * A survey ends as soon as its outcome is certain. For a red lock this takes a quorum of answers
 * that agree, so a minority that is down or hangs costs nothing. For a multi lock it takes an
 * answer for each member. A server that cannot be asked is asked again while there is time.
 *
 * Threads: any, under no mutex.
 */
#ifndef RELOCK_SURVEY_H
#define RELOCK_SURVEY_H

#include "lock/state/inspection.h"
#include "lock/state/lock.h"

/*
 * The operation `inspect` of multi and red locks. Blocks up to `command_timeout_ms`.
 */
int relock_survey_run(struct relock_lock *lock, const struct relock_claim *claim,
                      struct relock_inspection *inspection, char why[RELOCK_WHY_MAX]);

#endif
