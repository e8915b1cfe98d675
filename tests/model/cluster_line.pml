/*
 * The line of waiting clients in a cluster: three clients, a client of another version, two nodes. The
 * slot of the lock moves from one node to the other.
 *
 * The line is that of line.pml, with these differences. The inbox of a client belongs to the lock, at
 * the node that serves its slot. The client subscribes to it when it begins to wait. The first client
 * in line listens to the channel of the lock at once, if the holder is not known to be one of ours: the
 * script of a grant writes its holder into the line. While the slot is half moved, no script touches
 * the line: who is refused waits outside, and a script that frees the lock, or that would take a client
 * out of the line, raises the alarm: a message to all clients that wait in a line of the cluster,
 * wherever they are subscribed. They ask again.
 *
 * A sharded message reaches the subscribers at the node where the script runs. A plain one (-DPLAIN)
 * reaches all; but the script counts those at its own node, and takes a client that it does not count
 * out of the line.
 *
 * These faults may occur at any moment: the slot moves, key by key or as a whole, and may stay half
 * moved for ever; another node becomes its master, which has the line, an older one or none; keys of
 * the line are lost; a client is killed or stopped; the connection with its messages breaks, or the one
 * with its alarm; a wait is cancelled; a client of another version acquires the lock, though it is
 * reserved, and tells only the channel of the lock.
 *
 *   EXCLUSION   a client that releases the lock still has it, unless a failover lost it; and nobody
 *               acquires it meanwhile. No state of the line changes that.
 *   AWAKE       no living waiter sleeps while the lock is free and neither a message in flight nor a
 *               timer of the line will wake it: else it is in an invalid end state. With -DRECHECK, each
 *               waiter rechecks once, when nothing else can happen: one that needs more is stuck, too.
 *   ONCE        no key of the line is at two nodes, so that the move can end
 *   EMPTY       at the end, no living client listens to the channel of the lock. None is in the line,
 *               unless the slot was half moved or keys were lost
 *   TURN        a waiter gets the lock, however often the others want it (-DENDLESS -DPROMPT)
 *
 * What stands for what: as in line.pml. Besides (lib/lock/ where nothing else is said):
 *
 *   USABLE          the probe of the scripts                           scripts/line_*.lua
 *   CHECKS          line_ask.lua                                       scripts/
 *   raise_all       the alarm: scripts that free the lock, line_leave.lua
 *   where, is_moved relock_call_run, a redirection                     lib/redis/deployment/run.c
 *   echoes          relock_echo_release                                wake/echo.c
 *   MUST_SUBSCRIBE  what a subscription does after `sunsubscribe`      lib/redis/io/pubsub.c
 *
 * Without -DEARLY, the timers of the line fire and a reservation ends only when nothing else can happen.
 *
 * Left out, besides what line.pml leaves out: commands without an answer, forced unlocks and restarts
 * (all in line.pml); a repeated ASK or MOVED; TRYAGAIN; nodes that still serve a slot which they have lost
 * (failover.pml); where the keys of the line are while the slot is half moved, but for the bad runs: no
 * script reads them.
 *
 * Budgets: T0, T1, T2 calls of each client; WIDTH threads of a client at a time; R turns of the other
 * version; MOVES key by key; SWITCHES: moves as a whole; FAILOVERS; LOSES: keys of the line are evicted;
 * BREAKS, ABREAKS (of the alarm), STOPS, KILLS, CANCELS. FRESH: so many clients have neither inbox nor
 * alarm yet. -DTAKEN: the other version holds the lock at first. -DSTANDING: the clients stand in the line
 * at first. -DWAITS: the other version sleeps until it hears of a release. -DREDISSON: it is Redisson, whose
 * scripts do not run in a slot that is half moved. -DCOMPLETE: no move stops half way. -DIDLES: an inbox
 * that is not used ends. -DSILENT: subscribers do not notice a failover. -DLOCK_IS_LOST: it may lose the
 * lock, too. -DNO_TIMERS: the timers of the line never fire. -DEARLY: at any moment. -DRECHECK=1: waiters
 * that met ASK recheck; 2: all do. -DENDLESS, -DPROMPT: see line.pml. -DBAD_*: a rule left out.
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
#ifndef R
#define R 0
#endif
#ifndef MOVES
#define MOVES 0
#endif
#ifndef SWITCHES
#define SWITCHES 0
#endif
#ifndef FAILOVERS
#define FAILOVERS 0
#endif
#ifndef LOSES
#define LOSES 0
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
#ifndef ABREAKS
#define ABREAKS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef WIDTH
#define WIDTH 2
#endif
#ifndef FRESH
#define FRESH 0
#endif
#ifndef RECHECK
#define RECHECK 0
#endif

#if T2 > 0
#define N 3
#else
#define N 2
#endif
#define MAX 6
#define OTHER (N + 1)

mtype = { UNUSED, PENDING, OPEN };                      /* of a subscription */
mtype = { OUTSIDE, LEFT, BEHIND, SECOND, FIRST, LISTENING };    /* SECOND, FIRST: a timer is set */
mtype = { GRANTED, HELD, RESERVED };

