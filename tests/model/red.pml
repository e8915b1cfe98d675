/*
 * Red locks: three servers, of which two make a quorum, and two clients that want the same lock.
 *
 * Each client asks all servers at once, over one connection to each. A server runs the first command
 * of a connection at any moment, and the client reads the reply at any later one, so any reply may be
 * late by any time. A connection may break: its commands run later, or never. Servers may forget.
 * With time (-DT) leases end and are renewed. Without it they last, and a refused client sleeps until
 * a message, or the acknowledgement of a subscription, wakes it.
 *
 * In most runs there is one client, and others take and release votes at random, which is more than a
 * second client could do. They are certain as soon as they have a quorum.
 *
 *   EXCLUSION   no two owners are certain at the same time
 *   QUORUM      a hold is held while a quorum grants it, as far as the client knows
 *   RENEWED     a hold that a quorum forgot at once is certain for no longer than its lease then
 *   BACK        at the end no server has a vote that nobody wants
 *   stuck       no waiter sleeps for ever although the lock is free
 *
 * What stands for what:
 *
 *   run_first()     scripts/lock.lua unlock.lua renew.lua
 *   line            the connection: relock_outbox_post, send_entry    lib/lock/wake/outbox.c
 *                   relock_pipeline_call, on_reply, on_down            lib/redis/io/pipeline.c
 *   read_first()    answer, judge_lock, tell                           lib/group/vote_command.c
 *                   on_answered, end_renewal                           lib/lock/hold/watchdog.c
 *                   relock_tally_grant, relock_tally_lose              lib/group/tally.c
 *   break_it()      the same with RELOCK_E_CONN
 *   update()        update, relock_tally_valid_until                   lib/group/tally.c
 *   ask_all, ask()  relock_votes_ask, ask                              lib/group/vote.c
 *   IS_DECIDED      is_decided                                         lib/group/tally.c
 *   judge           judge, refuse, free_at, ask_once                   lib/group/redask.c
 *   drop_all()      relock_votes_let_go, relock_votes_send             lib/group/vote.c
 *                   relock_let_go                                      lib/lock/hold/settle.c
 *                   release, let_go                                    lib/group/redlock.c
 *   settle()        relock_holds_settle, relock_settle_step, release   lib/lock/hold/holds.c hold/settle.c
 *   set again       renew, relock_tally_is_heard                       lib/group/redlock.c tally.c
 *   tell()          notify, deliver, relock_group_listen               lib/group/listeners.c
 *                   relock_group_asked, relock_group_answered          lib/group/listeners.c
 *
 * A reply is judged and entered into the tally in one step, and releasing is one step for all servers:
 * in the code these are successive steps under one mutex, each idempotent. Left out: other threads of
 * the same process, see wait.pml; extensions and levels; the drift; the schedule of renewals; that a
 * vote is set again only after a quorum has granted the same renewal (here: since the last loss);
 * refusals; clients that are freed.
 *
 * -DT=n        ticks; a lease has LEASE. 0: leases last and a refused client sleeps; -DWAITS: it sleeps
 *              with time too, and in the end all leases end
 * -DT0, -DT1   turns of the two clients; 0: none. -DTRY0, -DTRY1=true: each tries once
 * -DOTHERS=n   number of votes that others take, of any server; ANY. -DDIES: they never release;
 *              -DSTRANGER: another owner has the last server for ever
 * -DANSWERS=n  late replies; those of acquires, releases and renewals may always be late
 * -DLATES=n    rounds that are given up before they are decided
 * -DCUTS=n     connections that break; -DNOKILL: CLIENT KILL is not permitted
 * -DRENEWS     holds are renewed; -DAGAINS=n: and set again n times
 * -DFORGETS=n  times that two servers forget the first client's votes at once; -DDELAYED: and stay
 *              down for a lease; -DNO_EXCLUSION: EXCLUSION is not checked
 * -DAWAY       the last server fails for ever at some moment
 * -DLINGERS    a waiter is subscribed from an earlier wait; -DRESETS=n: subscriptions that break
 * -DBAD_*      a rule left out
 */
