/*
 * Fair locks: waiters 0 and 1 in process 0, waiter 2 in process 1, one lock and its queue in Redis.
 *
 * Each waiter has a place in the queue under a name of its own while it waits, listens to its own
 * channel, and asks again every recheck_ms (RECHECK ticks), or after as many of them as its place says
 * once it listens. It holds under the same name. It may give up at any moment and then leaves. Its wait
 * may end because a command, which ran, runs late or never runs, is not answered; then the outcome is
 * settled. A place ends when it was not confirmed for PATIENCE ticks, or that times its place if the
 * waiter listened. The living renew their holds in time.
 *
 * A process may die, and its subscriptions with it. A waiter that listened and does not any more is
 * passed over. Or the process stops for ever, and its subscriptions stay (STOPS). Or a subscription is
 * cut off and made again (RESETS).
 *
 * NOT in it: recheck_ms as a cause of waking, except for waiters behind a head that is gone. They ask
 * again, find that its place is over, and notify the new head. A living head that sleeps while the lock
 * is free, after a release or the end of a lease, with nothing in flight, is an error at once.
 *
 *   ORDER     among living waiters that are not cut off, the first in the queue is granted first
 *   AWAKE     no head sleeps while the lock is free and nothing in flight will wake it; nor does one
 *             behind waiters that died before they were told
 *   PATIENCE  the lock is not free for longer than IDLE ticks while a waiter waits
 *   STRAY     Redis has only waiters, holders, the dead, and outcomes being settled: a waiter that gave
 *             up is not granted later, and the queue ends empty
 *   and no waiter waits for ever: that would be an invalid end state
 *
 * What stands for what:
 *
 *   fair_lock              scripts/fair_lock.lua, its steps in the same order
 *   fair_unlock            scripts/fair_unlock.lua, as a release, to leave, and to settle
 *   tell_first             scripts/fair_tell.lua
 *   waiter: the look       relock_waiter_wait, relock_waiter_ended, sleep_in_queue
 *                                                             lib/lock/call/wait.c
 *           the answer     take_granted, take_refused, take_failure   lib/lock/call/ask.c
 *           give up        leave_queue                                lib/lock/call/wait.c
 *           release        release_last                               lib/lock/call/release.c
 *   told[], held[]         lease_end_ms, relock_resource_hear_lease   lib/lock/state/resource.c
 *   io                     on_channel                                 lib/lock/wake/subscription.c
 *   net                    relock_settle_step                         lib/lock/hold/settle.c
 *                          CLIENT KILL and what runs late before it   lib/redis/connect/conn_id.c
 *   tick                   renewals in time                           lib/lock/hold/watchdog.c
 *                          and Redis' clock
 *
 * patience[n] is the remaining score of a name, 0 = stale. A waiter of Redisson's counts as a dead one
 * as far as its place goes: it confirms nothing. Not in it: the effect of Redisson's scripts on our
 * places, and that they publish nothing when they take the lock. For that reason, one of our waiters that is
 * behind one of Redisson's and sees the lock free asks again soon. Left out: nesting, force, and
 * everything that wait.pml, unknown.pml and renew.pml show for all kinds.
 *
 * -DT0 -DT1 -DT2  turns of each; -DTRIES: waiter 2 only tries; -DDEATHS of processes; -DGIVES:
 * waiters that give up; -DUNKNOWN: unanswered commands; -DTICKS: ticks though nothing runs out;
 * -DSHORT: waiter 2 has a lease of one tick, the others one that is longer than RECHECK; -DSTOPS:
 * processes stop instead; -DRESETS of subscriptions; -DFAR: as if so many were before all but the first.
 * -DBAD_*: a rule left out.
 */
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
#ifndef T2
#define T2 1
#endif
#ifdef TRIES
#define ONLY_TRIES(w) (w == 2)
#else
#define ONLY_TRIES(w) false
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef GIVES
#define GIVES 0
#endif
#ifndef UNKNOWN
#define UNKNOWN 0
#endif
#ifndef TICKS
#define TICKS 0
#endif
#ifndef RESETS
#define RESETS 0
#endif

#ifdef SHORT
#define RECHECK 2
#define PATIENCE 3
#define LEASE 3
#define LEASE_OF(n) (WHO(n) == 2 -> 1 : LEASE)
#else
#define RECHECK 1
#define PATIENCE 2
#define LEASE 2
#define LEASE_OF(n) LEASE
#endif
#ifndef IDLE
#define IDLE (LEASE + 2 * PATIENCE)
#endif

#define NAMES 6
#define WHO(n) ((n - 1) % 3)        /* waiter w has the names w + 1 and w + 4 */
#define RESOURCE(w) (w / 2)