/* Redis. A client in the lock or the line is its number + 1; 0 is none. */
byte lk[2];                         /* the lock, at each node */
byte line[MAX], n_line;
bool turn;                          /* the hash exists; what it says: */
byte told;                          /* the lock is reserved for it */
bool reserved;                      /* it was told a short time ago */
byte first;                         /* it knows that it is the first that is not told */
byte holder;                        /* it holds the lock and knows the line */
bit owner;                          /* the node that serves the slot, as all nodes know */
bool half;                          /* the slot moves to the other node */
bool list_far, turn_far;            /* this key has moved */
byte inboxed[N], channel[N];        /* subscribed to its inbox; to the lock's channel: node + 1 */
bool alarmed[N];
bool lossy[N];                      /* the connection with its messages is dead, Redis does not know */

/* messages and acknowledgements in flight */
bool m_now[N], m_first[N], m_second[N], m_free[N], m_open[N], m_ack[N], m_alarm[N], m_sounds[N];

/* each client */
bool dead[N];
byte calls[N], queue[N];            /* to come; waiting */
bool pending[N], asking[N], holding[N], cancelled[N];
mtype inbox[N], sub[N], alarm[N], state[N];
bool knows_lease[N];                /* it asks when the lease of a dead holder ends */
bool has_place[N];                  /* it may be in the line */
mtype answer[N];                    /* in flight */
bool heard[N];                      /* a message since the command in flight was sent */
bool leaving[N], has_left[N];       /* posted; answered */
bool echoes[N];                     /* it repeats the message of its release */
bool met_ask[N];
#ifdef PLAIN
bit knows[N];                       /* the node of the slot, as it knows */
#endif

/* the client of another version */
byte o_channel;                     /* as channel[] */
bool o_wakes, o_echoes;

bool lost;                          /* a failover lost the lock */
byte moves, switches, failovers, loses, stops, kills, breaks, abreaks, cancels;

/* for a step */
hidden byte here, i, third, was_waiting;

/* When a timer of the line fires, or a reservation ends. */
#ifdef NO_TIMERS
#define DUE false
#else
#ifdef EARLY
#define DUE true
#else
#define DUE timeout
#endif
#endif

#ifdef PROMPT
#define ENDS_RESERVATIONS false
#else
#define ENDS_RESERVATIONS true
#endif

#define MORTAL (STOPS + KILLS > 0)
#define RECEIVES(c) (!lossy[c] && !dead[c])
#define FAR (1 - owner)

#ifdef PLAIN
#define REACHES(place) (place != 0)
#else
#define REACHES(place) (place == here + 1)
#endif

#ifdef ENDLESS
#define COUNT_DOWN(n) if :: n == 1 -> n-- :: else fi
#else
#define COUNT_DOWN(n) n--
#endif

/* ---- Redis: the scripts, a step each ----------------------------------------------------- */

/* A client asks the node of the slot. That one says ASK if the slot is half moved and it does not have
 * the lock. */
inline where()
{
    here = (half && lk[owner] == 0 -> FAR : owner)
#ifdef BAD_ASK_IS_REMEMBERED
    ; if :: half -> here = FAR :: else fi
#endif
}

#ifdef BAD_NO_PROBE
#define USABLE true
#else
#ifdef BAD_PROBES_THE_LINE
#define USABLE (!half || n_line && turn && list_far == (here == FAR) && turn_far == (here == FAR))
#else
#define USABLE (!half)
#endif
#endif

inline index(e) { i = 0; do :: i < n_line && line[i] != e -> i++ :: else -> break od }

/* A key that is made here while there is another one at the other node: MIGRATE says BUSYKEY. */
inline append(e)
{
    assert(!half || n_line == 0 || list_far == (here == FAR));
    if :: n_line == 0 -> list_far = (half && here == FAR) :: else fi;
    assert(n_line < MAX); i = n_line; line[n_line] = e; n_line++
}

inline push(e) { index(e); if :: i == n_line -> append(e) :: else fi }