#ifndef T
#define T 0
#endif
#ifndef LEASE
#define LEASE 2
#endif
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 0
#endif
#ifndef OTHERS
#define OTHERS 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef AGAINS
#define AGAINS 0
#endif
#ifndef FORGETS
#define FORGETS 0
#endif
#ifndef LATES
#define LATES 0
#endif
#ifndef TRY0
#define TRY0 false
#endif
#ifndef TRY1
#define TRY1 false
#endif
#ifndef ANSWERS
#define ANSWERS 0
#endif
#ifndef RESETS
#define RESETS 0
#endif
#if T == 0
#define WAITS
#endif

#define N 3
#define LAST (N - 1)
#define LINES (2 * N)              /* client 0 to each server, client 1 to each server */
#ifdef BAD_HALF
#define QUORUM (N / 2)
#else
#define QUORUM (N / 2 + 1)
#endif
#define OTHER 15                   /* a vote of others in a server */
#define ANY 255
#define FOR_EVER (T -> 255 : LEASE)  /* without time all leases last */

/* servers */
byte field[N], ends[N];            /* whose, and when its lease ends */
byte away[N];                      /* until then it runs nothing */
byte now;

#define ID(v, n) ((v) / N * 4 + (n))

/* lines: up to two commands each, those that ran first */
mtype = { LOCK, UNLOCK, RENEW };
mtype op[2 * LINES];
byte num[2 * LINES], sent[2 * LINES];
byte said[2 * LINES];              /* 0: has not run; 1: yes; 2: no */
bool old[2 * LINES];               /* sent before the last loss of its client */
byte late[LINES];                  /* a lock in a connection that is no more, which may yet run */
byte cuts;

/* clients: a vote for each line */
#define NONE 0
#define ASKED 1
#define YES 2
#define NO 3
byte vote[LINES], vnum[LINES], valid_until[LINES];
bool heard[LINES];                 /* granted a command sent since the last loss */
byte settling[LINES];              /* a bit for each number that is to be released */
bool held[2], lost[2], fin[2];
byte valid[2];                     /* until when it is certain */
byte agains, forgets, n_others, until[2];    /* until: ghost, no certainty after that; 0: any */

/* waiting */
bool listens[2], pending[2];
bool subscribed[LINES], was_free[LINES];
byte asked[LINES];                 /* the vote that was asked for last, until it is answered */
bool put_off[LINES];               /* a message that came meanwhile */
byte lease_end[2];
byte resets;

byte lates;                        /* rounds given up before they were decided */

byte answers;                      /* those that were late */
byte k, n, w;                      /* inside a step; 0 outside */

#define IS_YES(c, s) (vote[(c) * N + (s)] == YES)
#define IS_NO(c, s) (vote[(c) * N + (s)] == NO)
#define IS_LEFT(c, s) (vote[(c) * N + (s)] == ASKED)
#define N_YES(c) (IS_YES(c, 0) + IS_YES(c, 1) + IS_YES(c, 2))
#define N_NO(c) (IS_NO(c, 0) + IS_NO(c, 1) + IS_NO(c, 2))
#define N_LEFT(c) (IS_LEFT(c, 0) + IS_LEFT(c, 1) + IS_LEFT(c, 2))
#define IS_DECIDED(c) (N_YES(c) >= QUORUM || N_YES(c) + N_LEFT(c) < QUORUM)
#define IS_CERTAIN(c) (held[c] && now < valid[c])

#define IS_OTHERS(s) (field[s] == OTHER)
#define N_OTHERS (IS_OTHERS(0) + IS_OTHERS(1) + IS_OTHERS(2))

