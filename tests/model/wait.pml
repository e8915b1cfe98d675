/*
 * Waiting and waking: two processes with two threads each, one lock, one Redis.
 *
 * The head of the queue asks Redis and the others sleep. A refused head wants the channel; messages
 * and acknowledgements arrive. These things may go wrong at any moment: the subscriber connection breaks and
 * loses everything in flight; the subscription ends after a while without waiters; a waiter is
 * cancelled; a try or a release fails, whether it ran or not; a hold is lost when its time runs out, or
 * becomes suspect; another client frees the lock by force; a hold is handed off; another lock of the
 * process with the same channel comes and goes.
 *
 * NOT in it: recheck_ms. A waiter that only recheck_ms would wake is an invalid end state here, which
 * spin reports. The end of a lease that Redis reported (lease_end_ms) is in it.
 *
 *   AWAKE       no waiter sleeps while the lock is free and nothing in flight will wake it
 *   EXCLUSION   at most one thread is certain of its hold, and that hold is in Redis
 *   TURN        a waiting process finds the lock free at some time, though the other is busy (-DENDLESS)
 *
 * What stands for what (lib/lock/ where nothing else is said):
 *
 *   wake_head, signal, end_unreached, MAY_ASK
 *                   wake_head, relock_resource_signal, relock_resource_end_unreached,
 *                   relock_resource_may_ask                            resource.c
 *   enqueue, dequeue
 *                   relock_resource_enqueue, relock_resource_dequeue   resource.c
 *   acquired, released
 *                   relock_resource_acquired, relock_resource_released
 *                                                                      resource.c
 *   gate[]          relock_gate_open, relock_gate_wait                 lib/base/gate.c
 *   want, change, sync
 *                   relock_subscription_want, sync_channel, step, make_so
 *                                                                      subscription.c
 *   io              on_channel                                         subscription.c
 *                   on_up, on_down                                     lib/redis/io/pubsub.c
 *                   relock_pubsub_take_reply                           lib/redis/io/channel.c
 *   listen, unlisten
 *                   relock_pubsub_subscribe, relock_pubsub_unsubscribe
 *                                                                      lib/redis/io/pubsub.c
 *   ACKED           is_subscribed of a channel                         lib/redis/io/pubsub.c
 *   thread          take_first_level                                   take.c
 *                   leave_queue, relock_waiter_wait, relock_waiter_ended, sleep_in_queue
 *                                                                      wait.c
 *                   relock_ask, take_granted, release_useless, take_refused, take_failure
 *                                                                      ask.c
 *                   release, release_last, relock_release_lost, judge_last
 *                                                                      release.c
 *                   relock_cache_hand_off, next_owner                  cache.c
 *                   relock_let_go                                      settle.c
 *   fresh, settle   relock_holds_new, relock_holds_settle              holds.c
 *   watchdog        relock_holds_lose, relock_holds_check_time, relock_holds_suspect,
 *                   relock_holds_renew                                 holds.c
 *                   take_answer                                        watchdog.c
 *                   relock_settle_step                                 settle.c
 *                   and Redis: a lease that nobody renews ends
 *
 * Left out: nesting and explicit owners (no wait starts anew), shutdown, replicas, lack of memory, a
 * refused SUBSCRIBE (then only recheck_ms wakes), and commands that run late, see unknown.pml.
 *
 * Budgets: T0..T3 turns of each thread, RESETS, LINGERS, CANCELS, LOSSES, NOTRY, USELESS, NOUNLOCK,
 * SUSPECTS, FORCES, NEIGHBOURS; PASSES between two asks (handoff_ms). -DMUTE: process 0 may not publish.
 * -DTRY0, -DTRY2: that thread only tries. -DENDLESS: a thread with more than one turn never stops.
 * -DBAD_*: a rule left out.
 */
