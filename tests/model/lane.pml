/*
 * A shared lane: N threads send commands over one connection, which one of them drives at a time. While
 * the driver waits for replies, another thread may send. The connection may break and deadlines may
 * pass at any moment.
 *
 * It stands for lib/redis/lane/lane.c, lane/sending.c and lane/inflight.c, function by function:
 *
 *   thread()        relock_lane_ask, wait_for_gate, leave_queue               lane.c
 *   enter()         relock_sending_enter, choose, may_go_first                sending.c
 *   send_beside()   relock_sending_beside, take_beside, end_beside            sending.c
 *                   relock_wire_send_beside, relock_inflight_note_sent        wire.c, inflight.c
 *   claim()         relock_sending_claim                                      sending.c
 *   allow()         relock_sending_allow                                      sending.c
 *   drive()         drive, pass_by, send_all, has_to_send, receive, read_replies
 *                                                                             lane.c
 *   take_queue()    take_queue, relock_sending_take                           lane.c, sending.c
 *   add(), send_out(), be_orphan()
 *                   relock_inflight_add, relock_inflight_send, let_leave      inflight.c
 *   open_conn(), fail_all(), end_all(), hand_over(), end_driving(), send_ahead(),
 *   close_on_orphans()                     the functions of these names    lane.c
 *
 * A step under the mutex of the lane is one atomic step here; data of the driver, or of the sender,
 * is not guarded here either. Whether an exchange may go beside the driver depends on times and sizes,
 * so each may, or not. The orphan of exchange q is q + N, and a caller leaves only while its exchange
 * has none yet.
 *
 *   ONE      one thread drives at a time
 *   SENDER   one thread at a time sends, or ends the connection; and it sends only over one that is made
 *   READS    a driver waits for replies only if some are to come, and its own command is on its way
 *   ALIVE    no thread touches an exchange whose call has returned
 *   OWN      each exchange gets its own reply, and ends once
 *   SENT     a command that the server may have run is not reported as unsent
 *   ORPHANS  a lane without a driver has no orphan
 *   and each call returns: a thread that sleeps for ever is an invalid end state
 *
 * Not in it: contents of replies, several replies to one exchange, retired lanes, a driver that only
 * reads, adopted orphans, and posted exchanges, for which defer.pml stands.
 *
 * Budgets: N threads, ASKS for each thread, BREAKS, LATE (deadlines that pass). Mistakes: -DBAD_*
 */
#ifndef N
#define N 3
#endif
#ifndef ASKS
#define ASKS 1
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef LATE
#define LATE 0
#endif
#define NONE N

mtype = { NOBODY, DRIVER, OTHER };

/* the lane, under its mutex */
chan queue = [N] of { byte };
bool driven;
mtype sender = NOBODY;
bool beside;                       /* others may send */
bool claims, claim_gate;           /* the driver waits for the sender; it has sent */
bool queued[N];
bool drives[N];

/* added by the sender under the mutex; else the driver's */
chan under_way = [N + N] of { byte };
bool up;

/* the sender's: added, and not written yet */
chan out = [N + N] of { byte };

/* the exchanges */
bool alive[N], ended[N], gate[N], sent[N], ran[N], is_late[N], has_orphan[N];

/* the connection and the server */
bool broken;
chan commands = [N + N] of { byte };
chan replies = [N + N] of { byte };

byte breaks, late;

/* ghosts */
byte n_driving, n_others;

inline ends(q)
{
    assert(alive[q] && !ended[q]);
    ended[q] = true
}

inline open_gate(q)
{
    assert(alive[q]);
    gate[q] = true
}

/* Takes an exchange out of the queue, at any place. */
inline leave(q)
{
    assert(queued[q]);
    queue??eval(q);
    queued[q] = false;
    ends(q)
}

/* ---- the turn to send ---- */

