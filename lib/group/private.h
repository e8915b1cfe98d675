/*
 * Private - what the files of lib/group share, and nobody else
 */
#ifndef RELOCK_GROUP_PRIVATE_H
#define RELOCK_GROUP_PRIVATE_H

#include "base/hash.h"
#include "lock/hold/acquire.h"
#include "lock/state/cancel.h"
#include "lock/state/client.h"
#include "lock/state/hold.h"
#include "lock/state/kind.h"
#include "lock/state/lock.h"
#include "lock/state/observer.h"
#include "lock/state/resource.h"
#include "lock/wake/listener.h"
#include "lock/wake/outbox.h"
#include "redis/server/server.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct relock_member_listener;
struct relock_tally;

/* ---- group ----------------------------------------------------------------------------------- */

/*
 * Group - the locks that a multi or red lock is made of
 *
 * Such a lock is no key in Redis: the owner of its members holds it. Its state in this process is a
 * resource on the client of the first member, the coordinator. That resource has holds like any
 * other, so owners, losses and queries work as for all locks. Locks made of the same members, the
 * first of them on the same client, share that resource.
 *
 * Members stand in one order, whatever the caller's: by name, then by server. So two callers that
 * acquire one member after the other never wait for each other in a ring, also in two processes.
 *
 * A group lives as long as something refers to it: its resource, tallies, memberships.
 *
 * Threads: any. All is constant but for the references and what the mutex of the coordinator
 * guards.
 */

/*
 * The sequencer of a red lock: the member whose line (lock/wake/line.c) orders the clients that
 * wait. It is the first member, so it is the same in all processes. Votes on other servers join no
 * line.
 */
#define RELOCK_SEQUENCER 0

/* Where the head of the waiters of a red lock stands, since its last attempt. */
enum relock_standing {
    RELOCK_STANDING_OUTSIDE, /* in no line, or not known to be: it follows every message */
    RELOCK_STANDING_IN_LINE, /* it is told when it is its turn: it follows no message */
    RELOCK_STANDING_FIRST,   /* first, and told nothing for a while: it follows messages, slowly */
};

extern const struct relock_kind relock_kind_multi;
extern const struct relock_kind relock_kind_red;

struct relock_group {
    atomic_uint refs;
    struct relock_group *next_to_reap; /* once it has no reference */
    struct relock_client *coordinator; /* of the first member: a reference to the struct */
    const struct relock_kind *kind;
    uint64_t lease_ms; /* the shortest of their watchdogs' leases */
    bool is_announced; /* of a red lock: each member's release is published */
    struct relock_member_listener *listeners; /* of a red lock: one for each member; else NULL */
    struct {
        enum relock_standing standing;
        bool is_asking; /* a waiting call's attempt is in progress: until its answers tell where it
                           stands, it follows every event */
        bool is_heard;  /* an event was followed since the last attempt */
        unsigned n_rechecks; /* attempts since the last event */
        bool is_told;        /* by the sequencer, to acquire the lock */
        bool is_contended;   /* its last acquire, or the present one, took more than one attempt */
        bool is_bypassed;  /* the sequencer granted its vote, but others refused: the owner has the
                              lock without the sequencer, whose line is of no use meanwhile */
        uint64_t pause_ms; /* after a message, while it is bypassed */
    } order;               /* of a red lock; coordinator's mutex */
    UT_hash_handle hh;     /* in the coordinator's table of groups that have a resource */
    struct relock_resource *resource; /* whose data is this group, or NULL; coordinator's mutex */
    const void **key; /* identifies the group: its kind, and the resources of its members */
    size_t key_size;
    size_t n;
    struct relock_lock *members[]; /* handles of its own, in order */
};

/* How many of the `n` servers of a red lock decide. As `n` is odd, a quorum that refuses leaves no
 * quorum that grants. */
static inline unsigned relock_group_quorum(size_t n)
{
    return (unsigned)(n / 2) + 1;
}

/* The group of a composite's resource; NULL if the resource is not that of a multi or red lock. */
static inline struct relock_group *relock_group_of(const struct relock_resource *resource)
{
    return resource->role == RELOCK_RESOURCE_UNLISTED ? resource->as.unlisted.data : NULL;
}

/* Where the caller holds the mutex of a client that is the coordinator: clang's analysis cannot
 * know that two names of one mutex are the same. */
static inline void relock_group_is_under(const struct relock_group *group,
                                         const struct relock_client *client)
    RELOCK_ASSERTS(group->coordinator->mutex)
{
    assert(group->coordinator == client);
    (void)group;
    (void)client;
}