inline remove_at(j)
{
    if :: j < 1 -> line[0] = line[1] :: else fi;
    if :: j < 2 -> line[1] = line[2] :: else fi;
    if :: j < 3 -> line[2] = line[3] :: else fi;
    if :: j < 4 -> line[3] = line[4] :: else fi;
    if :: j < 5 -> line[4] = line[5] :: else fi;
    line[5] = 0; n_line--;
    if :: n_line == 0 -> list_far = false :: else fi
}

inline remove(e) { index(e); if :: i < n_line -> remove_at(i) :: else fi }

inline no_turn() { turn = false; turn_far = false; told = 0; reserved = false; first = 0; holder = 0 }

inline no_line() { n_line = 0; line[0] = 0; line[1] = 0; line[2] = 0; line[3] = 0; line[4] = 0; no_turn() }

#define IS_COUNTED(e) (inboxed[e - 1] == here + 1)

#define HEARS(e) (RECEIVES(e - 1) && REACHES(inboxed[e - 1]))

inline line_first(me)
{
    i = (told -> 1 : 0);
    do
    :: i < n_line && line[i] != first && line[i] != me ->
        if :: HEARS(line[i]) -> m_first[line[i] - 1] = true :: else fi;
        if :: IS_COUNTED(line[i]) -> first = line[i]; turn = true :: else -> remove_at(i) fi
    :: i < n_line && line[i] != first && line[i] == me -> first = me; turn = true
    :: else -> break
    od;
    if :: i >= n_line && !told -> no_turn() :: else fi
}

inline line_tell(me)
{
    if
    :: n_line || me ->
        if :: me -> push(me) :: else fi;
        told = 0;
        do
        :: n_line && line[0] != me ->
            if :: HEARS(line[0]) -> m_now[line[0] - 1] = true :: else fi;
            if :: IS_COUNTED(line[0]) -> told = line[0]; break :: else -> remove_at(0) fi
        :: n_line && line[0] == me -> told = me; break
        :: n_line == 0 -> break
        od;
        if :: told -> turn = true; reserved = true :: else -> reserved = false fi;
        third = (n_line > 2 -> line[2] : 0);
        line_first(me);
        if
        :: third && third != first && third != me && HEARS(third) -> m_second[third - 1] = true
        :: else
        fi;
        third = 0;
        if :: me -> index(me); place = i + 1 :: else fi
    :: else
    fi
}

/* On the channel of the lock. */
inline publish_to(c)
{
    if :: channel[c] && RECEIVES(c) && REACHES(channel[c]) -> m_free[c] = true :: else fi
}

inline publish()
{
    publish_to(0); publish_to(1);
#if T2 > 0
    publish_to(2);
#endif
    if :: o_channel && REACHES(o_channel) -> o_wakes = true :: else fi
}

inline raise(c) { if :: alarmed[c] && queue[c] && !dead[c] -> m_alarm[c] = true :: else fi }

inline raise_all()
{
    skip;
#ifndef BAD_NO_ALARM
    raise(0); raise(1);
#if T2 > 0
    raise(2)
#endif
#endif
}

#define IS_RESERVED(me) (lk[here] == 0 && told && told != me && reserved)

inline take(c) { assert(lost || lk[0] == 0 && lk[1] == 0); lk[here] = c + 1; answer[c] = GRANTED }

inline ask_without_line(c) { if :: lk[here] -> answer[c] = HELD :: else -> take(c) fi }

/* Whether a refused client, number i in the line, checks that the first one is there. */
#ifdef BAD_NEXT_TRUSTS_THE_FIRST
#define CHECKS (i > 1 && i < was_waiting)
#else
#define CHECKS (i > 0 && (lk[here] != holder || i > 1 && i < was_waiting))
#endif

/* `me` is 0 if a refused caller does not join the line. */
inline ask(c, me)
{
    if
    :: (lk[here] || IS_RESERVED(me)) && me == 0 -> answer[c] = (lk[here] -> HELD : RESERVED)
    :: (lk[here] || IS_RESERVED(me)) && me ->
        answer[c] = (lk[here] -> HELD : RESERVED);
        index(me);
        was_waiting = n_line;
        if
        :: !turn || i == n_line -> append(me)   /* without a turn, it may be in what is left of a line */
        :: else
        fi;
        if :: turn && CHECKS -> first = 0; line_first(me); index(me) :: else fi;
        place = i + 1 - (told && told != me -> 1 : 0);
        if :: told == me -> told = 0; reserved = false :: else fi;
        foreign = (lk[here] && lk[here] != holder);
        if
        :: place == 1 -> first = me; turn = true
        :: place > 1 && first == me -> first = 0
        :: else
        fi
    :: else ->
        take(c);
        if
        :: turn ->
            if :: me -> remove(me) :: else fi;
            if :: told && told != me -> remove(told) :: else fi;
            told = 0; reserved = false;
            line_first(me);
            if :: turn -> holder = c + 1 :: else fi
        :: else
        fi
    fi
}

