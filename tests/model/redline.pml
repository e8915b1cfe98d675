/*
 * Many clients at one red lock: the line of the sequencer. Up to three clients with one waiter each.
 * red.pml has the votes and how they make a quorum; here all servers but the sequencer are one, the
 * others: their votes are a quorum. line.pml has the line of one server; here is what a red lock
 * adds: the others, which know no line.
 *
 * Server 0 is the sequencer. Only a vote there puts its client in the line, and only its release
 * tells a client that it is its turn. A client with its vote alone does not have the lock; one
 * without it may have it. A client that stands in the line, and was not first for a
 * while, does not follow messages. An attempt asks the sequencer and the others in any order.
 *
 * These things may go wrong at any moment: a client is killed or stopped for ever; the sequencer
 * dies, or returns empty; a client gives up; a stranger has the vote of a server for ever, or for
 * some time. Messages of a release may come in any order.
 *
 *   EXCLUSION   no two clients hold the lock at the same time
 *   AWAKE       no living waiter sleeps while the lock is free, and neither a message nor a timer
 *               will wake it. recheck_ms is not in the model: a waiter that only recheck_ms would
 *               wake is an invalid end state, which spin reports.
 *   QUIET       while the lock is held, waiters ask a few times only (-DQUIET=n)
 *
 * What stands for what:
 *
 *   ask_sequencer()   scripts/line_ask.lua
 *   free_sequencer()  scripts/unlock.lua, lock_free.lua, line_tell.lua, line_first.lua
 *   leave()           scripts/line_leave.lua
 *   follow()          take_message, notify, followed                     lib/group/listeners.c
 *   client()          ask_servers, ask_in_order, insist, judge           lib/group/redask.c
 *                     see_bypass, update_standing              lib/group/redask.c
 *   io()              hear, listen                                       lib/lock/hold/inbox.c wake/line.c
 *
 * T0, T1, T2: turns of each client, 0 or 1; STRANGER=n: it has the votes whose bit is set, for ever;
 * GUEST=n: it may release them; KILLS, STOPS, CANCELS, DEATHS (of the sequencer), RESTARTS (of the
 * sequencer, empty): how many; -DQUIET=n; -DBAD_*: a rule left out.
 */
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
#ifndef T2
#define T2 0
#endif
#ifndef STRANGER
#define STRANGER 0
#endif
#ifndef GUEST
#define GUEST 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif

#define N 3                         /* clients */
#define S 2                         /* the sequencer, and the others */
#define OTHER (N + 1)               /* a stranger in a server */
#define V(c, s) ((c) * S + (s))

/* servers */
byte lk[S];                         /* client + 1, OTHER, 0: free */
bool away;                          /* the sequencer is dead */
byte line[N], n_line;               /* clients + 1 */
byte told, aware;                   /* as in line.pml */
bool fresh;
bool inbox[N];                      /* the client is subscribed to its inbox in the sequencer */

/* messages in flight */
bool m_go[N], m_first[N], m_down[N], m_up[N], m_zero[N * S], m_ack[N];

/* clients */
mtype = { OUTSIDE, IN_LINE, FIRST };
mtype standing[N];
bool dead[N], waiting[N], pending[N], timer[N], ripe[N], listens[N], leaving[N], cancelled[N];
bool channel[N];                    /* subscribed to those of all servers that are up */
bool was_free[N * S];               /* the server's last answer was a grant */
bool asking[N];                     /* messages are judged when the servers have answered */
bool later[N];                      /* it retries when the lock is not reserved any more */
bool yes[N * S], held[N], bypassed[N];
byte asks[N], faults[5];

mtype = { GRANTED, REFUSED, BARRED, NONE };

/* ---- the sequencer: the scripts, a step each --------------------------------------------- */

inline remove(i)
{
    if :: i < 1 -> line[0] = line[1] :: else fi;
    if :: i < 2 -> line[1] = line[2] :: else fi;
    line[2] = 0; n_line--
}

inline find(c) { i = 0; do :: i < N && line[i] != c + 1 -> i++ :: else -> break od }

/* The first that is not told learns that it is. */
inline keep_aware()
{
    k = (told != 0 -> 1 : 0);
    do
    :: k < n_line && !inbox[line[k] - 1] -> remove(k)
    :: k < n_line && inbox[line[k] - 1] && aware != line[k] ->
        if :: !dead[line[k] - 1] -> m_first[line[k] - 1] = true :: else fi;
        aware = line[k]; break
    :: else -> break
    od;
    k = 0
}