/* In an atomic step, which it interrupts to wait for another sender. */
inline claim()
{
#ifndef BAD_CLAIM_LETS_OTHERS_IN
    beside = false;
#endif
    if
#ifndef BAD_CLAIMS_WITHOUT_WAITING
    :: sender == OTHER -> claims = true; claim_gate; claim_gate = false
#endif
    :: else
    fi;
    beside = false;
    sender = DRIVER;
    assert(n_others == 0)
}

inline sending_end()
{
    if :: sender == DRIVER -> sender = NOBODY :: else fi
}

/* relock_inflight_add() */
inline add(q)
{
    assert(up);
    under_way!q; out!q;
#ifndef BAD_SENT_ONCE_ANSWERED
    sent[q] = true
#else
    skip
#endif
}

/* After a failure: what was not written counts as unsent. */
inline note_failed()
{
    do
    :: nempty(out) -> out?x; if :: x < N -> sent[x] = false :: else fi
    :: empty(out) -> break
    od;
#ifdef BAD_FAILED_IS_UNSENT
    n = len(under_way);
    do
    :: n > 0 -> under_way?x; under_way!x; if :: x < N -> sent[x] = false :: else fi; n--
    :: n == 0 -> break
    od;
#endif
    x = 0
}

/* Writes what was added. A broken connection may swallow it, or refuse. */
inline write_out()
{
    assert(up);
    do
    :: empty(out) -> break
    :: nempty(out) && !broken -> out?x; commands!x
    :: nempty(out) && !broken && breaks < BREAKS -> breaks++; broken = true; fail = true; break
    :: nempty(out) && broken -> out?_
    :: nempty(out) && broken -> fail = true; break
    od;
    x = 0
}

/* relock_inflight_send() */
inline send_out()
{
    atomic {
        assert(sender == DRIVER && n_others == 0);
        write_out();
        if :: fail -> note_failed() :: else fi
    }
}

/* ---- a thread that sends beside the driver ---- */

inline end_beside()
{
    n_others--;
#ifndef BAD_KEEPS_THE_TURN
    sender = NOBODY;
#endif
#ifndef BAD_SENDER_WAKES_NOBODY
    if :: claims -> claims = false; claim_gate = true :: else fi
#endif
}

/* From the head of the queue, as far as they may go. */
inline take_beside()
{
    takes = false;
    do
    :: beside && nempty(queue) && queue?[0] -> queue?x; queued[x] = false; add(x); takes = true
    :: beside && nempty(queue) && queue?[1] -> queue?x; queued[x] = false; add(x); takes = true
#if N > 2
    :: beside && nempty(queue) && queue?[2] -> queue?x; queued[x] = false; add(x); takes = true
#endif
    :: break
    od;
    x = 0
}

inline send_beside()
{
    first = true;
    do
    :: fail = false;
        atomic {
            assert(n_others == 1);
#ifdef BAD_ADDS_AFTER_IT_SENT
            if :: broken :: !broken -> commands!t fi
#else
            write_out()
#endif
        };
        atomic {
#ifdef BAD_ADDS_AFTER_IT_SENT
            under_way!t;
#endif
            takes = false;
            if
            :: fail -> note_failed(); broken = true; beside = false     /* it is shut down */
            :: !fail && first -> take_beside()
            :: !fail && !first
            fi;
            first = false; fail = false;
            if :: takes :: else -> end_beside(); break fi
        }
    od;
    takes = false
}

/* ---- ending without replies ---- */

/* The first in flight that has a caller, or in the queue. */
inline find_next()
{
    n = len(under_way);
    do
    :: n > 0 -> under_way?x; under_way!x; if :: x < N && next == NONE -> next = x :: else fi; n--
    :: n == 0 -> break
    od;
    if :: next == NONE && nempty(queue) -> queue?<next> :: else fi;
    x = 0
}

inline lose_connection()
{
    assert(n_others == 0);
    up = false; broken = false; x = 0;
    do :: out?_ :: empty(out) -> break od;
    do :: commands?_ :: empty(commands) -> break od;
    do :: replies?_ :: empty(replies) -> break od
}