inline leave(c)
{
    where();
    if
    :: USABLE ->
        remove(c + 1);
        if :: told == c + 1 -> told = 0; reserved = false :: else fi;
        if
        :: !told && lk[here] == 0 -> line_tell(0)
        :: told || lk[here] -> line_first(0)
        fi;
        if :: n_line == 0 -> no_turn() :: else fi
    :: else ->
#ifndef BAD_LEAVER_RAISES_NO_ALARM
        raise_all()
#endif
    fi
}

/* ---- the resource of a client ------------------------------------------------------------ */

inline signal(c) { pending[c] = (queue[c] || holding[c]) }

#define HEARS_CHANNEL(c) (state[c] == OUTSIDE || state[c] == LISTENING)
#define IS_USED(c) (queue[c] && HEARS_CHANNEL(c) || holding[c] && state[c] == OUTSIDE)

inline unsubscribe(c)
{
    sub[c] = UNUSED; channel[c] = 0; m_ack[c] = false; m_free[c] = false
}

inline idle(c) { if :: sub[c] != UNUSED && !IS_USED(c) -> unsubscribe(c) :: else fi }

inline want(c) { if :: sub[c] == UNUSED -> sub[c] = PENDING :: else fi }

inline stand(c, s, p) { state[c] = s; has_place[c] = p; idle(c) }

inline listen(c)
{
    stand(c, LISTENING, true);
    if :: sub[c] == OPEN -> signal(c) :: else -> want(c) fi
}

#ifdef BAD_OUTSIDE_FORGETS_ITS_PLACE
#define STILL_HAS_PLACE(c) false
#else
#define STILL_HAS_PLACE(c) has_place[c]
#endif

#ifdef BAD_HOLDERS_LOOK_ALIKE
#define IS_FOREIGN false
#else
#define IS_FOREIGN foreign
#endif

inline refused(c)
{
    if
    :: place == 0 && !joins -> skip     /* until the inbox is open */
    :: place == 0 && joins -> stand(c, OUTSIDE, STILL_HAS_PLACE(c)); want(c)
    :: place > 1 && !heard[c] && (place > 2 || answer[c] == HELD) -> stand(c, BEHIND, true)
    :: place == 2 && !heard[c] && answer[c] == RESERVED -> stand(c, SECOND, true)
    :: place > 1 && heard[c] -> stand(c, FIRST, true)
    :: place == 1 && answer[c] == HELD && state[c] == LISTENING -> skip
    :: place == 1 && answer[c] == HELD && state[c] != LISTENING && IS_FOREIGN -> listen(c)
    :: place == 1 && (answer[c] == RESERVED || state[c] != LISTENING && !IS_FOREIGN) -> stand(c, FIRST, true)
    fi;
    knows_lease[c] = (answer[c] == HELD && MORTAL);
    if :: inbox[c] == UNUSED -> inbox[c] = PENDING :: else fi;
    if :: alarm[c] == UNUSED -> alarm[c] = PENDING :: else fi
}

inline give_up(c)
{
    if
    :: queue[c] == 0 && has_place[c] -> stand(c, LEFT, false); leaving[c] = true
    :: else
    fi
}

inline leave_queue(c)
{
    queue[c]--; cancelled[c] = false;
    pending[c] = pending[c] && (queue[c] || holding[c]);
    give_up(c); idle(c)
}

inline hear(c)
{
    if
    :: queue[c] -> heard[c] = asking[c] || holding[c];
        if :: state[c] != FIRST && state[c] != LISTENING -> stand(c, FIRST, true) :: else fi
    :: else -> leaving[c] = true
    fi
}

inline hear_second(c)
{
    if
    :: queue[c] -> stand(c, SECOND, true)
    :: else -> leaving[c] = true
    fi
}

/* Its command was redirected. */
inline is_moved(c)
{
    skip
#if RECHECK == 1
    ; met_ask[c] = met_ask[c] || here != owner
#endif
#ifdef PLAIN
    ; if
    :: knows[c] != owner -> knows[c] = owner;
#ifndef BAD_STAYS_AT_THE_OLD_NODE
        if :: inbox[c] != UNUSED -> inbox[c] = PENDING; inboxed[c] = 0; m_open[c] = false :: else fi;
        if :: sub[c] != UNUSED -> sub[c] = PENDING; channel[c] = 0; m_ack[c] = false :: else fi
#endif
    :: else
    fi
#endif
}

