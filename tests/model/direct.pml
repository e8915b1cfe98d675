/*
 * A connection that two threads may read: the I/O thread, and a head of a queue that waits for a
 * message. Two heads wait for a lock each, ROUNDS times.
 *
 * It stands for lib/redis/io/direct.c, io/reading.c, io/async_conn.c and io/async_conn.c, and for polled gates in
 * lib/base/gate.c: head = relock_direct_wait with begin(), poll_socket(), peek(), stop_polling() and
 * sleep_at_gate(); io = handle_io(), handle_timer(), receive(), fail(), relock_async_conn_attend() and
 * the steps that send. A critical section of the mutex of the connection is one atomic step.
 *
 *   ALONE    while a reply is owed, or the connection is being made, no head reads
 *   HEARD    a head whose lock is free does not sleep for ever, and neither does the I/O thread while
 *            a message that it needs is in the socket: an invalid end state
 *
 * A message may get lost with its connection. Then the heads ask Redis: they are woken when it ends,
 * and when the next is subscribed. The timer that lets the I/O thread watch again is left out, as no
 * wait may depend on it, unless -DTIMER. A head may be stopped for ever wherever it holds no mutex.
 *
 * With -DNOTICES, the server may end the subscription because the slot of the channel has gone to another
 * node. No message comes then until the I/O thread has subscribed again.
 *
 * Not in it: deadlines of waits. Of the connections to several nodes, a head polls one, and the I/O
 * thread watches all others as if nobody could read them.
 *
 * Budgets: ROUNDS, BREAKS (ends of the connection), CUTS (ends by
 * the I/O thread), SENDS (commands of the I/O thread), OPENS (of a gate, by another thread), STOPS,
 * NEEDS (the I/O thread begins to need a message), STRAYS (a message that nobody waits for), NOTICES (ends of the
 * subscription).
 * Mistakes: -DBAD_*
 */
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef CUTS
#define CUTS 0
#endif
#ifndef SENDS
#define SENDS 0
#endif
#ifndef OPENS
#define OPENS 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef NEEDS
#define NEEDS 0
#endif
#ifndef STRAYS
#define STRAYS 0
#endif

#ifndef NOTICES
#define NOTICES 0
#endif

#define HEADS 2

/* what comes over the socket; below HEADS: a message for that head */
#define FOR_IO 2
#define REPLY 3
#define STRAY 4
#define NOTICE 5
#define ACK 6

#define CLOSED 0
#define OPEN 1
#define WAITED_AT 2
#define POLLED 3

/* the server */
bool waits[HEADS], is_free[HEADS];
chan sock = [8] of { byte };
bool ended;      /* the server has closed it: readable, also without bytes */
byte owed;       /* replies */
bool is_subscribed = true, subscribing;
byte connection; /* its number: a poll goes on with the one that it began with */

/* the connection, under its mutex */
bool up = true, watched = true, left, met, noticed;
byte n_waiting;
bool is_polled, is_needed;

/* the threads */
byte gate[HEADS];
bool event, woken, needs, io_heard = true, stray_heard = true;
byte breaks, cuts, sends, opens, stops, notices;

inline open_gate(h)
{
    if
#ifdef BAD_OPENER_FORGETS_THE_POLL
    :: false -> skip
#else
    :: gate[h] == POLLED -> event = true
#endif
    :: else
    fi;
    gate[h] = OPEN
}

inline open_gates()
{
    if :: waits[0] -> open_gate(0) :: else fi;
    if :: waits[1] -> open_gate(1) :: else fi
}

#define READABLE (len(sock) > 0 || ended)

#define N_POLLING (is_polled -> 1 : 0)

#define DUE (up && (met || noticed || (!watched && \
    (is_needed || n_waiting > N_POLLING || (!is_polled && !left)))))

#ifdef BAD_READS_REPLIES
#define MESSAGES_ONLY (up && !met && !noticed)
#else
#ifdef BAD_READS_WHATEVER_IS_THERE
#define MESSAGES_ONLY (!met)
#else
#define MESSAGES_ONLY (up && owed == 0 && !met && !noticed)
#endif
#endif

#define MAY_POLL (MESSAGES_ONLY && n_waiting == 1 && !is_needed)

#define IS_LEFT (is_polled && n_waiting == 1 && !is_needed)

inline take_message(item)
{
    if
    :: item == FOR_IO -> io_heard = true; woken = true
    :: item == STRAY -> stray_heard = true
    :: item < HEADS -> open_gate(item)
    fi
}

inline drop()
{
    do :: sock?_ :: empty(sock) -> break od;
    up = false;
    watched = false;
    left = false;
    met = false;
    noticed = false;
    ended = false;
    owed = 0;
    subscribing = false;
    connection++;
    io_heard = true; /* what it needs, it asks for anew */
    stray_heard = true;
    open_gates()
}

/* The I/O thread subscribes again. */
inline take_notice()
{
    noticed = false;
    owed++;
    subscribing = true;
    watched = true;
    left = false;
    open_gates()
}

/* The I/O thread reads all. */
inline receive()
{
    do
    :: nempty(sock) ->
        sock?got;
        if
        :: got == REPLY -> owed--
        :: got == ACK -> owed--; open_gates()
        :: got == NOTICE -> take_notice()
        :: else -> take_message(got)
        fi
    :: empty(sock) -> break
    od;
    if :: up && (met || ended) -> drop() :: else fi
}

/* The turn before each wait. */
inline turn()
{
    is_needed = needs;
    if
#ifdef BAD_TURN_DOES_NOT_LOOK
    :: false ->
#else
    :: DUE ->
#endif
        watched = true;
        left = false;
        if :: met -> drop() :: else -> if :: noticed -> take_notice() :: else fi fi
    :: else
    fi
}

