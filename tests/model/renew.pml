/*
 * Leases, renewals and valid_until_ms, with a clock of a few ticks.
 *
 * A thread takes the lock with the watchdog (lease W) or with a fixed lease F > W, nests with the
 * other kind, extends, unlocks, takes it again. The watchdog sends a renewal at any moment at which
 * none is in flight. It runs at any later moment, and the reply is read at any moment after that. If
 * the connection breaks instead, the hold is suspect and the next renewal uses another connection;
 * nothing kills the one before, which may still run. Another process takes the lock whenever it can.
 *
 *   KNOWN     held, and now < valid  =>  it is in Redis and its lease there ends no earlier
 *   TRUE      a hold is reported as gone only if it is
 *   ONCE      one notice for each lost hold
 *   NOSTRAY   no renewal lengthens a hold that did not ask for it: a fixed lease
 *   NEXT      neither the rest of a lost hold nor a late command harms a newer hold
 *   VERIFIED  the new owner learns that a hold broke before its hand-off: until then a renewal that
 *             runs after the hand-off is due, in flight, or to be repeated
 *
 * What stands for what:
 *
 *   LEASE          the pexpire of scripts/lock.lua extend.lua renew.lua
 *   acquire        relock_ask, take_granted, release_useless           lib/lock/call/ask.c
 *   begin          relock_holds_begin, relock_holds_assign             lib/lock/hold/holds.c
 *   KNOW           relock_holds_prolong, relock_hold_valid_until       lib/lock/hold/holds.c state/hold.c
 *   nest           relock_levels_add, conclude                         lib/lock/hold/levels.c
 *   extend         relock_levels_extend, conclude                      lib/lock/hold/levels.c
 *   last           release_last, relock_release_lost                   lib/lock/call/release.c
 *   hand off       relock_cache_hand_off                               lib/lock/hold/cache.c
 *   lose()         relock_holds_lose, relock_holds_check_time          lib/lock/hold/holds.c
 *   watchdog       relock_watchdog_fire, relock_watchdog_renew, on_answered, end_renewal,
 *                  relock_watchdog_ask_again, relock_watchdog_up       lib/lock/hold/watchdog.c
 *                  relock_batch_add, send, end_entry                   lib/lock/hold/batch.c
 *                  relock_holds_suspect, relock_holds_renew            lib/lock/hold/holds.c
 *                  relock_hold_due_ms, relock_hold_is_renewed          lib/lock/state/hold.c
 *   settler        relock_let_go, relock_holds_settle                  lib/lock/hold/settle.c hold/holds.c
 *                  relock_settle_step                                  lib/lock/hold/settle.c
 *
 * A renewal may be due at any time, or never, so the results do not depend on the schedule, nor on
 * renewals that come forward to meet, or in turns. In a batch, each hold has its own result, as here. Left
 * out: that a hold which a batch did not find is asked for once more before it is lost; the drift, so clocks run alike; max_hold_ms, which only ends renewals; late commands other
 * than renewals, see unknown.pml.
 *
 * -DOPS=n calls of the thread; -DT=n ticks; -DFORCES=n holds that are broken from outside, which
 * adds hand-offs to the calls; -DBAD_*: a rule left out.
 */
#ifndef OPS
#define OPS 3
#endif
#ifndef T
#define T 5
#endif
#ifndef FORCES
#define FORCES 0
#endif
#define W 2
#define F 4
#define OTHER 99                   /* the number of the other process */

#define MAX(a, b) ((a) > (b) -> (a) : (b))
#ifdef BAD_SHORTEN
#define LEASE(l) ends = now + l
#else
#define LEASE(l) ends = MAX(ends, now + l)
#endif
#define KNOW(t) valid = MAX(valid, t)
#ifdef BAD_FROM_REPLY
#define SINCE(t) now
#else
#define SINCE(t) t
#endif

byte now;
byte field, ends;                  /* Redis: whose, and when its lease ends */

/* the hold; `hold` counts the structures, `number` is its field */
byte hold, number, valid;
bool held, lost, renewed, busy;
bool told;                         /* ghost: this one has been declared lost */
byte fixed_end;                    /* ghost: when a fixed lease must be over; 0 = renewed */
byte settling;                     /* number */
bool unverified;                   /* handed off since the last renewal was sent */
bool broken;                       /* ghost: this one was removed from Redis while it was held */
bool believed;                     /* ghost: and handed off after that */

/* the renewal in flight, and one of a connection that has broken */
mtype = { SENT, DONE, GONE };
mtype flight;
byte f_sent, f_number, f_hold;
bool suspect;                      /* a renewal of this hold was not answered: it is repeated */
byte late;                         /* number */

inline known()
{
    assert(!held || now >= valid || broken || (field == number && ends >= valid))
}

inline lose() { assert(!told); told = true; held = false; lost = true }

inline free_it(n) { if :: n && field == n -> field = 0; ends = 0 :: else fi }

inline renewal_runs(n)             /* said: whether the hold is there */
{
    if
    :: field == n ->
        assert(fixed_end == 0 || now + W <= fixed_end);    /* NOSTRAY */
        LEASE(W); known()
    :: else
    fi
}

inline verified()
{
    assert(!held || !believed || unverified || suspect || (flight && f_hold == hold))
}

