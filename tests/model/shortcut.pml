/*
 * The shortcut of a kept lock: two threads acquire and release it without the mutex, while others
 * close it under the mutex.
 *
 * A call that takes or gives by the word alone leaves the structs as they are: they say that the lock
 * is kept. Its steps are single accesses to the word, its terms and its counters. All else is one step
 * under the mutex, unless it accesses the word twice.
 *
 *   EXCLUSION   while a thread uses the lock, no other thread does, and Redis has the hold
 *   TIME        a call that acquires or releases has looked at the clock when the hold was certain,
 *               or before
 *   RECALL      a recalled lock is released (an invalid end state here)
 *   VERIFIED    a renewal is sent after each acquire, unless the lock has been released
 *   COUNTED     each acquire and each release counts once
 *   ENDS        a thread that has ended has no lock; nothing is acquired after a shutdown, in a forked
 *               child, or with a cancel that was fired before the call
 *
 * What stands for what (lib/lock/):
 *
 *   take, give      relock_shortcut_take, relock_shortcut_give         shortcut.c
 *   open, close     relock_shortcut_open, relock_shortcut_close        shortcut.c
 *   slow_take       relock_take_join; relock_cache_take                take.c, cache.c
 *   slow_give       relock_cache_keep, open_shortcut                   cache.c
 *   get             relock_cache_give; relock_holds_verify             cache.c, holds.c
 *   recaller        relock_cache_recall                                cache.c
 *   shutdown        relock_cache_clear                                 cache.c
 *   io              relock_watchdog_fire, relock_watchdog_ask,         watchdog.c
 *                   end_renewal; relock_holds_will_verify              holds.c
 *   end_thread      relock_holds_find                                  holds.c
 *
 * Left out: threads that wait (a lock for which one waits is not kept), owners of lost holds while
 * others use the lock (no shortcut is opened meanwhile), further levels and queries
 * (they begin with relock_resource_find, which closes), and the memory of a shortcut, which lives as
 * long as the handles.
 *
 * Budgets: N0, N1 pairs of the threads; RENEWALS beside those that verify; EXPIRES ends of a lease.
 * -DRECALLS, -DSHUTS, -DCANCELS, -DFORKS, -DDIES (the first thread ends while it has the lock).
 * -DBAD_*: a rule left out.
 */
#ifndef N0
#define N0 2
#endif
#ifndef N1
#define N1 2
#endif
#ifndef RENEWALS
#define RENEWALS 0
#endif
#ifndef EXPIRES
#define EXPIRES 0
#endif

#define CLOSED 0
#define FREE 2
#define TAKEN(t) (2 * (t) + 3)

#define AWAY 0
#define KEPT 1
#define HELD 2
#define LOST 3

#define NONE 2

/* the shortcut: any thread */
byte word;
byte until;
bool ended;                         /* a time that ended is to be counted by the next taker */
byte held;                          /* such times, counted */

/* under the mutex */
bool mutex;
byte state;
byte owner = NONE;
bool recalled, shut, behind;
bool sent, sent_before, soon;       /* the watchdog's renewal; it is due at once */
byte valid;                         /* the hold is certain until then */
byte counted, n_acquires, n_releases;

/* what is true */
byte now;
bool redis;                         /* has the hold */
byte number;                        /* of the hold */
bool used[2];                       /* by this thread */
bool unverified;
bool fired;                         /* the cancel */
byte acquires, releases;            /* that have returned */
byte done;
byte renewals, expires;

inline add_up()
{
    n_acquires = n_acquires + held - counted;
    n_releases = n_releases + held - counted;
    counted = held
}

/* The owner has the kept hold. */
inline get(t)
{
    state = HELD; owner = t;
    if :: sent -> sent_before = true :: else -> soon = true fi
}

inline close()
{
    if
    :: word == CLOSED -> if :: behind -> add_up() :: else fi
    :: word == FREE ->
        word = CLOSED;
        if :: ended -> ended = false; held++ :: else fi;
        add_up(); behind = false
    :: else ->
        add_up(); behind = true;
        n_acquires++;
        get((word - 3) / 2);
        word = CLOSED
    fi
}

#ifdef BAD_OPENS_UNVERIFIED
#define WILL_VERIFY true
#else
#define WILL_VERIFY (sent_before || (!sent && soon))
#endif

inline open()
{
    if
    :: WILL_VERIFY -> until = valid; ended = false; behind = false; word = FREE
    :: else
    fi
}

inline let_go()
{
    state = AWAY; owner = NONE; redis = false; soon = false; unverified = false
}

inline acquired(t)
{
    acquires++;
    assert(!used[1 - t] && !shut && !was_fired);
    used[t] = true
}

