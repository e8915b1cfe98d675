/*
 * Failovers: a hold that a replica has acknowledged, and a replica that has or has not is promoted.
 *
 * Three servers, of which one is the master; the others copy it at any moment. Two clients acquire,
 * release, and move to the new master at any moment, as they hear of it. At a failover the old
 * master dies, or is cut off: then it still answers the clients that have not moved, and nothing
 * copies it. An acquire counts when one replica has acknowledged it, and a hold is certain for as long
 * as the last renewal that one has acknowledged allows (min_replicas 1).
 *
 *   EXCLUSION   two clients never hold the lock at once
 *
 * What stands for what:
 *
 *   ACQUIRE      scripts/lock.lua; relock_ask                     lib/lock/call/ask.c
 *   COUNTS       wait_for_replicas                                lib/redis/deployment/run.c
 *                ask                                              lib/lock/call/commands.c
 *   renews       confirm_want, on_confirming, on_counted          lib/lock/hold/watchdog.c
 *   moves        relock_node_io_cut, relock_succession_retire     lib/redis/io/node_io.c lane/succession.c
 *                relock_watchdog_up                               lib/lock/hold/watchdog.c
 *   copy         the replication of Redis
 *   failover     a sentinel that promotes a replica
 *   lapse        the end of a lease that is not renewed, behind that of the certainty which it gave
 *
 * Left out: the sentinels, so which server a client finds next; levels, numbers and fences, see
 * unknown.pml. Of time there is one thing: a client is certain of its hold no longer than the lease
 * lasts that the write gave which it relies on. So it may hear of the failover at any time.
 *
 * -DFAILOVERS=n; -DTURNS=n acquires of each client, -DRENEWALS=n renewals.
 * -DANY: also a replica may be promoted that has not acknowledged. -DNO_MIN: min_replicas is 0.
 * -DBAD_*: a rule left out.
 */
#ifndef FAILOVERS
#define FAILOVERS 1
#endif
#ifndef TURNS
#define TURNS 2
#endif
#ifndef RENEWALS
#define RENEWALS 1
#endif

#define SERVERS 3
#define CLIENTS 2
#define FREE 0
#define NOBODY 9

byte owner[SERVERS];               /* of the lock there; FREE */
byte written[SERVERS];             /* the number of the last write that the server has */
byte leased[SERVERS];              /* the number of the write that gave the lease there */
byte source[SERVERS];              /* the server that it copies; NOBODY */
bool dead[SERVERS];
byte master;
byte n_writes;
byte acknowledged;                 /* ghost: the last write of a hold that a replica acknowledged */

byte at[CLIENTS + 1];              /* the server that the client uses */
bool holds[CLIENTS + 1];
bool asks[CLIENTS + 1];            /* it waits for the acknowledgement */
bool renews[CLIENTS + 1];          /* likewise, of a renewal */
byte relies_on[CLIENTS + 1];       /* the number of the write that makes its hold certain */

inline write(s, who)
{
    n_writes++;
    owner[s] = who;
    leased[s] = (who == FREE -> 0 : n_writes);
    written[s] = n_writes
}

/* Whether server r has what the client wrote at server s. */
#define HAS(r, s, number) (source[r] == s && written[r] >= number)
#define ACKED(s, number) (HAS(0, s, number) || HAS(1, s, number) || HAS(2, s, number))

#ifdef NO_MIN
#define COUNTS true
#else
#ifdef BAD_ELSEWHERE
#define COUNTS (ACKED(at[me], 0) && !dead[at[me]])
#else
#define COUNTS (at[me] == where && !dead[where] && ACKED(where, number))
#endif
#endif
#ifdef BAD_GRANTED
#define RENEWAL_COUNTS true
#else
#define RENEWAL_COUNTS COUNTS
#endif

inline acknowledge()
{
    if
    :: ACKED(where, number) && number > acknowledged -> acknowledged = number
    :: else
    fi
}

inline lose()
{
    holds[me] = false;
    renews[me] = false;
    relies_on[me] = 0;
    number = 0
}