#ifndef RESETS
#define RESETS 0
#endif
#ifndef LINGERS
#define LINGERS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef NOTRY
#define NOTRY 0
#endif
#ifndef USELESS
#define USELESS 0
#endif
#ifndef NOUNLOCK
#define NOUNLOCK 0
#endif
#ifndef SUSPECTS
#define SUSPECTS 0
#endif
#ifndef FORCES
#define FORCES 0
#endif
#ifndef NEIGHBOURS
#define NEIGHBOURS 0
#endif
#ifndef PASSES
#define PASSES 1
#endif
#ifndef TRY0
#define TRY0 false
#endif
#ifndef TRY2
#define TRY2 false
#endif
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
#ifndef T2
#define T2 1
#endif
#ifndef T3
#define T3 1
#endif

mtype = { SUB, UNSUB, ACK, MSG };
mtype = { CLOSED, UP, BROKEN };     /* BROKEN: it is dead and we have not noticed */
mtype = { HELD, SUSPECT, RELEASING, LOST };

byte lk;                            /* Redis: the number that holds, 0 = free */
bool sub[2];                        /* Redis: this process is subscribed */
chan c2s[2] = [4] of { mtype };     /* subscriber connection, to the server */
chan s2c[2] = [6] of { mtype };     /* and back */
mtype conn[2] = CLOSED;

/* the resource of each process; all of it is guarded by the mutex of the client */
byte holder[2];                     /* thread + 1, 0 none */
byte q0[2], q1[2];                  /* queue, thread + 1 */
bool pending[2];
bool lease_end[2];                  /* known */
bool wants[2], subscribed[2], drops[2], to_sync[2];
bool channel[2];                    /* the I/O thread's: the resource listens to it */
bool neighbour[2];                  /* and so does the resource of another name */
byte unacked[2];                    /* SUBs on this connection without an answer */
byte passes[2];                     /* since it was taken from Redis */

/* the waiter and the hold of each thread */
bool gate[4], granted[4], cancelled[4], unreached[4];
bool before[4];                     /* it joined before the try in flight was sent */
byte held[4];                       /* number of its hold, or of the try */
mtype state[4];                     /* of its hold */

byte used;                          /* ghost, a set of numbers: not to be given again */
byte owed;                          /* a set of numbers: holds that are SETTLING */
byte certain;                       /* ghost: threads that are sure to hold */
bool fooled[2];                     /* ghost: freed by force, and nobody here has noticed */
bool trying;                        /* ghost: granted by Redis, the reply is in flight */
byte neighbours, lingers, cancels, losses, notry, useless, nounlock, suspects, forces, resets;

#define RESOURCE(t) (t / 2)
#define BIT(n) (1 << (n - 1))

#ifdef ENDLESS
#define LESS(n) if :: n == 1 -> n-- :: else fi
#else
#define LESS(n) n--
#endif

/* ---- Redis ------------------------------------------------------------------------------- */

inline tell(p)
{
    if
#ifdef ENDLESS                      /* a message behind a message says nothing new */
    :: sub[p] && len(s2c[p]) < 2 -> s2c[p]!MSG
#else
    :: sub[p] -> assert(nfull(s2c[p])); s2c[p]!MSG
#endif
    :: else
    fi
}

#ifdef MUTE
#define MAY_PUBLISH(p) (p != 0)
#else
#define MAY_PUBLISH(p) true
#endif

inline free_lock(p)                 /* and announce it */
{
    lk = 0;
    if :: MAY_PUBLISH(p) -> tell(0); tell(1) :: else fi
}

/* ---- resource -------------------------------------------------------------------------------- */

inline wake_head(p) { if :: q0[p] -> gate[q0[p] - 1] = true :: else fi }

inline signal(p)
{
    pending[p] = true;
    if :: holder[p] == 0 -> wake_head(p) :: else fi
}

inline enqueue(p, t)
{
    before[t] = false;
    if
    :: q0[p] == 0 -> q0[p] = t + 1; if :: holder[p] == 0 -> signal(p) :: else fi
    :: else -> q1[p] = t + 1
    fi
}

inline dequeue(p, t)
{
    if
    :: q0[p] == t + 1 -> q0[p] = q1[p]; q1[p] = 0;
#ifndef BAD_NEXT_HEAD_SLEEPS_ON
        wake_head(p)
#endif
    :: else -> assert(q1[p] == t + 1); q1[p] = 0
    fi
}

