/*
 * Unknown outcomes: commands that were sent and not answered.
 *
 * A thread with two locks (A = 0, B = 1) acquires, nests, extends, releases levels and hands off.
 * The network decides how an attempt of a call ends: it is answered; it ran and the reply is lost;
 * it waits in the buffers of a dead connection, from which it runs at any later moment or never; it
 * never arrived; it was never sent. The call is repeated over another connection up to TRIES times,
 * then it fails with RELOCK_E_CONN. Another process takes and releases lock A over a good
 * connection, and a forcer frees it over the same bad network.
 *
 * Holds are renewed in time, so only commands can lose them:
 *
 *   EXCLUSION   a hold that the thread is certain of is in Redis; each removal asserts that
 *   LOST        RELOCK_LOST is returned only for a hold that was freed by force
 *   COUNT       after an answered call the count in Redis is the thread's
 *   ONE_FENCE   no fence overwrites another: one per number is enough
 *   ORPHAN      at the end no lock is left without a holder
 *
 * What stands for what:
 *
 *   run_script()    scripts/lock.lua unlock.lua extend.lua force_unlock.lua
 *   call()          relock_call_run                                    lib/redis/deployment/run.c
 *                   attempt_run, run_script, fail_sent                 lib/redis/deployment/run.c
 *                   relock_round_trip_ask                              lib/redis/lane/lane.c
 *   pay()           attempt_kill_fence                                 lib/redis/deployment/run.c
 *                   relock_conn_id_kill                                lib/redis/connect/conn_id.c
 *   acquire         relock_ask, take_granted, release_useless,
 *                   take_refused, take_failure                         lib/lock/call/ask.c
 *   nest            relock_levels_add, conclude                        lib/lock/hold/levels.c
 *   keep            relock_levels_extend, conclude                     lib/lock/hold/levels.c
 *   partly, last    relock_levels_remove                               lib/lock/hold/levels.c
 *                   release_last, judge_last                           lib/lock/call/release.c
 *   hand off        next_owner, relock_cache_hand_off                  lib/lock/hold/cache.c
 *   fresh()         relock_holds_new, relock_keys_number               lib/lock/hold/holds.c state/keys.c
 *   settle()        relock_holds_settle                                lib/lock/hold/holds.c
 *   settler         relock_settle_step, release, on_released           lib/lock/hold/settle.c
 *   forcer          force_once                                         lib/lock/call/query.c
 *
 * Left out: time, so leases, renewals and the end of waiting; refusals of the server other than
 * "another holds it"; waiters: a hand-off here goes to the same thread, which begins with one level.
 *
 * -DNOKILL: CLIENT KILL is not permitted, or the server does not report client ids.
 * -DUNK=n unanswered attempts in all; -DOPS=n calls of the thread; -DTRIES, -DOTHERS, -DFORCES: the
 * numbers of attempts, of acquires by the other process, of forced unlocks; -DUSELESS=n grants that
 * are of no use and released.
 * -DNO_COUNT, -DNO_ORPHAN: these two are not checked. -DBAD_*: a rule left out.
 */
#ifndef UNK
#define UNK 2
#endif
#ifndef OPS
#define OPS 5
#endif
#ifndef TRIES
#define TRIES 2
#endif
#ifndef OTHERS
#define OTHERS 1
#endif
#ifndef FORCES
#define FORCES 0
#endif
#ifndef USELESS
#define USELESS 0
#endif

#define OTHER 15                   /* the number of the other process */
#define EMPTY 255                  /* a fence: of a connection in which nothing waits */

mtype = { ACQ, SET, REL, FORCE, NEST };

byte field[2], count[2];           /* Redis: whose, and how often */
byte gen[2];                       /* ghost: how many holds there have been of each lock */
bool broken[32];                   /* ghost, by lock and number: freed by force, as it was meant to */