inline tell_line()
{
    told = 0;
    do
    :: n_line == 0 -> break
    :: n_line != 0 && !inbox[line[0] - 1] -> remove(0)
    :: n_line != 0 && inbox[line[0] - 1] -> told = line[0]; fresh = true;
        if :: !dead[told - 1] -> m_go[told - 1] = true :: else fi;
        break
    od;
    aware = 0;
    keep_aware()
}

inline zero(s)
{
    if :: channel[0] && !dead[0] -> m_zero[V(0, s)] = true :: else fi;
    if :: channel[1] && !dead[1] -> m_zero[V(1, s)] = true :: else fi;
    if :: channel[2] && !dead[2] -> m_zero[V(2, s)] = true :: else fi
}

#define IS_RESERVED(c) (told != 0 && told != (c) + 1 && fresh)

/* `joins`: a refused client enters the line. */
inline ask_sequencer(c, joins)
{
    place = 0;
    if
    :: away -> answer = NONE
    :: !away && lk[0] == 0 && !IS_RESERVED(c) ->
        if
        :: joins -> find(c); if :: i < N -> remove(i) :: else fi;
            if :: told != 0 && told != c + 1 -> find(told - 1);
                if :: i < N -> remove(i) :: else fi
            :: else fi;
            told = 0; keep_aware()
        :: else
        fi;
        lk[0] = c + 1; yes[V(c, 0)] = true; timer[c] = false; ripe[c] = false;
        answer = GRANTED
    :: !away && (lk[0] != 0 || IS_RESERVED(c)) && !joins ->
        answer = (lk[0] == 0 -> BARRED : REFUSED)
    :: !away && (lk[0] != 0 || IS_RESERVED(c)) && joins ->
        find(c);
        if :: i == N -> line[n_line] = c + 1; i = n_line; n_line++ :: else fi;
        place = i + 1;
        if :: told != 0 && told != c + 1 && i > 0 -> place = i :: else fi;
        if
        :: place == 1 -> aware = c + 1
        :: place > 1 && aware == c + 1 -> aware = 0
        :: else
        fi;
        ripe[c] = ripe[c] && place == 1;
        answer = (lk[0] == 0 || place > 1 -> BARRED : REFUSED)
    fi;
    was_free[V(c, 0)] = (answer == NONE -> was_free[V(c, 0)] : answer == GRANTED);
    i = 0
}

inline leave(c)
{
    if
    :: away
    :: !away -> find(c);
        if
        :: i < N -> remove(i);
            if
            :: told == c + 1 && lk[0] == 0 -> tell_line()
            :: told == c + 1 && lk[0] != 0 -> told = 0; keep_aware()
            :: else -> keep_aware()
            fi
        :: else
        fi
    fi;
    i = 0
}

inline release(c, s)
{
    yes[V(c, s)] = false;
    if
    :: lk[s] == c + 1 && !(s == 0 && away) -> lk[s] = 0; zero(s);
        if :: s == 0 -> tell_line() :: else fi
    :: else
    fi
}

/* ---- a client ---------------------------------------------------------------------------- */

#define LIVES(c) if :: dead[c] -> goto end_dead :: else fi
#define HAS_IT(c) yes[V(c, 1)]

inline ask_others(c)
{
    if
    :: lk[1] == 0 -> lk[1] = c + 1; yes[V(c, 1)] = true; was_free[V(c, 1)] = true
    :: lk[1] != 0 && lk[1] != c + 1 -> was_free[V(c, 1)] = false
    :: else
    fi
}

/* The messages of the sequencer are about votes of other waiters that gave up. */
#ifdef BAD_BYPASSED_FOLLOWS
#define IS_BYPASSED(c) false
#else
#define IS_BYPASSED(c) bypassed[c]
#endif

/* Whether the waiter follows messages. */
#ifdef BAD_FIRST_IS_DEAF
#define FOLLOWS(c, s) (standing[c] != IN_LINE && (s) == 0)
#else
#define FOLLOWS(c, s) (standing[c] != IN_LINE)
#endif