/* Any thread, under any mutex. */
struct relock_group *relock_group_ref(struct relock_group *group);

/*
 * Takes NULL. Under any mutex. The end of a group locks the mutexes of its members' clients, but
 * its last reference may be dropped under one of them. So a group without references is reaped
 * later, by the next thread that comes by without a mutex: an I/O thread, at the latest.
 */
void relock_group_unref(struct relock_group *group);

/* Returns false if the group has no reference any more, and is only to be reaped. */
bool relock_group_try_ref(struct relock_group *group);

/* Frees the groups without references. Under no mutex. */
void relock_group_reap(void);

/* Whether one of these locks is a semaphore. */
bool relock_group_has_semaphore(struct relock_lock *const *locks, size_t n);

/* ---- local ----------------------------------------------------------------------------------- */

/*
 * Local - the state of multi and red locks that belongs to one client
 *
 * The resources of its multi and red locks are found by their members. Locks that are made of the
 * same members share one resource, whose data is the group that was the first to need it.
 *
 * It is attached when the first such lock with a member on the client is made, and lives as long as
 * the struct of the client.
 *
 * Threads: with the mutex of the client held.
 */

/* A call that acquires a multi lock, while it lasts. */
struct relock_local_call {
    uint64_t owner;
    const struct relock_group *group; /* of a first level; NULL: of a further one */
    struct relock_cancel *stop;       /* ends its wait */
    struct relock_local_call *next, *prev;
};

struct relock_local {
    struct relock_client_hook hook;
    struct relock_group *groups;     /* that have a resource on the client, by members */
    struct relock_local_call *calls; /* on multi locks whose first member is on the client */
    struct relock_outbox votes;      /* commands about votes */
    struct relock_outbox inquiries;  /* of surveys */
};

/* Its work at the points of a client's life; life.c. */
extern const struct relock_client_hook_ops relock_local_ops;

/* Makes it, unless the client has it already. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_local_attach(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* Of a client that has a member of a group. */
struct relock_local *relock_local_of(const struct relock_client *client);

/* The resource for the members of this group; NULL when there is none. */
struct relock_resource *relock_local_find(struct relock_client *client,
                                          const struct relock_group *group)
    RELOCK_REQUIRES(client->mutex);

/* Finds or makes it, with a reference. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_local_get(struct relock_client *client, struct relock_group *group,
                     const struct relock_resource *named, struct relock_resource **resource)
    RELOCK_REQUIRES(client->mutex);

/* At the end of the client: lets go of its holds of multi and red locks, on other clients, too.
 * Unlocks the mutex meanwhile. */
void relock_local_let_go(struct relock_client *client) RELOCK_REQUIRES(client->mutex);

/* ---- bond ------------------------------------------------------------------------------------ */

/*
 * Bond - ties one hold of a multi lock to its owner's holds of the members
 *
 * While the multi lock is held, a membership observes the hold of each member. If that hold is
 * lost, the membership finds the hold of the multi lock by its number, and loses it.
 *
 * Threads: any, under no mutex, unless a function says otherwise. Reference-counted; all else is
 * constant once all members are acquired.
 */

struct relock_membership {
    struct relock_observer observer; /* of the owner's hold of the member */
    struct relock_bond *bond;        /* a reference while it observes */
    size_t member;
    uint64_t number; /* of the hold, if the member is a semaphore; else 0 */
};

struct relock_bond {
    atomic_uint refs;
    struct relock_group *group; /* a reference */
    uint64_t composite;         /* the number of the hold of the multi lock */
    uint64_t owner;
    struct relock_membership memberships[]; /* one for each member */
};

/* For a hold of a multi lock that is about to be asked for; the reference is the hold's. NULL when
 * out of memory. Mutex of the coordinator held. */
struct relock_bond *relock_bond_new(const struct relock_hold *hold);

/* Under any mutex. */
struct relock_bond *relock_bond_ref(struct relock_bond *bond);
void relock_bond_unref(struct relock_bond *bond);

/* The owner's hold of the member, as part of the multi lock. `client` is that of the member. */
struct relock_hold *relock_bond_find(const struct relock_client *client,
                                     const struct relock_bond *bond, size_t member)
    RELOCK_REQUIRES(client->mutex);

/* The owner has no hold of the member, or a lost one: loses the multi lock. */
void relock_bond_miss(const struct relock_bond *bond, size_t member);

/* All members are acquired: from now on the multi lock is lost with each of them. The caller has a
 * reference. */
void relock_bond_join(struct relock_bond *bond);

