/*
 * Many clients at one lock: the line of waiting clients. Three clients with one waiter each, a
 * Redisson client, one Redis. NOT in lib/ yet: it is to replace the wake-up of every waiting client
 * by each release, see wait.pml, which costs n scripts for an acquisition when n clients wait.
 *
 * Each client has a channel of its own for all its locks. A refused waiter enters its client in the
 * line of the lock. A release publishes the usual message on the lock's channel, and tells the first
 * client of the line on its own channel that it is its turn: for a short time the lock is reserved
 * for it. The script also tells the client behind it that it is first now. That client sets a timer,
 * then asks, so that a first client which was stopped delays it once. A client without subscribers
 * is removed from the line by the script that would tell it. Only a client that is refused as the
 * first of the line listens to the channel of the lock, for the releases of Redisson.
 *
 * These things may go wrong at any moment: a client is killed or stopped for ever; its subscriber
 * connection breaks, with all messages in flight, and Redis notices before or after the client; a
 * wait is cancelled, and the script that leaves the line may not run; Redis restarts, with its data
 * or empty; another client frees the lock by force; the time for which the lock is reserved ends
 * early.
 *
 *   AWAKE       no living waiter sleeps while the lock is free and neither a message in flight nor a
 *               timer will wake it. recheck_ms is not in the model: a waiter that only recheck_ms
 *               would wake is an invalid end state, which spin reports.
 *   TURN        a waiter gets the lock, however often the others want it (-DENDLESS -DPROMPT)
 *
 * All messages are hints: they are flags here, and their order says nothing.
 *
 * Budgets: T0, T1, T2 turns of each client; R turns of Redisson; STOPS, KILLS, BREAKS, CANCELS,
 * NOLEAVE, RESTARTS, FORCES. -DENDLESS: a client with more than one turn never stops. -DPROMPT: the
 * lock stays reserved until the client that was told asks. -DBAD_*: a rule left out.
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
#ifndef R
#define R 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef FORCES
#define FORCES 0
#endif
#ifndef NOLEAVE
#define NOLEAVE 0
#endif

#define N 3
#define REDISSON (N + 1)

/* Redis */
byte lk;                            /* client + 1 that holds, REDISSON, 0 free */
byte line[N], n_line;               /* clients + 1 */
byte told;                          /* client + 1: head of the line, and the lock is reserved for it */
bool fresh;                         /* it was told a short time ago */
byte aware;                         /* client + 1: the first that is not told, if it knows that */
bool priv[N], channel[N];             /* subscribed to its own channel; to that of the lock */
bool lossy[N];                      /* the subscriber connection is dead, Redis does not know */

/* messages in flight; all of them are hints, so their order says nothing */
bool m_go[N], m_first[N], m_zero[N], m_up[N], m_ack[N];

/* clients */
bool dead[N], killed[N];
bool up[N], listening[N], wants[N];
bool waiting[N], pending[N], timer[N], first[N], cancelled[N], leaving[N];
byte stops, kills, breaks, cancels, restarts, forces, noleave;

#ifdef ENDLESS
#define LESS(n) if :: n == 1 -> n-- :: else fi
#else
#define LESS(n) n--
#endif

/* ---- Redis: the scripts, a step each ----------------------------------------------------- */

#define SENT(c) (!lossy[c] && !dead[c])

inline remove(i)
{
    if :: i < 1 -> line[0] = line[1] :: else fi;
    if :: i < 2 -> line[1] = line[2] :: else fi;
    line[2] = 0; n_line--
}

inline index(c) { i = 0; do :: i < N && line[i] != c + 1 -> i++ :: else -> break od }

inline send_first(w)                /* to the first that is not told */
{
    if :: SENT(w - 1) -> m_first[w - 1] = true :: else fi;
    aware = w
}

/* After a change of the line: whoever is the first that is not told learns of it. */
inline keep_aware()
{
    k = (told != 0 -> 1 : 0);
    do
    :: k < n_line && !priv[line[k] - 1] -> remove(k)
    :: k < n_line && priv[line[k] - 1] && aware != line[k] -> send_first(line[k]); break
    :: else -> break
    od;
    k = 0
}

inline tell_line()
{
    told = 0;
    do
    :: n_line == 0 -> break
    :: n_line != 0 && !priv[line[0] - 1] ->
        remove(0)
    :: n_line != 0 && priv[line[0] - 1] -> told = line[0]; fresh = true;
        if :: SENT(told - 1) -> m_go[told - 1] = true :: else fi;
        break
    od;
    aware = 0;
#ifndef BAD_NO_RESERVE
    keep_aware()
#endif
}