proctype thread(byte t; byte n)
{
    bool was_fired, is_ok;
    byte at;

next:
    if
    :: n == 0 -> goto over
    :: n > 0 -> n--
    fi;
    was_fired = fired;

    /* relock_shortcut_take */
#ifndef BAD_CANCEL_IS_NOT_LOOKED_AT
    if :: fired -> goto over :: else fi;
#endif
    if :: word != FREE -> goto slow_take :: else fi;
    atomic {                        /* the clock */
        at = now;
#ifndef BAD_TAKES_LATE
        if :: now >= until -> goto slow_take :: else fi
#endif
    }
    atomic {
        if
        :: word == FREE -> word = TAKEN(t); unverified = true; assert(at < valid); acquired(t)
        :: else -> goto slow_take
        fi
    }
#ifdef BAD_COUNTS_TWICE
    held++;
#else
    if :: ended -> ended = false; held++ :: else fi;
#endif
    goto use;

slow_take:
    atomic {
        !mutex;
        if :: was_fired -> goto over :: else fi;
        close();
        if
        :: shut || state == HELD || state == LOST -> goto next     /* refused */
        :: !shut && state == KEPT && now < valid ->
            get(t); unverified = true; n_acquires++; acquired(t)
        :: !shut && state == KEPT && now >= valid -> let_go(); goto slow_take
        :: !shut && state == AWAY ->
            state = HELD; owner = t; redis = true; number++; valid = now + 1; recalled = false; soon = false;
            n_acquires++; acquired(t)
        fi
    }

use:
    atomic { assert(redis || expires > 0 || state == AWAY && shut) }
#ifdef DIES
    if
    :: t == 0 -> used[t] = false; goto end_thread
    :: t == 1
    fi;
#endif

    /* relock_shortcut_give */
    if :: word != TAKEN(t) -> goto slow_give :: else fi;
    atomic {                        /* the clock: the program uses the lock no more */
        is_ok = redis; used[t] = false;
#ifndef BAD_GIVES_LATE
        if :: now >= until -> goto slow_give :: else fi
#endif
    }
#ifndef BAD_COUNTS_TWICE
    ended = true;
#endif
    atomic {
        if
        :: word == TAKEN(t) -> word = FREE; releases++; assert(is_ok); goto next
        :: else
        fi
    }

slow_give:
    atomic {
        !mutex;
        close();
        used[t] = false;
        n_releases++; releases++;
        if
        :: state == HELD && owner == t && now < valid ->
            assert(redis);
            owner = NONE;
            if
            :: !recalled && !shut -> state = KEPT; open()
            :: else -> let_go()
            fi
        :: state == HELD && owner == t && now >= valid -> let_go()      /* RELOCK_LOST */
        :: state == LOST && owner == t -> let_go()
        fi
    }
    goto next;

#ifdef DIES
end_thread:
    atomic {
        !mutex;
#ifndef BAD_END_DOES_NOT_CLOSE
        close();
#endif
        if
        :: state != AWAY && owner == t -> releases++; n_releases++; let_go()
        :: else
        fi;
        assert(word != TAKEN(t))
    }
#endif
over:
    done++
}

proctype io()
{
end:
    do
    :: atomic { !mutex && !sent && (state == KEPT || state == HELD) &&
            (soon || renewals < RENEWALS) ->
            mutex = true;
            if :: soon :: !soon -> renewals++ fi;
#ifndef BAD_CLOSES_AFTER_SENDING
            close()
#endif
        }
        unverified = false;         /* Redis runs it now, or later */
        atomic {
#ifdef BAD_CLOSES_AFTER_SENDING
            close();
#endif
            sent = true; soon = false; mutex = false }
    :: atomic { !mutex && sent ->   /* the answer */
            close();
            sent = false;
            if
            :: sent_before -> sent_before = false; soon = (state == KEPT || state == HELD)
            :: else
            fi;
            if :: state == KEPT || state == HELD -> if :: redis -> valid = now + 1 :: else fi
            :: else fi }
    :: atomic { !mutex && expires > 0 && now >= valid && (state == KEPT || state == HELD) ->
            close();
            if
            :: state == KEPT -> let_go()
            :: state == HELD -> state = LOST; soon = false; unverified = false
            fi }
    od
}

#if EXPIRES > 0
/* The lease ends in Redis, and another client gets the lock. */
proctype time()
{
end:
    do
    :: atomic { expires < EXPIRES && redis -> expires++; now = valid; redis = false }
    od
}
#endif

#ifdef RECALLS
proctype recaller()
{
    byte asked;
end:
    atomic {
        !mutex && redis ->
        asked = number;
#ifndef BAD_RECALL_DOES_NOT_CLOSE
        close();
#endif
        if
        :: state == KEPT -> let_go()
        :: state == HELD || state == LOST -> recalled = true
        :: else
        fi
    }
    (!redis || number != asked)
}
#endif

#ifdef SHUTS
proctype shutdown()
{
    atomic {
        !mutex;
        shut = true;
#ifndef BAD_SHUTDOWN_DOES_NOT_CLOSE
        close();
#endif
        if
        :: state == KEPT -> let_go()
        :: else -> recalled = true
        fi
    }
}
#endif

#ifdef CANCELS
proctype cancel() { fired = true }
#endif

#ifdef FORKS
/* The child has a copy of the word, and of nothing that could close it. */
proctype child()
{
#ifdef BAD_CHILD_TAKES
    assert(word != FREE)
#endif
    skip
}
#endif

init {
    atomic {
        run io();
#if EXPIRES > 0
        run time();
#endif
#ifdef RECALLS
        run recaller();
#endif
#ifdef SHUTS
        run shutdown();
#endif
#ifdef CANCELS
        run cancel();
#endif
#ifdef FORKS
        run child();
#endif
        run thread(0, N0); run thread(1, N1)
    }
    atomic {
        done == 2 && !mutex && !sent && !soon;
        close();
        assert(!unverified);
        assert(n_acquires == acquires && n_releases == releases)
    }
}
