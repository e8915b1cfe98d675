#include "group/votes.h"

#include "group/voter.h"

void relock_votes_take(struct relock_tally *tally, struct relock_vote *votes[RELOCK_TALLY_MAX])
{
    tally->guarded.composite = NULL;
    for (size_t i = 0; i < RELOCK_TALLY_MAX; i++) {
        votes[i] = tally->guarded.votes[i].vote;
        tally->guarded.votes[i].vote = NULL;
    }
}

/* Under no mutex. */
static void drop(struct relock_tally *tally, struct relock_vote *votes[RELOCK_TALLY_MAX])
{
    for (size_t i = 0; i < tally->group->n; i++)
        if (votes[i])
            relock_voter_drop(tally->group->members[i]->client, votes[i]);
}

void relock_votes_release(struct relock_tally *tally)
{
    struct relock_vote *votes[RELOCK_TALLY_MAX];

    relock_votes_take(tally, votes);
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    drop(tally, votes);
    relock_mutex_lock(&tally->group->coordinator->mutex);
}

void relock_votes_ask(struct relock_tally *tally, const bool wanted[RELOCK_TALLY_MAX],
                      const struct relock_vote_terms *terms)
{
    struct relock_vote *asked[RELOCK_TALLY_MAX] = {0};
    struct relock_vote *before[RELOCK_TALLY_MAX] = {0};
    unsigned round;
    unsigned n = 0;

    for (size_t i = 0; i < tally->group->n; i++)
        n += wanted[i];
    round = relock_tally_begin(tally, n);
    for (size_t i = 0; i < tally->group->n; i++)
        if (wanted[i])
            tally->guarded.votes[i].round = round;
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    for (size_t i = 0; i < tally->group->n; i++)
        if (wanted[i])
            asked[i] = relock_voter_ask(tally, i, round, terms);
    relock_mutex_lock(&tally->group->coordinator->mutex);
    for (size_t i = 0; i < tally->group->n; i++) {
        if (tally->guarded.composite && wanted[i]) {
            before[i] = tally->guarded.votes[i].vote;
            tally->guarded.votes[i].vote = asked[i];
        } else {
            before[i] = asked[i]; /* over meanwhile */
        }
    }
    relock_mutex_unlock(&tally->group->coordinator->mutex);
    drop(tally, before);
    relock_mutex_lock(&tally->group->coordinator->mutex);
}
