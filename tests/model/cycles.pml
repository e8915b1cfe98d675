/*
 * Deadlocks between processes.
 *
 * Each owner acquires a lock and, inside it, that of the next owner, without a limit of time or with
 * one, and releases all at the end, or when it is refused. They belong to clients. A client records the waits
 * of its owners in Redis, and follows the records of others, one command at a time.
 *
 *   FOUND   no owner waits for ever: a cycle without a refusal is an end state that is not valid
 *   REAL    an owner is refused only if its cycle was there: at one moment each of its locks was in
 *           Redis, held by an owner that waited for the next one
 *   ONCE    a cycle has one victim: none of its other waits was refused for it
 *
 * What stands for what:
 *
 *   acquire(), release_all()   relock_take, relock_release            lib/lock/take.c release.c
 *   give                       relock_reuse_hand_off                  lib/lock/reuse.c
 *   recorder                   relock_record_send, on_sent            lib/lock/record.c waits.c
 *   execute                    scripts/waits_record.lua
 *   seeker, look()             relock_chain_look                      lib/lock/chain.c
 *   the end of look()          relock_proofs_conclude                 lib/lock/proofs.c
 *   same, proved               relock_proof_check                     lib/lock/wait_graph.c
 *
 * A step that is atomic here is one critical section of a client's mutex, or one script of Redis.
 * Each command of a look is one step, so all may change between two of them.
 *
 * Left out: readers, commands that run late over dead connections (they carry an old beat, so the
 * script refuses them), owners that act in several threads, and time: a wait may be recorded as
 * soon as it has begun.
 *
 * -DOWNERS, -DLOCKS, -DROUNDS: how often each owner starts anew; -DCALLS: to acquire, in each round;
 * -DSEEKS_FROM=n: the first n owners do not look; -DSHARED: owners 0 and 1 are of
 * one client; -DTIMEOUTS=n waits that end by themselves; -DLOSSES=n holds that expire; -DUNHEARD=n
 * records or their answers that are lost; -DBEATS=n records without a reason. -DWHOLE_LOOKS:
 * a look is one step; -DSTANDING: each owner has its first lock at the beginning. -DBAD_*: a rule left out.
 */
#ifndef OWNERS
#define OWNERS 2
#endif
#ifndef LOCKS
#define LOCKS 2
#endif
#ifndef CALLS
#define CALLS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef TIMEOUTS
#define TIMEOUTS 0
#endif
#ifndef SEEKS_FROM
#define SEEKS_FROM 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef BEATS
#define BEATS 0
#endif
#ifndef UNHEARD
#define UNHEARD 0
#endif
#ifdef SHARED
#define CLIENTS (OWNERS - 1)
#define CLIENT(o) (o == 0 -> 0 : o - 1)
#else
#define CLIENTS OWNERS
#define CLIENT(o) (o)
#endif

/* Where only some look, only the others fail. */
#define FAILS(c) (SEEKS_FROM == 0 || (c) < SEEKS_FROM)

#define NONE 15
#define FIELD(c, l) ((c) * LOCKS + (l))

/* Redis: of each lock the client and the number of its hold; of each client its records, by hold. */
byte r_client[LOCKS], r_number[LOCKS];
byte rec_number[CLIENTS * LOCKS]; /* of the hold */
byte rec_wait[CLIENTS * LOCKS];   /* for which its owner waits: the serial, 0: for nothing */
byte rec_lock[CLIENTS * LOCKS];
byte rec_at[CLIENTS * LOCKS];     /* when that wait was first recorded */
byte beat[CLIENTS];
byte clock;                       /* of the server: counts first records */
byte looked[CLIENTS];             /* how many records are wanted without a reason of its own */

/* Memory: of each lock the hold of this number, and its owner. */
byte m_number[LOCKS], m_owner[LOCKS];
byte n_holds, n_waits;            /* made so far */
byte wants[OWNERS];               /* the lock for which it waits, or NONE */
byte serial[OWNERS];              /* of that wait; 0: it does not wait */
byte at[OWNERS];                  /* when it was recorded, as its client knows; 0: it was not */
bool given[OWNERS], refused[OWNERS];
bool dirty[CLIENTS];
byte last_refused[OWNERS];        /* ghost: the wait */
short refused_for[OWNERS];        /* ghost: all waits of that cycle, bit by bit */
byte n_timeouts, n_losses, n_unheard, n_beats;

inline begin_wait(me, l)
{
    n_waits++; serial[me] = n_waits; at[me] = 0; wants[me] = l; dirty[CLIENT(me)] = true
}