#ifdef BAD_ASK_WHILE_SUSPECT
#define NOT_IN_THE_WAY(p) (holder[p] == 0 || state[holder[p] - 1] == SUSPECT)
#else
#define NOT_IN_THE_WAY(p) (holder[p] == 0)
#endif
#ifdef BAD_CANCEL_BEATS_GRANT
#define GRANT_COUNTS(t) (!cancelled[t])
#else
#define GRANT_COUNTS(t) true
#endif
#ifdef BAD_NO_BUDGET
#define BUDGET(p) true
#else
#define BUDGET(p) (passes[p] > 0)
#endif
#define MAY_ASK(p, t) (q0[p] == t + 1 && pending[p] && NOT_IN_THE_WAY(p))

inline acquired(p, t)
{
    dequeue(p, t);
    holder[p] = t + 1; state[t] = HELD; lease_end[p] = false
}

inline released(p, announced)
{
    holder[p] = 0; lease_end[p] = false;
    if
    :: !(announced) -> signal(p)
    :: else -> wake_head(p)
    fi
}

/* a waiter that joined in the same millisecond counts as before or not */
inline end_unreached(p)
{
    if
    :: q0[p] && before[q0[p] - 1] && !granted[q0[p] - 1] ->
        unreached[q0[p] - 1] = true; gate[q0[p] - 1] = true
    :: else
    fi;
    if
    :: q1[p] && !granted[q1[p] - 1] -> unreached[q1[p] - 1] = true; gate[q1[p] - 1] = true
    :: !(q1[p] && before[q1[p] - 1])
    fi
}

/* ---- subscription ------------------------------------------------------------------------ */

inline change(p, w)
{
    wants[p] = w; subscribed[p] = false; to_sync[p] = true;
    drops[p] = drops[p] || !w
}

inline want(p) { if :: !wants[p] -> change(p, true) :: else fi }

inline to_server(p, m)
{
    if
    :: conn[p] == UP -> assert(nfull(c2s[p])); c2s[p]!m;
        if :: m == SUB -> unacked[p]++ :: else fi
    :: else
    fi
}

/* the first listener subscribes, the last unsubscribes */
inline listen(p) { if :: !channel[p] && !neighbour[p] -> to_server(p, SUB) :: else fi }
#ifdef BAD_LEAVER_UNSUBSCRIBES
inline unlisten(p) { to_server(p, UNSUB) }
#else
inline unlisten(p) { if :: !channel[p] && !neighbour[p] -> to_server(p, UNSUB) :: else fi }
#endif

#define ACKED(p) (conn[p] == UP && unacked[p] == 0)

inline sync(p)                      /* the I/O thread alone touches channel and conn: one step */
{
    to_sync[p] = false;
    if :: drops[p] && channel[p] -> channel[p] = false; unlisten(p) :: else fi;
    if
    :: wants[p] && !channel[p] -> listen(p); channel[p] = true;
        if                          /* no acknowledgement is to come */
#ifndef BAD_JOINS_IN_SILENCE
        :: neighbour[p] && ACKED(p) -> subscribed[p] = true; signal(p)
#endif
        :: else
        fi
    :: else
    fi;
    drops[p] = false
}

/* ---- holds ------------------------------------------------------------------------------- */

inline fresh(t)                     /* the lowest that is nowhere any more stands for a fresh one */
{
#ifdef BAD_GIVER_KEEPS_ITS_NUMBER
    held[t] = t + 1
#else
    held[t] = 1;
    do :: used & BIT(held[t]) -> held[t]++ :: else -> break od;
    assert(held[t] <= 8); used = used | BIT(held[t])
#endif
}

inline ended(t) { used = used & ~BIT(held[t]); held[t] = 0; state[t] = 0 }

inline settle(t)
{
    if
    :: lk == held[t] -> owed = owed | BIT(held[t]); held[t] = 0; state[t] = 0
    :: else -> ended(t)             /* nothing runs late here: nothing is left to be seen to */
    fi
}

