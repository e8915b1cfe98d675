/*
 * Read/write locks: owners 0 and 1 in process 0, owner 2 in process 1, one lock, one Redis.
 *
 * An owner without a hold waits to read or to write. A reader may read again. A writer may read
 * inside its write hold and release either first; releasing the write hold leaves a reader
 * (downgrade). Each process has a queue of readers and one of writers; the head of each asks when it
 * has a signal. A process may die at any moment. Living processes renew their holds in time. The
 * holds of the dead end, and so does a fixed lease (-DFIXED), of which the owner knows.
 *
 * Time is ticks, and leases are remainders that each tick lowers; a renewed hold of the living never
 * ends. A tick comes only if it changes something for dead or fixed holds, and never while a command
 * is in flight.
 *
 * NOT in it: recheck_ms, except where `excused` says so. A waiter that sleeps although the lock is
 * free for it and nothing is in flight is an error at once, not only at the end.
 *
 *   EXCLUSION   a writer that is certain is alone
 *   SURE        a certain reader or writer is in Redis: no unlock cuts another owner's lease
 *   AWAKE       no waiter sleeps while the lock is free for it and nothing in flight will wake it
 *   REFUSED     a refusal is true: a dead reader blocks no writer once its level keys are gone
 *   OWN         no renewal lengthens a dead or a fixed hold
 *   and no waiter waits for ever: that would be an invalid end state
 *
 * What stands for what:
 *
 *   read_lock, read_unlock                             scripts/read_lock.lua read_unlock.lua
 *   read_renew                                         scripts/read_renew.lua
 *   write_lock, write_unlock                           scripts/write_lock.lua write_unlock.lua
 *   write_renew                                        scripts/renew.lua with the field of a writer
 *   publish                                            the message of either unlock
 *   enqueue, dequeue   relock_resource_enqueue, relock_resource_dequeue
 *   signal, MAY_ASK    relock_resource_signal, relock_resource_may_ask
 *   after_release      relock_resource_released        lib/lock/state/resource.c, for each queue
 *   owner: first       relock_waiter_wait              lib/lock/call/wait.c
 *                      the answer                      lib/lock/call/ask.c
 *          inside      relock_levels_add; the refusal of read -> write is no step: the owner
 *                      goes on                         lib/lock/hold/levels.c
 *          release     release_last                    lib/lock/call/release.c
 *   told[]             lease_end_ms                    lib/lock/state/resource.c
 *   io                 on_channel                      lib/lock/wake/subscription.c
 *   tick               renewals in time; losses        lib/lock/hold/watchdog.c hold/holds.c; Redis' clock
 *
 * rkey is the longest remaining lease of the level keys of a hold. Where a script says that an owner may read
 * because it writes (W), the owner here is the same number for both sides.
 *
 * Left out: everything that wait.pml, unknown.pml and renew.pml show for all kinds (gates, broken
 * connections, linger, cancel, unknown outcomes, late renewals); nested writes, which are nested
 * levels of a reentrant lock; force. Readers that take turns may block a writer for ever, by design.
 *
 * -DT0 -DT1 -DT2  turns of each owner; -DM0 -DM1 -DM2  what it may wait for: READS, WRITES or
 * BOTH; -DNESTS  reads inside a hold, for each owner; -DDEATHS of processes; -DFIXED: leases
 * may be fixed; -DREDISSON: owner 2 releases a write hold as Redisson does: it publishes nothing
 * when it goes on reading, and keeps the lease of the write hold; -DSTRICT: see
 * limit.shorter_rest in runs. -DBAD_*: a rule left out.
 */
#define READS 1
#define WRITES 2
#define BOTH 3
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
#ifndef T2
#define T2 1
#endif
#ifndef M0
#define M0 BOTH
#endif
#ifndef M1
#define M1 BOTH
#endif
#ifndef M2
#define M2 BOTH
#endif
#ifndef NESTS
#define NESTS 1
#endif
#ifndef DEATHS
#define DEATHS 0
#endif

