/*
 * Deadlocks between processes.
 *
 * Each owner acquires a lock and, inside it, that of the next owner, without a limit of time or
 * with one, and releases all at the end, or when it is refused. They belong to clients. A client
 * publishes the waits of its owners in Redis, and follows the hashes of others, one command at a
 * time.
 *
 *   FOUND   no owner waits for ever: a cycle without a refusal is an end state that is not valid
 *   REAL    an owner is refused only if its cycle was there: at one moment each of its locks was in
 *           Redis, held by an owner that waited for the next one
 *   ONCE    a cycle has one victim: none of its other waits was refused for it
 *   AGE     a wait that Redis has keeps its time, so its cycle keeps its victim
 *
 * What stands for what:
 *
 *   acquire(), release_all()   relock_take, relock_release            lib/lock/call/take.c call/release.c
 *   give                       relock_cache_hand_off                  lib/lock/hold/cache.c
 *   s_owner                    scan                                   lib/deadlock/published.c
 *   COUNTS                     relock_chain_counts                    lib/deadlock/chain.c
 *   publisher                  publish, on_sent                       lib/deadlock/published.c
 *   execute                    scripts/publish_waits.lua
 *   seeker, look(), further()  relock_chain_follow                    lib/deadlock/chain.c
 *   the end of look()          proofs_conclude                        lib/deadlock/chain.c
 *   same, grown                relock_proof_check                     lib/deadlock/wait_graph.c
 *
 * A beat without an answer is sent again, and gives each wait that it brought before the same time.
 * The library adds no new waits to it; here they get a time of their own.
 *
 * A step that is atomic here is one critical section of a client's mutex, or one script of Redis.
 * Each command of a look is one step, so all may change between two of them. The first look follows
 * the chain; a further one asks for all at once, and its answers come in any order. The holder of a
 * lock and its wait are two steps, as in a cluster; elsewhere one command reads both.
 *
 * To keep the search small, numbers mean only what the protocol reads from them. A hold and a wait
 * have the number of the acquire (ID), because they are compared for equality only. The time of a
 * hash is later than all that are known. Of a beat, a proof knows by how much it has grown, up to
 * two. A client sends another beat as long as a proof waits for one: in the library it is asked for
 * these by a message, and sends four in a second if the message is lost.
 *
 * A command that runs late over a dead connection carries an old beat, so the script refuses it; but
 * not if the hash was deleted. Then it makes a hash with that beat. The wait has another time there
 * than in the next hash, because after a deletion a wait is published as a new one.
 *
 * Left out: readers, and time: a wait may be published as soon as it has begun. Owners act in one
 * thread, but for the other thread of owner 0.
 *
 * -DOWNERS (2 or 3), -DLOCKS, -DROUNDS: how often each owner starts anew; -DCALLS: to acquire, in
 * each round; -DSEEKS_FROM=n: the first n owners do not look; -DSHARED: owners 0 and 1 are of one
 * client; -DOTHERS=1: another thread of owner 0 releases what that holds, while it waits;
 * -DTIMEOUTS=n waits that end by themselves; -DLOSSES=n holds that expire; -DUNHEARD=n hashes, or
 * their answers, that are lost; -DBEATS=n hashes without a reason; -DLAPSES=n hashes in which no
 * hold counts for a moment, though its owner waits; -DLATES=n hashes that run again, late, when there
 * is none. -DWHOLE_LOOKS: a look is one
 * step; -DSTANDING: each owner has its first lock at the beginning. -DBAD_*: a rule left out.
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
#ifndef OTHERS
#define OTHERS 0
#endif
#ifndef LAPSES
#define LAPSES 0
#endif
#ifndef LATES
#define LATES 0
#endif
#ifdef SHARED
#define CLIENTS (OWNERS - 1)
#define CLIENT(o) (o == 0 -> 0 : o - 1)
#else
#define CLIENTS OWNERS
#define CLIENT(o) (o)
#endif

/* The lock that an owner acquires first, and that inside it. With the other thread, owner 1 wants
 * only the first lock of owner 0. */