proctype client(byte me)
{
    byte where, number, turns = TURNS, renewals = RENEWALS;

    do
    :: atomic { at[me] != master ->        /* moves; the hold is renewed at once */
        at[me] = master;
        if
        :: renews[me] -> renews[me] = false; number = 0
        :: else
        fi;
        if
        :: holds[me] && owner[master] != me -> lose()
        :: else
        fi }
    :: atomic { turns > 0 && !holds[me] && !asks[me] && !dead[at[me]] && owner[at[me]] == FREE ->
        turns--;
        where = at[me];
        write(where, me);
        number = n_writes;
        asks[me] = true }
    :: atomic { asks[me] && COUNTS ->
        acknowledge();
        relies_on[me] = number;
        number = 0;
        asks[me] = false;
        assert(!holds[CLIENTS + 1 - me]);  /* EXCLUSION */
        holds[me] = true }
#ifdef BAD_KEEPS
    :: atomic { asks[me] ->                /* too few have acknowledged it */
        asks[me] = false;
        assert(!holds[CLIENTS + 1 - me]);
        holds[me] = true }
#endif
    :: atomic { asks[me] ->                /* fails, and is released */
        asks[me] = false;
        if
        :: !dead[at[me]] && owner[at[me]] == me -> write(at[me], FREE)
        :: else
        fi }
    :: atomic { renewals > 0 && holds[me] && !renews[me] && !dead[at[me]] && owner[at[me]] == me ->
        renewals--;
        where = at[me];
        write(where, me);
        number = n_writes;
        renews[me] = true }
    :: atomic { renews[me] && RENEWAL_COUNTS ->
        acknowledge();
        relies_on[me] = number;
        number = 0;
        renews[me] = false }
    :: atomic { renews[me] ->              /* too few have acknowledged it */
        number = 0;
        renews[me] = false }
    :: atomic { holds[me] && !dead[at[me]] ->
        lose();
        if
        :: owner[at[me]] == me -> write(at[me], FREE)
        :: else
        fi }
    :: atomic { holds[me] -> lose() }      /* its time ends */
    :: turns == 0 && !holds[me] && !asks[me] -> break
    od
}

/* Redis */
proctype copy()
{
    byte r;

end:
    do
    :: atomic { select (r : 0 .. 2);
        if
        :: source[r] != NOBODY && !dead[r] && written[r] != written[source[r]] &&
           !dead[source[r]] ->
            owner[r] = owner[source[r]];
            leased[r] = leased[source[r]];
            written[r] = written[source[r]]
        :: else
        fi;
        r = 0 }
    od
}

/* The client of this hold renews it there, or is certain of it for no longer than the lease. */
#define KEEPS(me, s) \
    (((holds[me] || asks[me]) && at[me] == s) || (holds[me] && leased[s] >= relies_on[me]))

proctype lapse()
{
    byte s;

end:
    do
    :: atomic { select (s : 0 .. 2);
        if
        :: source[s] == NOBODY && !dead[s] && owner[s] != FREE && !KEEPS(owner[s], s) ->
            write(s, FREE)
        :: else
        fi;
        s = 0 }
    od
}

#ifdef ANY
#define MAY_BE_PROMOTED(r) true
#else
#define MAY_BE_PROMOTED(r) (written[r] >= acknowledged)
#endif

/* Sentinels */
proctype failover()
{
    byte r, n = FAILOVERS;

end:
    do
    :: n > 0 -> atomic { select (r : 0 .. 2);
        if
        :: r != master && source[r] == master && MAY_BE_PROMOTED(r) ->
            n--;
            if
            :: dead[master] = true
            :: skip                        /* it is cut off */
            fi;
            source[r] = NOBODY;
            if
            :: source[3 - master - r] == master -> source[3 - master - r] = r
            :: else
            fi;
            n_writes++;
            written[r] = n_writes;         /* a new history; the other one copies all of it */
            acknowledged = 0;
            master = r
        :: else
        fi;
        r = 0 }
    od
}

init
{
    atomic {
        source[0] = NOBODY;
        source[1] = 0;
        source[2] = 0;
        at[1] = 0;
        at[2] = 0;
        run client(1);
        run client(2);
        run copy();
        run lapse();
        run failover()
    }
}
