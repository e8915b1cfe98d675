/*
 * Locks that are kept: process A with two threads caches its holds, processes B and C with one thread
 * each want the lock, too.
 *
 * The last release of A leaves the hold in Redis, and the next thread gets it from memory. A refused
 * client joins the line and recalls the hold: a message to A. A recall may come while the hold is
 * cached, taken from memory, held, asked for, or being released. The connection with A's messages may
 * break at any moment and loses what is in flight.
 *
 *   EXCLUSION   a thread in its critical section has the hold that Redis has
 *   RECALL      no client waits for ever while A keeps the lock: an invalid end state here
 *
 * What stands for what (lib/lock/ where nothing else is said):
 *
 *   keep, take      relock_cache_keep, relock_cache_take               cache.c
 *                   reuse_cache, relock_cache_give                     cache.c
 *   recall          relock_cache_recall, relock_cache_clear            cache.c
 *   leave           relock_let_go, relock_settle_step                  settle.c
 *   may_keep        may_be_cached, and the mark in the number          holds.c, keys.c
 *   refused         scripts/recall.lua, line_ask.lua
 *   granted         scripts/line_awaited.lua; take_granted             ask.c
 *   tell            scripts/line_tell.lua
 *   io              on_channel, be_deaf                                inbox.c
 *
 * Left out: the gates and signals of wait.pml, what becomes of a line whose messages are lost
 * (line.pml), verification (renew.pml), holds that A does not cache for another reason.
 *
 * -DBUS is a cluster: a recall is published at the node of the lock, and goes over the bus between
 * the nodes to that of A's subscription. So it may arrive after later scripts at the lock, and after A
 * has subscribed at another node.
 *
 * Budgets: T0, T1 turns of A's threads, TB, TC those of B and C; RESETS of A's messages; ENDS of
 * `keep_ms`. -DMUTE: B may not publish. -DBUS_LOSES: the bus is broken for a while. -DBAD_*: a rule
 * left out.
 */
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
#ifndef TB
#define TB 1
#endif
#ifndef TC
#define TC 0
#endif
#ifndef RESETS
#define RESETS 0
#endif
#ifndef ENDS
#define ENDS 0
#endif

#define A 1
#define B 2
#define C 3
#define OF_A(number) (number >= 10)
#define ACK 255

/* Redis */
byte lk;                            /* the number of the hold; B and C are numbers, too; 0: free */
bool mark;                          /* that number says that its client caches it */
chan line = [3] of { byte };        /* clients that wait */
byte told;                          /* the lock is reserved for it */
bool sub;                           /* A's inbox has a subscriber */
chan s2c = [8] of { byte };         /* its messages: recalls, ACK */
chan bus = [4] of { byte };         /* recalls on their way from node to node */

/* A, all of it guarded by its mutex */
byte holder;                        /* thread + 1 */
byte cur;                           /* the number that is asked for, held or cached */
byte cached;
byte leaving;                       /* a cached hold on its way to Redis */
bool asking, recalled, may_keep;
bool open;                          /* the inbox, as A knows */
byte n_waiting;                     /* threads in the queue */
bool pending;                       /* a retry */
bool granted[2];                    /* handed off */
bool is_down;                       /* not noticed yet */
bool is_new = true;                 /* the connection: A is to subscribe */
byte serial = 10;
byte resets, ends;

bool wake[4];                       /* B and C were told */

/* ---- Redis ------------------------------------------------------------------------------- */

inline join(c) { if :: line??[eval(c)] :: else -> line!c fi }
inline quit(c) { if :: line??[eval(c)] -> line??eval(c) :: else fi }

/* The script of a release. */
inline tell()
{
    lk = 0; mark = false;
    if
    :: nempty(line) -> line?<told>;
        if :: told == A -> pending = true :: else -> wake[told] = true fi
    :: empty(line) -> told = 0
    fi
}

#ifdef MUTE
#define MAY_RECALL(c) (c != B)
#else
#define MAY_RECALL(c) true
#endif

inline refused(c)
{
    join(c);
    if
#ifdef BUS
    :: lk != 0 && OF_A(lk) && mark && MAY_RECALL(c) -> assert(nfull(bus)); bus!lk
#else
    :: lk != 0 && OF_A(lk) && mark && sub && MAY_RECALL(c) -> assert(nfull(s2c)); s2c!lk
#endif
    :: else
    fi
}

inline granted_to(c) { quit(c); told = 0 }

/* ---- A ----------------------------------------------------------------------------------- */

/* Redis does not have it after the next step of the I/O thread. */
inline leave()
{
    leaving = cached;
#ifndef BAD_TAKES_WHILE_RELEASING
    cached = 0; cur = 0
#endif
}

inline recall(number)
{
    if
    :: number == cached && cached != 0 && leaving == 0 -> leave()
#ifndef BAD_HELD_IS_NOT_RECALLED
    :: number == cur && holder != 0 -> recalled = true
#endif
#ifndef BAD_ASKED_IS_NOT_RECALLED
    :: number == cur && asking -> recalled = true
#endif
    :: else                         /* an older one */
    fi
}

