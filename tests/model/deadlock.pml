/*
 * Deadlocks between the owners of one client.
 *
 * Each owner acquires locks in any order, one inside the other, without a limit of time, and
 * releases all of them at the end, or when it is refused. Another process takes and releases locks,
 * too, and a hold may be lost.
 *
 *   FOUND   no owner waits for ever: a cycle without a refusal is an end state that is not valid
 *   REAL    an owner is refused only in a cycle: each lock of it is in Redis, held by an owner that
 *           waits for the next one
 *   ONCE    follows from REAL: a refusal ends the wait, so the cycle that it broke is none
 *
 * What stands for what:
 *
 *   begin, look      relock_take_join, relock_waiter_next     lib/lock/call/take.c call/wait.c
 *   ask              relock_ask                             lib/lock/call/ask.c
 *   search()         relock_deadlock_wait_begins                  lib/lock/state/deadlock.c
 *   leave()          relock_deadlock_wait_ends                  lib/lock/state/deadlock.c
 *   give             relock_cache_hand_off, a release       lib/lock/hold/cache.c call/release.c
 *   lose             relock_holds_lose                      lib/lock/hold/holds.c
 *
 * A step that is atomic here is one critical section of the client's mutex, or one script of Redis.
 *
 * Left out: readers, leases, the end of a wait by a limit or a cancel, and the order in the queue:
 * any waiter may be the head.
 *
 * -DOWNERS, -DLOCKS, -DROUNDS: how often each owner starts anew; -DOTHERS=n acquires by the other
 * process; -DLOSSES=n. -DBAD_*: a rule left out.
 */
#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef LOCKS
#define LOCKS 2
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef OTHERS
#define OTHERS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif

#define NEXT ((me + 1) % OWNERS) /* to whom it hands off */
#define NONE 15
#define OTHER 14

byte redis[LOCKS];      /* who has it: an owner, OTHER or NONE */
byte here[LOCKS];       /* the owner of this client that has its hold, or NONE */
bool asked[LOCKS];      /* an owner of this client asks Redis */
bool lost[LOCKS * OWNERS]; /* by lock and owner: a hold that was lost, and has levels */
byte asleep[OWNERS];    /* the lock for which a wait has entered, or NONE */
bool given[OWNERS];     /* a hold was handed off to its wait */
byte wants[OWNERS];     /* ghost: the lock for which it waits, or NONE */
byte n_others, n_losses;

/* Follows the locks from `from`: `found` if they lead to `me`. As many steps as there are owners. */
inline search(me, from)
{
    atomic {
        found = false; at = from; steps = 0;
        do
        :: steps == OWNERS -> break
        :: else ->
            holder = here[at];
#ifdef BAD_FOLLOWS_LOST
            if
            :: holder == NONE && lost[at * OWNERS] && me != 0 -> holder = 0
            :: holder == NONE && lost[at * OWNERS + 1] && me != 1 -> holder = 1
            :: else
            fi;
#endif
            if
            :: holder == NONE -> break
            :: holder == me -> found = (steps > 0); break
            :: else
            fi;
            at = asleep[holder]; steps++;
            if :: at == NONE -> break :: else fi
        od;
        at = NONE; holder = NONE; steps = 0
    }
}

/* The same on what is so: Redis, and who waits. */
inline assert_real(me, from)
{
    atomic {
        at = from; steps = 0;
        do
        :: holder = redis[at];
            assert(holder < OWNERS && !given[holder]);      /* REAL */
            if :: holder == me -> break :: else fi;
            at = wants[holder]; steps++;
            assert(at != NONE && steps < OWNERS)             /* REAL */
        od;
        at = NONE; holder = NONE; steps = 0
    }
}

inline leave(me)
{
#ifdef BAD_STAYS
    skip
#else
    asleep[me] = NONE
#endif
}

/* Sets `refused`. */
inline acquire(me, l)
{
    wants[me] = l;
    do
    :: atomic { given[me] ->                       /* look */
            given[me] = false; wants[me] = NONE; leave(me); break }
    :: atomic { !given[me] && asleep[me] != l && (here[l] != NONE || asked[l] || denied) ->
            search(me, l);
            if
            :: found -> assert_real(me, l); wants[me] = NONE; refused = true; break
#ifdef BAD_NOT_ENTERED
            :: else -> denied = false; (given[me] || (here[l] == NONE && !asked[l]))
#else
            :: else -> denied = false; asleep[me] = l
#endif
            fi }
    :: atomic { !given[me] && here[l] == NONE && !asked[l] && !denied &&
                (asleep[me] != l || redis[l] == NONE) ->
            asked[l] = true }
        if                                         /* ask */
        :: atomic { redis[l] == NONE -> redis[l] = me }
            atomic { asked[l] = false; here[l] = me; wants[me] = NONE; leave(me); break }
        :: atomic { redis[l] != NONE -> asked[l] = false; denied = (asleep[me] != l) }
        fi
    od
}

inline release_all(me)
{
    l = 0;
    do
    :: l == LOCKS -> break
    :: l < LOCKS ->
        if
        :: lost[l * OWNERS + me] -> lost[l * OWNERS + me] = false
        :: !lost[l * OWNERS + me] && here[l] == me && redis[l] == me ->
            if
            :: lost[l * OWNERS + me] -> lost[l * OWNERS + me] = false
            :: atomic { here[l] == me -> redis[l] = NONE; here[l] = NONE }
            :: atomic { here[l] == me && asleep[NEXT] == l && !given[NEXT] ->      /* give */
                    redis[l] = NEXT; here[l] = NEXT; given[NEXT] = true }
            fi
        :: else
        fi;
        l++
    od;
    l = 0
}

#define has(l) (here[l] == me && redis[l] == me || lost[(l) * OWNERS + me])

proctype owner(byte me)
{
    byte rounds, l, at = NONE, holder = NONE, steps;
    bool found, refused, denied;

    do
    :: rounds == ROUNDS -> break
    :: rounds < ROUNDS ->
        rounds++;
        do
        :: l = 0;
            if :: l = 0 :: LOCKS > 1 -> l = 1 :: LOCKS > 2 -> l = 2 fi;
            if
            :: has(l) -> break
            :: else ->
                acquire(me, l);
                if :: refused -> break :: else fi
            fi
        :: break
        od;
        refused = false; denied = false;
        release_all(me)
    od
}

proctype other()
{
    byte l;

end:
    do
    :: atomic { n_others < OTHERS && redis[0] == NONE -> n_others++; redis[0] = OTHER; l = 0 }
        redis[l] = NONE
    :: atomic { n_others < OTHERS && LOCKS > 1 && redis[LOCKS - 1] == NONE ->
            n_others++; redis[LOCKS - 1] = OTHER; l = LOCKS - 1 }
        redis[l] = NONE
    :: atomic { n_losses < LOSSES && here[0] != NONE && redis[0] == here[0] && wants[here[0]] != 0 ->
            n_losses++; lost[here[0]] = true; redis[0] = NONE; here[0] = NONE }
    od
}

init
{
    byte i;

    atomic {
        do :: i == LOCKS -> break :: i < LOCKS -> redis[i] = NONE; here[i] = NONE; i++ od;
        i = 0;
        do :: i == OWNERS -> break
           :: i < OWNERS -> asleep[i] = NONE; wants[i] = NONE; run owner(i); i++ od;
        run other()
    }
}
