/*
 * Inquiry - what the I/O thread of one client asks its server for a survey
 *
 * Inquiries go out on the one connection of that thread. Threads that ask several servers post one
 * to each, so none of them waits for another.
 *
 * Threads: any, with the mutex of the client held, but for what is said otherwise.
 */
#ifndef RELOCK_INQUIRY_H
#define RELOCK_INQUIRY_H

#include "lock/survey.h"

/*
 * Asks who holds the nth lock of the survey, which is told what came of it. `number` is that of the
 * caller's hold, 0 for none.
 *
 * Returns RELOCK_OK, RELOCK_E_NOMEM; RELOCK_E_CONN when the server has left an inquiry unanswered
 * for so long that no further ones are to pile up there.
 */
int relock_inquiry_post(struct relock_client *client, struct relock_survey *survey, size_t nth,
                        uint64_t number) RELOCK_REQUIRES(client->mutex);

/* Sends what is to be sent. The I/O thread; gives the mutex up meanwhile. */
void relock_inquiry_send_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* At the end of a client, after its I/O thread: nothing is answered any more. Gives the mutex up
 * meanwhile. */
void relock_inquiry_drop_all(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
