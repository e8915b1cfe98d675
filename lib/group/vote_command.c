#include "group/private.h"

#include "base/clock.h"
#include "lock/hold/holds.h"
#include "lock/wake/wake.h"
#include "redis/connect/conn_id.h"
#include "redis/connect/explain.h"
#include "redis/server/reply.h"

#include <stdlib.h>

struct command {
    struct relock_outbox_entry entry;
    struct relock_vote *vote; /* with a reference to its hold */
    enum relock_vote_command_kind kind;
    unsigned round;
    uint64_t sent_ms;
    uint64_t lease_ms;
    struct relock_line_view view; /* when it was sent */
};

/* The consequences of an answer, beside the change of the hold. */
struct verdict {
    struct relock_tally_report report;
    uint64_t valid_until_ms; /* 0: this answer grants nothing */
    int lost_reason;         /* the server no longer has the vote; else 0 */
    bool is_retry;           /* a message came before this answer, and is worth a retry */
    bool lacks_line;         /* the user has no right to the line of the lock */
};

static const struct relock_lock *member_of(const struct relock_vote *vote)
{
    return vote->tally->group->members[vote->member];
}

/* ---- the line ------------------------------------------------------------------------------ */

static void stand(struct relock_client *client, const struct command *command,
                  const struct relock_busy *busy, struct verdict *verdict)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_resource *resource = command->vote->hold->resource;

    verdict->report.place = busy->place;
    verdict->report.is_listening = command->view.is_listening;
    verdict->lacks_line = busy->place == 0 && !busy->is_moving;
    if (busy->place > 0)
        client->guarded.has_no_line = false;
    relock_line_refused(client, resource, &command->view, busy);
}

/* Updates the standing of the client in the line after the answer to a vote that joins. */
static void take_place(struct relock_client *client, const struct command *command,
                       enum relock_verdict said, int result, const struct relock_busy *busy,
                       struct verdict *verdict) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_vote *vote = command->vote;
    struct relock_resource *resource = vote->hold->resource;

    if (vote->wait != RELOCK_REQUEST_JOINS)
        return;
    if (said == RELOCK_VERDICT_BUSY)
        stand(client, command, busy, verdict);
    else if (said == RELOCK_VERDICT_DONE)
        relock_line_granted_to(client, resource, &vote->tally->group->listeners[vote->member].base);
    else if (result == RELOCK_E_CONN && command->entry.is_sent)
        relock_line_unanswered(client, vote->hold);
    relock_line_give_up(client, resource); /* the call may have ended without this answer */
}

static void judge_lock(struct relock_client *client, const struct command *command, int result,
                       const struct redisReply *reply, struct verdict *verdict)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_vote *vote = command->vote;
    struct relock_hold *hold = vote->hold;
    enum relock_verdict said = RELOCK_VERDICT_FAILED;
    struct relock_busy busy;
    uint64_t fencing_token; /* each server has its own */

    if (result == RELOCK_OK)
        said = relock_verdict_lock(reply, &fencing_token, &busy);
    if (said == RELOCK_VERDICT_BUSY) {
        verdict->report.answer = RELOCK_ANSWER_NO;
        verdict->report.free_at_ms = busy.free_at_ms;
        verdict->report.is_reserved = busy.is_reserved;
    }
    take_place(client, command, said, result, &busy, verdict);
    verdict->is_retry = relock_group_answered(vote->tally->group, vote->member, hold->number,
                                              said == RELOCK_VERDICT_DONE);
    if (hold->state != RELOCK_HOLD_ASKED)
        return; /* not wanted any more: it is being released */
    if (said == RELOCK_VERDICT_DONE) {
        relock_holds_begin_detached(client, hold, command->sent_ms, command->lease_ms);
        verdict->report.answer = RELOCK_ANSWER_YES;
        verdict->valid_until_ms = hold->valid_until_ms;
    } else if (result == RELOCK_E_CONN && command->entry.is_sent) {
        relock_holds_settle(client, hold, relock_clock_now_ms()); /* it may run yet */
    } else {
        relock_holds_end(client, hold);
    }
}