/* ---- time ---------------------------------------------------------------------------------- */

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define MIN(a, b) ((a) < (b) -> (a) : (b))
#define AT(c, s) (IS_YES(c, s) -> valid_until[(c) * N + (s)] : 0)
#define FIRST(c) MAX(MAX(AT(c, 0), AT(c, 1)), AT(c, 2))
#define SECOND(c) MAX(MIN(AT(c, 0), AT(c, 1)), MIN(MAX(AT(c, 0), AT(c, 1)), AT(c, 2)))
#if defined(BAD_HALF) || defined(BAD_BEST_VOTE)
#define BEST_QUORUM(c) FIRST(c)
#else
#define BEST_QUORUM(c) SECOND(c)
#endif
#ifdef BAD_FROM_REPLY
#define SINCE(t) now
#else
#define SINCE(t) t
#endif

/* ---- messages ------------------------------------------------------------------------------ */

#ifdef BAD_HEARS_WHEN_IT_LISTENS
#define IS_TOLD(v) (subscribed[v] && listens[(v) / N])
#else
#ifdef BAD_HEARS_ONE_SERVER
#define IS_TOLD(v) (subscribed[v] && (v) % N == 0)
#else
#define IS_TOLD(v) subscribed[v]
#endif
#endif

inline hear(v)
{
    if
    :: IS_TOLD(v) && asked[v] -> put_off[v] = true
    :: IS_TOLD(v) && !asked[v] && !was_free[v] -> pending[(v) / N] = true
    :: else
    fi
}

inline tell(s)
{
#ifdef WAITS
    hear(s); hear(N + s)
#else
    skip
#endif
}

/* The reply to the last command decides whether a message received meanwhile is a signal. */
inline be_answered(v, which, yes)
{
#ifdef WAITS
    if
#ifdef BAD_OLD_ASKING_COUNTS
    :: asked[v] ->
#else
    :: asked[v] && asked[v] == which ->
#endif
        asked[v] = 0; was_free[v] = yes;
#ifndef BAD_PUT_OFF_IS_DROPPED
        pending[(v) / N] = pending[(v) / N] || (put_off[v] && !(yes));
#endif
        put_off[v] = false
    :: else
    fi
#else
    skip
#endif
}

/* ---- lines --------------------------------------------------------------------------------- */

#define FIRST_OF(v) (2 * (v))
#define NEXT_OF(v) (2 * (v) + 1)
#define HAS_ROOM(v) (op[NEXT_OF(v)] == 0)
#define IS_UNDER_WAY(v, n) \
    ((op[FIRST_OF(v)] && num[FIRST_OF(v)] == (n)) || (op[NEXT_OF(v)] && num[NEXT_OF(v)] == (n)))

inline post(v, what, which)
{
    k = (op[FIRST_OF(v)] == 0 -> FIRST_OF(v) : NEXT_OF(v));
    op[k] = what; num[k] = which; sent[k] = now; k = 0
}

inline clear(i)
{
    op[i] = 0; num[i] = 0; sent[i] = 0; said[i] = 0; old[i] = false
}

inline take_first(v)
{
    op[FIRST_OF(v)] = op[NEXT_OF(v)]; num[FIRST_OF(v)] = num[NEXT_OF(v)];
    sent[FIRST_OF(v)] = sent[NEXT_OF(v)]; said[FIRST_OF(v)] = said[NEXT_OF(v)];
    old[FIRST_OF(v)] = old[NEXT_OF(v)];
    clear(NEXT_OF(v))
}

/* An unwanted vote is released once its acquire has been answered. */
inline settle_one(v, which)
{
    if
    :: (settling[v] & (1 << which)) && HAS_ROOM(v) && !IS_UNDER_WAY(v, which) ->
        post(v, UNLOCK, which)
    :: else
    fi
}

inline settle(v)
{
    settle_one(v, 1); settle_one(v, 2); settle_one(v, 3)
}

inline release(v, s, which)
{
    if
    :: field[s] == ID(v, which) -> field[s] = 0; ends[s] = 0; tell(s)
    :: else
    fi
}