proctype io()
{
    byte got;

end:
    do
    :: atomic { up && watched && READABLE ->
            if
            :: IS_LEFT && MESSAGES_ONLY -> watched = false; left = true
            :: else -> receive()
            fi;
            turn()
        }
    :: atomic { woken -> woken = false; turn() }
#ifdef TIMER
    :: atomic { up && left -> receive(); left = false; turn() }
#endif
    :: atomic { up && sends < SENDS -> sends++; owed++; watched = true; left = false; turn() }
    :: atomic { up && cuts < CUTS -> cuts++; drop(); turn() }
    :: atomic { !up -> up = true; watched = true; is_subscribed = true; open_gates(); turn() }
    od
}

/* The head stands still for ever: in a handler of a signal, say. */
inline may_stop()
{
    if
    :: atomic { stops < STOPS -> stops++; goto stopped }
    :: skip
    fi
}

proctype head(byte h)
{
    byte got, on, rounds;
    bool polls;

    do
    :: rounds == ROUNDS -> break
    :: else ->
        rounds++;
        atomic { waits[h] = true; gate[h] = CLOSED }
        do
        :: atomic { is_free[h] -> is_free[h] = false; waits[h] = false; break } /* Redis says so */
        :: atomic { !is_free[h] -> skip }

            /* begin() */
            atomic {
                n_waiting++;
                polls = MAY_POLL;
                is_polled = is_polled || polls;
                on = connection;
#ifndef BAD_SECOND_IS_NOT_ANNOUNCED
                if :: DUE -> woken = true :: else fi
#endif
            }
            may_stop();

            /* poll_socket() */
            do
            :: !polls -> break
            :: polls ->
                if
                :: atomic { gate[h] == CLOSED -> gate[h] = POLLED };
                    if
                    :: event
                    :: on == connection && READABLE
                    fi
                :: gate[h] == OPEN
                fi;
                may_stop();
                atomic {
                    if
                    :: gate[h] == OPEN -> gate[h] = CLOSED; break
                    :: else -> gate[h] = CLOSED
                    fi
                }
                atomic { event = false }
                atomic { /* peek() */
                    if
                    :: MESSAGES_ONLY ->
                        assert(up || (empty(sock) && !ended));
                        do
                        :: nempty(sock) ->
                            sock?got;
                            assert(got != REPLY && got != ACK);
                            if
#ifdef BAD_NOTICE_IS_DROPPED
                            :: got == NOTICE -> skip
#else
                            :: got == NOTICE -> noticed = true
#endif
                            :: else -> take_message(got)
                            fi
                        :: empty(sock) -> break
                        od;
                        met = met || ended
                    :: else
                    fi;
                    polls = MAY_POLL;
                    on = connection;
                    if
                    :: !polls ->
                        is_polled = false; /* stop_polling() */
#ifndef BAD_POLLER_STOPS_IN_SILENCE
                        if :: DUE -> woken = true :: else fi
#endif
                    :: else
                    fi
                }
                may_stop()
            od;

            /* The gate was opened, or this thread has to sleep at it. */
            if
            :: polls ->
                atomic {
                    is_polled = false;
                    n_waiting--;
#ifndef BAD_POLLER_LEAVES_IN_SILENCE
                    if :: DUE -> woken = true :: else fi;
#endif
                    polls = false
                }
            :: else ->
                atomic { if :: gate[h] == CLOSED -> gate[h] = WAITED_AT :: else fi }
                atomic { gate[h] == OPEN -> gate[h] = CLOSED }
                may_stop();
                atomic { n_waiting-- }
            fi
        od
    od;
stopped:
    /* The lock of a head that stands still is of no interest. */
    waits[h] = false
}

/* Each lock becomes free once it is waited for. */
proctype server()
{
end:
    do
    :: atomic { waits[0] && !is_free[0] -> is_free[0] = true; if :: up && !ended && is_subscribed -> sock!0 :: else fi }
    :: atomic { waits[1] && !is_free[1] -> is_free[1] = true; if :: up && !ended && is_subscribed -> sock!1 :: else fi }
    :: atomic { up && !ended && owed > 0 && !subscribing && !(sock ?? [REPLY]) && !(sock ?? [ACK]) ->
            sock!REPLY }
    :: atomic { up && !ended && subscribing && !(sock ?? [REPLY]) ->
            subscribing = false; is_subscribed = true; sock!ACK }
    :: atomic { up && !ended && is_subscribed && notices < NOTICES ->
            notices++; is_subscribed = false; sock!NOTICE }
    :: atomic { up && !ended && breaks < BREAKS -> breaks++; ended = true }
    od
}

/* Another thread wakes a head, for a reason that it finds out: that costs it a question to Redis. */
proctype opener()
{
end:
    do
    :: atomic { waits[0] && opens < OPENS -> opens++; is_free[0] = true; open_gate(0) }
    od
}

#if NEEDS
/* A call without a thread begins to wait: the I/O thread needs its message. */
proctype needy()
{
    atomic { needs = true; woken = true; io_heard = false }
    (is_needed);
    atomic { up && !ended -> sock!FOR_IO }
    (io_heard)
}
#endif

#if STRAYS
proctype stray()
{
    atomic { up && !ended -> sock!STRAY; stray_heard = false }
    (stray_heard)
}
#endif

init
{
    atomic {
        run io();
        run head(0);
        run head(1);
        run server();
#if OPENS
        run opener();
#endif
#if NEEDS
        run needy();
#endif
#if STRAYS
        run stray();
#endif
    }
}