#ifdef PLAIN
#define NODE(c) knows[c]
#else
#define NODE(c) owner
#endif

/* ---- a client: lock, unlock -------------------------------------------------------------- */

#define LIVES(c) if :: dead[c] -> goto end_dead :: else fi

#define WILL_BE_TOLD(c) (state[c] == OUTSIDE -> was_active : place > 1)

proctype client(byte c)
{
    byte place;
    bool joins, foreign, was_active, is_lost;

    if :: holding[c] -> goto critical :: else fi;
look:
    atomic {                        /* relock_waiter_wait, relock_ask */
        if
        :: dead[c] -> goto end_dead
        :: !dead[c] && calls[c] == 0 && queue[c] == 0 -> goto over
        :: !dead[c] && pending[c] -> pending[c] = false
        fi;
        asking[c] = true; heard[c] = false;
        joins = (inbox[c] == OPEN);
        where();
        if
        :: USABLE && joins -> ask(c, c + 1)
        :: USABLE && !joins -> ask(c, 0)
        :: else -> ask_without_line(c)
        fi;
        is_moved(c)
    }
    atomic {                        /* its answer */
        LIVES(c);
        asking[c] = false;
        if
        :: answer[c] == GRANTED ->
            queue[c]--; cancelled[c] = false; holding[c] = true; knows_lease[c] = false;
            leaving[c] = leaving[c] || has_place[c] && !joins;
            if :: state[c] != OUTSIDE || has_place[c] -> stand(c, LEFT, false) :: else fi
        :: else -> refused(c);
            if :: cancelled[c] -> leave_queue(c) :: else fi
        fi;
        answer[c] = 0; heard[c] = false; place = 0; joins = false; foreign = false;
        if :: !holding[c] -> goto look :: else fi
    }
critical:
    atomic {                        /* it may have taken its time; release_last */
        LIVES(c);
        was_active = (sub[c] == OPEN);
        if :: state[c] != OUTSIDE || was_active -> pending[c] = false :: else fi;
        heard[c] = false; joins = (queue[c] && inbox[c] == OPEN);
        where();
        if
        :: lk[here] == c + 1 -> lk[here] = 0; publish();
            if
            :: USABLE && joins -> line_tell(c + 1)
            :: USABLE && !joins -> line_tell(0)
            :: else -> raise_all();
#ifndef BAD_NO_ECHO
                echoes[c] = (here != owner)
#endif
            fi
        :: else -> assert(lost); is_lost = true
        fi;
        is_moved(c)
    }
    atomic {                        /* its answer */
        LIVES(c);
        if
        :: place == 0 -> skip
        :: place == 3 && !heard[c] -> stand(c, SECOND, true)
        :: place > 3 && !heard[c] -> stand(c, BEHIND, true)
        :: place > 2 && heard[c] || place == 1 || place == 2 -> stand(c, FIRST, true)
        fi;
        if :: !is_lost && WILL_BE_TOLD(c) :: else -> signal(c) fi;
        holding[c] = false; pending[c] = pending[c] && queue[c];
        heard[c] = false; place = 0; was_active = false; joins = false; is_lost = false;
        give_up(c);
        idle(c);
        goto look
    }
end_dead:
    false;
over:
    skip
}

#define RESTS(c) (dead[c] || queue[c] == 0 && !holding[c])

#ifdef BAD_END_IS_DROPPED
#define ENDS(c) (inbox[c] == PENDING || sub[c] == PENDING)
#else
#define ENDS(c) true
#endif
#define INBOX_ENDED(c) (inbox[c] != UNUSED && !inboxed[c] && !m_open[c])
#define CHANNEL_ENDED(c) (sub[c] != UNUSED && !channel[c] && !m_ack[c])
#define MUST_SUBSCRIBE(c) (ENDS(c) && (INBOX_ENDED(c) || CHANNEL_ENDED(c)))

#ifdef ENDLESS                      /* or a release that comes for ever would hide the acknowledgement */
#define IN_ORDER(c) !m_open[c]
#else
#define IN_ORDER(c) true
#endif

