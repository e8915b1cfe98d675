/*
 * Renew now - renewals without a wait for a part of the lease, which then outlasts the test
 *
 * For programs of `fault_inside` in meson.build: it looks into the client.
 *
 * Threads: any.
 */
#ifndef RELOCK_TEST_RENEW_NOW_H
#define RELOCK_TEST_RENEW_NOW_H

#include "base/clock.h"
#include "base/hash.h"
#include "lock/hold/holds.h"
#include "lock/hold/private.h"

/* All holds of the client are renewed in some milliseconds, at the same time, as hand-offs have
 * theirs renewed. */
static inline void renew_now(struct relock_client *client)
{
    uint64_t now_ms = relock_clock_now_ms();
    struct relock_hold *hold;

    relock_mutex_lock(&client->mutex);
    RELOCK_HOLDS_FOREACH(client, hold)
    relock_holds_verify(client, hold, now_ms);
    relock_mutex_unlock(&client->mutex);
}

#endif
