/*
 * Group - the locks that a multi or red lock is made of
 *
 * Such a lock is no key in Redis: whoever holds its members holds it. What this process knows of it
 * is a site on the client of the first member, with holds like any other, so owners, losses and
 * questions work as for all locks. Locks made of the same members, the first being on the same
 * client, share that site.
 *
 * Members stand in one order, whatever the caller's: by name, then by server. So two callers that
 * take one member after the other do not wait for each other in a ring, in two processes either.
 *
 * A group lives as long as something refers to it: handles, its site, what members' holds know of
 * it. Its end takes the mutexes of its members' clients, and the last reference may go under one.
 * So the dead are buried later, by whoever comes by without a mutex: the next I/O thread, at least.
 *
 * Threads: any. All is constant but the references.
 */
#ifndef RELOCK_GROUP_H
#define RELOCK_GROUP_H

#include "lock/lock.h"

#include <stdatomic.h>

struct relock_group {
    atomic_uint refs;
    struct relock_group *next_dead; /* of whoever let the last reference go, then of the burial */
    struct relock_client *home;     /* of the first member: a reference to the struct */
    const struct relock_kind *kind;
    uint64_t lease_ms;        /* the shortest of what their watchdogs ask for */
    bool is_announced;        /* of a red lock: the release of each member is */
    struct relock_ear **ears; /* one for each member of a red lock, in its site; else NULL */
    const void **key;         /* what makes it this group: its kind, and the sites of its members */
    size_t key_size;
    size_t n;
    struct relock_lock *members[]; /* handles of its own, in order */
};

/* What the site of a member knows of a red lock that is to hear of releases. On that site's list;
 * the mutex of its client. */
struct relock_ear {
    struct relock_group *group;
    unsigned n_listening; /* calls, for which the channel is kept */
    uint64_t asked;       /* the number of the vote that was asked for last; 0: it was answered */
    bool is_news;         /* a message that came meanwhile, if the answer is no grant */
    bool was_free;        /* as the answer said: that it is free again is no news */
    bool has_heard;       /* something that the group is still to be told */
    struct relock_ear *next, *prev;
};

/* What a hold of a member knows of the whole. On that hold's list; the mutex of its client. */
struct relock_part {
    struct relock_group *group; /* a reference */
    uint64_t whole;             /* the number of the hold of the whole */
    size_t member;
    struct relock_part *next, *prev;
};

/*
 * Makes a handle for the lock of this kind that is made of `locks`; members of multi locks among
 * them become members. Under no mutex.
 *
 * Returns as relock_multilock_new.
 */
int relock_group_make(const struct relock_kind *kind, struct relock_lock *const *locks, size_t n,
                      struct relock_lock **lock);

/* Of a handle, a hold or a site of such a lock. */
struct relock_group *relock_group_ref(struct relock_group *group);

/* Takes NULL. Under any mutex. */
void relock_group_unref(struct relock_group *group);

/* Buries the dead. Under no mutex. */
void relock_group_bury(void);

/* Puts an ear on the site of each member. Returns RELOCK_OK, RELOCK_E_NOMEM. Under no mutex. */
int relock_group_lend_ears(struct relock_group *group);

/* At the end of the group, whose members are still there. Under no mutex. */
void relock_group_remove_ears(struct relock_group *group);

/* A call starts, or stops, to listen to releases of all members. Under no mutex. */
void relock_group_listen(struct relock_group *group, bool listens);

/* Something is news on the site of a member: for the groups of which it is one, too. Under no
 * mutex. */
void relock_group_hear(struct relock_site *site, bool is_message);

/* A member is asked for the vote with this number. Mutex of its client held. */
void relock_group_asks(struct relock_ear *ear, uint64_t number);

/* It has answered, or will not. Mutex of its client held. Returns whether a message came meanwhile
 * that is news: relock_group_hear_on() is to follow. */
bool relock_group_is_answered(struct relock_ear *ear, uint64_t number, bool is_granted);

/* What was put off until the answer is heard now. Under no mutex. */
void relock_group_hear_on(struct relock_site *site);

/* The hold of the whole with this number. NULL when it is over. */
struct relock_hold *relock_group_find(struct relock_group *group, uint64_t number)
    RELOCK_REQUIRES(group->home->mutex);

/*
 * The hold of a member ended without a release: so the whole does. Under no mutex. Returns false
 * when the whole is over already.
 */
bool relock_group_lose(struct relock_group *group, uint64_t whole, size_t member, int reason);

/* The owner's hold of a member is not held, for whatever reason: the same. */
bool relock_group_miss(struct relock_group *group, uint64_t whole, size_t member, uint64_t owner);

/* The owner's hold of the member is part of the whole: false when it has none that is held. */
bool relock_group_join(struct relock_part *part, uint64_t owner);

/* It no longer is. */
void relock_group_part(struct relock_group *group, uint64_t whole, uint64_t owner);

#endif
