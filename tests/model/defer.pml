/*
 * Deferred releases: last releases whose callers do not wait for the answer.
 *
 * N threads of one client try one lock, and whoever gets it releases it, over one lane. A release is
 * posted: the thread that drives the lane sends it, or its caller does, while the driver waits for
 * replies. Any later driver reads the answer, or the I/O thread does. The connection may break; then commands of it run later or never, until the
 * connection is killed. At the end the client is freed.
 *
 *   OWN     no try is refused because of a hold whose release had returned before the try began
 *   FREE    when the client is freed, Redis has none of its holds
 *   SENDER  one thread at a time sends, or ends the connection
 *   READS   a driver waits for replies only if its own command is on its way
 *   and each call returns, and each release ends: anything else is an invalid end state
 *
 * What stands for what:
 *
 *   post()         relock_defer, post                    lib/lock/call/defer.c
 *                  relock_lane_post                      lib/redis/lane/lane.c
 *   await()        relock_defer_await, wait_once         lib/lock/call/defer.c
 *   answer()       on_answer, read_answer                lib/lock/call/defer.c
 *   send_beside()  relock_sending_beside                 lib/redis/lane/sending.c
 *   claim()        relock_sending_claim                  lib/redis/lane/sending.c
 *   drive()        drive_on, send_all, receive           lib/redis/lane/lane.c
 *   hand_over()    hand_over, send_posted, send_ahead    lib/redis/lane/lane.c
 *   fail_all()     fail_all, relock_inflight_fail        lib/redis/lane/lane.c inflight.c
 *   io             read_answers, relock_lane_read        lib/lock/call/defer.c redis/lane/lane.c
 *   settler        relock_settle_step, on_released       lib/lock/hold/settle.c
 *   closer         release_all, is_drained               lib/client.c
 *
 * A try may also go over another lane, where it is answered at once. Left out: gates, deadlines and
 * orphans, for which lane.pml stands; waiters in the queue, with which nothing is deferred; releases
 * that could not be sent, and calls without a thread (the unit test defer has these).
 *
 * -DN, -DOPS tries of each thread, -DBREAKS. -DBAD_*: a rule left out.
 */
#ifndef N
#define N 2
#endif
#ifndef OPS
#define OPS 2
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#define ALL (N * OPS)
#define BIT(n) (1 << (n))
#define THREAD(n) (((n) - 1) / OPS)

mtype = { TRY, REL, NOBODY, DRIVER, OTHER };

byte holder;                       /* in Redis: the number of a hold; 0: none */

/* the lane, under its mutex */
chan queue = [ALL] of { mtype, byte };
bool driven, drives[N];
mtype sender = NOBODY;
bool beside;                       /* others may send */
bool claims, claim_gate;           /* the driver waits for the sender; it has sent */
byte n_others;                     /* ghost: threads that send and do not drive */

/* added by the sender under the mutex; else the driver's */
chan under_way = [ALL] of { mtype, byte };

/* the sender's: added, and not written yet */
chan out = [ALL] of { mtype, byte };

/* the connection, and one that has ended: its commands may still run */
bool broken;
byte breaks;
chan commands = [ALL] of { mtype, byte };
chan replies = [ALL] of { mtype, byte };
chan dead = [ALL] of { mtype, byte };

/* the client, under its mutex; sets of numbers */
short pending;                     /* releases that have not ended */
short settling;
short returned;                    /* ghost: their releases have returned */

/* the tries */
bool ended[N], granted[N];
byte refused_by[N];
bool late;                         /* the command is of a connection that has ended */
byte n_done;

inline settle(n)
{
    settling = settling | BIT(n)
}

inline end_release(n)
{
    pending = pending & (~BIT(n))
}

inline answer(n)
{
    end_release(n)
}

/* One step of Redis. */
inline run_script(op, n)
{
    if
    :: op == TRY && holder == 0 -> holder = n
    :: op == TRY && holder != 0 && holder != n && !late -> refused_by[THREAD(n)] = holder
    :: op == REL && holder == n -> holder = 0
    :: else
    fi
}

/* In an atomic step, which it interrupts to wait for another sender. */
inline claim()
{
    beside = false;
    if
    :: sender == OTHER -> claims = true; claim_gate; claim_gate = false
    :: else
    fi;
    sender = DRIVER;
    assert(n_others == 0)                                    /* SENDER */
}

inline sending_end()
{
    if :: sender == DRIVER -> sender = NOBODY :: else fi
}

inline add(op_, n_)
{
    under_way!op_, n_; out!op_, n_
}

inline write_out()
{
    do
    :: nempty(out) -> out?k, n; if :: !broken -> commands!k, n :: broken fi
    :: empty(out) -> break
    od;
    n = 0; k = 0
}