#define LEASE 2                     /* of the watchdog; renewed with each tick */
#define FIXED_READ 1
#define FIXED_WRITE 3

#define READ 1
#define WRITE 2
#define MAX(a, b) ((a) > (b) -> (a) : (b))
#define RESOURCE(o) (o / 2)
#define READERS(p) (2 * p)          /* the lines */
#define WRITERS(p) (2 * p + 1)

/* Redis; rests in ticks */
byte mode;                          /* 0: the hash is not there */
byte rest;                          /* of the hash */
byte rf[3], rkey[3];                /* fields of readers, and the longest of their level keys */
byte wf;                            /* field of the writer: owner + 1 */

/* the channel of each process: nothing, SUBSCRIBE in flight, its answer in flight, subscribed */
mtype = { NONE, SUB, ACK, ON };
mtype channel[2] = NONE;
bool msg[2];                        /* in flight; one behind another is no new signal */

/* the lines */
byte q0[4], q1[4];                  /* owner + 1 */
bool pending[4];
byte told[4];                       /* until the lease ends that Redis named; 0 none */

/* the state that each owner believes in */
byte rc[3], wc[3];                  /* levels */
byte vr[3], vw[3];                  /* remaining valid_until_ms; 0: lost */
bool rrenew[3], wrenew[3];          /* the watchdog renews it */

byte asking[2];                     /* commands in flight */
bool dead[2];
byte deaths;
bool excused;                       /* ghost: from here on only recheck_ms helps, and it does */

#define LIVES(o) (rf[o] && rkey[o])
#define SOMEBODY_READS (LIVES(0) || LIVES(1) || LIVES(2))
#define KEY_OF(o) (rf[o] -> rkey[o] : 0)
#define LONGEST MAX(KEY_OF(0), MAX(KEY_OF(1), KEY_OF(2)))

#define READS_FOR_SURE(o) (rc[o] && vr[o])
#define WRITES_FOR_SURE(o) (wc[o] && vw[o])

/* ---- Redis ------------------------------------------------------------------------------- */

inline publish()
{
    msg[0] = msg[0] || channel[0] == ACK || channel[0] == ON;
    msg[1] = msg[1] || channel[1] == ACK || channel[1] == ON
}

inline end_hash()
{
    mode = 0; rest = 0; wf = 0; rf[0] = 0; rf[1] = 0; rf[2] = 0
}

inline read_lock(o, lease, count)
{
    if
    :: count > 1 -> ok = LIVES(o)
    :: else -> ok = mode != WRITE || wf == o + 1
    fi;
    if
    :: ok ->
        if :: mode == 0 -> mode = READ :: else fi;
        rkey[o] = (count > 1 -> MAX(rkey[o], lease) : lease);
        rf[o] = count; rest = MAX(rest, lease)
    :: else -> left = rest
    fi
}

#ifdef BAD_WAITS_FOR_THE_HASH
#define WRITER_MAY (mode == 0)
#define REST_FOR_WRITER rest
#else
#define WRITER_MAY (mode == 0 || (mode == READ && !SOMEBODY_READS))
#define REST_FOR_WRITER (mode == READ -> LONGEST : rest)
#endif

inline write_lock(o, lease)
{
    ok = WRITER_MAY;
    if
    :: ok -> end_hash(); mode = WRITE; wf = o + 1; rest = lease
    :: else -> left = REST_FOR_WRITER
    fi
}

inline read_unlock(o, count)
{
    if
    :: rf[o] == 0
    :: rf[o] && count > 0 && rkey[o] -> rf[o] = count;
#ifdef BAD_READ_UNLOCK_CUTS
        rest = LONGEST
#endif
    :: rf[o] && (count == 0 || rkey[o] == 0) -> rf[o] = 0; rkey[o] = 0;
        if
        :: mode == READ && SOMEBODY_READS ->
#ifndef STRICT
            excused = excused || LONGEST < rest;
#endif
            rest = LONGEST
        :: mode == READ && !SOMEBODY_READS -> end_hash(); publish()
        :: else
        fi
    fi
}