/* commands in dead connections, one in each; a connection is never used again */
mtype wop[UNK + 1];
byte wlock[UNK + 1], wnum[UNK + 1], wcount[UNK + 1], wgen[UNK + 1];
byte n_dead;
byte unk, useless;

/* the holds of the thread; told: the last command was answered, so Redis has this count */
byte levels[2], number[2], fence[2];
bool told[2];
bool certain[2];                   /* ghost: the program relies on it */
byte next = 1;                     /* number */

/* holds that are SETTLING */
byte slock[4], snum[4], sfence[4], n_settling;

bool fin, others_fin, forcing;

inline remove(l)
{
    assert(!certain[l]);           /* EXCLUSION */
    field[l] = 0; count[l] = 0
}

/* One atomic step of Redis. Sets `said`: whether the hold is there, or was. */
bool said;

inline run_script(op, l, n, c, g)
{
    said = false;
    if
    :: op == ACQ && field[l] == 0 ->
        field[l] = n; count[l] = 1; gen[l]++; broken[l * 16 + n] = false; said = true
#ifdef BAD_NEST_CREATES
    :: op == NEST && field[l] == 0 ->
        assert(!broken[l * 16 + n]);
        field[l] = n; count[l] = c; gen[l]++; said = true
#endif
    :: (op == ACQ || op == NEST || op == SET) && field[l] == n ->
#ifdef BAD_INCREMENT
        if
        :: op == ACQ || op == NEST -> count[l]++
        :: op == SET && count[l] > 1 -> count[l]--
        :: else -> remove(l)
        fi;
#else
        count[l] = c;
#endif
        said = true
    :: op == REL && field[l] == n ->
#ifdef BAD_INCREMENT
        count[l]--;
        if :: count[l] == 0 -> remove(l) :: else fi;
#else
        remove(l);
#endif
        said = true
#ifdef BAD_FORCE_ANY
    :: op == FORCE && field[l] != 0 ->
#else
    :: op == FORCE && field[l] == n && n != 0 ->
#endif
        assert(gen[l] == g || forcing);        /* an old command, a newer hold */
        broken[l * 16 + field[l]] = true; certain[l] = false;
        field[l] = 0; count[l] = 0; said = true
    :: else
    fi
}

inline drop_dead(i)                /* the connection has no end at the server any more */
{
    wop[i] = 0; wlock[i] = 0; wnum[i] = 0; wcount[i] = 0; wgen[i] = 0
}

inline kill(fence_)                 /* "no such client" is as good */
{
#ifndef NOKILL
    if :: fence_ != 0 && fence_ != EMPTY -> drop_dead(fence_) :: else fi
#else
    skip
#endif
}

inline park(op, l, n, c, g, fence_) /* its connection has died with it */
{
    n_dead++;
    wop[n_dead] = op; wlock[n_dead] = l; wnum[n_dead] = n; wcount[n_dead] = c; wgen[n_dead] = g;
    fence_ = n_dead
}

/*
 * One call, with the fence of its number. `res`: 1 done, 0 refused or gone, 2 failed. `unanswered`
 * as in struct relock_call.
 */
inline call(op, l, n, c, g, fence_)
{
    tries = 0; unanswered = false; res = 2;
    do
    :: tries == TRIES -> break
    :: tries < TRIES ->
        tries++;
        if                         /* kill_fence */
        :: atomic { fence_ == 0 -> paid = true }
        :: atomic { fence_ != 0 -> kill(fence_); fence_ = 0; paid = true }
        :: atomic { fence_ != 0 && unk < UNK -> unk++; kill(fence_); paid = false }  /* no answer */
        :: atomic { fence_ != 0 && unk < UNK -> unk++; paid = false }
        fi;
        if                         /* round trip */
        :: !paid
        :: atomic { paid -> run_script(op, l, n, c, g); res = said }; break
        :: atomic { paid && unk < UNK -> unk++; run_script(op, l, n, c, g);
                assert(fence_ == 0); fence_ = EMPTY; unanswered = true }
        :: atomic { paid && unk < UNK -> unk++;
                assert(fence_ == 0); park(op, l, n, c, g, fence_); unanswered = true }
        :: atomic { paid && unk < UNK -> unk++;
                assert(fence_ == 0); fence_ = EMPTY; unanswered = true }
        :: atomic { paid && unk < UNK -> unk++ }       /* never sent */
        fi
    od
}