#if OTHERS > 0
#define FIRST(o) (o == 2 -> 1 : 0)
#define SECOND(o) (o == 0 -> 1 : 0)
#define STANDS(o) (o != 1)
#else
#define FIRST(o) (o % LOCKS)
#define SECOND(o) ((o + 1) % LOCKS)
#define STANDS(o) (o < LOCKS)
#endif

/* Where only some look, only the others fail. */
#define FAILS(c) (SEEKS_FROM == 0 || (c) < SEEKS_FROM)

#define NONE 15
#define FIELD(c, l) ((c) * LOCKS + (l))

/* Redis: of each lock the client and the number of its hold; of each client its hashes, by hold. */
byte r_client[LOCKS], r_number[LOCKS];
byte hash_number[CLIENTS * LOCKS]; /* of the hold */
byte hash_wait[CLIENTS * LOCKS];   /* for which its owner waits: the serial, 0: for nothing */
byte hash_lock[CLIENTS * LOCKS];
byte hash_at[CLIENTS * LOCKS];     /* when that wait was first published */
byte ahead[CLIENTS];              /* by how much the next beat is higher than that in Redis */
#if LATES > 0
byte late_number[CLIENTS * LOCKS], late_wait[CLIENTS * LOCKS], late_lock[CLIENTS * LOCKS];
byte late_at[CLIENTS * LOCKS];    /* of a hash that is still to run */
byte late_by[CLIENTS];            /* by how much the next beat is higher than that */
bool is_late[CLIENTS];            /* there is such a hash */
byte n_lates;
#endif

/* Of each seeker and each step of its proof: by how much the beat of that client has grown since
 * the second look. More than 2 does not matter. */
byte proves[OWNERS * OWNERS];     /* the client + 1; 0: none */
byte grown[OWNERS * OWNERS];

/* Memory: of each lock the hold of this number, and its owner. */
byte m_number[LOCKS], m_owner[LOCKS];
byte s_owner[LOCKS];              /* of the hold, when its owner began to wait; NONE: it does not */
byte wants[OWNERS];               /* the lock for which it waits, or NONE */
byte serial[OWNERS];              /* of that wait; 0: it does not wait */
byte at[OWNERS];                  /* when it was published, as its client knows; 0: it was not */
bool news[OWNERS];                /* a look is to follow that */
bool given[OWNERS], refused[OWNERS];
byte turn[OWNERS];                /* its acquires so far: numbers its holds and waits */
bool dirty[CLIENTS];
byte last_refused[OWNERS];        /* ghost: the wait */
short refused_for[OWNERS];        /* ghost: all waits of that cycle, bit by bit */
byte n_timeouts, n_losses, n_unheard, n_beats, n_others, n_lapses;

/* Of the hold or wait of this acquire. Only equality matters. */
#define ID(o) (turn[o] * OWNERS + o + 1)

inline begin_wait(me, l)
{
    serial[me] = ID(me); at[me] = 0; wants[me] = l; dirty[CLIENT(me)] = true;
#ifdef BAD_LOOKS_FIRST
    news[me] = true;
#endif
    k = 0;
    do
    :: k == LOCKS -> break
    :: k < LOCKS ->
        if :: m_owner[k] == me -> s_owner[k] = me :: else fi;
        k++
    od;
    k = 0
}

inline end_wait(me)
{
    serial[me] = 0; at[me] = 0; wants[me] = NONE; dirty[CLIENT(me)] = true; news[me] = false;
    k = 0;
    do
    :: k == LOCKS -> break
    :: k < LOCKS ->
        if :: s_owner[k] == me -> s_owner[k] = NONE :: else fi;
        k++
    od;
    k = 0
}

#define has(l) (m_owner[l] == me)

/* The next owner of the same client that waits for it, or NONE. */
#ifdef SHARED
#define NEXT(l) \
    (me == 0 && serial[1] != 0 && wants[1] == l && !refused[1] -> 1 : \
     (me == 1 && serial[0] != 0 && wants[0] == l && !refused[0] -> 0 : NONE))
#else
#define NEXT(l) NONE
#endif