/* One step of a server: the first in the line that has not run. */
#define UNRUN(v) (said[FIRST_OF(v)] == 0 -> FIRST_OF(v) : NEXT_OF(v))
#define HAS_UNRUN(v) (op[UNRUN(v)] && said[UNRUN(v)] == 0)

inline run_first(v, s)
{
    w = UNRUN(v);
    if
    :: op[w] == LOCK && field[s] == 0 ->
        field[s] = ID(v, num[w]); ends[s] = now + LEASE; said[w] = 1
    :: op[w] == LOCK && field[s] != 0 -> sent[w] = ends[s]; said[w] = 2
    :: op[w] == UNLOCK ->
#ifndef NOKILL
        if :: late[v] == num[w] -> late[v] = 0 :: else fi;
#endif
        release(v, s, num[w]); said[w] = 1
    :: op[w] == RENEW && field[s] == ID(v, num[w]) -> ends[s] = now + LEASE; said[w] = 1
    :: op[w] == RENEW && field[s] != ID(v, num[w]) -> said[w] = 2
    fi;
    w = 0
}

/* ---- votes --------------------------------------------------------------------------------- */

inline drop(v)
{
    if
    :: vote[v] == YES -> settling[v] = settling[v] | (1 << vnum[v])
#ifdef BAD_OVERTAKES
    :: vote[v] == ASKED -> release(v, v % N, vnum[v])
#else
#ifndef BAD_UNANSWERED_IS_FORGOTTEN
    :: vote[v] == ASKED -> settling[v] = settling[v] | (1 << vnum[v])
#endif
#endif
    :: else
    fi;
    vote[v] = NONE; vnum[v] = 0; valid_until[v] = 0; heard[v] = false;
    settle(v)
}

/* The tally is over. */
inline drop_all(c)
{
    drop(c * N); drop(c * N + 1); drop(c * N + 2);
    valid[c] = 0; until[c] = 0
}

inline lose(c)
{
    held[c] = false; lost[c] = true;
    drop_all(c)
}

inline assert_exclusion()
{
#ifndef NO_EXCLUSION
    assert(IS_CERTAIN(0) + IS_CERTAIN(1) + (N_OTHERS >= QUORUM) <= 1)
#else
    skip
#endif
}

/* A vote has changed. */
inline update(c)
{
    valid[c] = BEST_QUORUM(c);
    if
    :: held[c] && valid[c] <= now -> lose(c)
    :: else
    fi;
    assert_exclusion();
    assert(!until[c] || valid[c] <= until[c])              /* RENEWED */
}

inline hear_anew(v)
{
    heard[v] = false;
    if :: op[FIRST_OF(v)] -> old[FIRST_OF(v)] = true :: else fi;
    if :: op[NEXT_OF(v)] -> old[NEXT_OF(v)] = true :: else fi
}

inline lose_vote(v, c)
{
    vote[v] = NO; vnum[v] = 0; valid_until[v] = 0; heard[v] = false;
#ifndef BAD_HEARD_BEFORE
    hear_anew(c * N); hear_anew(c * N + 1); hear_anew(c * N + 2);
#endif
#ifndef BAD_GONE_COUNTS
    update(c);
#endif
    assert(!held[c] || N_YES(c) >= QUORUM)                 /* QUORUM */
}

