/*
 * Vote - one server's part in a red lock
 *
 * A vote is a detached hold of one member, on that member's client. The watchdog renews it like any
 * hold. The vote observes it and reports every renewal and its loss to the tally.
 *
 * The functions here act on the votes of all servers for one tally. A server that leaves a command
 * unanswered for too long is not asked for further votes until it answers. So a server that hangs
 * does not delay a red lock.
 *
 * The I/O thread of the member's client sends all commands about its votes on its one connection.
 * Redis runs a late acquire before its release, because a vote with an unanswered acquire is
 * settled only after the answer. All other commands about one vote may change places, as they do
 * when a script has to be loaded first. That does no harm: an extension never shortens a lease and
 * sets the same count, and no such command brings back a vote that is released.
 *
 * Threads: any, with the mutex of the coordinator held, unless a function says otherwise; unlock it
 * meanwhile.
 */
#ifndef RELOCK_VOTE_H
#define RELOCK_VOTE_H

#include "group/tally.h"

/* A command about a vote; its answer changes the vote and the tally. */
enum relock_vote_command_kind {
    RELOCK_VOTE_COMMAND_LOCK,
    RELOCK_VOTE_COMMAND_EXTEND,
    RELOCK_VOTE_COMMAND_UNLOCK,
};

/* How a vote is asked for. */
struct relock_vote_terms {
    uint64_t sent_ms;
    uint64_t lease_ms;
    uint64_t cap_ms; /* renewed until then */
    bool renewed;
    enum relock_request_wait wait; /* how a refused vote of the sequencer waits */
    bool is_vouched;               /* the owner has a hold on the client of the call: see drain.h */
    bool *stands; /* of a call that joins: whether it stands in the line of the sequencer */
};

/* Until when a caller waits for votes for that lease that it asked for at `sent_ms`. Any thread. */
uint64_t relock_votes_limit_ms(uint64_t sent_ms, uint64_t lease_ms, uint64_t deadline_ms);

/* Asks all members that are `wanted`, in a new round, and puts their votes into the tally. */
void relock_votes_ask(struct relock_tally *tally, const bool wanted[RELOCK_TALLY_MAX],
                      const struct relock_vote_terms *terms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Extends or releases all votes, in a new round, and sleeps until it is decided or its time is
 * over. A release takes the votes out of the tally. */
void relock_votes_send(struct relock_tally *tally, enum relock_vote_command_kind kind,
                       uint64_t sent_ms, uint64_t lease_ms, uint64_t until_ms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* From now on the watchdog renews the votes, or no longer does. */
void relock_votes_keep(struct relock_tally *tally, bool renewed)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Releases each server's vote, known or not, in the background: the tally is over. */
void relock_votes_let_go(struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* At the end of a client: the votes that its server gave are lost, and released. Unlocks the mutex
 * of this client meanwhile. */
void relock_votes_drop(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

#endif