/* Gives it to the next owner, or back to Redis. */
inline release(me, l)
{
    next = NEXT(l);
    if
    :: next != NONE ->                                                  /* give */
        m_owner[l] = next; given[next] = true; end_wait(next)
    :: else ->
        if
        :: r_number[l] == m_number[l] && r_client[l] == CLIENT(me) ->
            r_client[l] = NONE; r_number[l] = 0
        :: else
        fi;
        m_owner[l] = NONE; m_number[l] = 0
    fi;
    next = 0
}

proctype owner(byte me)
{
    byte rounds, calls, l, k, next;

#ifdef STANDING
    if :: STANDS(me) -> calls = 1 :: else fi; /* it has its first lock */
#endif
again:
    atomic {
        if
        :: calls == CALLS -> goto back
        :: calls < CALLS ->
            l = (calls == 0 -> FIRST(me) : SECOND(me));
            calls++;
            if :: has(l) -> goto back :: else fi
        fi }
    do
    :: atomic { given[me] -> given[me] = false; turn[me]++; goto again }
    :: atomic { !given[me] && refused[me] -> turn[me]++; goto back }
    :: atomic { !given[me] && !refused[me] && r_client[l] == NONE && m_owner[l] == NONE ->
            r_client[l] = CLIENT(me); r_number[l] = ID(me);
            m_number[l] = ID(me); m_owner[l] = me;
            if :: serial[me] != 0 -> end_wait(me) :: else fi;
            turn[me]++; goto again }
    :: atomic { serial[me] == 0 && !given[me] && !refused[me] &&
                (r_client[l] != NONE || m_owner[l] != NONE) ->
            begin_wait(me, l) }
    :: atomic { serial[me] != 0 && !given[me] && !refused[me] && n_timeouts < TIMEOUTS ->
            n_timeouts++; end_wait(me); turn[me]++; goto again }
    od;
back:
    atomic { l = 0 }
    do
    :: atomic { l < LOCKS && has(l) -> release(me, l); l++ }
    :: atomic { l < LOCKS && !has(l) -> l++ }
    :: atomic { l == LOCKS ->
            l = 0; calls = 0; rounds++; refused[me] = false;
            if :: rounds < ROUNDS -> goto again :: else -> break fi }
    od
}

/* ---- hashes ---------------------------------------------------------------------------------- */

/* Later than all others that are known. */
inline next_at()
{
    now = 0; o = 0;
    do
    :: o == OWNERS -> break
    :: o < OWNERS -> if :: at[o] > now -> now = at[o] :: else fi; o++
    od;
    o = 0;
    do
    :: o == CLIENTS * LOCKS -> break
    :: o < CLIENTS * LOCKS -> if :: hash_at[o] > now -> now = hash_at[o] :: else fi; o++
    od;
    now++; o = 0
}

/* The beat is higher: the proofs that wait for it get on. */
inline beat(c)
{
    o = 0;
    do
    :: o == OWNERS * OWNERS -> break
    :: o < OWNERS * OWNERS ->
        if
        :: proves[o] == c + 1 && grown[o] + ahead[c] > 2 -> grown[o] = 2
        :: proves[o] == c + 1 && grown[o] + ahead[c] <= 2 -> grown[o] = grown[o] + ahead[c]
        :: else
        fi;
        o++
    od;
    o = 0
}

#define LACKS_BEAT(i, c) (proves[i] == c + 1 && grown[i] < 2)
#if OWNERS == 2
#define IS_AWAITED(c) (LACKS_BEAT(0, c) || LACKS_BEAT(2, c))
#else
#define IS_AWAITED(c) (LACKS_BEAT(0, c) || LACKS_BEAT(1, c) || LACKS_BEAT(3, c) || \
                       LACKS_BEAT(4, c) || LACKS_BEAT(6, c) || LACKS_BEAT(7, c))
#endif

/* The hold that was found when its owner began to wait: it may have another owner meanwhile. */
#ifdef BAD_NEW_OWNER
#define COUNTS(l) (o != NONE && m_owner[l] != NONE)
#else
#define COUNTS(l) (o != NONE && m_owner[l] == o)
#endif

