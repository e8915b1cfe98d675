/*
 * Client tracking: holders that are told of changes of their lock, and a waiter that sleeps on it.
 *
 * Each client has two connections: one for commands, whose replies come in their order, and one
 * over which Redis reports that a key has changed that a command has read. Between the two there is
 * no order. A report is made once: then the key has to be read again.
 *
 *   FOUND   a hold that is gone is found without a renewal, if no report is lost; and with a
 *           renewal in any case: else the holder is in an end state that is not valid
 *   FEW     a change costs each client one command at most, and commands cause none
 *   WOKEN   a waiter does not sleep while the lock is free, if no report is lost: else it is in an
 *           end state that is not valid
 *
 * What stands for what:
 *
 *   look, check      check, on_looked, on_answered              lib/lock/hold/watchdog.c
 *   renew            relock_watchdog_renew                      lib/lock/hold/watchdog.c
 *   hear()           relock_watchdog_hear                        lib/lock/hold/watchdog.c
 *   down, up         relock_watchdog_tracking                        lib/lock/hold/watchdog.c
 *   watch, on_read   watch, on_read, hear                       lib/lock/wake/vigil.c
 *   room             relock_room_begin                          lib/lock/wake/room.c
 *   ask              relock_ask                                 lib/lock/call/ask.c
 *   serve()          a script, or HEXISTS                       scripts/renew.lua plain_watch.lua
 *
 * Left out: time. A renewal may come at any moment; of the -DRENEWALS=n of each holder, the last one
 * comes after the lock was deleted, unless with -DEARLY.
 *
 * -DHOLDERS: clients that share the lock; -DCHANGES=n of other programs, which leave the holds;
 * -DLEVELS=n changes by the holders, over other connections; -DDELETES=n; -DDOWNS=n ends of the
 * connection for reports, -DLOSSES=n reports that are lost; -DTURNS=n: how often another program
 * holds the lock for which client 0 waits; -DROOMS=n: how often that leaves it to others;
 * -DDEADLINES=n: how often one of its waiters asks during that, because its time is over, and leaves
 * the queue to the next. -DBAD_*: a rule left out.
 */
#ifndef HOLDERS
#define HOLDERS 0
#endif
#ifndef TURNS
#define TURNS 0
#endif
#ifndef ROOMS
#define ROOMS 0
#endif
#ifndef DEADLINES
#define DEADLINES 0
#endif
#ifndef CHANGES
#define CHANGES 0
#endif
#ifndef LEVELS
#define LEVELS 0
#endif
#ifndef DELETES
#define DELETES 0
#endif
#ifndef DOWNS
#define DOWNS 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif

#ifdef EARLY
#define HELD_BACK 0
#else
#define HELD_BACK (n_deletes < DELETES)
#endif

#define CLIENTS 2

mtype = { LOOK, CHECK, RENEW, HELD, GONE, REPORT };

chan request[CLIENTS] = [2] of { mtype };
chan reply[CLIENTS] = [2] of { mtype };
chan reports[CLIENTS] = [4] of { mtype };

/* Redis */
bool held[CLIENTS];    /* the hold of each holder, or for a waiter [1]: of the other program */
bool tracks[CLIENTS];  /* CLIENT TRACKING is on, and leads to a connection that exists */
bool tracked[CLIENTS];   /* the key is in the table of that connection */

byte n_changes, n_levels, n_deletes, n_downs, n_losses, n_turns, n_rooms, n_deadlines;
byte n_commands, n_events;
bool others_done;

#define nobody_holds (!held[0] && !held[1])

/* The key has changed, over no connection of a client that tracks it, or over that of `by`. */
inline change(by)
{
    c = 0;
    do
    :: c == CLIENTS -> break
    :: c < CLIENTS ->
        if
        :: tracked[c] && c != by && tracks[c] ->
            if
            :: n_losses < LOSSES -> n_losses++
            :: reports[c]!REPORT
            fi
        :: else
        fi;
        tracked[c] = false; c++
    od;
    c = 0
}

#define NOBODY 9

/* A command of one client runs. */
inline serve(me)
{
    atomic {
        request[me]?command;
        if
        :: command == RENEW && held[me] -> change(me)
#ifdef BAD_CHECK_WRITES
        :: command == CHECK && held[me] -> change(me)
#endif
        :: else
        fi;
        if
#ifdef BAD_WRITES_LAST
        :: command == RENEW -> tracked[me] = false
#endif
        :: else -> tracked[me] = tracks[me]
        fi;
        if
        :: HOLDERS > 0 && held[me] -> reply[me]!HELD
        :: HOLDERS == 0 && held[1] -> reply[me]!HELD
        :: else -> reply[me]!GONE
        fi;
        command = 0
    }
}

proctype redis()
{
    byte c;
    mtype command;

end:
    do
    :: serve(0)
    :: serve(1)
    :: atomic { n_changes < CHANGES && !nobody_holds -> n_changes++; n_events++; change(NOBODY) }
    :: atomic { n_deletes < DELETES && !nobody_holds ->
            n_deletes++; n_events++; held[0] = false; held[1] = false; change(NOBODY) }
    od
}

/* ---- holders ------------------------------------------------------------------------------- */

inline send(what)
{
    request[me]!what; in_flight = true; due = false; n_commands++;
    knows = up
}

