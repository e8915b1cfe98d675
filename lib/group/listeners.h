/*
 * Listeners - wake the waiters of a red lock when a release is published on one of its servers
 *
 * A red lock has one listener on the resource of each member. Whether a message is worth a retry
 * depends on the server's last answer, see listeners.c.
 *
 * Threads: under no mutex, unless a function says otherwise.
 */
#ifndef RELOCK_LISTENERS_H
#define RELOCK_LISTENERS_H

#include "group/group.h"
#include "lock/wake/listener.h"

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

#endif