inline settle(l, n, fence_)
{
    assert(n_settling < 4);
    slock[n_settling] = l; snum[n_settling] = n; sfence[n_settling] = fence_; n_settling++
}

inline fresh(n)
{
#ifdef BAD_KEEP_NUMBER
    n = 1
#else
#ifdef BAD_RETIRE_WHEN_NOTHING_HELD
    if :: levels[0] == 0 && levels[1] == 0 && next > 1 -> next++ :: else fi;
    if :: next == 1 -> next = 2 :: else fi;
    n = next - 1
#else
    n = next; next++
#endif
#endif
}

inline forget(l)                   /* the hold has ENDED, or is another's to see to */
{
    levels[l] = 0; number[l] = 0; fence[l] = 0; told[l] = false
}

proctype thread()
{
    byte ops, l, tries, res;
    bool unanswered, paid;

    do
    :: ops == OPS -> break
    :: ops < OPS ->
        atomic { ops++; if :: l = 0 :: l = 1 fi };
        if
        :: levels[l] == 0 ->                               /* acquire */
            atomic { fresh(number[l]) };
            call(ACQ, l, number[l], 1, 0, fence[l]);
            if
            :: atomic { res == 1 -> levels[l] = 1;
                    assert(!certain[l]);
                    assert(broken[l * 16 + number[l]] || field[l] == number[l]);
                    certain[l] = !broken[l * 16 + number[l]] }
            :: atomic { res == 1 && useless < USELESS -> useless++ };
                call(REL, l, number[l], 0, 0, fence[l]);    /* release_useless */
                atomic { if :: res == 2 -> settle(l, number[l], fence[l]) :: else fi; forget(l); res = 2 }
            :: atomic { res != 1 ->
                    if :: unanswered -> settle(l, number[l], fence[l]) :: else fi;
                    forget(l) }
            fi
        :: levels[l] == 1 ->                               /* nest */
            call(NEST, l, number[l], 2, 0, fence[l]);
            atomic {
                if
                :: res == 1 -> levels[l] = 2
                :: res == 0 -> assert(broken[l * 16 + number[l]]); forget(l)       /* LOST */
                :: res == 2 ->
#ifdef BAD_SETTLE_NESTED
                    settle(l, number[l], fence[l])
#else
                    skip                                   /* the next command mends it */
#endif
                fi
            }
        :: levels[l] > 0 ->                                /* keep: extend */
            call(SET, l, number[l], levels[l], 0, fence[l]);
            atomic {
                if
                :: res == 0 -> assert(broken[l * 16 + number[l]]); forget(l)
                :: else
                fi
            }
        :: levels[l] == 2 ->                               /* partly */
            levels[l] = 1;
            call(SET, l, number[l], 1, 0, fence[l]);
            atomic {
                if
                :: res == 0 -> assert(broken[l * 16 + number[l]]); forget(l)
                :: else
                fi
            }
#ifdef BAD_HAND_OFF_COUNT_DIRTY
        :: atomic { levels[l] == 1 -> res = 1 }
#else
#ifdef BAD_HAND_OFF_BY_FENCE
        :: atomic { levels[l] == 1 && fence[l] == 0 -> res = 1 }
#else
        :: atomic { levels[l] == 1 && told[l] -> res = 1 }                         /* hand off */
#endif
#endif
        :: levels[l] == 1 ->                               /* last */
            certain[l] = false;                            /* the critical section is left */
            call(REL, l, number[l], 0, 0, fence[l]);
            atomic {
                if
                :: res == 1
                :: res == 0 ->                             /* judge_last */
#ifdef BAD_GONE_IS_LOST
                    assert(broken[l * 16 + number[l]])
#else
                    assert(unanswered || broken[l * 16 + number[l]])
#endif
                :: res == 2 -> settle(l, number[l], fence[l])
                fi;
                forget(l)
            }
        fi;
        atomic {
#ifdef BAD_KILL_ONLY_BEFORE_RETRY
            fence[l] = 0;
#endif
            told[l] = levels[l] && res != 2;
            if
            :: res == 2 || levels[l] == 0 || broken[l * 16 + number[l]]
            :: else ->
                assert(field[l] == number[l]);
#ifndef NO_COUNT
                assert(count[l] == levels[l])              /* COUNT */
#endif
            fi;
            l = 0; tries = 0; res = 0; unanswered = false; paid = false
        }
    od;
    /* remaining holds are released and that is answered; client_free and the last unlocks */
    do
    :: l == 2 -> break
    :: l < 2 ->
        atomic {
            certain[l] = false;
            if
            :: levels[l] -> kill(fence[l]); run_script(REL, l, number[l], 0, 0); forget(l)
            :: else
            fi;
            l++
        }
    od;
    fin = true
}