/* A hint costs a command, if the key is tracked as far as is known. */
inline hear()
{
#ifdef BAD_DEAF_IN_FLIGHT
    if :: knows && !in_flight -> due = true; knows = false :: else fi
#else
    if :: knows -> due = true; knows = false :: else fi
#endif
}

proctype holder(byte me)
{
    byte c, n_renewals;
    bool in_flight, due = true, knows, up = true, lost, is_first = true, looks;
    mtype answer;

    do
    :: lost -> break
    :: atomic { !lost && due && up && !in_flight && is_first ->                /* look */
            is_first = false; looks = true; send(LOOK) }
    :: atomic { !lost && due && up && !in_flight && !is_first -> send(CHECK) } /* check */
    :: atomic { !lost && !in_flight && n_renewals < RENEWALS - HELD_BACK ->
            n_renewals++; n_events++; is_first = false; send(RENEW) }          /* renew */
    :: atomic { reply[me]?answer ->
            in_flight = false;
            if
#ifdef BAD_LOOK_IS_THE_LAST_WORD
            :: answer == GONE && looks
#else
            :: answer == GONE && looks -> due = true
#endif
            :: answer == GONE && !looks -> lost = true
            :: else
            fi;
            looks = false; answer = 0 }
    :: atomic { reports[me]?_ -> hear() }
    :: atomic { !lost && n_levels < LEVELS && held[me] ->
            n_levels++; n_events++; change(NOBODY) }
    :: atomic { !lost && up && n_downs < DOWNS ->                              /* down */
            n_downs++; n_events++; up = false; knows = false;
            tracks[me] = false; tracked[me] = false;
            do :: nempty(reports[me]) -> reports[me]?_ :: empty(reports[me]) -> break od }
    :: atomic { !lost && !up -> up = true; tracks[me] = true;                  /* up */
#ifdef BAD_UP_IS_NO_REASON
            skip
#else
            due = true
#endif
            }
    /* Nothing will happen any more, and the hold is there. */
    :: atomic { !lost && held[me] && up && !due && !in_flight && empty(reports[me]) &&
                n_deletes == DELETES -> break }
    od;
    /* FEW: the first check, and one for each event of either; a renewal is one itself. */
    assert(n_commands <= HOLDERS * (1 + n_events) + n_events)
}

/* ---- a waiter ------------------------------------------------------------------------------ */

#define me 0

proctype waiter()
{
    byte c;
    bool signalled = true, wanted, in_flight, asleep, up = true, in_room;
    mtype answer;

    do
    :: atomic { signalled && !in_room && n_rooms < ROOMS ->                    /* room */
            n_rooms++; in_room = true;
#ifdef BAD_ROOM_EATS_THE_SIGNAL
            signalled = false;
#endif
            if :: !in_flight && !asleep -> wanted = true :: else fi }
    :: atomic { in_room -> in_room = false }                                   /* its end */
    :: atomic { signalled && in_room && held[1] && n_deadlines < DEADLINES ->  /* ask, refused */
            n_deadlines++; signalled = false;
            if :: !asleep -> wanted = true :: else fi }
    :: atomic { signalled && !in_room ->                                       /* ask */
            signalled = false;
            if
            :: !held[1] -> break
            :: held[1] && asleep -> skip /* it is watched since a room */
            :: held[1] && !asleep -> wanted = true
            fi }
    :: atomic { wanted && up && !in_flight ->                                  /* watch */
            request[0]!CHECK; wanted = false; in_flight = true; asleep = true }
    :: atomic { reply[0]?answer ->                                             /* on_read */
            in_flight = false;
            if
#ifdef BAD_FREE_IS_WATCHED_ON
            :: answer == GONE && asleep -> skip
#else
            :: answer == GONE && asleep && !in_room -> asleep = false; signalled = true
#ifndef BAD_FREE_IN_A_ROOM_IS_SILENT
            :: answer == GONE && asleep && in_room -> signalled = true
#endif
#endif
            :: else
            fi;
            answer = 0 }
    :: atomic { reports[0]?_ ->
#ifdef BAD_MESSAGE_BEFORE_REPLY
            if :: !in_flight -> asleep = false; signalled = true :: else fi
#else
            asleep = false; signalled = true;
            if :: in_room && !in_flight -> wanted = true :: else fi
#endif
            }
    :: atomic { up && n_downs < DOWNS ->                                       /* down */
            n_downs++; up = false; tracks[0] = false; tracked[0] = false;
            do :: nempty(reports[0]) -> reports[0]?_ :: empty(reports[0]) -> break od;
#ifndef BAD_SLEEPS_ON
            asleep = false; signalled = true
#endif
            }
    :: atomic { !up -> up = true; tracks[0] = true }                           /* up */
    od
}

/* The other program, which publishes nothing. */
proctype stranger()
{
    byte c;

    do
    :: atomic { held[1] -> held[1] = false; change(NOBODY) }
    :: atomic { !held[1] && n_turns < TURNS -> n_turns++; held[1] = true; change(NOBODY) }
    :: atomic { !held[1] && n_turns == TURNS -> break }
    od
}

#undef me

init
{
    atomic {
        tracks[0] = true; tracks[1] = true;
        run redis();
        if
        :: HOLDERS > 0 ->
            held[0] = true; run holder(0);
            if :: HOLDERS > 1 -> held[1] = true; run holder(1) :: else fi
        :: else ->
            held[1] = true; run waiter(); run stranger()
        fi
    }
}