/* The last level is being released: the holds of the members no longer belong to the multi lock.
 * The caller has a reference. */
void relock_bond_part(struct relock_bond *bond);

/* ---- listeners ------------------------------------------------------------------------------- */

/*
 * Listeners - wake the waiters of a red lock when a release is published on one of its servers
 *
 * A red lock has one listener on the resource of each member. Whether a message is worth a retry
 * depends on the server's last answer, see listeners.c.
 *
 * Threads: under no mutex, unless a function says otherwise.
 */

/*
 * How long after an event the first in line retries. In a normal release the sequencer tells it
 * that it is its turn, but that message may come after those of other servers. And when
 * it begins to listen, the pause leaves time to subscribe to the channels of all servers.
 */
#define RELOCK_FIRST_PAUSE_MS 10

enum relock_member_state {
    RELOCK_MEMBER_REFUSED,     /* its last answer was no grant, or it was never asked */
    RELOCK_MEMBER_GRANTED,     /* its last answer was a grant */
    RELOCK_MEMBER_ASKED,       /* the answer is outstanding */
    RELOCK_MEMBER_ASKED_RETRY, /* the same, and a message has come meanwhile */
};

/* On the resource of one member of a red lock. Guarded by the mutex of the member's client. */
struct relock_member_listener {
    struct relock_listener base;
    struct relock_group *group; /* constant; no reference */
    enum relock_member_state state;
    uint64_t asked; /* the number of the vote that was last asked for */
};

/* Adds a listener to each member, when the group is made. Returns RELOCK_OK, RELOCK_E_NOMEM. */
int relock_group_add_listeners(struct relock_group *group);

/* Removes them when the group ends, while its members still exist. */
void relock_group_remove_listeners(struct relock_group *group);

/* From now on a call waits for releases on all members, or no longer does. */
void relock_group_listen(struct relock_group *group, bool waits);

/* The member is asked for the vote with this number. Mutex of its client held. */
void relock_group_asked(struct relock_group *group, size_t member, uint64_t number);

/*
 * The member has answered, or will not. Mutex of its client held. Returns whether a retry is
 * worthwhile for a message that came meanwhile: then relock_group_hear() is to follow.
 */
bool relock_group_answered(struct relock_group *group, size_t member, uint64_t number,
                           bool is_granted);

/* Lets the head of the waiters retry for these events (`enum relock_listener_event`) of a member,
 * if it is to follow them where it stands. */
void relock_group_hear(struct relock_group *group, size_t member, unsigned events);

/* ---- tally ----------------------------------------------------------------------------------- */

/*
 * Tally - the answers of the servers of a red lock, for one hold of it
 *
 * The red lock is held for certain as long as the weakest vote of its best quorum, and lost when
 * fewer than a quorum of votes are valid. Votes are requested in rounds. The waiting thread wakes
 * as soon as its round is decided; later answers still count for the hold.
 *
 * A tally ends with its hold. After that it rejects late grants, and the caller releases them.
 *
 * Threads: any. Reference-counted. The mutex of the coordinator guards all other fields; a function
 * that does not require it locks it.
 */

#define RELOCK_TALLY_MAX 9

enum relock_vote_answer {
    RELOCK_ANSWER_YES,
    RELOCK_ANSWER_NO,
    RELOCK_ANSWER_NONE, /* in time, or none that counts */
};

/* The contribution of one server to a round. */
struct relock_tally_report {
    size_t member;
    enum relock_vote_answer answer;
    uint64_t free_at_ms; /* of a no: when the lease in the way ends */
    uint64_t place;      /* of a no: of the client in the line of the lock; 0: not in it */
    bool is_reserved;    /* of a no: the lock is free, and another client was told to acquire it */
    bool is_listening;   /* with `place`: asked as the first in line that listens */
    int64_t n_receivers; /* of a yes to a release: receivers of its message */
    int refusal;     /* the server returned an error, or this process lacks memory: the result */
    const char *why; /* the text of that error */
};

/* One server's part. Lives as long as its hold: a pointer to a vote needs a reference to the hold.
 * All constant. */
struct relock_vote {
    struct relock_observer observer; /* of the hold */
    struct relock_hold *hold;        /* detached, on the client of the member */
    struct relock_tally *tally;      /* a reference */
    size_t member;
    unsigned round; /* in which the library asked for it */
    enum relock_request_wait wait;
};