/* Redis; remaining times in ticks */
byte holder, rest;                  /* a name, and of its lease */
byte place[NAMES + 1];              /* of a name in the queue, 1 the head, 0 none */
byte queued;
byte patience[NAMES + 1];
bool listened[NAMES + 1];           /* its last attempt said that it listens */

/* a channel for each waiter: nothing, SUBSCRIBE or its answer in flight, subscribed; or cut off,
 * and the client does not know it yet */
mtype = { NONE, SUB, ACK, ON, LOST };
mtype channel[3] = NONE;
bool msg[3];                        /* in flight; one behind another is no new signal */
byte held[3];                       /* as well: "held", for so long; 0 none */

byte name[3];                       /* under which it waits, holds, or is about to leave; 0 none */
bool waits[3], pending[3];
bool asking[3];                     /* a command is in flight */
byte beaten[3];                     /* ticks until it asks again */
byte told[3];                       /* until it looks again, as Redis said; 0 never */
bool says[3];                       /* its command says that it listens */
bool dead[2];
bool stopped[NAMES + 1];            /* its process is dead, but its connections are not */

bool late[NAMES + 1];               /* may run yet, though nobody waits for the answer */
bool owed[NAMES + 1];               /* to be settled */

byte turn[3], waiting;              /* ghost: place of a waiter in order of arrival */
byte idle;                          /* ghost: ticks for which the lock was free and wanted */
bool summoned[NAMES + 1];           /* ghost: it is to take the free lock */
byte deaths, gives, unknown, ticks, resets;
hidden byte x, i, h, f, first;      /* within a step */
hidden byte purged, heard;

#define NAME_AT(p) (place[1] == p -> 1 : (place[2] == p -> 2 : (place[3] == p -> 3 : \
    (place[4] == p -> 4 : (place[5] == p -> 5 : 6)))))
#define HEAD NAME_AT(1)
#define IS(n) (name[WHO(n)] == n)   /* a name of a living waiter or holder */
#define SAME_CLIENT(n, c) (c && RESOURCE(WHO(n)) == RESOURCE(WHO(c)))
#define RECEIVES(n) (stopped[n] || \
    (IS(n) && (channel[WHO(n)] == ACK || channel[WHO(n)] == ON)))

/* ---- Redis ------------------------------------------------------------------------------- */

/* `l` remains of the lease, 0: the lock is free */
inline publish(n, l)
{
    heard = RECEIVES(n);
    if
    :: heard && IS(n) && l && listened[n] -> held[WHO(n)] = l
    :: heard && IS(n) && !(l && listened[n]) -> msg[WHO(n)] = true
    :: else
    fi
}

#ifdef BAD_PASSES_OVER_THE_DEAF
#define IS_GONE(n, c) (!heard && !SAME_CLIENT(n, c))
#elif defined(BAD_PASSES_OVER_NOBODY)
#define IS_GONE(n, c) false
#elif defined(BAD_PASSES_OVER_ITS_OWN)
#define IS_GONE(n, c) (!heard && listened[n])
#else
#define IS_GONE(n, c) (!heard && listened[n] && !SAME_CLIENT(n, c))
#endif

inline shorten(n, l)
{
#ifdef BAD_SUMMONED_KEEP_THEIR_PATIENCE
    skip
#else
    if
    :: listened[n] && patience[n] > PATIENCE && (l == 0 || !heard) -> patience[n] = PATIENCE
    :: else
    fi
#endif
}

/* `first`: the waiter that is alive, or `c`, who calls, or 0 */
inline tell_first(l, c)
{
    x = 1; first = 0;
    do
    :: x > queued -> break
    :: x <= queued && NAME_AT(x) == c -> first = c; break
    :: else ->
        f = NAME_AT(x);
        if
        :: patience[f] == 0 -> x++
        :: patience[f] && !listened[f] && l >= patience[f] -> first = f; break
        :: else ->
            publish(f, l);
            shorten(f, l);
            if :: l == 0 && (heard || SAME_CLIENT(f, c)) -> summoned[f] = true :: else fi;
            if :: IS_GONE(f, c) -> x++ :: else -> first = f; break fi
        fi
    od;
    x = 0; f = 0; heard = false
}

#ifdef BAD_LOWERS_TOO_FAR
#define LOWER(n) patience[n] = (patience[n] > PATIENCE -> patience[n] - PATIENCE : 0)
#else
#define LOWER(n) skip               /* our waiters that come and go change no deadlines */
#endif