inline end_wait(me)
{
    serial[me] = 0; at[me] = 0; wants[me] = NONE; dirty[CLIENT(me)] = true
}

#define has(l) (m_owner[l] == me)

inline acquire(me, l)
{
    do
    :: atomic { given[me] -> given[me] = false; break }
    :: atomic { !given[me] && refused[me] -> break }
    :: atomic { !given[me] && !refused[me] && r_client[l] == NONE && m_owner[l] == NONE ->
            n_holds++; r_client[l] = CLIENT(me); r_number[l] = n_holds;
            m_number[l] = n_holds; m_owner[l] = me;
            if :: serial[me] != 0 -> end_wait(me) :: else fi;
            break }
    :: atomic { serial[me] == 0 && !given[me] && !refused[me] &&
                (r_client[l] != NONE || m_owner[l] != NONE) ->
            begin_wait(me, l) }
    :: atomic { serial[me] != 0 && !given[me] && !refused[me] && n_timeouts < TIMEOUTS ->
            n_timeouts++; end_wait(me); break }
    od
}

/* The next owner of the same client that waits for it, or NONE. */
#ifdef SHARED
#define NEXT(l) \
    (me == 0 && serial[1] != 0 && wants[1] == l && !refused[1] -> 1 : \
     (me == 1 && serial[0] != 0 && wants[0] == l && !refused[0] -> 0 : NONE))
#else
#define NEXT(l) NONE
#endif

inline release_all(me)
{
    l = 0;
    do
    :: l == LOCKS -> break
    :: l < LOCKS ->
        if
        :: atomic { has(l) && NEXT(l) != NONE -> /* give */
                next = NEXT(l);
                m_owner[l] = next; given[next] = true; end_wait(next); next = 0 }
        :: atomic { has(l) ->
                if
                :: r_number[l] == m_number[l] && r_client[l] == CLIENT(me) ->
                    r_client[l] = NONE; r_number[l] = 0
                :: else
                fi;
                m_owner[l] = NONE; m_number[l] = 0 }
        :: !has(l)
        fi;
        l++
    od;
    l = 0
}

proctype owner(byte me)
{
    byte rounds, calls, l, next;

#ifdef STANDING
    if :: me < LOCKS -> calls = 1 :: else fi; /* it has its first lock */
#endif
    do
    :: rounds == ROUNDS -> break
    :: rounds < ROUNDS ->
        rounds++;
        do
        :: atomic { calls == CALLS -> break }
        :: atomic { calls < CALLS ->
                calls++;
                l = (calls == 1 -> me % LOCKS : (me + 1) % LOCKS) }
            if
            :: has(l) -> break
            :: else ->
                acquire(me, l);
                if :: refused[me] -> break :: else fi
            fi
        od;
        calls = 0;
        release_all(me);
        refused[me] = false
    od
}

/* ---- records ------------------------------------------------------------------------------- */

/* One command at a time: the next is composed after the answer. */
proctype recorder(byte c)
{
    byte number[LOCKS], wait[LOCKS], lock[LOCKS], first[LOCKS];
    byte confirmed, l, o;

end:
    do
    :: atomic { dirty[c] || looked[c] > 0 || (n_beats < BEATS && FAILS(c)) ->
            if :: !dirty[c] && looked[c] == 0 -> n_beats++ :: else fi;
            dirty[c] = false;
            if :: looked[c] > 0 -> looked[c]-- :: else fi;
            l = 0;
            do
            :: l == LOCKS -> break
            :: l < LOCKS ->
                o = m_owner[l];
                if
                :: o != NONE && CLIENT(o) == c && serial[o] != 0 && !refused[o] ->
                    number[l] = m_number[l]; wait[l] = serial[o];
                    lock[l] = wants[o]; first[l] = at[o]
                :: else ->
#ifdef BAD_KEEPS_ENDED
                    skip
#else
                    number[l] = 0; wait[l] = 0; lock[l] = 0; first[l] = 0
#endif
                fi;
                l++
            od;
            l = 0; o = 0 }
        if
        :: atomic { n_unheard < UNHEARD && FAILS(c) -> n_unheard++; dirty[c] = true; looked[c]++ } /* lost */
#ifdef BAD_COUNTS_UNHEARD
            confirmed++
#endif
            goto next
        :: true
        fi;
        atomic {                                                        /* execute */
            beat[c] = confirmed + 1;
            clock++;
            l = 0;
            do
            :: l == LOCKS -> break
            :: l < LOCKS ->
                rec_number[FIELD(c, l)] = number[l];
                rec_wait[FIELD(c, l)] = wait[l];
                rec_lock[FIELD(c, l)] = lock[l];
                rec_at[FIELD(c, l)] = (wait[l] != 0 && first[l] == 0 -> clock : first[l]);
                first[l] = rec_at[FIELD(c, l)];
                l++
            od;
            l = 0 }
        if
        :: atomic { n_unheard < UNHEARD && FAILS(c) -> /* the same beat again */
                n_unheard++; dirty[c] = true; looked[c]++ }
#ifdef BAD_COUNTS_UNHEARD
            confirmed++
#endif
        :: atomic { true ->                                             /* the answer */
                confirmed++;
                l = 0;
                do
                :: l == LOCKS -> break
                :: l < LOCKS ->
                    o = 0;
                    do
                    :: o == OWNERS -> break
                    :: o < OWNERS ->
                        if
                        :: wait[l] != 0 && serial[o] == wait[l] && at[o] == 0 -> at[o] = first[l]
                        :: else
                        fi;
                        o++
                    od;
                    l++
                od;
                l = 0; o = 0 }
        fi;
next:
        skip
    od
}