/* The answers of one server. */
struct relock_tally_vote {
    bool yes;            /* the server has our vote, as far as this process knows */
    bool is_asked;       /* an attempt is unanswered */
    bool no;             /* its last answer to an attempt was a no */
    uint64_t free_at_ms; /* of that no, like the next two: see the report */
    uint64_t place;
    bool is_listening;
    uint64_t valid_until_ms;  /* the yes is certain until then */
    uint64_t sent_ms;         /* when the command last granted was sent */
    uint64_t number;          /* of the vote last granted */
    unsigned round;           /* in which it was asked last */
    struct relock_vote *vote; /* a reference; gone with its client: used inside only */
};

struct relock_tally {
    struct relock_observer observer; /* of the composite, which has a reference */
    atomic_uint refs;
    struct relock_group *group; /* a reference; constant */
    uint64_t owner;             /* constant */
    struct relock_gate gate; /* of the thread that waits for the round: open once it is decided */
    struct {
        struct relock_hold *composite; /* NULL: the tally is over */
        unsigned round;
        unsigned n_left;      /* answers to come in this round */
        unsigned n_yes, n_no; /* in this round; with earlier answers of servers it does not ask */
        unsigned n_refused;   /* answers that are an error; lack of memory here is one */
        bool lacks_memory;    /* a server was not asked, for lack of memory here */
        int refusal;          /* the result of one of the errors */
        char why[RELOCK_WHY_MAX]; /* the text of the same error */
        int64_t n_receivers;      /* of a release's message: the highest number on one server */
        bool is_barred;  /* in this round the sequencer has refused, because it is the turn of
                            another client: no other vote counts */
        bool is_alone;   /* the refusal of the sequencer decided, whether or not others answered */
        bool is_told;    /* the sequencer has told this client to acquire the lock, so the refusals
                            of others decide nothing before it answers, or is silent for a while */
        bool is_recheck; /* no event caused this attempt. If a quorum grants it although others are
                            first in line, these do not hear that the lock is free */
        /* Missing votes are requested again once a quorum has granted commands sent since then. */
        uint64_t since_ms; /* 0: none is missing */
        uint64_t lost_ms;  /* when the last vote was lost */
        struct relock_tally_vote votes[RELOCK_TALLY_MAX];
    } guarded; /* by the mutex of the coordinator */
};

/* The tally of a red lock's hold; NULL before the first attempt. Mutex of the coordinator held. */
static inline struct relock_tally *relock_tally_of(const struct relock_hold *hold)
{
    return hold->data;
}

/* The answers of the sequencer. Mutex of the coordinator held. */
static inline const struct relock_tally_vote *
relock_tally_sequencer(const struct relock_tally *tally)
{
    return &tally->guarded.votes[RELOCK_SEQUENCER];
}

/* For a hold of the coordinator that is about to be asked for; the reference is the hold's. NULL
 * when out of memory. */
struct relock_tally *relock_tally_new(struct relock_client *client, struct relock_hold *composite)
    RELOCK_REQUIRES(client->mutex);
struct relock_tally *relock_tally_ref(struct relock_tally *tally);

/* Under any mutex. */
void relock_tally_unref(struct relock_tally *tally);

/* How many servers make a quorum. */
unsigned relock_tally_quorum(const struct relock_tally *tally);