inline take_out(n)                  /* LREM, ZREM */
{
    x = place[n];
    for (i : 1 .. NAMES) { if :: place[i] > x -> place[i]-- :: else fi }
    place[n] = 0; patience[n] = 0; listened[n] = false; summoned[n] = false; queued--; x = 0; i = 0
}

inline enqueue(n)
{
    queued++; place[n] = queued;
    if
    :: IS(n) && waits[WHO(n)] && !turn[WHO(n)] -> waiting++; turn[WHO(n)] = waiting
    :: else
    fi
}

inline purge(n)
{
#ifndef BAD_STALE_HEADS_STAY
    do
    :: queued && HEAD != n && patience[HEAD] == 0 -> h = HEAD; take_out(h); purged = true
    :: else -> break
    od;
#endif
    h = 0
}

inline out_of_line(w)
{
    x = turn[w];
    for (i : 0 .. 2) { if :: x && turn[i] > x -> turn[i]-- :: else fi }
    if :: x -> turn[w] = 0; waiting-- :: else fi;
    x = 0; i = 0
}

/* came before, lives, and is not cut off */
#define IS_BEFORE(v, w) (turn[v] && (turn[v] < turn[w] || !turn[w]) && \
    (RESOURCE(v) == RESOURCE(w) || RECEIVES(name[v]) || !listened[name[v]]))

inline grant(n)
{
    if
    :: IS(n) && waits[WHO(n)] ->
        assert(!IS_BEFORE(0, WHO(n)) && !IS_BEFORE(1, WHO(n)) && !IS_BEFORE(2, WHO(n))); /* ORDER */
        out_of_line(WHO(n))
    :: else
    fi;
    if :: place[n] -> take_out(n) :: else fi;
    holder = n; rest = LEASE_OF(n); idle = 0;
#ifndef BAD_GRANT_WAKES_NOBODY
    tell_first(rest, n);
#endif
    for (i : 1 .. NAMES) { if :: place[i] -> LOWER(i) :: else fi }
    i = 0
}

#if defined(BAD_BARGES)
#define HIS_TURN(n, queues) true
#elif defined(BAD_TRY_BARGES)
#define HIS_TURN(n, queues) (first == 0 || first == n || !queues)
#else
#define HIS_TURN(n, queues) (first == 0 || first == n)
#endif

#if defined(BAD_ASKERS_TELL_NOBODY)
#define IS_PROBED(f) purged
#elif defined(BAD_PASSES_OVER_THE_DEAF)
#define IS_PROBED(f) true
#else
#define IS_PROBED(f) (purged || listened[f])
#endif
#define MAY_TELL(n, queues) (holder == 0 && first && first != n && (place[n] || !queues) && \
    IS_PROBED(first))

#ifdef FAR
#define INTERVALS(n) (place[n] == 1 -> 1 : FAR)
#else
#define INTERVALS(n) place[n]
#endif

/* says: that it listens; left: for how long it may sleep */
inline fair_lock(n, queues, does_say)
{
    purge(n);
    first = (queued -> HEAD : 0);
    if :: MAY_TELL(n, queues) -> tell_first(0, n); purged = false :: else fi;
    if
    :: holder == n -> ok = true
    :: holder == 0 && HIS_TURN(n, queues) -> ok = true; grant(n)
    :: else ->
        h = first;
#ifndef BAD_PURGE_NOTIFIES_NOBODY
        if :: purged -> tell_first(rest, n) :: else fi;
#endif
        if
        :: queues ->
            if :: place[n] == 0 -> enqueue(n) :: else fi;
            listened[n] = does_say;
            patience[n] = PATIENCE * (does_say -> INTERVALS(n) : 1);
            summoned[n] = false;
            if :: IS(n) -> beaten[WHO(n)] = RECHECK * (does_say -> INTERVALS(n) : 1) :: else fi
        :: !queues
        fi;
        left = (holder -> rest : (h && h != n -> patience[h] : 1));
        h = 0
    fi;
    purged = false; first = 0
}

inline tell_after_unlock(n)
{
#if defined(BAD_UNLOCK_NOTIFIES_ALL_BUT_THE_HEAD)
    for (x : 1 .. NAMES) { if :: place[x] > 1 -> publish(x, 0) :: else fi }
    x = 0; heard = false
#elif defined(BAD_UNLOCK_NOTIFIES_NOBODY)
    skip
#else
    tell_first(0, n); first = 0
#endif
}

