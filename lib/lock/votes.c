#include "lock/votes.h"

void relock_votes_take(struct relock_ballot *ballot, struct relock_hold *votes[RELOCK_BALLOT_MAX])
{
    ballot->guarded.whole = NULL;
    for (size_t i = 0; i < RELOCK_BALLOT_MAX; i++) {
        votes[i] = ballot->guarded.votes[i].hold;
        ballot->guarded.votes[i].hold = NULL;
    }
}

/* Under no mutex. */
static void drop(struct relock_ballot *ballot, struct relock_hold *votes[RELOCK_BALLOT_MAX])
{
    for (size_t i = 0; i < ballot->group->n; i++)
        if (votes[i])
            relock_vote_drop(ballot->group->members[i]->client, votes[i]);
}

void relock_votes_give_back(struct relock_ballot *ballot)
{
    struct relock_hold *votes[RELOCK_BALLOT_MAX];

    relock_votes_take(ballot, votes);
    relock_mutex_unlock(&ballot->group->home->mutex);
    drop(ballot, votes);
    relock_mutex_lock(&ballot->group->home->mutex);
}

void relock_votes_ask(struct relock_ballot *ballot, const bool wanted[RELOCK_BALLOT_MAX],
                      const struct relock_vote_terms *terms)
{
    struct relock_hold *asked[RELOCK_BALLOT_MAX] = {0};
    struct relock_hold *before[RELOCK_BALLOT_MAX] = {0};
    unsigned round;
    unsigned n = 0;

    for (size_t i = 0; i < ballot->group->n; i++)
        n += wanted[i];
    round = relock_ballot_begin(ballot, n);
    for (size_t i = 0; i < ballot->group->n; i++)
        if (wanted[i])
            ballot->guarded.votes[i].round = round;
    relock_mutex_unlock(&ballot->group->home->mutex);
    for (size_t i = 0; i < ballot->group->n; i++)
        if (wanted[i])
            asked[i] = relock_vote_ask(ballot, i, round, terms);
    relock_mutex_lock(&ballot->group->home->mutex);
    for (size_t i = 0; i < ballot->group->n; i++) {
        if (ballot->guarded.whole && wanted[i]) {
            before[i] = ballot->guarded.votes[i].hold;
            ballot->guarded.votes[i].hold = asked[i];
        } else {
            before[i] = asked[i]; /* over meanwhile */
        }
    }
    relock_mutex_unlock(&ballot->group->home->mutex);
    drop(ballot, before);
    relock_mutex_lock(&ballot->group->home->mutex);
}