proctype io(byte c)
{
    byte place;
end:
    do
    :: atomic { !dead[c] && calls[c] && queue[c] + holding[c] < WIDTH ->
            COUNT_DOWN(calls[c]); queue[c]++;
            if :: queue[c] == 1 && !holding[c] -> pending[c] = true :: else fi }
    :: atomic { m_now[c] -> m_now[c] = false; hear(c); signal(c) }
    :: atomic { m_first[c] -> m_first[c] = false; hear(c) }
    :: atomic { m_second[c] -> m_second[c] = false; hear_second(c) }
    :: atomic { DUE && state[c] == SECOND -> state[c] = BEHIND;
            if :: queue[c] -> signal(c) :: else -> give_up(c) fi }
    :: atomic { DUE && state[c] == FIRST && queue[c] == 0 -> give_up(c) }
    :: atomic { DUE && state[c] == FIRST && queue[c] -> listen(c) }
    :: atomic { m_free[c] && IN_ORDER(c) -> m_free[c] = false; if :: HEARS_CHANNEL(c) -> signal(c) :: else fi }
    :: atomic { m_ack[c] -> m_ack[c] = false; sub[c] = OPEN;
            if :: HEARS_CHANNEL(c) -> signal(c) :: else fi }
    :: atomic { m_open[c] -> m_open[c] = false; inbox[c] = OPEN;
#ifndef BAD_REJOINS_IN_SILENCE
            signal(c)
#endif
        }
#ifdef IDLES
    :: atomic { inbox[c] == OPEN && inboxed[c] && queue[c] == 0 && !holding[c] ->
            inbox[c] = UNUSED; inboxed[c] = 0; m_open[c] = false }
#endif
    :: atomic { m_alarm[c] -> m_alarm[c] = false; signal(c) }
    :: atomic { m_sounds[c] -> m_sounds[c] = false; alarm[c] = OPEN;
#ifndef BAD_ALARM_OPENS_IN_SILENCE
            signal(c)
#endif
        }
    :: atomic { leaving[c] && !has_left[c] -> leave(c); leaving[c] = false; has_left[c] = true }
    :: atomic { has_left[c] -> has_left[c] = false; signal(c) }
    :: atomic { echoes[c] -> echoes[c] = false; here = owner; publish() }
    /* The connection is broken, or the subscriptions of the slot have ended: they are made again. */
    :: atomic { lossy[c] -> lossy[c] = false; inboxed[c] = 0; channel[c] = 0 }
    :: atomic { !dead[c] && !lossy[c] && MUST_SUBSCRIBE(c) ->
            if :: INBOX_ENDED(c) && inbox[c] == OPEN && RESTS(c) -> inbox[c] = UNUSED :: else fi;
            if
            :: INBOX_ENDED(c) ->
                inbox[c] = PENDING; inboxed[c] = NODE(c) + 1; m_open[c] = true
            :: else
            fi;
            if
            :: CHANNEL_ENDED(c) ->
                sub[c] = PENDING; channel[c] = NODE(c) + 1; m_ack[c] = true
            :: else
            fi }
    :: atomic { !dead[c] && alarm[c] != UNUSED && !alarmed[c] && !m_sounds[c] ->
            alarm[c] = PENDING; alarmed[c] = true; m_sounds[c] = true }
    od
}

#ifdef REDISSON
#define MAY_ACT !half
#else
#define MAY_ACT true
#endif

#if defined(TAKEN) || R > 0
/* A client of another version. Its release scripts know neither line nor alarm. */
proctype other()
{
    byte turns = R;
    bool asks = true;

#ifdef TAKEN
    goto holds;
#endif
    do
    :: turns == 0 && !o_echoes -> break
    :: atomic { turns > 0 && asks && MAY_ACT && lk[0] == 0 && lk[1] == 0 ->
            where(); lk[here] = OTHER; turns-- }
holds:  atomic { MAY_ACT -> where();
            if
            :: lk[here] == OTHER -> lk[here] = 0; publish();
#ifdef BAD_SAME_KEYS
                no_line();
#endif
#ifndef REDISSON
                o_echoes = (half && here != owner)
#endif
            :: else -> assert(lost)
            fi }
#ifdef WAITS
    :: atomic { asks && lk[0] + lk[1] != 0 -> o_channel = owner + 1; asks = false; o_wakes = false }
    :: atomic { o_wakes -> o_wakes = false; asks = true }
#endif
    :: atomic { o_echoes -> o_echoes = false; here = owner; publish() }
    od
}
#endif

#define IS_DEAD(e) (e != 0 && e != OTHER && dead[e - 1])