/* ---- looks --------------------------------------------------------------------------------- */

/* Of the cycle: what it found at each step. */
#define MEMBERS (OWNERS - 1)

/*
 * Follows the locks from the one that `me` wants. `found` if they lead to `me`, its wait is the
 * youngest, and, unless it is the first look, each step is as it was. Sets `pb` in the first two.
 */
inline look(me, nth)
{
    found = false; same = true; steps = 0; l = mine;
    do
    :: atomic { true ->
            hc = r_client[l]; hn = r_number[l] }
        if
        :: hc == NONE -> break
        :: else
        fi;
        atomic {
            w = 0; a = 0; nl = 0; b = 0; o = NONE;
            if
            :: hc == CLIENT(me) ->                      /* its own memory */
                if
                :: m_number[l] == hn && m_owner[l] != NONE ->
                    o = m_owner[l];
                    if
                    :: serial[o] != 0 && !refused[o] && at[o] != 0 ->
                        w = serial[o]; a = at[o]; nl = wants[o]
                    :: else
                    fi
                :: else
                fi
            :: else ->
                b = beat[hc];
                if
                :: rec_number[FIELD(hc, l)] == hn && rec_wait[FIELD(hc, l)] != 0 ->
                    w = rec_wait[FIELD(hc, l)]; a = rec_at[FIELD(hc, l)];
                    nl = rec_lock[FIELD(hc, l)]
                :: else
                fi;
                if :: nth == 2 && w != 0 -> looked[hc] = 2 :: else fi
            fi }
        if
        :: w == 0 -> break
        :: else
        fi;
        if
        :: w == my_serial -> found = (steps > 0); 
            if :: nth > 1 && (steps != members || pn[steps] != hn) -> same = false :: else fi;
            pn[steps] = hn;
            break
        :: else
        fi;
#ifndef BAD_NO_ORDER
        if :: a > my_at || (a == my_at && w > my_serial) -> break :: else fi;
#endif
        if :: steps == MEMBERS -> break :: else fi;
        if
        :: nth == 1 -> pn[steps] = hn; pw[steps] = w; pc[steps] = hc
        :: nth > 1 && (pn[steps] != hn || pw[steps] != w) -> same = false
        :: else
        fi;
        if :: nth == 2 -> pb[steps] = b :: else fi;
        if
#ifdef BAD_ONE_BEAT
        :: nth == 3 && hc != CLIENT(me) && b < pb[steps] + 1 -> proved = false
#else
        :: nth == 3 && hc != CLIENT(me) && b < pb[steps] + 2 -> proved = false
#endif
        :: else
        fi;
        steps++; l = nl
    od;
    if :: nth == 1 -> members = steps :: else fi;
    l = 0; nl = 0; w = 0; a = 0; b = 0; hc = 0; hn = 0; o = 0; steps = 0
}

#ifdef WHOLE_LOOKS
#define LOOK(nth) atomic { look(me, nth) }
#else
#define LOOK(nth) look(me, nth)
#endif

