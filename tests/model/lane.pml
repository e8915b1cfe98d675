/*
 * A shared lane: N threads send commands over one connection, which one of them drives at a time. The
 * connection may break and deadlines may pass at any moment.
 *
 * It stands for lib/redis/lane/lane.c and lane/inflight.c, function by function: thread = relock_lane_ask with
 * enter(), wait_for_gate() and leave_queue(); drive = drive() with pass_by(), open_conn(),
 * take_queue(), send_queue(), read_replies(), let_leave(), fail_all(), end_all(), hand_over(),
 * send_ahead() and relock_inflight_close(). A step under the mutex of the lane is one atomic step
 * here; data of the driver alone is not guarded here either. The orphan of exchange q is q + N, and a
 * caller leaves only while its exchange has none yet.
 *
 *   ONE      one thread drives at a time
 *   ALIVE    no thread touches an exchange whose call has returned
 *   OWN      each exchange gets its own reply, and ends once
 *   SENT     a command that the server may have run is not reported as unsent
 *   ORPHANS  a lane without a driver has no orphan
 *   and each call returns: a thread that sleeps for ever is an invalid end state
 *
 * Not in it: contents of replies, several replies to one exchange, retired lanes, adopted orphans.
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

/* the lane, under its mutex */
chan queue = [N] of { byte };
bool driven;
bool queued[N];
bool drives[N];

/* the driver's */
chan under_way = [N + N] of { byte };
bool up;

/* the exchanges */
bool alive[N], ended[N], gate[N], sent[N], ran[N], has_orphan[N];

/* the connection and the server */
bool broken;
chan commands = [N + N] of { byte };
chan replies = [N + N] of { byte };

byte n_driving, breaks, late;

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

/* The first in flight that has a caller. */
inline find_next()
{
    n = len(under_way);
    do
    :: n > 0 -> under_way?x; under_way!x; if :: x < N && next == NONE -> next = x :: else fi; n--
    :: n == 0 -> break
    od;
    x = 0
}