proctype redis()                    /* and time */
{
end:
    do
    :: atomic { ENDS_RESERVATIONS && DUE && reserved -> reserved = false }
#if MORTAL
    :: d_step { IS_DEAD(lk[0]) || IS_DEAD(lk[1]) ->
            lk[0] = 0; lk[1] = 0;   /* its lease ends */
            if :: knows_lease[0] || answer[0] == HELD -> signal(0) :: else fi;
#if T2 > 0
            if :: knows_lease[2] || answer[2] == HELD -> signal(2) :: else fi;
#endif
            if :: knows_lease[1] || answer[1] == HELD -> signal(1) :: else fi }
#endif
#if BREAKS > 0
    :: d_step { lossy[0] && (inboxed[0] || channel[0]) -> inboxed[0] = 0; channel[0] = 0 }
    :: d_step { lossy[1] && (inboxed[1] || channel[1]) -> inboxed[1] = 0; channel[1] = 0 }
#if T2 > 0
    :: d_step { lossy[2] && (inboxed[2] || channel[2]) -> inboxed[2] = 0; channel[2] = 0 }
#endif
#endif
    od
}

/* ---- moves and failovers ------------------------------------------------------------------ */

/* Its sharded subscriptions end: `sunsubscribe`, after the messages before it. */
inline end_of(c) { inboxed[c] = 0; channel[c] = 0 }

inline end_all()
{
    end_of(0); end_of(1);
#if T2 > 0
    end_of(2);
#endif
    if :: o_channel -> o_channel = 0; o_wakes = true :: else fi
}

inline change_owner()
{
    owner = FAR; half = false; list_far = false; turn_far = false;
#ifndef PLAIN
    end_all()
#endif
}

inline lose_messages(c)
{
    m_now[c] = false; m_first[c] = false; m_second[c] = false;
    m_free[c] = false; m_open[c] = false; m_ack[c] = false
}

inline lose_all()
{
    lose_messages(0); lose_messages(1);
#if T2 > 0
    lose_messages(2)
#endif
}

inline choose() {
    if
    :: c = 0 :: c = 1
#if T2 > 0
    :: c = 2
#endif
    fi
}

#if MOVES > 0
proctype mover()                    /* classic: it migrates a key at a time, and may stop for ever */
{
end:
    do
    :: atomic { moves < MOVES && !half -> moves++; half = true }
#ifndef COMPLETE
    :: half -> break
#endif
    :: atomic { half && lk[owner] != 0 -> assert(lk[FAR] == 0); lk[FAR] = lk[owner]; lk[owner] = 0 }
#if defined(BAD_NO_PROBE) || defined(BAD_PROBES_THE_LINE)
    :: atomic { half && n_line && !list_far -> list_far = true }
    :: atomic { half && turn && !turn_far -> turn_far = true }
    :: atomic { half && lk[owner] == 0 && (n_line == 0 || list_far) && (!turn || turn_far) -> change_owner() }
#else
    :: atomic { half && lk[owner] == 0 -> change_owner() }  /* no script knows when those of the line move */
#endif
    od
}
#endif

#if SWITCHES + FAILOVERS + LOSES > 0
proctype operator()
{
    byte c;
end:
    do
    :: atomic { switches < SWITCHES && !half -> switches++;
            lk[FAR] = lk[owner]; lk[owner] = 0; change_owner() }
    :: atomic { failovers < FAILOVERS && !half -> failovers++;
            lk[FAR] = lk[owner]; lk[owner] = 0; change_owner();
            if
            :: true                     /* a replica that has everything */
            :: no_line()
            :: choose(); no_line();     /* an older state: this client was alone in the line */
                n_line = 1; line[0] = c + 1; turn = true;
                if :: first = c + 1 :: told = c + 1; reserved = true fi; c = 0
#ifdef LOCK_IS_LOST
            :: no_line(); lk[owner] = 0; lost = true
#endif
            fi;
#ifndef SILENT
            lose_all(); end_all();
#ifdef PLAIN
            knows[0] = owner; knows[1] = owner
#endif
#endif
        }
    :: atomic { loses < LOSES && !half -> loses++;     /* evicted */
            if
            :: no_line()
            :: no_turn()
            :: n_line = 0; line[0] = 0; line[1] = 0; line[2] = 0; line[3] = 0; line[4] = 0
            fi }
    od
}
#endif

/* ---- clients that die or leave ------------------------------------------------------------ */

inline cut(c) { if :: !dead[c] -> lossy[c] = true; lose_messages(c) :: else fi }

inline cut_alarm(c) { alarmed[c] = false; m_alarm[c] = false; m_sounds[c] = false }