/* No hold counts: the hash will be deleted, and whoever waits is published as a new wait later. */
inline lapse(c)
{
    n_lapses++;
    l = 0;
    do
    :: l == LOCKS -> break
    :: l < LOCKS -> number[l] = 0; wait[l] = 0; lock[l] = 0; first[l] = 0; l++
    od;
    l = 0;
#ifndef BAD_STAYS_DELETED
    dirty[c] = true                                     /* the next scan finds the holds again */
#endif
}

#define IS_EMPTY(c) (hash_number[FIELD(c, 0)] == 0 && hash_number[FIELD(c, 1)] == 0)

#if LATES > 0
/* It stays in a connection that dies, and the client sends it again over another one. */
inline keep_late(c)
{
    n_lates++; is_late[c] = true;
    l = 0;
    do
    :: l == LOCKS -> break
    :: l < LOCKS ->
        late_number[FIELD(c, l)] = number[l]; late_wait[FIELD(c, l)] = wait[l];
        late_lock[FIELD(c, l)] = lock[l]; late_at[FIELD(c, l)] = first[l]; l++
    od;
    l = 0
}

/* A hash that was deleted, and comes back with an old beat. */
proctype late(byte c)
{
    byte l, o, now;

end:
    do
    :: atomic { late_by[c] > 0 && IS_EMPTY(c) ->
            o = 0;
            do
            :: o == OWNERS * OWNERS -> break
            :: o < OWNERS * OWNERS ->
                if
                :: proves[o] == c + 1 && grown[o] >= late_by[c] - ahead[c] ->
                    grown[o] = grown[o] - (late_by[c] - ahead[c])
                :: proves[o] == c + 1 && grown[o] < late_by[c] - ahead[c] -> grown[o] = 0
                :: else
                fi;
                o++
            od;
            o = 0;
            next_at();
            l = 0;
            do
            :: l == LOCKS -> break
            :: l < LOCKS ->
                hash_number[FIELD(c, l)] = late_number[FIELD(c, l)];
                hash_wait[FIELD(c, l)] = late_wait[FIELD(c, l)];
                hash_lock[FIELD(c, l)] = late_lock[FIELD(c, l)];
                hash_at[FIELD(c, l)] = (late_wait[FIELD(c, l)] != 0 && late_at[FIELD(c, l)] == 0 ->
                                        now : late_at[FIELD(c, l)]);
                late_number[FIELD(c, l)] = 0; late_wait[FIELD(c, l)] = 0;
                late_lock[FIELD(c, l)] = 0; late_at[FIELD(c, l)] = 0;
                l++
            od;
            ahead[c] = late_by[c]; late_by[c] = 0; is_late[c] = false; l = 0; now = 0 }
    od
}
#endif