/* How many servers granted their vote, and how many refused it, as far as this process knows. */
unsigned relock_tally_n_yes(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);
unsigned relock_tally_n_no(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* From here on `n` answers of a new round are counted. Returns its number. */
unsigned relock_tally_begin(struct relock_tally *tally, unsigned n)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Sleeps until the round is decided, or its time is over. Unlocks the mutex meanwhile. */
void relock_tally_wait(struct relock_tally *tally, uint64_t until_ms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* In a round that asks all: the other votes decide without the sequencer's answer, although it has
 * told this client to acquire the lock. */
void relock_tally_end_turn(struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* A server of this round has answered, or will not answer. Under no mutex. */
void relock_tally_count(struct relock_tally *tally, unsigned round,
                        const struct relock_tally_report *report);

/*
 * Explains a failed round: by an error of the servers, if those that returned one prevented a
 * quorum; by lack of memory here; else as RELOCK_E_CONN, for too few servers answered in time.
 */
void relock_tally_fail(const struct relock_tally *tally, unsigned n_answers,
                       struct relock_answer *answer)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/*
 * Under no mutex: the server granted the command sent at `sent_ms`, so the vote counts until then.
 * Returns false when the tally is over, or has asked this server again: the caller releases the
 * vote there.
 */
bool relock_tally_grant(const struct relock_vote *vote, uint64_t sent_ms, uint64_t valid_until_ms);

/* Under no mutex: the server does not have the vote any more. */
void relock_tally_lose(const struct relock_vote *vote, int reason);

/* Whether a quorum has granted commands sent since then, and since the last vote was lost. */
bool relock_tally_is_heard(const struct relock_tally *tally, uint64_t since_ms)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* Until when a quorum is certain; 0 when there is none. */
uint64_t relock_tally_valid_until(const struct relock_tally *tally)
    RELOCK_REQUIRES(tally->group->coordinator->mutex);

/* ---- vote_command ---------------------------------------------------------------------------- */

/*
 * Vote command - a command about a vote, and what its answer changes: the vote, the tally, and the
 * standing in the line of the sequencer
 *
 * The I/O thread of the member's client sends all commands about its votes on its one connection.
 * Redis runs a late acquire before its release, because a vote with an unanswered acquire is
 * settled only after the answer. All other commands about one vote may change places, as they do
 * when a script has to be loaded first. That does no harm: an extension never shortens a lease and
 * sets the same count, and no such command brings back a vote that is released.
 */

enum relock_vote_command_kind {
    RELOCK_VOTE_COMMAND_LOCK,
    RELOCK_VOTE_COMMAND_EXTEND,
    RELOCK_VOTE_COMMAND_UNLOCK,
};

/* Posts one, on the client of the member. Its answer is counted in the round. Returns RELOCK_OK,
 * RELOCK_E_NOMEM. */
int relock_vote_command_post(struct relock_client *client, struct relock_vote *vote,
                             enum relock_vote_command_kind kind, unsigned round, uint64_t sent_ms)
    RELOCK_REQUIRES(client->mutex);

/* ---- vote ------------------------------------------------------------------------------------ */

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
 * Threads: any, with the mutex of the coordinator held, unless a function says otherwise; unlock it
 * meanwhile.
 */

/* How a vote is asked for. */
struct relock_vote_terms {
    uint64_t sent_ms;
    uint64_t lease_ms;
    uint64_t cap_ms; /* renewed until then */
    bool renewed;
    enum relock_request_wait wait; /* how a refused vote of the sequencer waits */
    bool is_vouched;               /* the owner has a hold on the client of the call: see drain.c */
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

/* ---- redask ---------------------------------------------------------------------------------- */

/*
 * Redask - one attempt of a red lock: all servers are asked at the same time
 *
 * The first quorum decides. Servers that are unreachable are asked again while there is time.
 *
 * A refused waiter stands in the line of the sequencer if that gave it a place. There it sleeps
 * until it is told that it is its turn. If it is first and told nothing for a while, or has no
 * place, it listens to the releases on all servers.
 *
 * Threads: the calling thread, with the mutex of the client held; unlocks it meanwhile.
 */

/* The operation `ask`. */
void relock_redask(struct relock_acquire *acquire, struct relock_hold *hold,
                   struct relock_answer *answer) RELOCK_REQUIRES(acquire->client->mutex);

/* ---- survey ---------------------------------------------------------------------------------- */

/*
 * Survey - asks all servers of a multi or red lock for its holder, at the same time
 *
 * A survey ends as soon as its outcome is certain. For a red lock this takes a quorum of answers
 * that agree, so a minority that is down or hangs costs nothing. For a multi lock it takes an
 * answer for each member. A server that cannot be asked is asked again while there is time.
 *
 * A member on one server has one question; a red lock has one for each of its servers, and they
 * stand together. The answers about the members are concluded to one holder (relock_opinion_*).
 *
 * Threads: any, under no mutex; a field as it says.
 */

/* The operation `inspect` of multi and red locks. Blocks up to `command_timeout_ms`. */
int relock_survey_run(struct relock_lock *lock, const struct relock_claim *claim,
                      struct relock_inspection *inspection, char why[RELOCK_WHY_MAX]);

/* The answer of one server of a red lock. */
struct relock_opinion {
    bool is_known; /* the server answered */
    bool is_ours;  /* it has the caller's vote */
    struct relock_inspection inspection;
};

/*
 * For a multi lock: `composite` begins with the caller's levels and a `ttl_ms` of -2, and takes the
 * members in order. The lock is held if any member is.
 */
void relock_opinion_add(struct relock_inspection *composite, const struct relock_inspection *member,
                        const char *name);

/*
 * For a red lock with `n` members, of which the caller has `count` levels. At least a quorum of the
 * opinions must be known. The lock is free if a quorum of servers say so; else it becomes free when
 * enough leases have ended for a quorum.
 */
struct relock_inspection relock_opinion_of_red(const struct relock_opinion *opinions, size_t n,
                                               unsigned count);

#endif