inline fair_unlock(n)
{
    if
    :: holder == n -> holder = 0; rest = 0; purge(n); purged = false; tell_after_unlock(n)
    :: holder != n && place[n] ->
        h = place[n];
        take_out(n);
        for (i : 1 .. NAMES) { if :: place[i] >= h -> LOWER(i) :: else fi }
        i = 0;
#ifndef BAD_LEAVES_SILENTLY
        if
        :: h == 1 || (holder == 0 && queued && listened[HEAD]) ->
            purge(n); purged = false; tell_first(rest, n); first = 0
        :: else
        fi;
#endif
        h = 0
    :: else
    fi
}

/* ---- a waiter ---------------------------------------------------------------------------- */

#define IN_USE(n) (place[n] || holder == n || owed[n] || late[n])

inline fresh(w)
{
    name[w] = w + 1;
    do
    :: IN_USE(name[w]) -> name[w] = name[w] + 3
    :: !IN_USE(name[w]) -> break
    od;
    assert(name[w] <= NAMES)
}

inline end_of_wait(w)
{
    waits[w] = false; pending[w] = false; told[w] = 0; channel[w] = NONE; msg[w] = false;
    held[w] = 0;
    out_of_line(w)
}

inline start(w) { fresh(w); waits[w] = true; pending[w] = true }

#define ANY(m) (m(1) || m(2) || m(3) || m(4) || m(5) || m(6))
#define STRANGER(n) (place[n] && !IS(n))
/* places that are not confirmed and leases that are not renewed run out */
#define TIME_MATTERS ((holder && !IS(holder)) || ANY(STRANGER) || ticks < TICKS)

#ifdef BAD_NO_HEARTBEAT
#define MAY_BEAT(w) false
#define MUST_BEAT(w) false
#else
#define MAY_BEAT(w) (!beaten[w] && TIME_MATTERS)
#define MUST_BEAT(w) (waits[w] && !beaten[w])
#endif

proctype waiter(byte w; byte turns)
{
    byte left;
    bool ok;
    {
next_turn:
    do
    :: turns == 0 -> goto over
    :: atomic { turns > 0 -> turns--; start(w); break }
    od;
look:
    if
    :: atomic { pending[w] || MAY_BEAT(w) ->
            pending[w] = false; asking[w] = true; beaten[w] = RECHECK;
            says[w] = channel[w] == ON;
#ifdef BAD_NEW_NAME_FOR_EACH_TRY
            fair_unlock(name[w]);
            fresh(w)
#endif
        }
    :: atomic { gives < GIVES && !ONLY_TRIES(w) -> gives++;
            end_of_wait(w);
#ifdef BAD_GIVES_UP_AND_STAYS
            name[w] = 0; goto next_turn
#else
            asking[w] = true; goto leaving
#endif
        }
    fi;
    if
    :: atomic { fair_lock(name[w], !ONLY_TRIES(w), says[w]) }
    :: atomic { unknown < UNKNOWN -> unknown++;            /* it runs now, later or never */
            end_of_wait(w); owed[name[w]] = true;
            if
            :: late[name[w]] = true
            :: fair_lock(name[w], !ONLY_TRIES(w), says[w]); left = 0; ok = false
            :: true
            fi;
            asking[w] = false; name[w] = 0; goto next_turn }
    fi;
    if
    :: atomic { !ok ->
            asking[w] = false;
            if
            :: ONLY_TRIES(w) -> end_of_wait(w); name[w] = 0; left = 0; goto next_turn
            :: else -> told[w] = left; left = 0;
                if :: channel[w] == NONE -> channel[w] = SUB :: else fi;
                goto look
            fi }
    :: atomic { ok -> ok = false; asking[w] = false; end_of_wait(w) }
    fi;

    atomic { assert(holder == name[w]); asking[w] = true } /* holds, and releases */
leaving:
    if
    :: atomic { fair_unlock(name[w]) }
    :: atomic { unknown < UNKNOWN -> unknown++; owed[name[w]] = true }
    fi;
    atomic { asking[w] = false; name[w] = 0; goto next_turn }
    } unless { dead[RESOURCE(w)] };
over:
    skip
}

/* ---- the I/O thread, settling, time, death -------------------------------------------------- */

#ifdef BAD_HELD_WHILE_ASKED
#define WHILE_ASKED(w) false
#else
#define WHILE_ASKED(w) asking[w]
#endif

proctype io(byte w)
{
end:
    do
    :: atomic { channel[w] == SUB -> channel[w] = ACK }    /* Redis: from here on it hears */
    :: atomic { channel[w] == ACK -> channel[w] = ON; pending[w] = true }
    :: atomic { channel[w] == ON && msg[w] -> msg[w] = false; pending[w] = true }
    :: atomic { channel[w] == ON && held[w] ->
            if
            :: WHILE_ASKED(w) -> pending[w] = true
            :: else -> told[w] = held[w]
            fi;
            held[w] = 0 }
    :: atomic { channel[w] == ON && resets < RESETS -> resets++;
            channel[w] = LOST; msg[w] = false; held[w] = 0 }
    :: atomic { channel[w] == LOST -> channel[w] = SUB; pending[w] = true }
    od
}

