/*
 * A shared lane: N threads ask over one connection, which one of them drives at a time; the
 * connection breaks, and deadlines pass, at any moment.
 *
 * It stands for lib/redis/lane.c, function by function: thread = relock_lane_ask with enter(),
 * wait_for_gate(), leave_queue() and pass_by(); drive = drive() with open_link(), take_queue(),
 * send_queue(), read_replies(), take_all(), fail_all() and end_all(). What happens there under the
 * mutex of the lane is one atomic step here; what the driver has alone is not guarded here either.
 *
 *   ONE      one thread drives at a time
 *   ALIVE    nobody touches a question whose call has returned
 *   OWN      each gets the reply to what it asked, and ends once
 *   SENT     what the server may have run was not called unsent
 *   and each call returns: a thread that sleeps for ever is an invalid end state
 *
 * Not in it: what a reply says, several replies to one question, retired lanes.
 *
 * Budgets: ASKS for each thread, BREAKS, LATE (deadlines that pass). Mistakes: -DBAD_*
 */
#define N 3
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
chan under_way = [N] of { byte };
bool up;

/* the questions */
bool alive[N], ended[N], gate[N], sent[N], ran[N];

/* the connection and the server */
bool broken;
chan commands = [N] of { byte };
chan replies = [N] of { byte };

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

/* Takes a question out of the queue, wherever it stands. */
inline leave(q)
{
    assert(queued[q]);
    queue??eval(q);
    queued[q] = false;
    ends(q)
}

/* end_all(): the channel `done` holds what has ended; the driving goes on with the next one */
inline end_all(own)
{
    atomic {
        next = NONE;
#ifdef BAD_HANDS_ON_LATER
        if :: ended[own] -> n_driving--; if :: empty(under_way) && empty(queue) -> later = true :: else fi :: else fi;
#endif
        if
#ifdef BAD_NOBODY_DRIVES_ON
        :: ended[own] && !later -> driven = false; n_driving--
#else
        :: ended[own] && !later ->
            if
            :: nempty(under_way) -> under_way?<next>
            :: empty(under_way) && nempty(queue) -> queue?<next>
            :: empty(under_way) && empty(queue)
            fi;
            driven = (next != NONE);
            if :: driven -> drives[next] = true :: else fi;
#ifndef BAD_HANDS_ON_LATER
            n_driving--
#endif
#endif
        :: !ended[own] || later
        fi;
        x = 0
    }
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

inline fail_all()
{
    atomic {
        do
        :: nempty(under_way) -> under_way?x; done!x
        :: empty(under_way) -> break
        od;
        do
        :: nempty(queue) -> queue?x; queued[x] = false; done!x
        :: empty(queue) -> break
        od
    }
    n = len(done);
    do
    :: n > 0 -> atomic { done?x; if :: ended[x] :: else -> ends(x) fi; done!x }; n--
    :: n == 0 -> break
    od;
    atomic {
        up = false; broken = false; x = 0;
        do :: commands?_ :: empty(commands) -> break od;
        do :: replies?_ :: empty(replies) -> break od
    }
}

inline drive(own)
{
    assert(n_driving == 0);
    n_driving++;
    do
    :: ended[own] -> break
    :: !ended[own] ->
        fail = false;
        if                                                  /* open_link() */
        :: empty(under_way) && !up ->
            if
            :: up = true; broken = false
            :: breaks < BREAKS -> breaks++; fail = true
            fi
        :: nempty(under_way) || up
        fi;
        if
        :: !fail ->                                         /* take_queue(), send_queue() */
            atomic {
                n = len(under_way);
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
                n = 0; x = 0
            }
            if :: broken -> fail = true :: true fi
        :: else
        fi;
        if
        :: !fail ->                                         /* read_replies() */
            if
            :: nempty(replies) -> replies?x; done!x
            :: broken && empty(replies) -> fail = true
            :: empty(replies) && late < LATE -> late++; fail = true   /* the earliest deadline */
            fi;
            do
            :: !fail && x != NONE ->
                atomic { under_way?n; assert(n == x); ends(x); sent[x] = true; n = 0; x = NONE };
                if
                :: nempty(under_way) && nempty(replies) -> replies?x; done!x
                :: empty(under_way) || empty(replies)
                :: nempty(under_way) && breaks < BREAKS -> breaks++; fail = true  /* no reply, or no memory */
                fi
            :: else -> break
            od;
            x = 0
        :: else
        fi;
        if :: fail -> fail_all() :: else fi;
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
    bool fail, out, first, later;
    chan done = [N] of { byte };

    do
    :: asks == 0 -> break
    :: else ->
        atomic {                                            /* enter() */
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
            if                                              /* pass_by() */
            :: !ended[t] && queued[t] && late < LATE ->
                late++;
                n_driving++;
                atomic { leave(t) };
                end_all(t)
            :: else
            fi;
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
    :: atomic { !broken && nempty(commands) -> commands?x; ran[x] = true; replies!x; x = 0 }
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
        run thread(0); run thread(1); run thread(2);
        run server(); run net()
    }
}