/* Ghost: whether the cycle that the first look has found is there. */
inline see()
{
    atomic {
        real = (serial[me] == my_serial && !refused[me]);
        l = mine; steps = 0;
        do
        :: steps == members ->
            real = real && r_number[l] == pn[steps] && m_number[l] == pn[steps] &&
                   m_owner[l] == me;
            break
        :: steps < members ->
            o = (r_number[l] == pn[steps] && m_number[l] == pn[steps] -> m_owner[l] : NONE);
            if
            :: o == NONE -> real = false; break
            :: o != NONE && (serial[o] != pw[steps] || given[o]) -> real = false; break
            :: else
            fi;
            l = wants[o]; steps++
        od;
        l = 0; steps = 0; o = 0 }
}

proctype seeker(byte me)
{
    byte mine, my_serial, my_at, members, steps, l, nl, w, a, b, hc, hn, o, i;
    byte pn[OWNERS], pw[OWNERS], pc[OWNERS], pb[OWNERS];
    byte done;
    short cycle;
    bool found, same, proved, real;

end:
    do
#ifdef BAD_LOOKS_FIRST
    :: atomic { serial[me] != 0 && serial[me] != done ->
#else
    :: atomic { serial[me] != 0 && at[me] != 0 && serial[me] != done ->
#endif
            my_serial = serial[me]; my_at = at[me]; mine = wants[me]; done = my_serial }
        LOOK(1);
        if
        :: !found -> goto next
        :: else
        fi;
        see();
#ifndef BAD_ONE_LOOK
        LOOK(2);
        if
        :: !found || !same -> goto next
        :: else
        fi;
#ifndef BAD_NO_BEAT
        do
        :: proved = true;
            LOOK(3);
            if
            :: !found || !same || proved -> break
            :: else
            fi;
            /* Until one that has not proved it sends another beat. */
            atomic {
                i = 0; b = NONE;
                do
                :: i == members -> break
                :: i < members && pc[i] != CLIENT(me) && beat[pc[i]] < pb[i] + 2 ->
                    b = beat[pc[i]]; break
                :: else -> i++
                od }
            if
            :: i == members
            :: i < members -> (beat[pc[i]] != b || serial[me] != my_serial)
            fi;
            i = 0; b = 0
        od;
        if
        :: !found || !same -> goto next
        :: else
        fi;
#endif
#endif
        atomic {
            if
            :: serial[me] == my_serial && !given[me] ->
                assert(real);                                           /* REAL */
                i = 0;
                do
                :: i == members -> break
                :: i < members ->
                    o = 0;
                    do
                    :: o == OWNERS -> break
                    :: o < OWNERS ->
                        assert(last_refused[o] != pw[i] ||
                               !(refused_for[o] & (1 << my_serial)));   /* ONCE */
                        o++
                    od;
                    cycle = cycle | (1 << pw[i]);
                    i++
                od;
                refused[me] = true; last_refused[me] = my_serial; refused_for[me] = cycle;
                end_wait(me)
            :: else
            fi;
            i = 0; o = 0; cycle = 0 }
next:
        atomic {
            members = 0; real = false; found = false; same = false; proved = false; i = 0;
            my_serial = 0; my_at = 0; mine = 0;
            do
            :: i == OWNERS -> break
            :: i < OWNERS -> pn[i] = 0; pw[i] = 0; pc[i] = 0; pb[i] = 0; i++
            od;
            i = 0 }
    od
}

/* A lease expires: its owner learns it later, or never. */
proctype expiry()
{
    byte l;

end:
    do
    :: atomic { n_losses < LOSSES && r_client[0] != NONE ->
            n_losses++; r_client[0] = NONE; r_number[0] = 0; dirty[CLIENT(m_owner[0])] = true;
            m_owner[0] = NONE; m_number[0] = 0 }
    od
}

init
{
    byte i;

    atomic {
        do :: i == LOCKS -> break :: i < LOCKS -> r_client[i] = NONE; m_owner[i] = NONE; i++ od;
        i = 0;
        do :: i == OWNERS -> break
           :: i < OWNERS -> wants[i] = NONE; last_refused[i] = NONE; run owner(i);
              if :: i >= SEEKS_FROM -> run seeker(i) :: else fi;
              i++
        od;
#ifdef STANDING
        i = 0;
        do
        :: i == LOCKS -> break
        :: i < LOCKS ->
            n_holds++;
            r_client[i] = CLIENT(i); r_number[i] = n_holds;
            m_number[i] = n_holds; m_owner[i] = i; i++
        od;
#endif
        i = 0;
        do :: i == CLIENTS -> break :: i < CLIENTS -> run recorder(i); i++ od;
        if :: LOSSES > 0 -> run expiry() :: else fi
    }
}