inline unsure(p) { if :: fooled[p] -> fooled[p] = false :: else -> assert(certain == 1); certain-- fi }

/* ---- a thread: lock or trylock, unlock --------------------------------------------------- */

proctype thread(byte t; byte turns; bool once)
{
    byte p = RESOURCE(t);
    bool heard, ok, unanswered, told;
    byte r;

next_turn:                          /* between two calls the mutex is free */
    if
    :: turns == 0 -> goto over
    :: turns != 0 -> LESS(turns)
    fi;
    atomic {                        /* take_first_level */
        cancelled[t] = false; unreached[t] = false;
        if
        :: once && (q0[p] || holder[p]) -> goto next_turn          /* BUSY */
        :: else -> enqueue(p, t); gate[t] = true
        fi
    }
look:
    atomic {                        /* relock_waiter_wait, end_of_wait, sleep_in_queue */
        gate[t] -> gate[t] = false;
        if
        :: granted[t] && GRANT_COUNTS(t) -> granted[t] = false; goto critical
#ifdef BAD_CANCEL_BEATS_GRANT
        :: granted[t] && cancelled[t] -> granted[t] = false; unsure(p); released(p, false); settle(t);
            goto next_turn
#endif
        :: !granted[t] && (cancelled[t] || unreached[t]) ->
#ifdef BAD_WAKE_PER_WAITER
            if :: q0[p] == t + 1 -> pending[p] = false :: else fi;
#endif
            dequeue(p, t); goto next_turn
        :: !granted[t] && !cancelled[t] && !unreached[t] && MAY_ASK(p, t)
        :: else -> goto look
        fi;
        pending[p] = false; fresh(t);
        if :: q0[p] -> before[q0[p] - 1] = true :: else fi;
        if :: q1[p] -> before[q1[p] - 1] = true :: else fi
    }
    if
    :: atomic {                     /* the script runs */
            if
            :: lk == 0 || lk == held[t] -> lk = held[t]; trying = true; ok = true
            :: else -> ok = false; lease_end[p] = true     /* reckoned from the reply: not earlier */
            fi
        }
        if
        :: atomic { !ok ->                                 /* take_refused */
                ended(t);
                if
                :: once ->
#ifndef BAD_TRYLOCK_LEAVES_NOTHING
                    if :: !subscribed[p] -> signal(p) :: else fi;
#endif
                    dequeue(p, t); goto next_turn
                :: else -> want(p); gate[t] = true; goto look
                fi }
        :: atomic { ok -> ok = false; trying = false;      /* take_granted */
                acquired(p, t); passes[p] = PASSES; assert(certain == 0); certain++ }
        :: atomic { ok && useless < USELESS -> useless++; ok = false; trying = false }
            atomic {                                       /* release_useless */
                if :: lk == held[t] -> free_lock(p) :: else fi;
                ended(t); signal(p); dequeue(p, t); goto next_turn }
        fi
    :: atomic { notry < NOTRY -> notry++;                  /* take_failure: it ran, or did not */
            if
            :: lk == 0 -> lk = held[t]
            :: true
            fi }
        atomic {
            settle(t);
#ifndef BAD_FAILED_TRY_TAKES_THE_SIGNAL
            signal(p);
#endif
            if :: end_unreached(p) :: true fi;             /* RELOCK_E_CONN, or another failure */
            dequeue(p, t); goto next_turn
        }
    fi;

critical:
    skip;                           /* it may take its time */
    atomic {                        /* release, with the mutex */
        assert(state[t] == LOST || fooled[p] || lk == held[t]);
        if
        :: state[t] == LOST -> settle(t); goto next_turn
        :: else
        fi;
        unsure(p);
        r = q0[p];                  /* the first that has not been ended */
        if :: r && unreached[r - 1] -> r = q1[p]; if :: r && unreached[r - 1] -> r = 0 :: else fi :: else fi;
        if
        :: r && state[t] == HELD && BUDGET(p) ->           /* hand off */
            if :: passes[p] > 0 -> passes[p]-- :: else fi;
            r--; acquired(p, r); granted[r] = true; gate[r] = true;
            held[r] = held[t]; held[t] = 0; state[t] = 0;
            if :: lk != held[r] -> fooled[p] = true :: else -> assert(certain == 0); certain++ fi;
            r = 0; goto next_turn
        :: else -> r = 0
        fi;
        state[t] = RELEASING;
        heard = subscribed[p];
        if :: heard -> pending[p] = false :: else fi
    }
    if
    :: atomic { if :: lk == held[t] -> free_lock(p); ok = true :: else -> ok = false fi }
    :: atomic { nounlock < NOUNLOCK -> nounlock++;         /* RELOCK_E_CONN: it ran, or did not */
            if :: lk == held[t] -> free_lock(p) :: true fi;
            ok = false }
    :: atomic { nounlock < NOUNLOCK && lk == held[t] -> nounlock++; free_lock(p);
            unanswered = true; ok = true }                 /* it ran, and the repeat says gone */
    fi;
    atomic {                        /* judge_last, released */
        told = ok && !unanswered && MAY_PUBLISH(p);
#ifdef BAD_UNANNOUNCED_IS_HEARD
        told = ok;
#endif
#ifdef BAD_UNHEARD_HEAD_WAITS
        heard = true;
#endif
#ifdef BAD_OWNER_LEAVES_SILENTLY
        told = true;
#endif
        released(p, heard && told); settle(t);
        heard = false; ok = false; told = false; unanswered = false;
        goto next_turn
    }
over:
    skip
}

