#include "group/vote.h"

#include "lock/holds.h"

#include <stdlib.h>

bool relock_vote_count(const struct relock_vote *vote, uint64_t sent_ms, uint64_t valid_until_ms)
{
    const struct relock_tally_grant grant = {
        .round = vote->round,
        .number = vote->hold->number,
        .sent_ms = sent_ms,
        .valid_until_ms = valid_until_ms,
    };

    return relock_tally_grant(vote->tally, vote->member, &grant);
}

static void on_lost(struct relock_client *client, struct relock_hold *hold,
                    struct relock_observer *observer) RELOCK_REQUIRES(client->mutex)
{
    const struct relock_vote *vote = (const struct relock_vote *)observer;
    int reason = hold->lost_reason;

    relock_mutex_unlock(&client->mutex);
    relock_tally_lose(vote->tally, vote->member, vote->round, reason);
    relock_mutex_lock(&client->mutex);
}

static void on_renewed(struct relock_client *client, struct relock_hold *hold,
                       struct relock_observer *observer, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex)
{
    const struct relock_vote *vote = (const struct relock_vote *)observer;
    uint64_t valid_until_ms = hold->valid_until_ms;

    relock_mutex_unlock(&client->mutex);
    (void)relock_vote_count(vote, sent_ms, valid_until_ms);
    relock_mutex_lock(&client->mutex);
}

static void on_gone(struct relock_observer *observer)
{
    struct relock_vote *vote = (struct relock_vote *)observer;

    relock_tally_unref(vote->tally);
    free(vote);
}

static const struct relock_observer_ops ops = {
    .lost = on_lost,
    .renewed = on_renewed,
    .gone = on_gone,
};

struct relock_vote *relock_vote_of(const struct relock_hold *hold)
{
    return (struct relock_vote *)relock_observer_find(hold, &ops);
}

struct relock_vote *relock_vote_new(struct relock_client *client, struct relock_tally *tally,
                                    size_t member, unsigned round,
                                    const struct relock_vote_terms *terms)
{
    struct relock_vote *vote = calloc(1, sizeof(*vote));
    struct relock_hold *hold;

    if (!vote)
        return NULL;
    hold = relock_holds_new_detached(client, tally->group->members[member]->resource, tally->owner);
    if (!hold) {
        free(vote);
        return NULL;
    }
    vote->observer.ops = &ops;
    vote->hold = hold;
    vote->tally = relock_tally_ref(tally);
    vote->member = member;
    vote->round = round;
    hold->lease_ms = terms->lease_ms;
    hold->renewal_ms = terms->lease_ms;
    hold->cap_ms = terms->cap_ms;
    relock_holds_keep(client, hold, terms->renewed ? RELOCK_HOLD_RENEWED : RELOCK_HOLD_FIXED);
    relock_observer_add(client, hold, &vote->observer);
    return vote;
}
