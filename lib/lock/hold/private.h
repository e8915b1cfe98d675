/*
 * Private - what the files of lib/lock/hold share, and nobody else
 *
 * What a header of this folder says of a module and its threads holds for its part here, too.
 */
#ifndef RELOCK_HOLD_PRIVATE_H
#define RELOCK_HOLD_PRIVATE_H

#include "lock/hold/acquire.h"
#include "lock/state/client.h"
#include "lock/state/hold.h"
#include "lock/state/kind.h"
#include "lock/state/resource.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_node;

/* ---- holds ----------------------------------------------------------------------------------- */

/* Makes it HELD by the owner of the waiter, since `since_us`, and takes on_lost and the like from
 * the waiter's call. For the first owner of the hold, and for one that gets it from memory. */
void relock_holds_assign(struct relock_client *client, struct relock_hold *hold,
                         struct relock_waiter *waiter, uint64_t since_us)
    RELOCK_REQUIRES(client->mutex);

/* Its owner holds it no more: takes it out of the counts of the client. */
void relock_holds_uncount(struct relock_client *client, const struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* From now on these are told of its loss, if not NULL, and nobody else. The hold takes `told` over.
 */
void relock_holds_tell(struct relock_client *client, struct relock_hold *hold,
                       struct relock_told *told) RELOCK_REQUIRES(client->mutex);

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

/* Whether a renewal will be sent that verifies what happens to the hold until then, and soon after.
 */
bool relock_holds_will_verify(const struct relock_hold *hold, uint64_t until_ms);

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

/* Takes it out of the list of its resource: it is live no more, or it was lost and its owner has
 * released it. Redis need not report changes any more. */
void relock_holds_unlist(struct relock_hold *hold);

/* The hold waits no longer for replicas to acknowledge its renewal: see watchdog.c. */
void relock_holds_end_confirming(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* A renewal failed: the hold is certain for as long as before, and the renewal is repeated at
 * `again_ms`. The caller arms. */
void relock_holds_suspect(struct relock_client *client, struct relock_hold *hold, uint64_t again_ms)
    RELOCK_REQUIRES(client->mutex);

/* ---- levels ---------------------------------------------------------------------------------- */

/* A loss was taken up: releases the hold on servers that may still have it. If the hold is busy,
 * the end of its command does so. Unlocks the mutex meanwhile. */
void relock_owner_command_release_lost(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* ---- cache ----------------------------------------------------------------------------------- */

/* The owner of the waiter, which has not joined the queue, has the cached hold since `since_us`. */
void relock_cache_give(struct relock_client *client, struct relock_hold *hold,
                       struct relock_waiter *waiter, uint64_t since_us)
    RELOCK_REQUIRES(client->mutex);

/* Redis does not have it any more. If an owner has it, that owner loses it; if it is cached, it
 * ends. Else nothing happens. */
void relock_cache_lose(struct relock_client *client, struct relock_hold *hold, int reason,
                       uint64_t now_ms) RELOCK_REQUIRES(client->mutex);

/* The cached hold does not stay any longer: the caller releases or ends it. */
void relock_cache_drop(struct relock_client *client, struct relock_hold *hold)
    RELOCK_REQUIRES(client->mutex);

/* Another client has recalled the hold with this number: decimal digits, `len` bytes. */
void relock_cache_recall(struct relock_client *client, struct relock_resource *resource,
                         const char *number, size_t len) RELOCK_REQUIRES(client->mutex);

/* ---- settle ---------------------------------------------------------------------------------- */

/* The timer of a settling hold has fired: sends the release. The I/O thread. */
void relock_settle_step(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* A renewal of a live hold failed with `result`. It is repeated after a pause, or without a
 * connection (RELOCK_E_CONN) when there is one again. A cached hold is let go, because nobody needs
 * it. The caller arms, and has a reference. The I/O thread. */
void relock_let_go_suspect(struct relock_client *client, struct relock_hold *hold, int result)
    RELOCK_REQUIRES(client->mutex);

/* ---- losses ---------------------------------------------------------------------------------- */

/* The task `loss` of a hold: takes up the loss. */
void relock_losses_take_up(struct relock_client *client, struct relock_task *loss)
    RELOCK_REQUIRES(client->mutex);

/* ---- tracked --------------------------------------------------------------------------------- */

/*
 * Tracked - has Redis report the next change of a lock that is held
 *
 * A hold is tracked after a check or a renewal that is tracked (redis/io/io.h). When Redis
 * then reports a change, a check is due, which finds out what has happened and is tracked again
 * (watchdog.c). A hold is tracked when it is 100 ms old, so short ones cost nothing.
 *
 * Threads: with the mutex of the client held, unless a function says otherwise.
 */

/* Redis has granted the hold. The caller arms its timer. */
void relock_tracked_begin(struct relock_client *client, struct relock_hold *hold, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/*
 * Returns whether a command for the hold that is sent now is to be tracked: a check is due, or the
 * hold is tracked and the command ends that. If the node does not track yet, asks it to, and
 * returns false. `node` is that of the lock, NULL while none is known. The I/O thread.
 */
bool relock_tracked_take(struct relock_hold *hold, struct relock_node *node, uint64_t now_ms);

/* The command was sent. `node` tracks it; NULL: no node does. */
void relock_tracked_sent(struct relock_hold *hold, const struct relock_node *node);

/* The command was answered. If it was tracked, `tracker`, perhaps another node, reports the next
 * change. If none does, for example while the slot moves to another node, it is NULL, and a check
 * is due soon. The caller arms the timer of the hold. */
void relock_tracked_answered(struct relock_hold *hold, const struct relock_node *tracker,
                             uint64_t now_ms);

/* A check is due at `at_ms`. The caller arms the timer of the hold. */
void relock_tracked_set(struct relock_hold *hold, uint64_t at_ms);

/* A check could not be sent: it is due a while after `now_ms`. The caller arms the hold's timer. */
void relock_tracked_retry(struct relock_hold *hold, uint64_t now_ms);

/* A change was reported: returns when the check is due. That is at once unless reports are many. */
uint64_t relock_tracked_pace(struct relock_hold *hold, uint64_t now_ms);

/* The hold needs no reports any more. */
void relock_tracked_drop(struct relock_hold *hold);

/* ---- watchdog ------------------------------------------------------------------------------- */

/*
 * For batch.c. `renews`, or only checks; `node` is that of the lock, NULL: none is known;
 * `is_tracked` as relock_tracked_take() said. Each arms the timer of the hold.
 */

/* Asks for this hold by itself. Certainty counts from `now_ms`. */
void relock_watchdog_ask(struct relock_client *client, struct relock_hold *hold,
                         struct relock_node *node, bool renews, bool is_tracked, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* The hold was taken out of `ahead` of the client, and is due by `until_ms`: renews it now, or only
 * arms its timer, unless it may take part in a turn. */
void relock_watchdog_renew_ahead(struct relock_client *client, struct relock_hold *hold,
                                 uint64_t now_ms, uint64_t until_ms) RELOCK_REQUIRES(client->mutex);

/* A script of many did not find this hold, which is live, or said nothing about it: asks for the
 * hold by itself. */
void relock_watchdog_ask_again(struct relock_client *client, struct relock_hold *hold, bool renews,
                               enum relock_verdict verdict) RELOCK_REQUIRES(client->mutex);

/* The command for this hold has ended; `verdict` counts with RELOCK_OK. `tracker` reports the next
 * change; NULL: no node does. */
void relock_watchdog_end(struct relock_client *client, struct relock_hold *hold, bool renews,
                         int result, enum relock_verdict verdict, const struct relock_node *tracker)
    RELOCK_REQUIRES(client->mutex);

/* Logs that Redis refused the renewal of a hold of this owner, with `error`. Under no mutex. */
void relock_watchdog_log_refusal(const struct relock_client *client,
                                 const struct relock_resource *resource, uint64_t owner, int result,
                                 const char *error);

/* ---- batch ---------------------------------------------------------------------------------- */

/*
 * Batch - renews and checks many holds by one script
 *
 * Commands about holds that are due in one iteration of the I/O thread meet in batches: one for
 * each kind of lock at each node, and in a cluster of each slot. A batch is sent when it is full,
 * or at the end of the iteration. If it has one hold only, that is asked for by itself.
 *
 * The script gives each lock a result of its own. A result that the hold is renewed counts, and so
 * does one that another owner has the lock. For any other, the hold is asked for by itself, and
 * that answer counts: a proxy may have sent the script to a server that has only its first key.
 *
 * The script is not tracked, because Redis before 7.2 then tracks all its keys once for each
 * command in it (findings/tracked-script-keys.sh). EXISTS follows, which is. If the script has to
 * be sent again, to load it or to another node, its writes come after EXISTS and end the tracking:
 * then the reply to EXISTS comes first, and the holds count as not tracked.
 *
 * Threads: the I/O thread, with the mutex of the client held.
 */

/* Renews the hold, or only checks it, in a batch or by itself. `node` is that of the lock, NULL:
 * none is known. `is_tracked`: relock_tracked_take() said so. Certainty counts from `now_ms`. */
void relock_batch_add(struct relock_client *client, struct relock_hold *hold,
                      struct relock_node *node, bool renews, bool is_tracked, uint64_t now_ms)
    RELOCK_REQUIRES(client->mutex);

/* A script of many did not find a hold that Redis has: each hold is asked for by itself, for a
 * while. Returns whether to log that. */
bool relock_batch_distrust(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Logs why holds are asked for by themselves. Under no mutex. */
void relock_batch_log(const struct relock_client *client, const char *why);

#endif