proctype client(byte c)
{
    byte i, k, place;
    bool joined, was_ripe;
    mtype answer;

    atomic { LIVES(c); waiting[c] = true; pending[c] = true }
look:
#ifdef QUIET
end_look:                           /* the lock is held for ever */
#endif
    atomic {
        if
        :: dead[c] -> goto end_dead
        :: !dead[c] && cancelled[c] -> goto give_up
        :: !dead[c] && !cancelled[c] && pending[c] && !leaving[c] ->
            pending[c] = false; asking[c] = true; standing[c] = OUTSIDE; was_ripe = ripe[c];
#ifdef BAD_BYPASSED_JOINS
            joined = inbox[c]
#else
            joined = inbox[c] && !bypassed[c]
#endif
        fi
    }
    if                               /* the sequencer first, and it decides; or all at once */
    :: atomic { true -> LIVES(c); ask_sequencer(c, joined) };
        if
#ifdef BAD_FIRST_IS_BARRED
        :: answer == BARRED || (answer == REFUSED && place == 1)
        :: answer == GRANTED || answer == NONE || (answer == REFUSED && place == 0) ->
#else
        :: answer == BARRED || (answer == REFUSED && place == 1 && !was_ripe)
        :: answer == GRANTED || answer == NONE ||
                (answer == REFUSED && (place == 0 || was_ripe)) ->
#endif
            atomic { LIVES(c); ask_others(c) }
        fi
    :: atomic { true -> LIVES(c); ask_others(c) }; atomic { LIVES(c); ask_sequencer(c, joined) }
    fi;
    if                               /* it insists: the others are asked once more */
    :: atomic { answer == GRANTED && !HAS_IT(c) && !bypassed[c] -> LIVES(c); ask_others(c) }
    :: answer != GRANTED || HAS_IT(c) || bypassed[c]
    fi;
    atomic {
        LIVES(c); asking[c] = false;
        if
        :: HAS_IT(c) && answer != BARRED ->
            held[c] = true; waiting[c] = false; timer[c] = false; bypassed[c] = false;
            assert(held[0] + held[1] + held[2] == 1);      /* EXCLUSION */
#ifndef BAD_KEEPS_ITS_PLACE
            leaving[c] = leaving[c] || !yes[V(c, 0)];
#endif
            goto release_all
        :: else
        fi;
        bypassed[c] = answer == GRANTED || (bypassed[c] && place == 0);
        if
        :: place > 0 && answer == REFUSED && was_ripe -> standing[c] = FIRST
        :: place > 0 && !(answer == REFUSED && was_ripe) -> standing[c] = IN_LINE;
            if :: place == 1 -> timer[c] = true :: else fi
        :: place == 0 -> standing[c] = OUTSIDE
        fi;
        asks[c]++;
#ifdef QUIET
        assert(asks[c] <= QUIET);                          /* QUIET */
#else
        asks[c] = 0;
#endif
#ifdef BAD_BYPASSED_IS_DEAF
        listens[c] = standing[c] != IN_LINE && !bypassed[c];
#else
        listens[c] = standing[c] != IN_LINE;
#endif
        later[c] = answer == BARRED && place == 0;
        place = 0;
        release(c, 1); release(c, 0);
        goto look
    }
give_up:
    atomic { waiting[c] = false; timer[c] = false; listens[c] = false; leaving[c] = true; goto over }
release_all:
    atomic {
        LIVES(c); listens[c] = false;
        held[c] = false              /* with the first of its votes */
    }
    if
    :: atomic { true -> LIVES(c); release(c, 1) }; atomic { LIVES(c); release(c, 0) }
    :: atomic { true -> LIVES(c); release(c, 0) }; atomic { LIVES(c); release(c, 1) }
    fi;
    goto over;
end_dead:
    false;
over:
    skip
}

inline hear(c) { if :: waiting[c] -> pending[c] = true; bypassed[c] = false :: else fi }

inline follow(c, s)
{
    if
    :: waiting[c] && FOLLOWS(c, s) && !was_free[V(c, s)] && !(s == 0 && IS_BYPASSED(c)) -> hear(c)
    :: else
    fi
}