/* The answer that came. */
inline read_first(v, c)
{
    w = num[FIRST_OF(v)];
    if
    :: op[FIRST_OF(v)] == LOCK ->
        be_answered(v, w, said[FIRST_OF(v)] == 1);
        if
        :: vote[v] == ASKED && vnum[v] == w && said[FIRST_OF(v)] == 1 ->
            vote[v] = YES; valid_until[v] = SINCE(sent[FIRST_OF(v)]) + LEASE;
            heard[v] = !old[FIRST_OF(v)];
            take_first(v); update(c)
        :: vote[v] == ASKED && vnum[v] == w && said[FIRST_OF(v)] == 2 ->
            vote[v] = NO; vnum[v] = 0; valid_until[v] = sent[FIRST_OF(v)];
            take_first(v)
        :: vnum[v] != w ->
            if
            :: said[FIRST_OF(v)] == 2 -> settling[v] = settling[v] & ~(1 << w)
            :: else
            fi;
            take_first(v)
        fi
    :: op[FIRST_OF(v)] == UNLOCK ->
        settling[v] = settling[v] & ~(1 << w);
        take_first(v)
    :: op[FIRST_OF(v)] == RENEW ->
        if
        :: vote[v] == YES && vnum[v] == w && said[FIRST_OF(v)] == 1 ->
            valid_until[v] = MAX(valid_until[v], SINCE(sent[FIRST_OF(v)]) + LEASE);
            heard[v] = heard[v] || !old[FIRST_OF(v)];
            take_first(v); update(c)
        :: vote[v] == YES && vnum[v] == w && said[FIRST_OF(v)] == 2 ->
            take_first(v); lose_vote(v, c)
        :: else -> take_first(v)
        fi
    fi;
    w = 0;
    settle(v)
}

/* The connection ends: its commands are lost, or answered in vain, or wait at the server. */
inline break_one(v, c, i)
{
    if
    :: op[i] == LOCK && said[i] == 0 && late[v] == 0 -> late[v] = num[i]
    :: true
    fi;
    if
    :: op[i] == LOCK -> be_answered(v, num[i], false)
    :: else
    fi;
    if
    :: op[i] == LOCK && vote[v] == ASKED && vnum[v] == num[i] ->
        vote[v] = NONE; vnum[v] = 0; settling[v] = settling[v] | (1 << num[i])
    :: else
    fi;
    clear(i)
}

inline break_it(v, c)
{
    break_one(v, c, FIRST_OF(v)); break_one(v, c, NEXT_OF(v));
    settle(v)
}

/* ---- asking -------------------------------------------------------------------------------- */

#define IS_FREE(v, n) \
    (vnum[v] != (n) && !(settling[v] & (1 << (n))) && late[v] != (n) && !IS_UNDER_WAY(v, n) && \
     field[(v) % N] != ID(v, n))
#define A_FREE(v) (IS_FREE(v, 1) -> 1 : (IS_FREE(v, 2) -> 2 : (IS_FREE(v, 3) -> 3 : 0)))

/* Numbers come again when nobody knows them any more. A server that hangs is not asked. */
inline ask(v)
{
    n = A_FREE(v);
    if
    :: HAS_ROOM(v) && n ->
        vote[v] = ASKED; vnum[v] = n; asked[v] = n;
        post(v, LOCK, n)
    :: !HAS_ROOM(v) || n == 0 || op[FIRST_OF(v)] -> vote[v] = NONE
    fi;
    n = 0
}

inline ask_all(c)
{
    ask(c * N); ask(c * N + 1); ask(c * N + 2)
}

#ifdef BAD_AGAIN_AT_ONCE
#define IS_HEARD_FROM(c) true
#else
#define HEARD(c, s) (IS_YES(c, s) && heard[(c) * N + (s)])
#define IS_HEARD_FROM(c) (HEARD(c, 0) + HEARD(c, 1) + HEARD(c, 2) >= QUORUM)
#endif

/* When so many blocking leases have ended that the others may be a quorum. */
#define REST(c, s) (IS_NO(c, s) -> valid_until[(c) * N + (s)] : 255)
#define SOONEST(c) MIN(MIN(REST(c, 0), REST(c, 1)), REST(c, 2))
#define SECOND_SOONEST(c) \
    MIN(MAX(REST(c, 0), REST(c, 1)), MAX(MIN(REST(c, 0), REST(c, 1)), REST(c, 2)))
#define LATEST(c) MAX(MAX(REST(c, 0), REST(c, 1)), REST(c, 2))
#ifdef BAD_LEASE_END_IS_SLEPT_THROUGH
#define FREE_AT(c) 255
#else
#ifdef BAD_ALL_LEASES
#define FREE_AT(c) LATEST(c)
#else
#define FREE_AT(c) (N_NO(c) == N -> SECOND_SOONEST(c) : SOONEST(c))
#endif
#endif
#ifdef BAD_SPLIT_SLEEPS
#define IS_SPLIT(c) false
#else
#define IS_SPLIT(c) (N_NO(c) <= N - QUORUM)
#endif