inline clear()
{
    recalled = true;
    if :: cached != 0 && leaving == 0 -> leave() :: else fi
}

#ifdef BAD_KEEPS_BEFORE_WAITERS
#define NOBODY_WAITS true
#else
#define NOBODY_WAITS (n_waiting == 0)
#endif

proctype thread(byte t; byte turns)
{
    bool ok, awaited, again;

next_turn:
    if
    :: turns == 0 -> goto over
    :: turns > 0 -> turns--
    fi;
    atomic {                        /* relock_take_join */
        if
        :: cached != 0 -> cached = 0; assert(holder == 0 && !asking); holder = t + 1; goto critical
        :: else -> if :: n_waiting == 0 && holder == 0 -> pending = true :: else fi; n_waiting++
        fi
    }
look:
    atomic {
        if
        :: granted[t] -> granted[t] = false; goto critical
        :: !granted[t] && holder == 0 && !asking && pending ->
            pending = false; asking = true; cur = serial; serial++; assert(serial < 40);
            recalled = false; may_keep = open
#ifdef BAD_OPENS_LATE
            ; may_keep = true
#endif
        fi
    }
    atomic {                        /* the script runs */
        if
        :: lk == 0 && (told == 0 || told == A) ->
            granted_to(A); lk = cur; mark = may_keep; ok = true; awaited = nempty(line)
        :: else -> ok = false; refused(A)
        fi
    }
    atomic {
        asking = false;
        if
        :: ok -> holder = t + 1; n_waiting--; ok = false;
#ifdef BAD_OPENS_LATE
            may_keep = open;
#endif
#ifndef BAD_GRANTED_IN_SILENCE
            recalled = recalled || awaited;
#endif
            awaited = false
        :: else -> cur = 0; goto look
        fi
    }
critical:
    skip;
    atomic {                        /* relock_release_begin_last */
        assert(lk == cur && holder == t + 1);
        if
        :: n_waiting > 0 && may_keep && !recalled && NOBODY_WAITS == (n_waiting == 0) ->
            n_waiting--;            /* hand off, as long as nobody recalls it */
            holder = 2 - t; granted[1 - t] = true;
            goto next_turn
        :: NOBODY_WAITS && may_keep && !recalled ->
            cached = cur; holder = 0;
            goto next_turn
        :: else -> again = n_waiting > 0
        fi
    }
    atomic {                        /* the script */
        assert(lk == cur);
        if :: again -> join(A) :: else fi;
        tell(); holder = 0; cur = 0;
        if :: n_waiting > 0 && !again -> pending = true :: else fi;     /* no message will come */
        again = false
    }
    goto next_turn;
over:
    skip
}

proctype io()
{
    byte m;
end:
    do
    :: atomic { s2c?m ->
            if
            :: m == ACK -> open = true
            :: else -> recall(m)
            fi; m = 0 }
    :: atomic { leaving != 0 ->     /* the script of the release */
            assert(lk == leaving);
#ifdef BAD_TAKES_WHILE_RELEASING
            if :: cached == leaving -> cached = 0; cur = 0 :: else fi;
#endif
            leaving = 0;
            tell() }
    :: atomic { is_down -> is_down = false; open = false;
#ifndef BAD_KEEPS_THOUGH_DEAF
            clear();
#endif
            is_new = true }
    :: atomic { is_new -> is_new = false; sub = true; s2c!ACK }
    :: atomic { ends < ENDS && cached != 0 && leaving == 0 -> ends++; leave() }
    od
}

#ifdef BUS
proctype nodes()
{
    byte m;
end:
    do
    :: atomic { bus?m ->
            if
            :: sub -> assert(nfull(s2c)); s2c!m
            :: !sub                 /* A is between two nodes */
#ifdef BUS_LOSES
            :: true
#endif
            fi; m = 0 }
    od
}
#endif

#if RESETS > 0
proctype breaker()
{
    byte m;
end:
    do
    :: atomic { resets < RESETS && sub -> resets++; sub = false; is_down = true;
            do :: s2c?m :: empty(s2c) -> break od; m = 0 }
    od
}
#endif

/* ---- B and C ----------------------------------------------------------------------------- */

proctype other(byte c; byte turns)
{
next_turn:
    if
    :: turns == 0 -> goto over
    :: turns > 0 -> turns--
    fi;
ask:
    atomic {
        if
        :: lk == 0 && (told == 0 || told == c) -> granted_to(c); lk = c; wake[c] = false
        :: else -> refused(c); goto sleep
        fi
    }
    skip;
    atomic { assert(lk == c); tell() }
    goto next_turn;
sleep:
    atomic { wake[c] -> wake[c] = false; goto ask }
over:
    skip
}

init {
    atomic {
        run io();
#ifdef BUS
        run nodes();
#endif
#if RESETS > 0
        run breaker();
#endif
        run thread(0, T0); run thread(1, T1);
        run other(B, TB); run other(C, TC)
    }
}