proctype io(byte c)
{
    byte i, k;
end:
    do
    :: d_step { !dead[c] && m_go[c] -> m_go[c] = false;
            if :: waiting[c] -> hear(c) :: else -> leaving[c] = true fi }
    :: d_step { !dead[c] && m_first[c] -> m_first[c] = false;
            if :: waiting[c] -> timer[c] = true :: else -> leaving[c] = true fi }
    :: d_step { !dead[c] && timer[c] && waiting[c] -> timer[c] = false; ripe[c] = true; hear(c) }
    :: d_step { !dead[c] && later[c] && (told == 0 || !fresh) -> later[c] = false; pending[c] = pending[c] || waiting[c] }
    :: d_step { !dead[c] && m_down[c] -> m_down[c] = false;
#ifndef BAD_DOWN_IS_NO_SIGNAL
            hear(c)
#endif
        }
    :: d_step { !dead[c] && m_up[c] -> m_up[c] = false; hear(c) }
    :: d_step { !dead[c] && m_zero[V(c, 0)] && !asking[c] -> m_zero[V(c, 0)] = false; follow(c, 0) }
    :: d_step { !dead[c] && m_zero[V(c, 1)] && !asking[c] -> m_zero[V(c, 1)] = false; follow(c, 1) }
    :: d_step { !dead[c] && m_ack[c] -> m_ack[c] = false; pending[c] = pending[c] || waiting[c] }
    :: d_step { !dead[c] && listens[c] && !channel[c] -> channel[c] = true; m_ack[c] = true }
    :: d_step { !dead[c] && !listens[c] && channel[c] && !m_ack[c] -> channel[c] = false }
    :: d_step { !dead[c] && leaving[c] -> leave(c); leaving[c] = false; m_first[c] = false }
    od
}

inline lose(s)                       /* leases end; waiters know when */
{
    lk[s] = 0;
    if :: s == 0 && away :: else ->
        if :: waiting[0] -> hear(0) :: else fi;
        if :: waiting[1] -> hear(1) :: else fi;
        if :: waiting[2] -> hear(2) :: else fi
    fi
}

#define IS_DEADS(s) (lk[s] != 0 && lk[s] != OTHER && dead[lk[s] - 1])

proctype time()
{
end:
    do
    :: d_step { told != 0 && fresh -> fresh = false }
    :: d_step { IS_DEADS(0) -> lose(0) }
    :: d_step { IS_DEADS(1) -> lose(1) }
    od
}

inline drop_sequencer()
{
    lk[0] = 0; n_line = 0; line[0] = 0; line[1] = 0; line[2] = 0; told = 0; aware = 0;
    inbox[0] = false; inbox[1] = false; inbox[2] = false;
    m_go[0] = false; m_go[1] = false; m_go[2] = false;
    m_first[0] = false; m_first[1] = false; m_first[2] = false;
    m_down[0] = true; m_down[1] = true; m_down[2] = true
}

#if KILLS + STOPS + CANCELS + DEATHS + RESTARTS > 0
proctype fate()
{
    byte c;
end:
    do
    :: atomic { faults[0] < KILLS -> faults[0]++; if :: c = 0 :: c = 1 :: c = 2 fi;
            dead[c] = true; held[c] = false; inbox[c] = false; channel[c] = false; c = 0 }
    :: atomic { faults[1] < STOPS -> faults[1]++; if :: c = 0 :: c = 1 :: c = 2 fi;
            dead[c] = true; held[c] = false; c = 0 }
    :: atomic { faults[2] < CANCELS -> faults[2]++; if :: c = 0 :: c = 1 :: c = 2 fi;
            if :: waiting[c] -> cancelled[c] = true :: else fi; c = 0 }
    :: d_step { faults[3] < DEATHS && !away -> faults[3]++; away = true; drop_sequencer() }
    /* It stayed down for a lease, so it has forgotten no vote that still counts. */
    :: d_step { faults[4] < RESTARTS && !away && lk[0] == 0 -> faults[4]++; drop_sequencer();
            inbox[0] = true; inbox[1] = true; inbox[2] = true;
            m_up[0] = true; m_up[1] = true; m_up[2] = true }
    od
}
#endif

#if GUEST > 0
proctype guest(byte s)               /* a vote of a stranger ends */
{
    byte i, k;
end:
    d_step { lk[s] == OTHER -> lk[s] = 0; zero(s); if :: s == 0 -> tell_line() :: else fi }
}
#endif

init {
    atomic {
        inbox[0] = true; inbox[1] = true; inbox[2] = true;
        standing[0] = OUTSIDE; standing[1] = OUTSIDE; standing[2] = OUTSIDE;
        if :: (STRANGER | GUEST) & 1 -> lk[0] = OTHER :: else fi;
        if :: (STRANGER | GUEST) & 2 -> lk[1] = OTHER :: else fi;
        run time();
        run io(0); run io(1);
#if T0 > 0
        run client(0);
#endif
#if T1 > 0
        run client(1);
#endif
#if T2 > 0
        run io(2); run client(2);
#endif
#if KILLS + STOPS + CANCELS + DEATHS + RESTARTS > 0
        run fate();
#endif
#if GUEST & 1
        run guest(0);
#endif
#if GUEST & 2
        run guest(1)
#endif
    }
}
