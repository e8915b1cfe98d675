/*
 * Driver - the thread that writes and reads for all questions on a lane
 *
 * Threads: as said at each.
 */
#ifndef RELOCK_DRIVER_H
#define RELOCK_DRIVER_H

#include "redis/lane.h"

/* Drives until the thread's own question has ended, and hands the driving on. The driver. */
void relock_driver_drive(struct relock_lane *lane, struct relock_question *own);

/* Ends a question that is still in the queue at its deadline. Its own thread, mutex held. */
void relock_driver_end_unsent(struct relock_lane *lane, struct relock_question *question)
    RELOCK_REQUIRES(lane->mutex);

#endif