inline close_on_orphans()
{
    do
    :: nempty(under_way) -> under_way?x; assert(x >= N); has_orphan[x - N] = false
    :: empty(under_way) -> break
    od;
    atomic { lose_connection() }
}

#define LEAVES(q) (is_late[q] && !has_orphan[q] && under_way??[q])
#if N > 2
#define ONE_LEAVES (LEAVES(0) || LEAVES(1) || LEAVES(2))
#else
#define ONE_LEAVES (LEAVES(0) || LEAVES(1))
#endif

/* A caller leaves without its reply: its orphan owns the sent command from now on. */
inline replace(messages, q)
{
    n = len(messages);
    do
    :: n > 0 -> messages?x; messages!(x == q -> q + N : x); n--
    :: n == 0 -> break
    od
}

inline be_orphan(q)
{
    replace(under_way, q); replace(out, q); replace(commands, q);
    x = 0;
    has_orphan[q] = true;
    ends(q)
}

inline fail_all(into)
{
    atomic {
#ifndef BAD_FAILS_UNCLAIMED
        claim();
#endif
        do
        :: nempty(queue) -> queue?x; queued[x] = false; unsent!x
        :: empty(queue) -> break
        od;
        x = 0
    };
    atomic {
        assert(n_others == 0);
        do
        :: nempty(under_way) -> under_way?x;
            if :: x < N -> into!x :: else -> has_orphan[x - N] = false fi
        :: empty(under_way) -> break
        od;
        do :: nempty(unsent) -> unsent?x; into!x :: empty(unsent) -> break od;
        x = 0
    }
    n = len(into);
    do
    :: n > 0 -> atomic { into?x; if :: ended[x] :: else -> ends(x) fi; into!x; x = 0; n-- }
    :: n == 0 -> break
    od;
    atomic { lose_connection() }
}

/* ---- handing the driving over ---- */

/* Under the mutex. Another thread than `own` ends an exchange of its own that is late. */
inline take_queue(own)
{
    claim();
    takes = false;
    n = len(queue);
    do
    :: n > 0 -> queue?x; n--;
        if
        :: x != own && is_late[x] -> queue!x
        :: true -> queued[x] = false; add(x); takes = true
        fi
    :: n == 0 -> break
    od;
    x = 0
}

/* The thread that stops to drive sends for the next driver, unless it notices that the connection has
 * ended. It opens the gates of those that fail at once. */
inline send_ahead()
{
    if
    :: broken || !up
    :: up ->
        atomic { take_queue(NONE) };
        if :: takes -> takes = false; send_out() :: else fi;
        if
        :: fail ->
            fail = false;
            fail_all(failed);
            do
            :: nempty(failed) -> failed?x; open_gate(x)
            :: empty(failed) -> break
            od;
            x = 0
        :: else
        fi
    fi
}

/* Under the mutex. */
inline end_driving()
{
#ifdef BAD_CHOOSES_BEFORE_IT_SENDS
    if :: chosen != NONE -> next = chosen; chosen = NONE :: else fi;
#endif
    driven = (next != NONE);
    assert(driven || empty(under_way));
    sending_end();
    if
#ifndef BAD_SENDS_THOUGH_NOBODY_DRIVES
    :: next == NONE || empty(under_way) -> beside = false
#endif
    :: else
    fi;
    if :: driven -> drives[next] = true :: else fi;
#ifndef BAD_HANDS_ON_LATER
    n_driving--
#endif
}

inline hand_over()
{
    may_send = true;
    do
    :: atomic {
            next = NONE;
            find_next();
            waits = sender == OTHER;
            may_send = may_send && next != NONE && !waits && empty(under_way) && nempty(queue);
#ifdef BAD_CHOOSES_BEFORE_IT_SENDS
            if :: may_send -> queue?<chosen> :: else fi;
#endif
#ifdef BAD_ORPHANS_ARE_LEFT
            over = !may_send;
#else
            over = !may_send && (next != NONE || empty(under_way));
#endif
            if
#ifdef BAD_HANDS_ON_LATER
            :: over && next == NONE -> later = true; n_driving--
            :: over && next != NONE -> end_driving(); n_driving--
#else
#ifdef BAD_NOBODY_DRIVES_ON
            :: over -> driven = false; sending_end(); n_driving--
#else
            :: over -> end_driving()
#endif
#endif
#ifdef BAD_CLOSES_UNCLAIMED
            :: !over -> waits = false
#else
            :: !over -> next = NONE; claim()
#endif
            fi
        };
        if
        :: over -> break
        :: !over && waits
        :: !over && !waits && may_send -> send_ahead(); may_send = false
        :: !over && !waits && !may_send -> close_on_orphans()
        fi
    od;
    over = false; waits = false; may_send = false
}