/* Votes that are of no use are given back. */
inline be_over(c)
{
#ifndef BAD_KEEPS_A_MINORITY
    drop_all(c)
#else
    skip
#endif
}

#define IS_TIME_OVER(c) (IS_DECIDED(c) || lates < LATES || away[LAST])
#define TIME_IS_OVER(c) lates = (!IS_DECIDED(c) && !away[LAST] -> lates + 1 : lates)

/* ---- processes ------------------------------------------------------------------------- */

inline forget(v)                   /* waiting, for good */
{
    subscribed[v] = false; was_free[v] = false; asked[v] = 0; put_off[v] = false
}

proctype client(byte c; byte n_turns; bool tries)
{
    do
    :: n_turns == 0 -> break
    :: n_turns > 0 ->
again:  atomic { pending[c] = false; ask_all(c) };
        if                                                 /* judge: decided, or its time is over */
        :: atomic { N_YES(c) >= QUORUM && now < valid[c] -> held[c] = true; assert_exclusion() };
            if
            :: d_step { held[c] -> held[c] = false; drop_all(c) }
            :: d_step { lost[c] -> lost[c] = false }
#if T > 0
            :: d_step { held[c] && now >= valid[c] -> lose(c); lost[c] = false }
#endif
            fi
        :: d_step { N_YES(c) >= QUORUM && now >= valid[c] -> be_over(c) }; goto failed
        :: d_step { N_YES(c) < QUORUM && N_YES(c) + N_NO(c) >= QUORUM && IS_SPLIT(c) &&
                IS_TIME_OVER(c) -> TIME_IS_OVER(c); be_over(c) }; goto failed
        :: d_step { N_YES(c) + N_NO(c) < QUORUM && IS_TIME_OVER(c) ->
                TIME_IS_OVER(c); be_over(c) }; goto failed
        :: d_step { N_YES(c) < QUORUM && N_YES(c) + N_NO(c) >= QUORUM && !IS_SPLIT(c) &&
                IS_DECIDED(c) ->
                lease_end[c] = (T -> FREE_AT(c) : 255); be_over(c) };
            if
            :: tries -> lease_end[c] = 0
            :: else ->
#ifdef WAITS
                listens[c] = true;
                atomic { pending[c] || now >= lease_end[c] -> lease_end[c] = 0 }
#endif
            fi;
failed:
            if :: tries :: else -> goto again fi
        fi;
        atomic { n_turns--; listens[c] = false }
    od;
    atomic {
        fin[c] = true; pending[c] = false;
        forget(c * N); forget(c * N + 1); forget(c * N + 2)
    }
}

proctype line(byte v; byte c; byte s)
{
end:
    do
    :: d_step { op[FIRST_OF(v)] && said[FIRST_OF(v)] == 0 && away[s] <= now ->
            run_first(v, s); read_first(v, c) }
    :: d_step { HAS_UNRUN(v) && away[s] <= now &&
            (said[FIRST_OF(v)] || answers < ANSWERS) ->
            answers = (said[FIRST_OF(v)] -> answers : answers + 1);
            run_first(v, s) }
    :: d_step { op[FIRST_OF(v)] && said[FIRST_OF(v)] -> read_first(v, c) }
#if CUTS > 0
    :: atomic { cuts < CUTS && op[FIRST_OF(v)] -> cuts++; break_it(v, c) }
    :: d_step { late[v] && field[s] == 0 && away[s] <= now ->
            field[s] = ID(v, late[v]); ends[s] = now + LEASE; late[v] = 0 }
#endif
#ifdef RENEWS
    :: d_step { held[c] && vote[v] == YES && HAS_ROOM(v) && !IS_UNDER_WAY(v, vnum[v]) &&
            now + LEASE > valid_until[v] -> post(v, RENEW, vnum[v]) }
#endif
#if AGAINS > 0
    :: atomic { held[c] && (vote[v] == NONE || vote[v] == NO) && op[FIRST_OF(v)] == 0 &&
            agains < AGAINS && IS_HEARD_FROM(c) -> agains++; ask(v) }      /* set again */
#endif
#ifdef WAITS
    :: d_step { listens[c] && !subscribed[v] ->
            subscribed[v] = true;
#ifndef BAD_NO_SECOND_TRY
            pending[c] = true
#endif
       }
#endif
#if RESETS > 0
    :: d_step { resets < RESETS && subscribed[v] ->
            resets++; subscribed[v] = false; pending[c] = true }
#endif
#if T > 0
    :: d_step { vote[v] == YES && now >= valid_until[v] ->
            settling[v] = settling[v] | (1 << vnum[v]); lose_vote(v, c); settle(v) }
#endif
    od
}