static void judge_extend(struct relock_client *client, const struct command *command,
                         enum relock_verdict said, struct verdict *verdict)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = command->vote->hold;

    if (!relock_hold_is_held(hold))
        return;
    if (said == RELOCK_VERDICT_DONE) {
        relock_holds_prolong(client, hold,
                             relock_hold_valid_until(command->sent_ms, command->lease_ms));
        verdict->report.answer = RELOCK_ANSWER_YES;
        verdict->valid_until_ms = hold->valid_until_ms;
    } else if (relock_verdict_loss(said)) {
        verdict->report.answer = RELOCK_ANSWER_NO;
        verdict->lost_reason = relock_verdict_loss(said);
        relock_holds_lose(client, hold, verdict->lost_reason, relock_clock_now_ms());
    }
}

static void judge_unlock(struct relock_client *client, const struct command *command,
                         enum relock_verdict said, struct verdict *verdict)
    RELOCK_REQUIRES(client->mutex)
{
    struct relock_hold *hold = command->vote->hold;

    if (said != RELOCK_VERDICT_FAILED)
        verdict->report.answer = said == RELOCK_VERDICT_DONE ? RELOCK_ANSWER_YES : RELOCK_ANSWER_NO;
    if (hold->state != RELOCK_HOLD_RELEASING)
        return;
    if (said != RELOCK_VERDICT_FAILED)
        relock_holds_end(client, hold);
    else
        relock_holds_settle(client, hold, relock_clock_now_ms());
}

static struct verdict judge(struct relock_client *client, const struct command *command, int result,
                            const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    struct verdict verdict = {
        .report = {.member = command->vote->member, .answer = RELOCK_ANSWER_NONE},
    };
    enum relock_verdict said = RELOCK_VERDICT_FAILED;
    uint64_t place; /* a vote joins no line */

    switch (command->kind) {
    case RELOCK_VOTE_COMMAND_LOCK:
        judge_lock(client, command, result, reply, &verdict);
        break;
    case RELOCK_VOTE_COMMAND_EXTEND:
        if (result == RELOCK_OK)
            said = relock_verdict_renewal(reply);
        judge_extend(client, command, said, &verdict);
        break;
    case RELOCK_VOTE_COMMAND_UNLOCK:
        if (result == RELOCK_OK)
            said = relock_verdict_release(reply, &verdict.report.n_receivers, &place);
        judge_unlock(client, command, said, &verdict);
        break;
    }
    return verdict;
}

static const struct relock_script *script_of(const struct command *command)
{
    const struct relock_kind *kind = command->vote->hold->resource->kind;

    if (command->kind == RELOCK_VOTE_COMMAND_LOCK)
        return kind->lock;
    return command->kind == RELOCK_VOTE_COMMAND_EXTEND ? kind->extend : kind->unlock;
}

/* Under no mutex. Releases a grant that the tally rejects. */
static void tell(struct relock_client *client, const struct command *command,
                 const struct verdict *verdict)
{
    const struct relock_vote *vote = command->vote;

    if (verdict->valid_until_ms > 0 &&
        !relock_tally_grant(vote, command->sent_ms, verdict->valid_until_ms)) {
        relock_mutex_lock(&client->mutex);
        relock_let_go(client, vote->hold, relock_clock_now_ms());
        relock_mutex_unlock(&client->mutex);
    }
    /* First the loss: counting may wake the thread of the round, which then looks at the hold. */
    if (verdict->lost_reason)
        relock_tally_lose(vote, verdict->lost_reason);
    relock_tally_count(vote->tally, command->round, &verdict->report);
    if (verdict->is_retry)
        relock_group_hear(vote->tally->group, vote->member, RELOCK_HEARD_MESSAGE);
}