/* The channel `done` holds the ended exchanges; the next one drives on. The gates are opened outside
 * the mutex, that of the next driver last. */
inline end_all(own)
{
    next = NONE;
    if :: ended[own] -> hand_over() :: else fi;
    do
    :: nempty(done) -> done?x; if :: x != own -> open_gate(x) :: else fi
    :: empty(done) -> break
    od;
    if :: next != NONE -> open_gate(next) :: else fi;
#ifdef BAD_HANDS_ON_LATER
    if :: later -> driven = false; later = false :: else fi;
#endif
    x = 0; next = 0
}

/* ---- driving ---- */

/* Keeps the connection, or makes another. At the driver's deadline, the next one goes on. */
inline open_conn(own)
{
    assert(n_others == 0);
    if
    :: up
    :: broken || !up ->
        atomic { lose_connection() };
        if
        :: atomic { assert(n_others == 0 && empty(out)); up = true }
        :: atomic { breaks < BREAKS -> breaks++; fail = true }
        :: is_late[own] -> again = true
        fi
    fi
}

/* Under the mutex. */
inline allow(own)
{
    sending_end();
    beside = true;
    assert(!queued[own] && nempty(under_way))
}

inline read_replies(own)
{
    if
    :: nempty(replies) ->
        replies?x;
        atomic {
            do
            :: assert(nempty(under_way));
                under_way?n;
                if
                :: n < N -> assert(n == x); ends(x); sent[x] = true; done!x
                :: else -> assert(n == x + N); has_orphan[x] = false
                fi;
                if
                :: nempty(under_way) && nempty(replies) -> replies?x
                :: break
                :: nempty(under_way) && breaks < BREAKS -> breaks++; fail = true; break
                fi
            od;
            n = 0; x = 0
        }
    :: empty(replies) && broken -> fail = true
    :: atomic { empty(replies) && late < LATE -> late++; fail = true }  /* no answer for too long */
    :: atomic { empty(replies) && ONE_LEAVES ->                         /* let_leave() */
            if
            :: LEAVES(0) -> next = 0
            :: LEAVES(1) -> next = 1
#if N > 2
            :: LEAVES(2) -> next = 2
#endif
            fi;
            be_orphan(next); done!next; next = 0 }
    :: queued[own] && is_late[own]
    fi
}

inline drive(own)
{
    assert(n_driving == 0);
    n_driving++;
    do
    :: ended[own] -> break
    :: !ended[own] ->
        fail = false; again = false; takes = false;
        if
        :: added -> added = false; takes = true
#ifdef BAD_PASSES_BY_WHAT_WAS_TAKEN
        :: !added && is_late[own] && queued[own] -> atomic { leave(own) }
#else
        :: atomic { !added && is_late[own] && queued[own] -> leave(own) }   /* pass_by() */
#endif
        :: atomic { !added && empty(under_way) ->                           /* send_all() */
#ifndef BAD_CONNECTS_UNCLAIMED
                claim()
#endif
            };
            open_conn(own);
            atomic { if :: !fail && !again && nempty(queue) -> take_queue(own) :: else fi }
        :: atomic { !added && nempty(under_way) ->
                if                                              /* has_to_send() */
                :: nempty(queue) -> take_queue(own)
                :: empty(queue)
#ifdef BAD_LEAVES_ITS_OWN_TO_OTHERS
                :: sender == OTHER
#else
                :: sender == OTHER && !queued[own]
#endif
                fi }
        fi;
        if :: takes -> send_out() :: else fi;
        takes = false;
        if
        :: !fail && !again && !ended[own] -> atomic { allow(own) }; read_replies(own)
        :: else
        fi;
        again = false;
        if :: fail -> fail_all(done); fail = false :: else fi;
        if :: ended[own] || nempty(done) -> end_all(own) :: else fi
    od
}