/* ---- the I/O thread and the server ------------------------------------------------------- */

proctype server(byte p)             /* subscription commands in the order in which they came */
{
end:
    do
    :: atomic { c2s[p]?SUB -> sub[p] = true; assert(nfull(s2c[p])); s2c[p]!ACK }
    :: atomic { c2s[p]?UNSUB -> sub[p] = false }
    od
}

proctype io(byte p)
{
end:
    do
    :: atomic { to_sync[p] -> sync(p) }
    :: atomic { s2c[p]?MSG ->
#ifdef BAD_MESSAGE_WHILE_OWNED_IS_DROPPED
            if :: channel[p] && holder[p] == 0 -> signal(p) :: else fi
#else
            if :: channel[p] -> signal(p) :: else fi
#endif
        }
    :: atomic { s2c[p]?ACK -> unacked[p]--;
            if
            :: !channel[p]
#ifdef BAD_NO_SECOND_TRY
            :: channel[p] -> subscribed[p] = wants[p]
#else
#if defined(BAD_ONLY_FIRST_ACK) || defined(BAD_NO_RESUBSCRIBE_WAKE)
            :: channel[p] && !subscribed[p] && wants[p] -> subscribed[p] = true; signal(p)
            :: channel[p] && (subscribed[p] || !wants[p])
#else
#ifdef BAD_ACK_WHILE_OWNED_IS_DROPPED
            :: channel[p] && holder[p] -> subscribed[p] = wants[p]
            :: channel[p] && !holder[p] -> subscribed[p] = wants[p]; signal(p)
#else
            :: channel[p] -> subscribed[p] = wants[p]; signal(p)
#endif
#endif
#endif
            fi }
    :: atomic { conn[p] == BROKEN -> conn[p] = CLOSED; unacked[p] = 0;     /* on_down */
#ifndef BAD_NO_RESUBSCRIBE_WAKE
            if
            :: !channel[p]
#ifdef BAD_ACK_WHILE_OWNED_IS_DROPPED
            :: channel[p] && holder[p] -> subscribed[p] = false
            :: channel[p] && !holder[p] -> subscribed[p] = false; signal(p)
#else
            :: channel[p] -> subscribed[p] = false; signal(p)
#endif
            fi
#endif
        }
    :: atomic { conn[p] == CLOSED && (channel[p] || neighbour[p]) ->               /* on_up */
            conn[p] = UP; to_server(p, SUB) }
#if NEIGHBOURS > 0
    :: atomic { neighbours < NEIGHBOURS -> neighbours++;
            if
            :: !neighbour[p] -> listen(p); neighbour[p] = true
            :: neighbour[p] -> neighbour[p] = false; unlisten(p)
            fi }
#endif
    :: atomic { lingers < LINGERS && wants[p] && q0[p] == 0 && holder[p] == 0 ->
            lingers++; change(p, false) }
    od
}