inline lose_connection()
{
    up = false; broken = false; x = 0;
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

/* Any that has a caller and no orphan yet. */
inline find_leaving()
{
    next = NONE;
    n = len(under_way);
    do
    :: n > 0 -> under_way?x; under_way!x; n--;
        if :: x < N && !has_orphan[x] -> next = x :: true fi
    :: n == 0 -> break
    od;
    if :: next != NONE && (next >= N || has_orphan[next]) -> next = NONE :: else fi
}

/* A caller leaves without its reply: its orphan owns the sent command from now on. */
inline be_orphan(q)
{
    n = len(under_way);
    do
    :: n > 0 -> under_way?x; under_way!(x == q -> q + N : x); n--
    :: n == 0 -> break
    od;
    n = len(commands);
    do
    :: n > 0 -> commands?x; commands!(x == q -> q + N : x); n--
    :: n == 0 -> break
    od;
    x = 0;
    has_orphan[q] = true;
    ends(q)
}

inline fail_all(into)
{
    atomic {
        do
        :: nempty(under_way) -> under_way?x;
            if :: x < N -> into!x :: else -> has_orphan[x - N] = false fi
        :: empty(under_way) -> break
        od;
        do
        :: nempty(queue) -> queue?x; queued[x] = false; into!x
        :: empty(queue) -> break
        od
    }
    n = len(into);
    do
    :: n > 0 -> atomic { into?x; if :: ended[x] :: else -> ends(x) fi; into!x }; n--
    :: n == 0 -> break
    od;
    atomic { lose_connection() }
}

/* take_queue(), send_queue() */
inline send_queue()
{
    atomic {
        do
        :: nempty(queue) -> queue?x; queued[x] = false; under_way!x;
            if
#ifdef BAD_SENT_ONCE_ANSWERED
            :: !broken -> commands!x
#else
            :: !broken -> commands!x; sent[x] = true
#endif
            :: broken
            fi
        :: empty(queue) -> break
        od;
        x = 0
    }
}

/* The thread that stops to drive sends for the next driver, unless it notices that the connection has
 * ended. It opens the gates of those that fail at once. */
inline send_ahead()
{
    if
    :: broken
    :: true ->
        send_queue();
        if
        :: broken ->
            fail_all(failed);
            do
            :: nempty(failed) -> failed?x; open_gate(x)
            :: empty(failed) -> break
            od;
            x = 0
        :: true
        fi
    fi
}

/* end_all(): the channel `done` holds the ended exchanges; the next one drives on */
inline end_all(own)
{
    may_send = true;
    do
    :: atomic {
            next = NONE; close = false;
            find_next();
            may_send = may_send && ended[own] && up && empty(under_way) && nempty(queue);
#ifndef BAD_ORPHANS_ARE_LEFT
            close = ended[own] && next == NONE && empty(queue) && nempty(under_way);
#endif
            if
            :: may_send ->
#ifdef BAD_CHOOSES_BEFORE_IT_SENDS
                queue?<chosen>;
#endif
                skip
            :: close
            :: else ->
#ifdef BAD_HANDS_ON_LATER
                if :: ended[own] -> n_driving--; if :: empty(under_way) && empty(queue) -> later = true :: else fi :: else fi;
#endif
                if
#ifdef BAD_NOBODY_DRIVES_ON
                :: ended[own] && !later -> driven = false; n_driving--
#else
                :: ended[own] && !later ->
#ifdef BAD_CHOOSES_BEFORE_IT_SENDS
                    if :: chosen != NONE -> next = chosen; chosen = NONE :: else fi;
#endif
                    if
                    :: next == NONE && nempty(queue) -> queue?<next>
                    :: next != NONE || empty(queue)
                    fi;
                    driven = (next != NONE);
                    assert(driven || empty(under_way));
                    if :: driven -> drives[next] = true :: else fi;
#ifndef BAD_HANDS_ON_LATER
                    n_driving--
#endif
#endif
                :: !ended[own] || later -> next = NONE
                fi;
                x = 0
            fi
        };
        if
        :: may_send -> send_ahead(); may_send = false
        :: !may_send && close -> close_on_orphans()
        :: !may_send && !close -> break
        fi
    od;
    /* the gates are opened outside the mutex, that of the next driver last */
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

inline drive(own)
{
    assert(n_driving == 0);
    n_driving++;
    do
    :: ended[own] -> break
    :: !ended[own] && queued[own] && late < LATE ->             /* pass_by() */
        late++;
        atomic { leave(own) };
        end_all(own)
    :: !ended[own] ->
        fail = false;
        if                                                  /* open_conn() */
        :: empty(under_way) && !up ->
            if
            :: up = true; broken = false
            :: breaks < BREAKS -> breaks++; fail = true
            fi
        :: nempty(under_way) || up
        fi;
        if
        :: !fail ->
            send_queue();
            if :: broken -> fail = true :: true fi
        :: else
        fi;
        if
        :: !fail ->                                         /* read_replies() */
            if
            :: nempty(replies) -> replies?x
            :: broken && empty(replies) -> fail = true
            :: empty(replies) && late < LATE -> late++; fail = true   /* no answer for too long */
            :: atomic { empty(replies) && late < LATE -> late++;      /* let_leave() */
                find_leaving();
                if :: next != NONE -> be_orphan(next); done!next :: else -> fail = true fi;
                next = 0; x = NONE }
            fi;
            do
            :: !fail && x != NONE ->
                atomic {
                    under_way?n;
                    if
                    :: n < N -> assert(n == x); ends(x); sent[x] = true; done!x
                    :: else -> assert(n == x + N); has_orphan[x] = false
                    fi;
                    n = 0; x = NONE
                };
                if
                :: nempty(under_way) && nempty(replies) -> replies?x
                :: empty(under_way) || empty(replies)
                :: nempty(under_way) && breaks < BREAKS -> breaks++; fail = true  /* no reply, or no memory */
                fi
            :: else -> break
            od;
            x = 0
        :: else
        fi;
        if :: fail -> fail_all(done) :: else fi;
        end_all(own)
    od
}

/* leave_queue(): its deadline has passed */
inline leave_queue(q)
{
    atomic {
        late++;
        if
#ifdef BAD_LEAVES_THOUGH_IT_DRIVES
        :: queued[q] -> leave(q); out = true
#else
        :: queued[q] && !drives[q] -> leave(q); out = true
#endif
        :: else
        fi
    }
}

proctype thread(byte t)
{
    byte asks = ASKS, x, n, next;
    byte chosen = NONE;
    bool fail, out, first, later, close, may_send;
    chan done = [N] of { byte };
    chan failed = [N] of { byte };

    do
    :: asks == 0 -> break
    :: else ->
        atomic {                                            /* enter(); what a driver then sends
             * alone, or puts into the queue itself, nobody else can take: the same */
            asks--;
            alive[t] = true; ended[t] = false; drives[t] = false; gate[t] = false; out = false;
            queued[t] = true; sent[t] = false; ran[t] = false;
            first = !driven; driven = true;
            queue!t
        }
        if
        :: first -> drive(t)
        :: else ->
            do                                              /* wait_for_gate() */
            :: gate[t] -> gate[t] = false; break
#ifdef BAD_LOOKS_BESIDE_THE_GATE
            :: ended[t] -> break
#endif
            :: late < LATE && !gate[t] -> leave_queue(t); if :: out -> break :: else fi
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
    :: atomic { !broken && nempty(commands) -> commands?x;
        if :: x < N -> ran[x] = true :: else -> x = x - N fi;
        replies!x; x = 0 }
    od
}

proctype net()
{
end:
    do
    :: atomic { breaks < BREAKS && up && !broken -> breaks++; broken = true }
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
