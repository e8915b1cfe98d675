/*
 * Holds - how a hold begins, lives and ends
 *
 * Each function takes a hold from one state to the next and updates all that depends on it: its
 * resource, its timer, the list of losses. Only cache.h changes the state of a hold, too. Each
 * function also arms the timer of the hold, unless it says that the caller does.
 *
 * Threads: with the mutex of the client locked.
 */
#ifndef RELOCK_HOLDS_H
#define RELOCK_HOLDS_H

#include "lock/state/client.h"
#include "lock/state/resource.h"

/*
 * A hold about to be acquired, with a number of its own. NULL when out of memory.
 *
 * A `detached` hold belongs to an observer, not to an owner of this process. It has no levels, is
 * not the holder of its resource and does not count in the statistics. Only its observers learn of
 * its loss, which ends it.
 */
struct relock_hold *relock_holds_new(struct relock_client *client, struct relock_resource *resource,
                                     uint64_t owner, bool detached) RELOCK_REQUIRES(client->mutex);

static inline struct relock_hold *relock_holds_ref(struct relock_hold *hold)
{
    hold->refs++;
    return hold;
}
void relock_holds_unref(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Some hold with levels of this owner, or of any owner if that is 0. NULL if there is none. */
struct relock_hold *relock_holds_find(struct relock_client *client, uint64_t owner)
    RELOCK_REQUIRES(client->mutex);

/* Makes it HELD by the owner of the waiter, and takes on_lost and the like from the waiter's call.
 * For the first owner of the hold, and for one that gets it from memory. */
void relock_holds_assign(struct relock_client *client, struct relock_hold *hold,
                         struct relock_waiter *waiter, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* Redis granted it to the waiter, whose acquire was sent at `sent_ms`. */
void relock_holds_begin(struct relock_client *client, struct relock_hold *hold,
                        struct relock_waiter *waiter, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex);

/* Redis granted a detached hold. */
void relock_holds_begin_detached(struct relock_client *client, struct relock_hold *hold,
                                 uint64_t sent_ms, uint64_t lease_ms)
    RELOCK_REQUIRES(client->mutex);

/* The hold is certain at least until then. */
void relock_holds_prolong(struct relock_client *client, struct relock_hold *hold,
                          uint64_t valid_until_ms) RELOCK_REQUIRES(client->mutex);

/* Changes how its lease is kept. If that concerns other servers, relock_owner_command_end()
 * tells them. */
void relock_holds_keep(struct relock_client *client, struct relock_hold *hold,
                       enum relock_hold_keeping keeping) RELOCK_REQUIRES(client->mutex);

/* The I/O thread has sent a command for it, and sends the next one when the hold is due. The caller
 * arms. */
void relock_holds_send(struct relock_hold *hold, uint64_t now_ms);

/* As relock_holds_send, for a command that renews nothing. */
void relock_holds_send_check(struct relock_hold *hold, uint64_t now_ms);

/* The command has ended, and its outcome is in the hold. */
void relock_holds_end_command(struct relock_client *client, struct relock_hold *hold,
                              uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* As relock_holds_end_command, for a check: a hold that was handed off since is still to be
 * verified. */
void relock_holds_end_check(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* Its owner got it from memory, so no command verified that Redis still has it. The watchdog renews
 * it within a few milliseconds, and the answer tells. */
void relock_holds_verify(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* Redis granted the renewal that the I/O thread sent. The caller arms. */
void relock_holds_grant(struct relock_hold *hold, uint64_t now_ms);

/* A renewal sent at `sent_ms` was granted, and acknowledged by as many replicas as the client
 * needs: the hold is certain for longer. The caller arms. */
void relock_holds_confirm(struct relock_client *client, struct relock_hold *hold, uint64_t sent_ms,
                          uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* relock_holds_grant and relock_holds_confirm, for a client that needs no replicas. The caller
 * arms. */
void relock_holds_renew(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The hold waits no longer for replicas to acknowledge its renewal: see watchdog.c. */
void relock_holds_end_confirming(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* A renewal failed: the hold is certain for as long as before, and the renewal is repeated at
 * `again_ms`. The caller arms. */
void relock_holds_suspect(struct relock_client *client, struct relock_hold *hold, uint64_t again_ms)
    RELOCK_REQUIRES(client->mutex);

/* Arms its timer: sets it to when the I/O thread has to act on it, see relock_hold_due_ms(). */
void relock_holds_arm(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* It ended without a release: `reason` is RELOCK_LOST_*. The I/O thread reports it. */
void relock_holds_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* Its loss need not be reported any more: takes it out of its list, and drops the list's reference.
 */
void relock_holds_forget_loss(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Loses it if its time has run out. */
void relock_holds_check_time(struct relock_client *client, struct relock_hold *hold,
                             uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* Its last level is released: it is not renewed, and its owner no longer has it. */
void relock_holds_leave(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Redis does not have it, or never had it. */
void relock_holds_end(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Redis may still have it: the I/O thread releases it there. */
void relock_holds_settle(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The last level of a lost hold is released: its owner no longer has it. */
void relock_holds_leave_lost(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

#endif