/* One command at a time: the next is composed after the answer. */
proctype publisher(byte c)
{
    byte number[LOCKS], wait[LOCKS], lock[LOCKS], first[LOCKS];
    byte l, o, now;
    bool again;

end:
    do
    :: atomic { dirty[c] || IS_AWAITED(c) || (n_beats < BEATS && FAILS(c)) ->
            if :: !dirty[c] && !IS_AWAITED(c) -> n_beats++ :: else fi;
            dirty[c] = false;
            l = 0;
            do
            :: l == LOCKS -> break
            :: l < LOCKS ->
                o = s_owner[l];
                if
                :: COUNTS(l) && CLIENT(o) == c && serial[o] != 0 && !refused[o] ->
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
            l = 0; o = 0;
            if :: n_lapses < LAPSES && FAILS(c) -> lapse(c) :: true fi;
#ifndef BAD_SAME_TIME
            if
            :: number[0] == 0 && number[1] == 0 ->
                do
                :: o == OWNERS -> break
                :: o < OWNERS -> if :: CLIENT(o) == c -> at[o] = 0 :: else fi; o++
                od;
                o = 0
            :: else
            fi;
#endif
#if LATES > 0
            if
            :: n_lates < LATES && FAILS(c) && (number[0] != 0 || number[1] != 0) -> keep_late(c)
            :: true
            fi
#endif
            }
        if
        :: atomic { n_unheard < UNHEARD && FAILS(c) -> n_unheard++; dirty[c] = true } /* lost */
#ifdef BAD_COUNTS_UNHEARD
            ahead[c]++;
#endif
            goto next
        :: atomic { true ->                                             /* execute */
            beat(c); again = (ahead[c] == 0); ahead[c] = 0;
            next_at();
            l = 0;
            do
            :: l == LOCKS -> break
            :: l < LOCKS ->
                if
#ifndef BAD_NEW_TIME
                :: again && wait[l] != 0 && first[l] == 0 && hash_wait[FIELD(c, l)] == wait[l] ->
                    first[l] = hash_at[FIELD(c, l)]
#endif
                :: else -> if :: wait[l] != 0 && first[l] == 0 -> first[l] = now :: else fi
                fi;
#if LAPSES == 0
                assert(wait[l] == 0 || hash_wait[FIELD(c, l)] != wait[l] ||
                       hash_at[FIELD(c, l)] == first[l]);               /* AGE */
#endif
                hash_number[FIELD(c, l)] = number[l];
                hash_wait[FIELD(c, l)] = wait[l];
                hash_lock[FIELD(c, l)] = lock[l];
                hash_at[FIELD(c, l)] = first[l];
                l++
            od;
            l = 0; now = 0; again = false }
        fi;
        if
        :: atomic { n_unheard < UNHEARD && FAILS(c) -> /* the same beat again */
                n_unheard++; dirty[c] = true }
#ifdef BAD_COUNTS_UNHEARD
            ahead[c]++
#endif
        :: atomic { true ->                                             /* the answer */
                ahead[c]++;
#if LATES > 0
                if :: is_late[c] -> late_by[c]++ :: else fi;
#endif
                l = 0;
                do
                :: l == LOCKS -> break
                :: l < LOCKS ->
                    o = 0;
                    do
                    :: o == OWNERS -> break
                    :: o < OWNERS ->
                        if
                        :: wait[l] != 0 && serial[o] == wait[l] && at[o] == 0 ->
                            at[o] = first[l];
#ifndef BAD_LOOKS_FIRST
                            news[o] = true
#endif
                        :: else
                        fi;
                        o++
                    od;
                    l++
                od;
                l = 0; o = 0 }
        fi;
next:
#ifndef BAD_KEEPS_ENDED
        atomic {
            l = 0;
            do
            :: l == LOCKS -> break
            :: l < LOCKS -> number[l] = 0; wait[l] = 0; lock[l] = 0; first[l] = 0; l++
            od;
            l = 0 }
#else
        skip
#endif
    od
}

/* ---- looks ----------------------------------------------------------------------------------- */

/* Of the cycle: what it found at each step. */
#define MEMBERS (OWNERS - 1)
#define PROOF(me, i) ((me) * OWNERS + (i))

#ifdef BAD_ONE_BEAT
#define BEATS_NEEDED 1
#else
#define BEATS_NEEDED 2
#endif

#ifdef BAD_NO_ORDER
#define IS_YOUNGER false
#else
#define IS_YOUNGER (a > my_at || (a == my_at && w > my_serial))
#endif

/* Takes what the holder of `l` waits for, and goes on to that lock. */
inline follow(me)
{
    if
    :: w == 0 -> over = true
    :: w != 0 && w == my_serial ->
        found = (steps > 0); over = true; pn[steps] = hn; pl[steps] = l
    :: else ->
        if
        :: IS_YOUNGER || steps == MEMBERS -> over = true
        :: else ->
            pn[steps] = hn; pw[steps] = w; pc[steps] = hc; pl[steps] = l; pa[steps] = a;
            steps++; l = nl
        fi
    fi;
    w = 0; a = 0; nl = 0
}

/* Ghost: whether the cycle that the first look has found is there. */
inline see(me)
{
    real = (serial[me] == my_serial && !refused[me]);
    l = mine; k = 0;
    do
    :: k == steps ->
        real = real && r_number[l] == pn[k] && m_number[l] == pn[k] && m_owner[l] == me;
        break
    :: k < steps ->
        o = (r_number[l] == pn[k] && m_number[l] == pn[k] -> m_owner[l] : NONE);
        if
        :: o == NONE -> real = false; break
        :: o != NONE && (serial[o] != pw[k] || given[o]) -> real = false; break
        :: else
        fi;
        l = wants[o]; k++
    od;
    k = 0; o = 0
}