#ifdef BAD_REPLY_BY_NUMBER
#define IS_FOR_THIS (held && f_number == number)
#else
#ifdef BAD_REPLY_AFTER_LOSS
#define IS_FOR_THIS (f_hold == hold)
#else
#define IS_FOR_THIS (held && f_hold == hold)
#endif
#endif
#ifdef BAD_RENEW_FIXED
#define IS_RENEWED true
#else
#define IS_RENEWED renewed
#endif

proctype thread()
{
    byte ops, since, lease, n, whose;
    bool yes;

    do
    :: ops == OPS -> break
    :: ops < OPS && !held && !lost ->                      /* acquire */
        atomic { ops++; since = now;
            if :: lease = W :: lease = F fi;
#ifdef BAD_NUMBER_BY_OWNER
            n = 1 }
#else
            n = hold + 1 }
#endif
        atomic {
            if
            :: field == 0 -> field = n; ends = now + lease; yes = true
            :: field == n -> LEASE(lease); yes = true
            :: else
            fi }
        atomic {
            if
            :: yes && now < since + lease ->               /* begin */
                hold++; held = true; told = false; number = n; valid = since + lease;
                renewed = (lease == W); fixed_end = (lease == W -> 0 : ends); known();
                unverified = false; suspect = false; broken = false; believed = false
            :: yes && now >= since + lease -> hold++; free_it(n)   /* release_useless */
            :: !yes -> hold++
            fi;
            since = 0; lease = 0; n = 0; yes = false }
    :: ops < OPS && held ->                                /* nest, extend */
        atomic {
            if
            :: now >= valid && held -> lose()              /* check_time */
            :: else -> ops++; since = now; whose = hold; n = number; busy = true;
                if :: lease = W :: lease = F fi
            fi }
        if
        :: busy ->
            atomic {
                if
                :: field == n -> LEASE(lease); yes = true;
                    if :: fixed_end -> fixed_end = MAX(fixed_end, ends) :: else fi
                :: else
                fi }
            atomic {
                assert(whose == hold);                        /* nobody ends it while it is busy */
                if
                :: held && yes -> KNOW(since + lease); known();
                    if :: lease == W -> renewed = true; fixed_end = 0 :: true fi   /* nest */
                :: held && !yes -> assert(field != n); lose()
                :: !held
                fi;
                since = 0; lease = 0; n = 0; whose = 0; yes = false; busy = false }
        :: else
        fi
    :: atomic { FORCES && ops < OPS && held && renewed && !suspect && fixed_end == 0 &&
            now < valid ->                                 /* hand off */
            ops++; believed = broken;
#ifndef BAD_HAND_OFF_IS_NOT_VERIFIED
            unverified = true;
#endif
            verified() }
    :: atomic { ops < OPS && lost && settling == 0 ->      /* last, of a lost hold */
            ops++; lost = false; settling = number; fixed_end = 0 }
    :: atomic { ops < OPS && held -> ops++;                /* last: nothing renews it from here on */
            if :: now >= valid -> lose() :: else -> held = false; n = number fi }
        if
        :: n -> atomic { free_it(n); n = 0; fixed_end = 0 }
        :: else
        fi
    od
}

inline doubt() { if :: held && f_hold == hold -> suspect = true :: else fi }

inline flown() { flight = 0; f_sent = 0; f_number = 0; f_hold = 0 }

proctype watchdog()
{
end:
    do
    :: atomic { held && IS_RENEWED && flight == 0 ->       /* due */
#ifndef BAD_VERIFIED_BY_OLDER_ANSWER
            unverified = false;
#endif
            f_sent = now; f_number = number; f_hold = hold; flight = SENT; suspect = false }
    :: atomic { flight == SENT -> renewal_runs(f_number);
            if :: field == f_number -> flight = DONE :: else -> flight = GONE fi }
    :: atomic { flight == DONE ->
            if
            :: IS_FOR_THIS -> KNOW(SINCE(f_sent) + W); known();
#ifdef BAD_VERIFIED_BY_OLDER_ANSWER
                unverified = false
#endif
            :: else
            fi;
            flown(); verified() }
    :: atomic { flight == GONE ->
            if :: IS_FOR_THIS -> assert(field != number); lose() :: else fi;       /* TRUE */
            flown() }
    :: atomic { flight == SENT && late == 0 ->             /* the connection breaks */
            late = f_number; doubt(); flown() }
    :: atomic { flight == DONE || flight == GONE -> doubt(); flown() }     /* with the reply */
    :: atomic { held && now >= valid -> lose() }
    od
}

proctype net()                     /* commands in a dead connection run some day, or never */
{
end:
    do
    :: atomic { late -> renewal_runs(late); late = 0 }
    :: atomic { late -> late = 0 }
    :: atomic { settling -> free_it(settling); settling = 0 }
    od
}

proctype clock()
{
end:
    do
    :: atomic { now < T -> now++; if :: field && ends <= now -> field = 0; ends = 0 :: else fi }
    od
}

proctype other()
{
end:
    do
    :: atomic { field == 0 -> assert(!held || now >= valid || broken); field = OTHER; ends = T + 1 }
    :: atomic { field == OTHER -> field = 0; ends = 0 }
    od
}

proctype force()
{
    byte forces;

end:
    do
    :: atomic { forces < FORCES && field && field == number && held ->
            forces++; broken = true; field = 0; ends = 0 }
    od
}

init { atomic { run thread(); run watchdog(); run net(); run clock(); run other(); run force() } }