#if UNKNOWN > 0
#define IS_LATE(n) late[n]
#define IS_OWED(n) owed[n]

proctype net()
{
    byte n, left;
    bool ok;
end:
    do
    :: atomic { ANY(IS_LATE) ->
            n = 1;
            do :: n < NAMES && !late[n] -> n++ :: late[n] -> break od;
            late[n] = false; fair_lock(n, true, false); n = 0; left = 0; ok = false }
    :: atomic { ANY(IS_OWED) ->
            n = 1;
            do :: n < NAMES && !owed[n] -> n++ :: owed[n] -> break od;
            late[n] = false; owed[n] = false;
#ifndef BAD_NOTHING_IS_SETTLED
            fair_unlock(n);
#endif
            n = 0 }
    od
}
#endif

#if DEATHS > 0
inline reap(w)
{
#ifdef STOPS
    stopped[name[w]] = name[w] && place[name[w]] && RECEIVES(name[w]);
#endif
    end_of_wait(w); name[w] = 0; asking[w] = false; beaten[w] = 0;
    owed[w + 1] = false; owed[w + 4] = false
}

proctype death()
{
end:
    do
    :: atomic { deaths < DEATHS && !dead[0] -> deaths++; dead[0] = true; reap(0); reap(1) }
    :: atomic { deaths < DEATHS && !dead[1] -> deaths++; dead[1] = true; reap(2) }
    od
}
#endif

/* it asks before long */
#define WAKES(w) (waits[w] && (pending[w] || msg[w] || held[w] || channel[w] == LOST))

#define LESS(n) n = (n -> n - 1 : 0)

inline pass_by(w)
{
    LESS(beaten[w]);
    if :: told[w] == 1 -> pending[w] = true :: else fi;
    LESS(told[w])
}

proctype time()
{
end:
    do
    :: atomic { TIME_MATTERS && !asking[0] && !asking[1] && !asking[2] &&
            !MUST_BEAT(0) && !MUST_BEAT(1) && !MUST_BEAT(2) && !WAKES(0) && !WAKES(1) && !WAKES(2) ->
            if :: ticks < TICKS -> ticks++ :: else fi;
            if :: holder == 0 && waiting -> idle++ :: else -> idle = 0 fi;
            assert(idle <= IDLE);                          /* PATIENCE */
            if
            :: holder && IS(holder) -> rest = LEASE_OF(holder) /* renewed */
            :: holder && !IS(holder) -> rest--;
                if :: rest == 0 -> holder = 0 :: else fi
            :: else
            fi;
            for (x : 1 .. NAMES) { LESS(patience[x]) }
            x = 0;
            pass_by(0); pass_by(1); pass_by(2) }
    od
}

#define ASLEEP(w) (waits[w] && !pending[w] && !asking[w] && !msg[w] && !held[w] && \
    channel[w] != SUB && channel[w] != ACK && channel[w] != LOST)
#define IS_PASSED_OVER(n) (STRANGER(n) && listened[n] && !stopped[n] && !summoned[n])
#define LETS_GO_FIRST(n, w) (!place[n] || place[n] >= place[name[w]] || IS_PASSED_OVER(n))
#define IS_FIRST(w) (place[name[w]] && LETS_GO_FIRST(1, w) && LETS_GO_FIRST(2, w) && \
    LETS_GO_FIRST(3, w) && LETS_GO_FIRST(4, w) && LETS_GO_FIRST(5, w) && LETS_GO_FIRST(6, w))
#define SLEEPS_THOUGH_FREE(w) (holder == 0 && ASLEEP(w) && IS_FIRST(w))
#define STRAY(n) ((place[n] || holder == n) && !IS(n) && !owed[n] && !dead[RESOURCE(WHO(n))])

proctype watch()
{
end:
    if
    :: SLEEPS_THOUGH_FREE(0) || SLEEPS_THOUGH_FREE(1) || SLEEPS_THOUGH_FREE(2) ->
        assert(false)                                      /* AWAKE */
    :: ANY(STRAY) -> assert(false)                         /* STRAY */
    fi
}

init {
    atomic {
        run io(0); run io(1); run io(2); run time(); run watch();
#if UNKNOWN > 0
        run net();
#endif
#if DEATHS > 0
        run death();
#endif
        run waiter(0, T0); run waiter(1, T1); run waiter(2, T2)
    }
}