static void answer(struct relock_client *client, struct relock_outbox_entry *entry, int result,
                   const struct redisReply *reply) RELOCK_REQUIRES(client->mutex)
{
    struct command *command = (struct command *)entry;
    struct relock_hold *hold = command->vote->hold;
    const char *error = reply ? relock_reply_error(reply) : NULL;
    char why[RELOCK_WHY_MAX];
    struct verdict verdict;

    if (entry->is_sent) {
        hold->n_unanswered--;
        if (result != RELOCK_E_CONN)
            hold->fence = relock_conn_id_unref(hold->fence);
    }
    verdict = judge(client, command, result, reply);
    if (verdict.report.answer == RELOCK_ANSWER_YES)
        relock_watchdog_own_change(client, hold->resource);
    if (result < 0 && result != RELOCK_E_CONN && error) {
        relock_explain(why, script_of(command), error);
        verdict.report.refusal = result;
        verdict.report.why = why;
    }
    relock_holds_arm(client, hold, relock_clock_now_ms()); /* it may have waited for this */
    relock_mutex_unlock(&client->mutex);
    tell(client, command, &verdict);
    relock_mutex_lock(&client->mutex);
    if (verdict.lacks_line)
        relock_line_log_missing(client, member_of(command->vote));
    relock_holds_unref(client, hold);
    free(command);
}

static void drop(struct relock_client *client, struct relock_outbox_entry *entry)
    RELOCK_REQUIRES(client->mutex)
{
    struct command *command = (struct command *)entry;
    struct relock_hold *hold = command->vote->hold;

    relock_mutex_unlock(&client->mutex);
    relock_tally_count(command->vote->tally, command->round,
                       &(struct relock_tally_report){.member = command->vote->member,
                                                     .answer = RELOCK_ANSWER_NONE});
    relock_mutex_lock(&client->mutex);
    relock_holds_unref(client, hold);
    free(command);
}

/* ---- sending ------------------------------------------------------------------------------- */

/* Returns false for an acquire given up before it was sent: there is nothing to release. */
static bool write_command(const struct relock_outbox_entry *entry, struct relock_request *request)
{
    const struct command *command = (const struct command *)entry;
    const struct relock_hold *hold = command->vote->hold;

    switch (command->kind) {
    case RELOCK_VOTE_COMMAND_LOCK:
        if (hold->state != RELOCK_HOLD_ASKED)
            return false;
        relock_request_lock(request, hold, 1, command->lease_ms, 0, command->vote->wait);
        break;
    case RELOCK_VOTE_COMMAND_EXTEND:
        relock_request_extend(request, hold, 1, command->lease_ms);
        break;
    case RELOCK_VOTE_COMMAND_UNLOCK:
        relock_request_unlock(request, hold, 0, false);
        break;
    }
    return true;
}

static void sent(struct relock_outbox_entry *entry, struct relock_conn_id *conn_id)
{
    struct command *command = (struct command *)entry;
    struct relock_hold *hold = command->vote->hold;

    command->view = relock_resource_view_line(hold->resource);
    hold->n_unanswered++;
    if (command->kind == RELOCK_VOTE_COMMAND_LOCK && conn_id && !hold->fence)
        hold->fence = relock_conn_id_ref(conn_id);
}

static const struct relock_outbox_ops command_ops = {
    .write = write_command,
    .sent = sent,
    .answer = answer,
    .drop = drop,
};

int relock_vote_command_post(struct relock_client *client, struct relock_vote *vote,
                             enum relock_vote_command_kind kind, unsigned round, uint64_t sent_ms)
{
    struct command *new = calloc(1, sizeof(*new));

    if (!new)
        return RELOCK_E_NOMEM;
    *new = (struct command){
        .entry = {.ops = &command_ops},
        .vote = vote,
        .kind = kind,
        .round = round,
        .sent_ms = sent_ms,
        .lease_ms = vote->hold->lease_ms,
    };
    (void)relock_holds_ref(vote->hold);
    relock_outbox_post(client, &relock_local_of(client)->votes, &new->entry);
    return RELOCK_OK;
}