proctype settler()                 /* kill and release go out together, until both are answered */
{
    byte l, n, d, ignored;
end:
    do
    :: atomic { n_settling > 0 -> n_settling--;
            l = slock[n_settling]; n = snum[n_settling]; d = sfence[n_settling];
            slock[n_settling] = 0; snum[n_settling] = 0; sfence[n_settling] = 0 };
        do
        :: atomic {
#ifndef BAD_SETTLE_WITHOUT_KILL
                kill(d);
#endif
                run_script(REL, l, n, 0, 0); l = 0; n = 0; d = 0 }; break
        :: atomic { unk < UNK -> unk++; kill(d); run_script(REL, l, n, 0, 0) }
        :: atomic { unk < UNK -> unk++; kill(d); park(REL, l, n, 0, 0, ignored); ignored = 0 }
        :: atomic { unk < UNK -> unk++; park(REL, l, n, 0, 0, ignored); ignored = 0 }
        od
    od
}

inline select_waiting(i)
{
    if
    :: wop[1] -> i = 1
#if UNK > 1
    :: wop[2] -> i = 2
#endif
#if UNK > 2
    :: wop[3] -> i = 3
#endif
#if UNK > 3
    :: wop[4] -> i = 4
#endif
    fi
}

proctype net()                     /* commands in dead connections run some day, or never */
{
    byte i;
end:
    do
    :: atomic { select_waiting(i); run_script(wop[i], wlock[i], wnum[i], wcount[i], wgen[i]);
            drop_dead(i); i = 0 }
    :: atomic { select_waiting(i); drop_dead(i); i = 0 }
    od
}

proctype other()
{
    byte k;
    do
    :: k == OTHERS -> break
    :: k < OTHERS ->
        k++;
        if
        :: atomic { field[0] == 0 -> assert(!certain[0]); field[0] = OTHER; count[0] = 1; gen[0]++ };
            atomic { if :: field[0] == OTHER -> field[0] = 0; count[0] = 0 :: else fi }
        :: skip
        fi
    od;
    others_fin = true
}

#if FORCES > 0
proctype forcer()                  /* it asks under no number, so it has no fence that is paid */
{
    byte tries, res, seen, g, ignored;
    bool unanswered, paid;

    atomic { seen = field[0]; g = gen[0] };
    if
    :: seen -> forcing = true; call(FORCE, 0, seen, 0, g, ignored); forcing = false
    :: else
    fi
}
#endif

proctype auditor()                 /* ORPHAN */
{
#ifndef NO_ORPHAN
    (timeout);
    assert(!fin || !others_fin || n_settling || (field[0] == 0 && field[1] == 0))
#else
    skip
#endif
}

init {
    atomic {
        run thread(); run settler(); run net(); run other();
#if FORCES > 0
        run forcer();
#endif
        run auditor()
    }
}