inline zero()
{
    if :: channel[0] && SENT(0) -> m_zero[0] = true :: else fi;
    if :: channel[1] && SENT(1) -> m_zero[1] = true :: else fi;
    if :: channel[2] && SENT(2) -> m_zero[2] = true :: else fi
}

mtype = { GRANTED, HELD, RESERVED };

inline ask(c)
{
    index(c);
    if
#ifdef BAD_NEWCOMER_OVERTAKES
    :: lk == 0 ->
#else
    :: lk == 0 && (told == 0 || told == c + 1 || !fresh) ->
#endif
        lk = c + 1;
        if :: i < N -> remove(i) :: else fi;
        if :: told != 0 && told != c + 1 -> index(told - 1);
            if :: i < N -> remove(i) :: else fi
        :: else fi;
        told = 0;
#ifndef BAD_GRANT_TELLS_NOBODY
        keep_aware();
#endif
        answer = GRANTED
    :: else ->
        if :: i == N -> line[n_line] = c + 1; i = n_line; n_line++ :: else fi;
        place = i;
        if
        :: lk == 0 -> answer = RESERVED;
            if :: i == 1 -> aware = c + 1 :: else fi
        :: else -> answer = HELD;
            if
            :: i == 0 -> aware = c + 1
            :: i != 0 && aware == c + 1 -> aware = 0
            :: else
            fi
        fi
    fi;
    i = 0
}

inline leave(c)
{
    index(c);
    if
    :: i < N -> remove(i);
        if
        :: told == c + 1 && lk == 0 -> tell_line()
        :: told == c + 1 && lk != 0 -> told = 0; keep_aware()
        :: else -> keep_aware()
        fi
    :: else
    fi;
    i = 0
}

/* ---- a client: lock, unlock -------------------------------------------------------------- */

#define LIVES(c) if :: dead[c] -> goto end_dead :: else fi

proctype client(byte c; byte turns)
{
    byte i, k, place;
    mtype answer;

next_turn:
    if
    :: turns == 0 -> goto over
    :: turns != 0 -> LESS(turns)
    fi;
    atomic { LIVES(c); waiting[c] = true; pending[c] = true; cancelled[c] = false }
look:
    atomic {
        if
        :: dead[c] -> goto end_dead
        :: !dead[c] && cancelled[c] -> waiting[c] = false; timer[c] = false; first[c] = false;
            leaving[c] = true; goto next_turn
#ifdef BAD_LEAVE_IS_OVERTAKEN
        :: !dead[c] && !cancelled[c] && pending[c] -> pending[c] = false
#else
        :: !dead[c] && !cancelled[c] && pending[c] && !leaving[c] -> pending[c] = false
#endif
        fi
    }
    d_step { ask(c) }
    atomic {
        LIVES(c);
        if
        :: answer == GRANTED -> waiting[c] = false; timer[c] = false; first[c] = false; place = 0
        :: answer == RESERVED ->
#ifndef BAD_RESERVED_SLEEPS
            timer[c] = timer[c] || place == 1;
#endif
            place = 0; goto look
        :: answer == HELD -> first[c] = (place == 0);
#ifndef BAD_FIRST_IS_DEAF
            if :: first[c] -> wants[c] = true :: else fi;
#endif
            place = 0; goto look
        fi
    }
    skip;                           /* it may take its time */
    atomic {
        LIVES(c);
        if
        :: lk == c + 1 -> lk = 0; zero(); tell_line()
        :: else -> assert(restarts + forces != 0)       /* it was lost */
        fi;
        goto next_turn
    }
end_dead:
    false;
over:
    skip
}

#define CAN_HEAR(c) (waiting[c])