#define RUNS_OUT(s) \
    if :: field[s] && ends[s] <= now -> field[s] = 0; ends[s] = 0 :: else fi

#if T > 0
proctype clock()
{
end:
    do
    :: d_step { now < T -> now++; RUNS_OUT(0); RUNS_OUT(1); RUNS_OUT(2) }
#ifdef WAITS                       /* then all leases end */
    :: d_step { now == T -> now = T + LEASE + 1; RUNS_OUT(0); RUNS_OUT(1); RUNS_OUT(2) }
#endif
    od
}
#endif

#if FORGETS > 0
#define IS_OURS(v) (vote[v] == YES && field[v] == ID(v, vnum[v]))
proctype fate()
{
end:
    do
    :: d_step { forgets < FORGETS && held[0] && IS_OURS(0) && IS_OURS(1) ->
            forgets++; until[0] = now + LEASE;
            field[0] = 0; field[1] = 0; ends[0] = 0; ends[1] = 0;
#ifdef DELAYED
            away[0] = now + LEASE; away[1] = now + LEASE
#endif
       }
    od
}
#endif

#if OTHERS > 0
proctype other(byte s)
{
end:
    do
    :: d_step { field[s] == 0 && away[s] <= now && now <= T && n_others < OTHERS ->
            n_others = (OTHERS == ANY -> n_others : n_others + 1);
            field[s] = OTHER; ends[s] = now + LEASE; assert_exclusion() }
#ifndef DIES
    :: d_step { field[s] == OTHER && away[s] <= now -> field[s] = 0; ends[s] = 0; tell(s) }
#endif
    od
}
#endif

#ifdef AWAY
proctype leaving()
{
    away[LAST] = 255
}
#endif

#define IS_LEFT_FREE(s) (field[s] == 0 || field[s] == OTHER || away[s])

#if T == 0
proctype auditor()
{
    (timeout);
    assert(!fin[0] || (T1 && !fin[1]) || (IS_LEFT_FREE(0) && IS_LEFT_FREE(1) &&
           IS_LEFT_FREE(LAST)))                            /* BACK */
}
#endif

init {
    atomic {
#ifdef LINGERS
        subscribed[0] = true; subscribed[1] = true; subscribed[2] = true;
#endif
#ifdef STRANGER
        field[LAST] = OTHER; ends[LAST] = FOR_EVER;
#endif
        run line(0, 0, 0); run line(1, 0, 1); run line(2, 0, 2);
        run client(0, T0, TRY0);
#if T1 > 0
        run line(3, 1, 0); run line(4, 1, 1); run line(5, 1, 2);
        run client(1, T1, TRY1);
#endif
#if OTHERS > 0
        run other(0); run other(1);
#ifndef STRANGER
        run other(2);
#endif
#endif
#if T > 0
        run clock();
#endif
#if FORGETS > 0
        run fate();
#endif
#ifdef AWAY
        run leaving();
#endif
#if T == 0
        run auditor()
#endif
    }
}