#ifdef REDISSON
#define IS_REDISSON(o) (o == 2)
#else
#define IS_REDISSON(o) false
#endif

inline write_unlock(o)
{
    if
    :: wf != o + 1
    :: wf == o + 1 && IS_REDISSON(o) && rf[o] -> wf = 0; mode = READ; excused = true
    :: wf == o + 1 && !(IS_REDISSON(o) && rf[o]) -> wf = 0;
        if
        :: SOMEBODY_READS -> mode = READ; rest = LONGEST;
#ifndef BAD_SILENT_DOWNGRADE
            publish()
#endif
        :: else -> end_hash(); publish()
        fi
    fi
}

inline read_renew(o)
{
    if :: LIVES(o) -> rkey[o] = MAX(rkey[o], LEASE); rest = MAX(rest, LEASE) :: else fi
}

inline write_renew(o) { if :: wf == o + 1 -> rest = MAX(rest, LEASE) :: else fi }

/* ---- resource -------------------------------------------------------------------------------- */

inline signal(p) { pending[READERS(p)] = true; pending[WRITERS(p)] = true }

inline enqueue(l, o)
{
    if
    :: q0[l] == 0 -> q0[l] = o + 1; pending[l] = true
    :: else -> assert(q1[l] == 0); q1[l] = o + 1
    fi
}

inline dequeue(l, o) { assert(q0[l] == o + 1); q0[l] = q1[l]; q1[l] = 0; told[l] = 0 }

#define MAY_ASK(l, o) (q0[l] == o + 1 && pending[l])

inline want(p) { if :: channel[p] == NONE -> channel[p] = SUB :: else fi }

/* The lock may be free, and unless we are subscribed nobody tells us. */
inline after_release(p, heard) { if :: !(heard) -> signal(p) :: else fi }

/* ---- an owner ---------------------------------------------------------------------------- */

#ifdef FIXED
#define MAY_BE_FIXED true
#else
#define MAY_BE_FIXED false
#endif

inline choose_lease(k)
{
    if
    :: lease = LEASE
    :: MAY_BE_FIXED -> lease = (k == READ -> FIXED_READ : FIXED_WRITE)
    fi
}

#define READS_ONCE(o) (rc[o] == 1 && vr[o])
#ifdef BAD_READ_INSIDE_QUEUES
#define MAY_GO_INSIDE(o) READS_ONCE(o)
#else
#define MAY_GO_INSIDE(o) (READS_ONCE(o) || (WRITES_FOR_SURE(o) && !rc[o]))
#endif

inline now_reads(o)
{
    rc[o]++;
    vr[o] = MAX(vr[o], lease);
    rrenew[o] = rrenew[o] || lease == LEASE
}

inline now_writes(o) { wc[o] = 1; vw[o] = lease; wrenew[o] = (lease == LEASE) }