inline end_look(me)
{
    members = steps;
    if :: found -> see(me) :: else fi;
    l = 0; hc = 0; hn = 0; steps = 0; over = false
}

/* Follows the locks from the one that `me` wants. `found` if they lead to `me`, and its wait is the
 * youngest. */
inline look(me)
{
    found = false; l = mine;
    do
    :: atomic { !over && hc == 0 ->                     /* who holds it */
            if
            :: r_client[l] == NONE -> over = true
            :: else ->
                hc = r_client[l]; hn = r_number[l];
                if
                :: hc == CLIENT(me) ->                  /* its own memory */
                    o = s_owner[l];
                    if
                    :: m_number[l] == hn && COUNTS(l) && serial[o] != 0 && !refused[o] &&
                       at[o] != 0 ->
                        w = serial[o]; a = at[o]; nl = wants[o]
                    :: else
                    fi;
                    o = 0; follow(me); hc = 0
                :: else -> hc = hc + 1
                fi
            fi;
            if :: over -> end_look(me); break :: else fi }
    :: atomic { !over && hc != 0 ->                     /* the hash of that client */
            hc--;
            if
            :: hash_number[FIELD(hc, l)] == hn && hash_wait[FIELD(hc, l)] != 0 ->
                w = hash_wait[FIELD(hc, l)]; a = hash_at[FIELD(hc, l)];
                nl = hash_lock[FIELD(hc, l)]
            :: else
            fi;
            follow(me); hc = 0;
            if :: over -> end_look(me); break :: else fi }
    od
}

/* The hold of this step is there. The last one is that of `me`, who still waits. */
inline check_hold(me, j)
{
    same = same && r_number[pl[j]] == pn[j] &&
           r_client[pl[j]] == (j == members -> CLIENT(me) : pc[j]);
    o = s_owner[pl[j]];
    same = same && (j != members || (m_number[pl[j]] == pn[j] && COUNTS(pl[j]) && o == me &&
                                     serial[me] == my_serial && !refused[me]));
    o = 0
}

/* The wait of this step has the same time: it is in the same hash, whose beats count. */
#ifdef BAD_SAME_TIME
#define IS_SAME(at, j) true
#else
#define IS_SAME(at, j) (at == pa[j])
#endif

/* Its owner still waits as before. */
inline check_wait(me, j, nth)
{
    if
    :: pc[j] == CLIENT(me) ->
        o = s_owner[pl[j]];
        if
        :: m_number[pl[j]] != pn[j] || !COUNTS(pl[j]) -> same = false
        :: else -> same = same && serial[o] == pw[j] && !refused[o] && at[o] != 0 && IS_SAME(at[o], j)
        fi;
        o = 0
    :: else ->
        a = hash_at[FIELD(pc[j], pl[j])]; w = pw[j];
        same = same && hash_number[FIELD(pc[j], pl[j])] == pn[j] &&
               hash_wait[FIELD(pc[j], pl[j])] == w && !IS_YOUNGER && IS_SAME(a, j);
        a = 0; w = 0;
        if
        :: nth == 2 -> proves[PROOF(me, j)] = pc[j] + 1; grown[PROOF(me, j)] = 0
        :: nth == 3 && grown[PROOF(me, j)] < BEATS_NEEDED -> same = false
        :: else
        fi
    fi
}

/* A bit for each command of a further look; the last hold has no wait that is asked for. */
#define HOLD_OF(j) (1 << (2 * (j)))
#define WAIT_OF(j) (1 << (2 * (j) + 1))
#define ALL_OF(n) (WAIT_OF(n) - 1)