#if RESETS > 0
proctype breaker()                  /* cuts the subscriber connection: messages in flight are lost */
{
    byte p;
end:
    do
    :: atomic { resets < RESETS && (conn[0] == UP || conn[1] == UP) -> resets++;
            if :: conn[0] == UP -> p = 0 :: conn[1] == UP -> p = 1 fi;
            conn[p] = BROKEN; sub[p] = false;
            do :: c2s[p]?_ :: empty(c2s[p]) -> break od;
            do :: s2c[p]?_ :: empty(s2c[p]) -> break od;
            p = 0 }
    od
}
#endif

#if CANCELS > 0
proctype canceller()                /* or the deadline of a waiter that has asked already */
{
    byte t;
end:
    do
    :: atomic { cancels < CANCELS -> cancels++;
            if :: t = 0 :: t = 1 :: t = 2 :: t = 3 fi;
            cancelled[t] = true; gate[t] = true; t = 0 }
    od
}
#endif

#if LOSSES + NOTRY + NOUNLOCK + SUSPECTS + FORCES > 0
#define IS_HELD(p) (holder[p] && (state[holder[p] - 1] == HELD || state[holder[p] - 1] == SUSPECT))

proctype watchdog()
{
    byte p;
end:
    do
    :: atomic { losses < LOSSES && (IS_HELD(0) || IS_HELD(1)) ->       /* valid_until_ms, or gone from Redis */
            if :: IS_HELD(0) -> p = 0 :: IS_HELD(1) -> p = 1 fi;
            losses++; state[holder[p] - 1] = LOST; unsure(p);
#ifdef BAD_LOSS_IS_NO_SIGNAL
            released(p, true);
#else
            released(p, false);
#endif
            p = 0 }
    :: atomic { suspects < SUSPECTS && (IS_HELD(0) || IS_HELD(1)) ->
            if :: IS_HELD(0) -> p = 0 :: IS_HELD(1) -> p = 1 fi;
            suspects++; state[holder[p] - 1] = SUSPECT; p = 0 }
    :: atomic { forces < FORCES && certain == 1 && !trying -> forces++; certain--;
            if
            :: holder[0] && held[holder[0] - 1] == lk -> fooled[0] = true
            :: holder[1] && held[holder[1] - 1] == lk -> fooled[1] = true
            fi;
            free_lock(1) }
    :: atomic { lk != 0 && owed & BIT(lk) -> owed = owed & ~BIT(lk); used = used & ~BIT(lk);
            free_lock(1) }                                 /* settled */
    :: atomic { lk != 0 && certain == 0 && !trying ->      /* a lease that nobody renews ends */
            if
            :: owed & BIT(lk) -> owed = owed & ~BIT(lk); used = used & ~BIT(lk)
            :: else
            fi;
            lk = 0;
            if :: lease_end[0] -> signal(0) :: else fi;
            if :: lease_end[1] -> signal(1) :: else fi }
    od
}
#endif

init {
    atomic {
        run server(0); run server(1); run io(0); run io(1);
#if RESETS > 0
        run breaker();
#endif
#if CANCELS > 0
        run canceller();
#endif
#if LOSSES + NOTRY + NOUNLOCK + SUSPECTS + FORCES > 0
        run watchdog();
#endif
        run thread(0, T0, TRY0); run thread(1, T1, false);
        run thread(2, T2, TRY2); run thread(3, T3, false)
    }
}

#ifdef ENDLESS
#ifdef LUCK                         /* to get it, once it is free, is a race that one may always lose */
ltl turn { [] (q0[1] != 0 -> <> (holder[1] != 0)) }
#else
ltl turn { [] (q0[1] != 0 -> <> (lk == 0 || holder[1] != 0)) }
#endif
#endif