proctype owner(byte o; byte turns; byte may)
{
    byte nests = NESTS, lease, left, line, k;
    bool ok, heard;
    {
choice:
    do
    :: turns == 0 && !rc[o] && !wc[o] -> goto over
    :: atomic { turns > 0 && !rc[o] && !wc[o] -> turns--;  /* first */
            if :: may & READS -> k = READ :: may & WRITES -> k = WRITE fi }
        goto wait
    :: atomic { nests > 0 && MAY_GO_INSIDE(o) ->           /* inside: no line is in the way */
            nests--; asking[RESOURCE(o)]++; choose_lease(READ) }
        atomic { read_lock(o, lease, rc[o] + 1); left = 0 }
        atomic { asking[RESOURCE(o)]--; assert(ok); ok = false; now_reads(o); lease = 0 }
#ifdef BAD_READ_INSIDE_QUEUES
    :: WRITES_FOR_SURE(o) && !rc[o] -> k = READ; goto wait
#endif
#ifdef BAD_UPGRADE_WAITS
    :: READS_FOR_SURE(o) && !wc[o] && may & WRITES -> k = WRITE; goto wait
#endif
    :: atomic { rc[o] -> rc[o]--; asking[RESOURCE(o)]++; heard = channel[RESOURCE(o)] == ON;
            if :: !rc[o] -> vr[o] = 0; rrenew[o] = false :: else fi }
        atomic { read_unlock(o, rc[o]) }
        atomic { asking[RESOURCE(o)]--;
            if :: !rc[o] -> after_release(RESOURCE(o), heard) :: else fi;
            heard = false }
    :: atomic { wc[o] -> wc[o] = 0; asking[RESOURCE(o)]++; heard = channel[RESOURCE(o)] == ON;
            vw[o] = 0; wrenew[o] = false }
        atomic { write_unlock(o) }
        atomic { asking[RESOURCE(o)]--; after_release(RESOURCE(o), heard); heard = false }
    od;

wait:
    atomic { line = (k == READ -> READERS(RESOURCE(o)) : WRITERS(RESOURCE(o))); enqueue(line, o) }
look:
    atomic { MAY_ASK(line, o) -> pending[line] = false; asking[RESOURCE(o)]++; choose_lease(k) }
    atomic {
        if
        :: k == READ -> read_lock(o, lease, 1)
        :: else -> write_lock(o, lease)
        fi;
        assert(ok || (k == READ -> mode == WRITE : mode == WRITE || SOMEBODY_READS)) /* REFUSED */
    }
    if
    :: atomic { !ok ->
            asking[RESOURCE(o)]--; told[line] = left; left = 0; lease = 0;
            want(RESOURCE(o)); goto look }
    :: atomic { ok ->
            asking[RESOURCE(o)]--; ok = false; dequeue(line, o);
            if
            :: k == READ -> now_reads(o);
#ifndef BAD_READER_ROUSES_NOBODY
                pending[line] = true
#endif
            :: else -> now_writes(o)
            fi;
            lease = 0; line = 0; k = 0 }
    fi;
    goto choice
    } unless { dead[RESOURCE(o)] };
over:
    skip
}

/* ---- the I/O thread, time, death ----------------------------------------------------------- */

proctype io(byte p)
{
end:
    do
    :: atomic { channel[p] == SUB -> channel[p] = ACK }    /* Redis: from here on it hears */
    :: atomic { channel[p] == ACK -> channel[p] = ON;
#ifndef BAD_NO_SECOND_TRY
            signal(p)
#endif
        }
    :: atomic { channel[p] == ON && msg[p] -> msg[p] = false; signal(p) }
    od
}

#if DEATHS > 0
inline reap(o)
{
    rc[o] = 0; wc[o] = 0; vr[o] = 0; vw[o] = 0; rrenew[o] = false; wrenew[o] = false
}

proctype death()
{
    byte p;
end:
    do
    :: atomic { deaths < DEATHS -> deaths++;
            if :: p = 0 :: p = 1 fi;
            if
            :: dead[p]
            :: else -> dead[p] = true; asking[p] = 0; channel[p] = NONE; msg[p] = false;
                q0[READERS(p)] = 0; q1[READERS(p)] = 0; q0[WRITERS(p)] = 0; q1[WRITERS(p)] = 0;
                pending[READERS(p)] = false; pending[WRITERS(p)] = false;
                told[READERS(p)] = 0; told[WRITERS(p)] = 0;
                if
                :: p == 0 -> reap(0); reap(1)
                :: p == 1 -> reap(2)
                fi
            fi;
            p = 0 }
    od
}
#endif

#define RENEWS_READ(o) (READS_FOR_SURE(o) && rrenew[o])
#define RENEWS_WRITE(o) (WRITES_FOR_SURE(o) && wrenew[o])
#define SOMEBODY_RENEWS (RENEWS_READ(0) || RENEWS_READ(1) || RENEWS_READ(2) || \
    RENEWS_WRITE(0) || RENEWS_WRITE(1) || RENEWS_WRITE(2))
#define RUNS_OUT(o) (rkey[o] && !RENEWS_READ(o) || vw[o] && !wrenew[o])