proctype io(byte c)
{
    byte i, k;
end:
    do
    :: atomic { !dead[c] && m_go[c] -> m_go[c] = false;
            if :: CAN_HEAR(c) -> pending[c] = true :: else fi }
    :: atomic { !dead[c] && m_first[c] -> m_first[c] = false;
            if :: CAN_HEAR(c) -> timer[c] = true :: else fi }
    :: atomic { !dead[c] && m_zero[c] -> m_zero[c] = false;
#ifndef BAD_ZERO_IS_DROPPED
            if :: CAN_HEAR(c) && first[c] -> pending[c] = true :: else fi
#endif
        }
    :: atomic { !dead[c] && m_ack[c] -> m_ack[c] = false; listening[c] = true;
#ifndef BAD_ACK_IS_DROPPED
            if :: CAN_HEAR(c) -> pending[c] = true :: else fi
#endif
        }
    :: atomic { !dead[c] && m_up[c] -> m_up[c] = false;
#ifndef BAD_UP_IS_DROPPED
            if :: CAN_HEAR(c) -> pending[c] = true :: else fi
#endif
        }
    :: atomic { !dead[c] && timer[c] && waiting[c] -> timer[c] = false; pending[c] = true }
    :: atomic { !dead[c] && leaving[c] ->
            if :: noleave < NOLEAVE -> noleave++ :: leave(c) fi;
            leaving[c] = false }
    /* the subscriber connection: broken, noticed, made again */
    :: atomic { !dead[c] && up[c] && (lossy[c] || !priv[c]) -> up[c] = false; listening[c] = false }
    :: atomic { !dead[c] && !up[c] -> up[c] = true; lossy[c] = false; priv[c] = true;
            channel[c] = false; m_up[c] = true }
    :: atomic { !dead[c] && up[c] && !lossy[c] && priv[c] && wants[c] && !channel[c] ->
            channel[c] = true; m_ack[c] = true }
    :: atomic { !dead[c] && wants[c] && listening[c] && !first[c] && !waiting[c] ->
            wants[c] = false; listening[c] = false; channel[c] = false; m_ack[c] = false }
    od
}

proctype redis()                    /* and time */
{
    byte c;
end:
    do
#ifndef PROMPT
    :: atomic { told != 0 && fresh -> fresh = false }
#endif
    :: d_step { lk != 0 && lk != REDISSON && dead[lk - 1] -> lk = 0;  /* its lease ends */
            if :: waiting[0] -> pending[0] = true :: else fi;
            if :: waiting[1] -> pending[1] = true :: else fi;
            if :: waiting[2] -> pending[2] = true :: else fi }
    :: d_step { lossy[0] && priv[0] -> priv[0] = false; channel[0] = false }
    :: d_step { lossy[1] && priv[1] -> priv[1] = false; channel[1] = false }
    :: d_step { lossy[2] && priv[2] -> priv[2] = false; channel[2] = false }
    od
}

inline cut(c)
{
    lossy[c] = true;
    m_go[c] = false; m_first[c] = false; m_zero[c] = false; m_up[c] = false; m_ack[c] = false
}

#if STOPS + KILLS + BREAKS + CANCELS + RESTARTS + FORCES > 0
proctype fate()
{
    byte c;
end:
    do
    :: atomic { stops < STOPS -> stops++; if :: c = 0 :: c = 1 :: c = 2 fi; dead[c] = true; c = 0 }
    :: atomic { kills < KILLS -> kills++; if :: c = 0 :: c = 1 :: c = 2 fi;
            dead[c] = true; priv[c] = false; channel[c] = false; c = 0 }
    :: atomic { breaks < BREAKS -> breaks++; if :: c = 0 :: c = 1 :: c = 2 fi; cut(c); c = 0 }
    :: atomic { cancels < CANCELS -> cancels++; if :: c = 0 :: c = 1 :: c = 2 fi;
            if :: waiting[c] -> cancelled[c] = true :: else fi; c = 0 }
    :: d_step { forces < FORCES && lk != 0 && lk != REDISSON -> forces++; lk = 0; zero() }
    :: atomic { restarts < RESTARTS -> restarts++;
            if
            :: true
            :: lk = 0; n_line = 0; line[0] = 0; line[1] = 0; line[2] = 0; told = 0; aware = 0
            fi;
            cut(0); cut(1); cut(2);
            priv[0] = false; priv[1] = false; priv[2] = false;
            channel[0] = false; channel[1] = false; channel[2] = false }
    od
}
#endif

#if R > 0
proctype redisson()
{
    byte turns = R;
    do
    :: turns == 0 -> break
    :: atomic { turns > 0 && lk == 0 -> lk = REDISSON; turns-- }
        atomic { if :: lk == REDISSON -> lk = 0; zero() :: else fi }
    od
}
#endif

init {
    atomic {
        priv[0] = true; priv[1] = true; priv[2] = true;
        up[0] = true; up[1] = true; up[2] = true;
        run io(0); run io(1); run io(2); run redis();
#if STOPS + KILLS + BREAKS + CANCELS + RESTARTS + FORCES > 0
        run fate();
#endif
#if R > 0
        run redisson();
#endif
        run client(0, T0); run client(1, T1); run client(2, T2)
    }
}

#ifdef ENDLESS
ltl turn { [] (waiting[1] -> <> !waiting[1]) }
#endif