/* ---- the threads ---- */

/* At its deadline. */
#ifdef BAD_LEAVES_THOUGH_IT_DRIVES
#define CAN_LEAVE(q) (is_late[q] && !gate[q] && queued[q])
#else
#define CAN_LEAVE(q) (is_late[q] && !gate[q] && queued[q] && !drives[q])
#endif

inline enter(q)
{
    alive[q] = true; ended[q] = false; drives[q] = false; gate[q] = false;
    sent[q] = false; ran[q] = false; is_late[q] = false; begins = false; sends = false;
    assert(driven || empty(queue));
    if
#ifdef BAD_SENDS_WHILE_THE_DRIVER_DOES
    :: driven && sender != OTHER && up -> sends = true
#endif
#ifdef BAD_SENDS_WHILE_CONNECTING
    :: driven && !up -> sends = true
#endif
#ifdef BAD_SENDS_BESIDE_A_SENDER
    :: driven && beside -> sends = true
#endif
#ifdef BAD_SENDS_THOUGH_NOBODY_DRIVES
    :: !driven && sender == NOBODY && beside -> sends = true
#endif
    :: driven && sender == NOBODY && beside -> sends = true
    :: driven -> queued[q] = true; queue!q
    :: !driven && sender == NOBODY && up -> driven = true; begins = true; added = true;
        sender = DRIVER; add(q)
    :: !driven -> driven = true; begins = true; queued[q] = true; queue!q
    fi;
    if
    :: sends ->
        assert(sender != DRIVER && n_others == 0);
        sender = OTHER; n_others++;
#ifndef BAD_ADDS_AFTER_IT_SENT
        add(q)
#else
        sent[q] = true
#endif
    :: else
    fi
}

proctype thread(byte t)
{
    byte asks = ASKS, x, n, next;
    byte chosen = NONE;
    bool fail, again, takes, added, begins, sends, first, later, over, waits, may_send;
    chan done = [N] of { byte };
    chan failed = [N] of { byte };
    chan unsent = [N] of { byte };

    do
    :: asks == 0 -> break
    :: else ->
        atomic { asks--; enter(t) };
        if
        :: sends -> send_beside(); sends = false
        :: else
        fi;
        if
        :: begins -> begins = false; drive(t)
        :: else ->
            do                                              /* wait_for_gate() */
            :: gate[t] -> gate[t] = false; break
#ifdef BAD_LOOKS_BESIDE_THE_GATE
            :: ended[t] -> break
#endif
            :: atomic { CAN_LEAVE(t) -> leave(t) }; break   /* leave_queue() */
            od;
            if :: !ended[t] -> drive(t) :: else fi
        fi;
        assert(sent[t] || !ran[t]);
        alive[t] = false
    od
}

proctype server()
{
    byte x;
end:
    do
    :: atomic { nempty(commands) -> commands?x;
        if :: x < N -> ran[x] = true :: else -> x = x - N fi;
        if :: !broken -> replies!x :: else fi;
        x = 0 }
    od
}

#define PASSES(q) late < LATE && alive[q] && !ended[q] && !is_late[q] -> late++; is_late[q] = true

proctype net()
{
end:
    do
    :: atomic { breaks < BREAKS && up && !broken -> breaks++; broken = true }
    :: atomic { PASSES(0) }
    :: atomic { PASSES(1) }
#if N > 2
    :: atomic { PASSES(2) }
#endif
    od
}

init {
    atomic {
        run thread(0); run thread(1);
#if N > 2
        run thread(2);
#endif
        run server(); run net()
    }
}