#define ASLEEP(l) (q0[l] && !pending[l] && !dead[l / 2] && asking[l / 2] == 0 && !msg[l / 2] && \
    channel[l / 2] != SUB && channel[l / 2] != ACK)
#define SLEEPS_THOUGH_FREE(l) (ASLEEP(l) && (l % 2 == 0 -> mode != WRITE \
    : mode == 0 || (mode == READ && !SOMEBODY_READS)))

#ifdef BAD_RENEWS_ALL_READERS
#define IS_RENEWED_BY(x, o) true
#else
#define IS_RENEWED_BY(x, o) (x == o)
#endif

inline renew(o)
{
    if
    :: RENEWS_READ(o) ->
        for (x : 0 .. 2) {
            if
            :: IS_RENEWED_BY(x, o) && LIVES(x) ->
                assert(RENEWS_READ(x) || rkey[x] >= LEASE);      /* OWN */
                read_renew(x)
            :: else
            fi
        }
    :: else
    fi;
    if :: RENEWS_WRITE(o) -> write_renew(o) :: else fi;
    if :: RENEWS_READ(o) -> vr[o] = MAX(vr[o], LEASE) :: else fi;
    if :: RENEWS_WRITE(o) -> vw[o] = MAX(vw[o], LEASE) :: else fi
}

#define LESS(n) n = (n -> n - 1 : 0)

inline pass_by(o)                   /* a hold that is lost is pending */
{
    LESS(rkey[o]);
    if
    :: vr[o] == 1 || vw[o] == 1 -> LESS(vr[o]); LESS(vw[o]); signal(RESOURCE(o))
    :: else -> LESS(vr[o]); LESS(vw[o])
    fi
}

proctype time()
{
    byte x;
end:
    do
    :: atomic { asking[0] + asking[1] == 0 &&
            (RUNS_OUT(0) || RUNS_OUT(1) || RUNS_OUT(2) || (mode && !SOMEBODY_RENEWS)) ->
            renew(0); renew(1); renew(2);
            pass_by(0); pass_by(1); pass_by(2);
            LESS(rest);
            if :: mode && rest == 0 -> end_hash() :: else fi;
            for (x : 0 .. 3) {
                if :: told[x] == 1 -> pending[x] = true :: else fi;
                LESS(told[x])
            }
            x = 0 }
    :: atomic { excused && (SLEEPS_THOUGH_FREE(0) || SLEEPS_THOUGH_FREE(1) ||
            SLEEPS_THOUGH_FREE(2) || SLEEPS_THOUGH_FREE(3)) ->  /* recheck_ms */
            for (x : 0 .. 3) {
                if :: SLEEPS_THOUGH_FREE(x) -> pending[x] = true :: else fi
            }
            x = 0 }
    od
}

#define NOT_ALONE(a, b, c) (WRITES_FOR_SURE(a) && (WRITES_FOR_SURE(b) || READS_FOR_SURE(b) || \
    WRITES_FOR_SURE(c) || READS_FOR_SURE(c)))
#define NOT_THERE(o) (READS_FOR_SURE(o) && (mode == 0 || !LIVES(o)) || \
    WRITES_FOR_SURE(o) && (mode != WRITE || wf != o + 1))

proctype watch()
{
end:
    if
    :: NOT_ALONE(0, 1, 2) || NOT_ALONE(1, 0, 2) || NOT_ALONE(2, 0, 1) ->
        assert(false)                                      /* EXCLUSION */
    :: NOT_THERE(0) || NOT_THERE(1) || NOT_THERE(2) -> assert(false)   /* SURE */
    :: !excused && (SLEEPS_THOUGH_FREE(0) || SLEEPS_THOUGH_FREE(1) ||
        SLEEPS_THOUGH_FREE(2) || SLEEPS_THOUGH_FREE(3)) -> assert(false)            /* AWAKE */
    fi
}

init {
    atomic {
        run io(0); run io(1); run time(); run watch();
#if DEATHS > 0
        run death();
#endif
        run owner(0, T0, M0); run owner(1, T1, M1); run owner(2, T2, M2)
    }
}