/* A thread that does not drive. */
inline begin_beside()
{
    assert(n_others == 0 && sender == NOBODY);
    sender = OTHER; n_others++; sends = true
}

/* What came into the queue meanwhile, it sends too, once, as far as that may go. */
inline send_beside()
{
    first = true;
    do
    :: atomic { assert(n_others == 1); write_out() };
        atomic {
            takes = false;
            do
            :: first && beside && !broken && nempty(queue) -> queue?k, n; add(k, n); takes = true
            :: break
            od;
            first = false; n = 0; k = 0;
            if :: broken -> beside = false :: true fi;
            if
            :: takes
            :: !takes -> sender = NOBODY; n_others--;
                if :: claims -> claims = false; claim_gate = true :: else fi;
                break
            fi
        }
    od;
    sends = false; takes = false
}

/* The connection has ended: whatever is in it may run later. */
inline fail_all()
{
    atomic {
        claim();
        do :: out?_, _ :: empty(out) -> break od;
        do :: commands?k, n -> dead!k, n :: empty(commands) -> break od;
        do :: replies?k, n :: empty(replies) -> break od;
        do
        :: nempty(under_way) || nempty(queue) ->
            if
            :: nempty(under_way) -> under_way?k, n
            :: empty(under_way) -> queue?k, n
            fi;
            if
            :: k == TRY -> ended[THREAD(n)] = true; granted[THREAD(n)] = false; refused_by[THREAD(n)] = 0;
                settle(n)
            :: k == REL ->
#ifndef BAD_LOST_ANSWER_IS_FORGOTTEN
                settle(n);
#ifdef BAD_SETTLING_IS_NOT_AWAITED
                end_release(n)
#else
                skip
#endif
#else
                end_release(n)
#endif
            fi
        :: empty(under_way) && empty(queue) -> break
        od;
        broken = false; n = 0; k = 0
    }
}

/* Under the mutex. */
inline take_queue()
{
    claim();
    do
    :: nempty(queue) -> queue?k, n; add(k, n)
    :: empty(queue) -> break
    od;
    n = 0; k = 0
}

inline send_out()
{
    atomic { assert(sender == DRIVER && n_others == 0); write_out() };
    if :: broken -> fail_all() :: true fi
}

/* Takes a reply, which has come. */
inline take_reply()
{
    atomic {
        replies?k, n; under_way?op, x; assert(op == k && x == n);
        if
        :: k == TRY -> ended[THREAD(n)] = true; granted[THREAD(n)] = refused_by[THREAD(n)] == 0
        :: k == REL -> answer(n)
        fi;
        n = 0; k = 0; x = 0; op = 0
    }
}

/* The first whose thread waits: in flight, or in the queue. */
inline find_next()
{
    next = N;
    n = len(under_way);
    do
    :: n > 0 -> under_way?k, x; under_way!k, x; n--;
        if :: k == TRY && next == N -> next = THREAD(x) :: else fi
    :: n == 0 -> break
    od;
    n = len(queue);
    do
    :: n > 0 -> queue?k, x; queue!k, x; n--;
        if :: k == TRY && next == N -> next = THREAD(x) :: else fi
    :: n == 0 -> break
    od;
    k = 0; x = 0
}

/* Sends once for the next driver, but not on the I/O thread. */
inline hand_over(sends_ahead)
{
    may_send = sends_ahead;
    do
    :: atomic {
            find_next();
            waits = sender == OTHER;
            may_send = may_send && next < N && !waits && empty(under_way) && nempty(queue);
            if
            :: may_send -> next = 0; claim()
            :: !may_send && next < N -> drives[next] = true; next = 0; sending_end();
                if :: empty(under_way) -> beside = false :: else fi;
                break
#ifdef BAD_QUEUE_IS_LEFT
            :: next == N -> driven = false; next = 0; sending_end(); beside = false; break
#else
            :: next == N && empty(queue) -> driven = false; next = 0; sending_end(); beside = false; break
            :: next == N && nempty(queue) -> next = 0; claim()
#endif
            fi
        };
        if
        :: waits
        :: !waits -> atomic { take_queue() }; send_out(); may_send = false
        fi
    od;
    waits = false; may_send = false
}

#define IS_QUEUED queue??[TRY, eval(number)]