/* Checks each step of the cycle anew, in any order. `same` if all are as they were. */
inline further(me, nth)
{
    same = true; asked = ALL_OF(members);
    do
    :: atomic { (asked & HOLD_OF(0)) -> asked = asked - HOLD_OF(0); check_hold(me, 0) }
    :: atomic { (asked & WAIT_OF(0)) -> asked = asked - WAIT_OF(0); check_wait(me, 0, nth) }
    :: atomic { (asked & HOLD_OF(1)) -> asked = asked - HOLD_OF(1); check_hold(me, 1) }
#if OWNERS > 2
    :: atomic { (asked & WAIT_OF(1)) -> asked = asked - WAIT_OF(1); check_wait(me, 1, nth) }
    :: atomic { (asked & HOLD_OF(2)) -> asked = asked - HOLD_OF(2); check_hold(me, 2) }
#endif
    :: asked == 0 -> break
    od
}

#ifdef WHOLE_LOOKS
#define LOOK atomic { look(me) }
#define FURTHER(nth) atomic { further(me, nth) }
#else
#define LOOK look(me)
#define FURTHER(nth) further(me, nth)
#endif

/* Of a step that waits for a beat. */
#define LACKS(i) (proves[PROOF(me, i)] != 0 && grown[PROOF(me, i)] < BEATS_NEEDED)

proctype seeker(byte me)
{
    byte mine, my_serial, my_at, members, steps, l, k, nl, w, a, hc, hn, o, i, asked;
    byte pn[OWNERS], pw[OWNERS], pc[OWNERS], pl[OWNERS];
    byte pa[OWNERS];
    short cycle;
    bool found, same, real, over;

end:
    do
    :: atomic { news[me] ->
            news[me] = false; my_serial = serial[me]; my_at = at[me]; mine = wants[me] }
        LOOK;
        if
        :: !found -> goto next
        :: else
        fi;
#ifndef BAD_ONE_LOOK
        FURTHER(2);
        if
        :: !same -> goto next
        :: else
        fi;
#ifndef BAD_NO_BEAT
        do
        :: i == members -> i = 0; break
        :: i < members && !LACKS(i) -> i++
        od;
        FURTHER(3);
        if
        :: !same -> goto next
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
            members = 0; real = false; found = false; same = false; i = 0;
            my_serial = 0; my_at = 0; mine = 0;
            do
            :: i == OWNERS -> break
            :: i < OWNERS ->
                pn[i] = 0; pw[i] = 0; pc[i] = 0; pl[i] = 0; pa[i] = 0;
                proves[PROOF(me, i)] = 0; grown[PROOF(me, i)] = 0; i++
            od;
            i = 0 }
    od
}

#ifdef SHARED
/* The other thread of owner 0, which waits: it releases what the owner holds. */
proctype other()
{
    byte l, k, next;

end:
    do
    :: atomic { n_others < OTHERS && serial[0] != 0 && m_owner[0] == 0 ->
            n_others++; release(0, l) }
    od
}
#endif

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
        do
        :: i == LOCKS -> break
        :: i < LOCKS -> r_client[i] = NONE; m_owner[i] = NONE; s_owner[i] = NONE; i++
        od;
        i = 0;
        do
        :: i == CLIENTS -> break
        :: i < CLIENTS -> ahead[i] = 1; i++
        od;
        i = 0;
        do
        :: i == OWNERS -> break
        :: i < OWNERS ->
            wants[i] = NONE; last_refused[i] = NONE;
#ifdef STANDING
            if
            :: STANDS(i) ->
                r_client[FIRST(i)] = CLIENT(i); r_number[FIRST(i)] = ID(i);
                m_number[FIRST(i)] = ID(i); m_owner[FIRST(i)] = i; turn[i] = 1
            :: else
            fi;
#endif
            i++
        od;
        i = 0;
        do
        :: i == OWNERS -> break
        :: i < OWNERS ->
            run owner(i);
            if :: i >= SEEKS_FROM -> run seeker(i) :: else fi;
            i++
        od;
        i = 0;
        do :: i == CLIENTS -> break :: i < CLIENTS -> run publisher(i); i++ od;
#if LATES > 0
        run late(0);
#endif
#ifdef SHARED
        if :: OTHERS > 0 -> run other() :: else fi;
#endif
        if :: LOSSES > 0 -> run expiry() :: else fi
    }
}