/* Nothing of it matters any more but what Redis has. */
inline die(c)
{
    dead[c] = true; lossy[c] = false; lose_messages(c); cut_alarm(c);
    calls[c] = 0; queue[c] = 0; pending[c] = false; asking[c] = false; holding[c] = false;
    cancelled[c] = false; inbox[c] = 0; sub[c] = 0; alarm[c] = 0; state[c] = 0; has_place[c] = false;
    knows_lease[c] = false; answer[c] = 0; heard[c] = false; leaving[c] = false; has_left[c] = false;
    echoes[c] = false
}

#define FATES (STOPS + KILLS + BREAKS + ABREAKS + CANCELS)

#if FATES > 0
proctype fate()
{
    byte c;
end:
    do
    :: atomic { stops < STOPS -> stops++; choose(); die(c); c = 0 }
    :: atomic { kills < KILLS -> kills++; choose(); die(c); end_of(c); c = 0 }
    :: atomic { breaks < BREAKS -> breaks++; choose(); cut(c); c = 0 }
    :: atomic { abreaks < ABREAKS -> abreaks++; choose(); cut_alarm(c); c = 0 }
    :: atomic { cancels < CANCELS -> cancels++; choose();
            if
            :: asking[c] -> cancelled[c] = true
            :: !asking[c] && queue[c] -> leave_queue(c)
            :: else
            fi; c = 0 }
    od
}
#endif

/* ---- the last resort, and the end --------------------------------------------------------- */

#if RECHECK > 0
#define HAS_TIMER(c) (queue[c] && (state[c] == FIRST || state[c] == SECOND))
#define MAY_RECHECK(c) (!rechecked[c] && !dead[c] && queue[c] && !holding[c] && (RECHECK > 1 || met_ask[c]))

bool rechecked[N];

inline recheck_it(c) { rechecked[c] = true; signal(c) }

/* After the timers of the line. */
proctype recheck()
{
end:
    do
    :: atomic { timeout && !HAS_TIMER(0) && !HAS_TIMER(1) && MAY_RECHECK(0) -> recheck_it(0) }
    :: atomic { timeout && !HAS_TIMER(0) && !HAS_TIMER(1) && MAY_RECHECK(1) -> recheck_it(1) }
    od
}
#endif

#define IS_IN(c) (line[0] == c + 1 || line[1] == c + 1 || line[2] == c + 1)
#define MAY_BE_IN (moves + failovers + loses > 0)
#define IS_OUT(c) (dead[c] || sub[c] == UNUSED && (MAY_BE_IN || !IS_IN(c)))

proctype at_end()
{
    timeout ->
    if
#if T2 > 0
    :: RESTS(0) && RESTS(1) && RESTS(2) -> assert(IS_OUT(0) && IS_OUT(1) && IS_OUT(2))
#else
    :: RESTS(0) && RESTS(1) -> assert(IS_OUT(0) && IS_OUT(1))
#endif
    :: else
    fi
}

#ifdef STANDING
#define STANDS true
#else
#define STANDS false
#endif

inline stands(c)
{
    if
    :: lk[0] == 0 -> lk[0] = c + 1; holding[c] = true; queue[c] = 0
    :: else ->
        line[n_line] = c + 1; n_line++; has_place[c] = true; pending[c] = false;
        if
        :: n_line == 1 -> state[c] = LISTENING; sub[c] = OPEN; channel[c] = 1; turn = true; first = c + 1
        :: else -> state[c] = BEHIND
        fi
    fi
}

inline start(c, n)                  /* one that never calls has nothing to do */
{
    sub[c] = UNUSED; state[c] = OUTSIDE; inbox[c] = UNUSED; alarm[c] = UNUSED;
    if
    :: c < FRESH || n == 0
    :: else -> inbox[c] = OPEN; inboxed[c] = 1; alarm[c] = OPEN; alarmed[c] = true
    fi;
    if
    :: n > 0 -> calls[c] = n; COUNT_DOWN(calls[c]); queue[c] = 1; pending[c] = true;
        if :: STANDS -> stands(c) :: else fi;
        run io(c); run client(c)
    :: else
    fi
}

init {
    atomic {
        run redis();
#ifndef ENDLESS
        run at_end();
#endif
#if MOVES > 0
        run mover();
#endif
#if SWITCHES + FAILOVERS + LOSES > 0
        run operator();
#endif
#if FATES > 0
        run fate();
#endif
#ifdef TAKEN
        lk[0] = OTHER;
#endif
#if defined(TAKEN) || R > 0
        run other();
#endif
#if RECHECK > 0
        run recheck();
#endif
        start(0, T0); start(1, T1);
#if T2 > 0
        start(2, T2)
#endif
    }
}

#ifdef ENDLESS
ltl turn { [] (queue[1] != 0 -> <> holding[1]) }
#endif