inline drive(t)
{
    do
    :: ended[t] -> break
    :: !ended[t] ->
        if                                                   /* send_all() */
        :: added -> added = false; send_out()
        :: atomic { !added && empty(under_way) -> take_queue() }; send_out()
        :: atomic { !added && nempty(under_way) && nempty(queue) && (sender != OTHER || IS_QUEUED) -> take_queue() };
            send_out()
        :: !added && nempty(under_way) && (empty(queue) || (sender == OTHER && !IS_QUEUED))
        fi;
        if
        :: ended[t]
        :: !ended[t] ->
            atomic { sending_end(); beside = true; assert(!IS_QUEUED) };   /* READS */
            if
            :: nempty(replies) -> take_reply()
            :: broken -> fail_all()
            fi
        fi
    od;
    drives[t] = false;
    hand_over(true)
}

/* Drives for nobody, until there is something to look at. */
inline await(seen)
{
    do
    :: (seen & pending) == 0 -> break
    :: atomic { (seen & pending) != 0 && !driven && nempty(under_way) -> driven = true; claim() };
        if
        :: nempty(replies) -> take_reply()
        :: broken -> fail_all()
        :: nempty(queue)                    /* another call wants the lane */
        fi;
        hand_over(true)
    od
}

proctype thread(byte t)
{
    byte i, number, n, x, next;
    mtype k, op;
    short seen;
    bool first, may_send, waits, takes, sends, added;

    do
    :: i == OPS -> break
    :: i < OPS ->
        atomic { number = 1 + t * OPS + i; i++; seen = returned; refused_by[t] = 0; ended[t] = false };
#ifndef BAD_TRY_OVERTAKES_RELEASE
        {
            short before;
            before = pending;
            await(before);
            before = 0
        };
#endif
        if
        :: atomic {                          /* relock_sending_enter() */
                if
                :: driven && sender == NOBODY && beside -> begin_beside(); add(TRY, number)
                :: driven -> queue!TRY, number
                :: !driven && sender == NOBODY -> driven = true; drives[t] = true; added = true;
                    sender = DRIVER; add(TRY, number)
                :: !driven -> driven = true; drives[t] = true; queue!TRY, number
                fi
            };
            if :: sends -> send_beside() :: else fi;
            (drives[t] || ended[t]);
            if
            :: drives[t] -> drive(t)
            :: else
            fi
        :: atomic { run_script(TRY, number); granted[t] = refused_by[t] == 0 }  /* another lane */
        fi;
        if
        :: granted[t] ->
            atomic {                        /* post() */
                pending = pending | BIT(number); first = false;
                if
                :: driven && sender == NOBODY && beside -> begin_beside(); add(REL, number)
                :: driven -> queue!REL, number
                :: !driven -> driven = true; first = true; queue!REL, number
                fi
            };
            if
            :: sends -> send_beside()
            :: !sends && first -> atomic { claim() }; hand_over(true)
            :: else
            fi;
            returned = returned | BIT(number)
        :: !granted[t] && refused_by[t] != 0 ->
            assert((seen & BIT(refused_by[t])) == 0)         /* OWN */
        :: else
        fi;
        granted[t] = false
    od;
    n_done++
}

proctype server()
{
    byte n;
    mtype k;
end:
    do
    :: atomic { !broken && nempty(commands) -> commands?k, n; run_script(k, n); replies!k, n; n = 0; k = 0 }
    od
}

proctype net()
{
    byte n;
    mtype k;
end:
    do
    :: atomic { breaks < BREAKS && !broken -> breaks++; broken = true }
    :: atomic { nempty(dead) -> dead?k, n; late = true; run_script(k, n); late = false; n = 0; k = 0 }
    :: atomic { nempty(dead) -> dead?_, _ }
    od
}

proctype io()                      /* lanes that no call uses */
{
    byte n, x, next;
    mtype k, op;
    bool may_send, waits;
end:
    do
#ifndef BAD_NOBODY_READS
    :: atomic { !driven && nempty(under_way) && (nempty(replies) || broken) -> driven = true; claim() };
        if
        :: nempty(replies) -> take_reply()
        :: empty(replies) && broken -> fail_all()
        fi;
        hand_over(false)
#else
    :: false
#endif
    od
}

proctype settler()                 /* kills the connection, and releases what is left */
{
    byte n;
end:
    do
    :: atomic { settling != 0 ->
            n = 1;
            do :: (settling & BIT(n)) == 0 -> n++ :: else -> break od;
            do :: dead?_, _ :: empty(dead) -> break od;
            if :: holder == n -> holder = 0 :: else fi;
            settling = settling & (~BIT(n));
            end_release(n); n = 0 }
    od
}

proctype closer()
{
    n_done == N;
#ifndef BAD_FREED_WITHOUT_ANSWERS
    pending == 0 && settling == 0;
#endif
    assert(holder == 0)                                      /* FREE */
}

init {
    atomic {
        run thread(0); run thread(1);
#if N > 2
        run thread(2);
#endif
        run server(); run net(); run io(); run settler(); run closer()
    }
}
