/*
 * Many clients at one lock: the line of waiting clients. Three clients, a Redisson client, one Redis.
 *
 * Each client has one channel for all its locks, its inbox. A refused client enters the line of the
 * lock if its inbox is open; else it asks again when the inbox opens. A client that may not subscribe to
 * its inbox waits outside: it listens to the channel of the lock. A release publishes the usual message
 * on that channel and tells the first client of the line that it is its turn. For a short time the lock
 * is reserved for this client. The script also tells the client behind it that it is first, and the next
 * one that it is second. The first one sets a timer, then listens to the channel of the lock and asks.
 * The second one sets a timer, then asks. A script that would tell a client without an inbox removes it
 * from the line. If other threads of the releasing client wait, its release puts it at the end of the
 * line.
 *
 * These faults may occur at any moment: a client is killed or stopped for ever; its subscriber
 * connection breaks, with all messages in flight, and Redis notices before or after the client; a wait
 * is cancelled or times out; an attempt, a release or a departure gets no answer, whether it ran or not;
 * Redis does not know the script of an attempt or of a release any more, so that it runs later; Redis
 * restarts with its data or empty; another program frees the lock by force, and knows the line or not;
 * Redisson acquires the lock though it is reserved, and tells only the lock's channel; the reservation
 * ends early; a client asks without a signal.
 *
 *   EXCLUSION   a client that releases the lock still has it in Redis, unless it was freed by force or a
 *               restart
 *   AWAKE       no living waiter sleeps while the lock is free and neither a message in flight nor a
 *               timer will wake it. recheck_ms is not in the model: a waiter that only recheck_ms would
 *               wake is an invalid end state, which spin reports. The end of a lease that Redis reported
 *               is in it, if the holder is dead.
 *   EMPTY       at the end, no living client listens to the channel of the lock or is in the line
 *   TURN        a waiter gets the lock, however often the others want it (-DENDLESS -DPROMPT)
 *
 * What stands for what (lib/lock/ where nothing else is said):
 *
 *   ask, line_first, line_tell, leave
 *                   line_ask.lua, line_first.lua, line_tell.lua, line_leave.lua       scripts/
 *   ask_outside     lock.lua                                           scripts/
 *   stand, listen, refused, unanswered, give_up, hear, hear_second
 *                   stand, listen, relock_line_refused, relock_line_unanswered, relock_line_give_up,
 *                   relock_line_hear                                   line.c
 *   heard           relock_resource_view_line                          resource.h
 *   knows_lease     read_place                                         verdict.c
 *   io              fire, on_left                                      line.c
 *                   on_channel, hear, subscribe                        inbox.c
 *                   on_channel, signal_side, look_again                subscription.c
 *                   relock_settle_step                                 settle.c
 *   want, idle      relock_subscription_want, relock_subscription_idle
 *                                                                      subscription.c
 *   client          relock_ask, take_granted, take_refused, wait_for_release, take_failure, may_join
 *                                                                      ask.c
 *                   leave_queue                                        wait.c
 *                   relock_commands_write_lock, relock_commands_waits_again
 *                                                                      commands.c
 *                   release_last, reaches_waiters                      release.c
 *                   relock_line_granted, relock_line_released          line.c
 *   leaving, has_left
 *                   relock_line_leave, relock_line_leave_again         line.c
 *
 * Messages in flight are flags, so a message may overtake another. The threads of a client that wait
 * are a number, `queue`. wait.pml has the queue of a client and the states of a subscription.
 *
 * Left out: the sides of a read/write lock; try-locks; lack of memory; grants that are released at once; the
 * mark `listener` and the message `later`, which let clients outside of the line go first now and then; the
 * delays by which clients behind ask later; attempts and releases that run after the departure of their
 * client; the retry of a client without a place when a reservation ends; users without the right to the
 * line, who wait as in wait.pml; keys that expire after a day; data that is deleted while the server runs,
 * after which only recheck_ms wakes.
 *
 * Budgets: T0, T1, T2 calls of each client; WIDTH threads of a client at a time; R turns of Redisson;
 * STOPS, KILLS, BREAKS, CANCELS, RESTARTS; FLUSHES: attempts and releases whose script is unknown;
 * NOTRY, NOUNLOCK, NOLEAVE: attempts, releases and departures without an answer; LATE: departures that run after their repetition; FORCES, RFORCES: forced unlocks
 * by relock, by Redisson; CHECKS: attempts without a signal; PASSES: hand-offs. FRESH: so many clients
 * have no inbox yet. DENIED: so many may have none. -DLINGER: an unused subscription ends later.
 * -DENDLESS: a client with more than one call never stops. -DPROMPT: the lock stays reserved until the
 * client that was told asks. -DBAD_*: a rule left out.
 */
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
#ifndef T2
#define T2 1
#endif
#ifndef R
#define R 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef BREAKS
#define BREAKS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef NOTRY
#define NOTRY 0
#endif
#ifndef NOUNLOCK
#define NOUNLOCK 0
#endif
#ifndef NOLEAVE
#define NOLEAVE 0
#endif
#ifndef LATE
#define LATE 0
#endif
#ifndef FLUSHES
#define FLUSHES 0
#endif
#ifndef RESTARTS
#define RESTARTS 0
#endif
#ifndef FORCES
#define FORCES 0
#endif
#ifndef RFORCES
#define RFORCES 0
#endif
#ifndef CHECKS
#define CHECKS 0
#endif
#ifndef PASSES
#define PASSES 0
#endif
#ifndef FRESH
#define FRESH 0
#endif
#ifndef DENIED
#define DENIED 0
#endif
#ifndef WIDTH
#define WIDTH 2
#endif

#define N 3
#define REDISSON (N + 1)

mtype = { UNUSED, PENDING, OPEN, REFUSED };             /* of an inbox, and of a subscription */
mtype = { OUTSIDE, LEFT, BEHIND, SECOND, FIRST, LISTENING };    /* SECOND: BEHIND, with a timer */
mtype = { GRANTED, HELD, RESERVED };

/* Redis. A client in the lock or the line is its number + 1; 0 is none. */
byte held_by;
byte line[N], n_line;
byte told;                          /* the lock is reserved for it, the head of the line */
bool reserved;                      /* it was told a short time ago */
byte first;                         /* it knows that it is the first that is not told */
bool inboxed[N], channel[N];        /* subscribed to its own channel; to that of the lock */
bool lossy[N];                      /* the subscriber connection is dead, Redis does not know */

/* messages and acknowledgements in flight */
bool m_now[N], m_first[N], m_second[N], m_free[N], m_open[N], m_ack[N];

/* each client */
bool dead[N], connected[N];
byte calls[N], queue[N];            /* to come; waiting */
bool pending[N], asking[N], holding[N], cancelled[N];
mtype inbox[N], sub[N], state[N];
bool knows_lease[N];                /* it asks when the lease of a dead holder ends */
bool has_place[N];                  /* it may be in the line */
mtype answer[N];                    /* in flight */
bool heard[N];                      /* a message since the command in flight was sent */
bool lingers[N];                    /* the subscription is not used: a timer */
bool leaving[N], has_left[N], late[N];  /* posted; answered; on a connection that is gone */
bool settles[N];                    /* Redis has a hold that it does not want */

byte stops, kills, breaks, cancels, flushes, restarts, forces, rforces, checks, passes;
byte notry, nounlock, noleave, lates;

#define MORTAL (STOPS + KILLS > 0)
#define RECEIVES(c) (!lossy[c] && !dead[c])

#ifdef ENDLESS
#define COUNT_DOWN(n) if :: n == 1 -> n-- :: else fi
#else
#define COUNT_DOWN(n) n--
#endif

/* ---- Redis: the scripts, a step each ----------------------------------------------------- */

inline index(e) { i = 0; do :: i < n_line && line[i] != e -> i++ :: else -> break od }

inline push(e) { index(e); if :: i == n_line -> line[n_line] = e; n_line++ :: else fi }

inline remove_at(j)
{
    if :: j < 1 -> line[0] = line[1] :: else fi;
    if :: j < 2 -> line[1] = line[2] :: else fi;
    line[2] = 0; n_line--
}

inline remove(e) { index(e); if :: i < n_line -> remove_at(i) :: else fi }

inline no_turn() { told = 0; reserved = false; first = 0 }

#define IS_GONE(e) (!inboxed[e - 1])

inline line_first(me)
{
    i = (told -> 1 : 0);
    do
    :: i < n_line && line[i] != first && line[i] != me && IS_GONE(line[i]) -> remove_at(i)
    :: i < n_line && line[i] != first && (line[i] == me || !IS_GONE(line[i])) ->
        if :: line[i] != me && RECEIVES(line[i] - 1) -> m_first[line[i] - 1] = true :: else fi;
        first = line[i]
    :: else -> break
    od;
    if :: n_line == 0 -> no_turn() :: else fi
}

inline line_tell(me)
{
    if
    :: n_line || me ->
        if :: me -> push(me) :: else fi;
        do
        :: n_line && line[0] != me && IS_GONE(line[0]) -> remove_at(0)
        :: else -> break
        od;
        told = line[0]; reserved = (told != 0);
        if :: told && told != me && RECEIVES(told - 1) -> m_now[told - 1] = true :: else fi;
        third = line[2];
#ifndef BAD_SECOND_IS_NOT_TOLD
        line_first(me);
#endif
        if
        :: third && third != first && third != me && RECEIVES(third - 1) -> m_second[third - 1] = true
        :: else
        fi;
        third = 0;
        if :: me -> index(me); place = i + 1 :: else fi
    :: else
    fi
}

inline publish()
{
    if :: channel[0] && RECEIVES(0) -> m_free[0] = true :: else fi;
    if :: channel[1] && RECEIVES(1) -> m_free[1] = true :: else fi;
    if :: channel[2] && RECEIVES(2) -> m_free[2] = true :: else fi
}

#ifdef BAD_NEWCOMER_OVERTAKES
#define IS_RESERVED(me) false
#else
#define IS_RESERVED(me) (held_by == 0 && told && told != me && reserved)
#endif

#ifdef BAD_TOLD_IS_ALONE
#define ALONE(me) true
#else
#define ALONE(me) (first == me)
#endif

/* `me` is 0 if a refused caller does not join the line. */
inline ask(c, me)
{
    assert(told == 0 || told == line[0]);
    if
    :: (held_by || IS_RESERVED(me)) && me == 0 -> answer[c] = (held_by -> HELD : RESERVED)
    :: (held_by || IS_RESERVED(me)) && me ->
        answer[c] = (held_by -> HELD : RESERVED);
        index(me);
        if
        :: i == n_line -> push(me)
        :: i > 1 && i < n_line -> first = 0; line_first(me); index(me)     /* it asks again */
        :: else
        fi;
        place = i + 1 - (told && told != me -> 1 : 0);
        if :: told == me -> told = 0; reserved = false :: else fi;
        if
        :: place == 1 -> first = me
        :: place > 1 && first == me -> first = 0
        :: else
        fi
    :: else ->
        held_by = c + 1; answer[c] = GRANTED;
        if
        :: me && told == me && ALONE(me) -> assert(n_line == 1); remove_at(0); no_turn()
        :: else ->
            if :: me -> remove(me) :: else fi;
            if :: told && told != me -> remove(told) :: else fi;
            told = 0; reserved = false;
#ifndef BAD_GRANT_TELLS_NOBODY
            line_first(me)
#endif
        fi
    fi;
    i = 0
}

/* Of a client that may have no inbox: no reservation concerns it. */
inline ask_outside(c) { if :: held_by -> answer[c] = HELD :: else -> held_by = c + 1; answer[c] = GRANTED fi }

inline leave(c)
{
    remove(c + 1);
    if :: told == c + 1 -> told = 0; reserved = false :: else fi;
    if
    :: !told && held_by == 0 -> line_tell(0)
#ifndef BAD_NEXT_IS_NOT_TOLD
    :: told || held_by -> line_first(0)
#else
    :: else
#endif
    fi;
    if :: n_line == 0 -> no_turn() :: else fi;
    i = 0
}

/* ---- the resource of a client ------------------------------------------------------------ */

inline signal(c) { pending[c] = (queue[c] || holding[c]) }

#define HEARS_CHANNEL(c) (state[c] == OUTSIDE || state[c] == LISTENING)
#define IS_USED(c) (queue[c] && HEARS_CHANNEL(c) || holding[c] && state[c] == OUTSIDE)

inline unsubscribe(c)
{
    sub[c] = UNUSED; channel[c] = false; m_ack[c] = false; m_free[c] = false
}

inline idle(c)
{
    if
    :: sub[c] != UNUSED && !IS_USED(c) ->
#ifdef LINGER
        lingers[c] = true
#else
        unsubscribe(c)
#endif
    :: else
    fi
}

inline want(c) { if :: sub[c] == UNUSED -> sub[c] = PENDING :: else fi }

inline stand(c, s, p) { state[c] = s; has_place[c] = p; idle(c) }

#ifdef BAD_LATE_REPLY_COUNTS
#define HEARD(c) false
#else
#define HEARD(c) heard[c]
#endif
#ifdef BAD_RESERVED_SLEEPS
#define IS_HELD(c) true
#else
#define IS_HELD(c) (answer[c] == HELD)
#endif

#ifdef BAD_SECOND_IS_PATIENT
#define WAITS(c) true
#else
#define WAITS(c) (answer[c] == HELD)
#endif

inline listen(c)
{
    stand(c, LISTENING, true);
    if
    :: sub[c] == OPEN ->
#ifndef BAD_LISTENS_IN_SILENCE
        signal(c)
#endif
    :: else -> want(c)
    fi
}

inline refused(c)
{
    if
    :: place == 0 && inbox[c] == REFUSED -> stand(c, OUTSIDE, false)
    :: place == 0 && inbox[c] != REFUSED    /* until the inbox is open */
    :: place > 1 && !HEARD(c) && (place > 2 || WAITS(c)) -> stand(c, BEHIND, true)
    :: place == 2 && !HEARD(c) && !WAITS(c) -> stand(c, SECOND, true)
    :: place > 1 && HEARD(c) -> stand(c, FIRST, true)
    :: place == 1 && IS_HELD(c) && state[c] == LISTENING
    :: place == 1 && IS_HELD(c) && state[c] != LISTENING && foreign -> listen(c)
    :: place == 1 && (!IS_HELD(c) || state[c] != LISTENING && !foreign) -> stand(c, FIRST, true)
    fi;
    knows_lease[c] = (answer[c] == HELD && MORTAL);
    if
    :: inbox[c] == UNUSED -> inbox[c] = PENDING
#ifndef BAD_REFUSED_INBOX_IS_AWAITED
    :: inbox[c] == REFUSED -> want(c)
#endif
    :: else
    fi
}

inline unanswered(c)
{
#ifndef BAD_UNANSWERED_PLACE_STAYS
    if :: joins && !has_place[c] -> stand(c, BEHIND, true) :: else fi
#else
    skip
#endif
}

inline give_up(c)
{
    if
    :: queue[c] == 0 && has_place[c] -> stand(c, LEFT, false);
#ifndef BAD_LEAVER_STAYS
        leaving[c] = true
#endif
    :: else
    fi
}

inline leave_queue(c)
{
    queue[c]--; cancelled[c] = false;
    pending[c] = pending[c] && (queue[c] || holding[c]);
    give_up(c); idle(c)
}

inline hear(c)
{
    if
    :: queue[c] -> heard[c] = asking[c] || holding[c];
        if :: state[c] != FIRST && state[c] != LISTENING -> stand(c, FIRST, true) :: else fi
    :: else -> leaving[c] = true
    fi
}

inline hear_second(c)
{
    if
    :: queue[c] -> stand(c, SECOND, true)
    :: else -> leaving[c] = true
    fi
}

/* ---- a client: lock, unlock -------------------------------------------------------------- */

#define LIVES(c) if :: dead[c] -> goto end_dead :: else fi

#define WILL_BE_TOLD(c) (state[c] == OUTSIDE -> was_active : place > 1)

proctype client(byte c)
{
    byte i, place, third;
    bool joins, foreign, was_active, ran, no_reply, is_lost;

look:
    atomic {                        /* relock_waiter_wait, relock_ask */
        if
        :: dead[c] -> goto end_dead
        :: !dead[c] && calls[c] == 0 && queue[c] == 0 -> goto over
        :: !dead[c] && pending[c] -> pending[c] = false
        fi;
        asking[c] = true; heard[c] = false;
        joins = (inbox[c] == OPEN);
        if :: flushes < FLUSHES -> flushes++; goto ask_later :: true fi;
ask_now:
        foreign = (held_by == REDISSON);
        if
        :: ran = true
        :: notry < NOTRY -> notry++; no_reply = true; if :: ran = true :: true fi
        fi;
        if
        :: ran && joins -> ask(c, c + 1)
        :: ran && !joins && inbox[c] != REFUSED -> ask(c, 0)
        :: ran && inbox[c] == REFUSED -> ask_outside(c)
        :: else
        fi;
        ran = false
    }
    atomic {                        /* its answer */
        LIVES(c);
        asking[c] = false;
        if
        :: no_reply -> unanswered(c); settles[c] = (held_by == c + 1); signal(c); leave_queue(c)
        :: !no_reply && answer[c] == GRANTED ->
            queue[c]--; cancelled[c] = false; holding[c] = true; knows_lease[c] = false;
#ifndef BAD_GRANT_KEEPS_THE_PLACE
            leaving[c] = leaving[c] || has_place[c] && !joins;
#endif
            if :: state[c] != OUTSIDE -> stand(c, LEFT, false) :: else fi
        :: else -> refused(c);
            if :: cancelled[c] -> leave_queue(c) :: else fi
        fi;
        answer[c] = 0; heard[c] = false; place = 0; joins = false; foreign = false; no_reply = false;
        if :: !holding[c] -> goto look :: else fi
    }
critical:
    atomic {                        /* it may have taken its time; release_last */
        LIVES(c);
        if
        :: passes < PASSES && queue[c] -> passes++; queue[c]--; goto critical
        :: true
        fi;
        was_active = (sub[c] == OPEN);
        if :: state[c] != OUTSIDE || was_active -> pending[c] = false :: else fi;
        heard[c] = false; joins = (queue[c] && inbox[c] == OPEN);
        if :: flushes < FLUSHES -> flushes++; goto release_later :: true fi;
release_now:
        if
        :: ran = true
        :: nounlock < NOUNLOCK -> nounlock++; no_reply = true; if :: ran = true :: true fi
        fi;
        if
        :: ran && held_by == c + 1 -> held_by = 0; publish();
            if
            :: joins -> line_tell(c + 1)
            :: else -> line_tell(0)
            fi
        :: ran && held_by != c + 1 ->       /* it was lost */
            assert(restarts + forces + rforces != 0); is_lost = true
        :: else
        fi;
        if :: no_reply || is_lost -> place = 0 :: else fi;
        ran = false; i = 0
    }
    atomic {                        /* its answer */
        LIVES(c);
        settles[c] = (no_reply && held_by == c + 1);
#ifndef BAD_RELEASE_FORGETS_ITS_PLACE
        if :: no_reply -> unanswered(c) :: else fi;
#endif
        if
        :: place == 0
        :: place == 3 && !HEARD(c) -> stand(c, SECOND, true)
        :: place > 2 && HEARD(c) || place == 1 || place == 2 -> stand(c, FIRST, true)
        fi;
        if :: !no_reply && !is_lost && WILL_BE_TOLD(c) :: else -> signal(c) fi;
        holding[c] = false; pending[c] = pending[c] && queue[c];
        heard[c] = false; place = 0; was_active = false; joins = false; no_reply = false;
        is_lost = false;
        give_up(c);
        idle(c);
        goto look
    }
ask_later:
    atomic { LIVES(c); goto ask_now }
release_later:
    atomic { LIVES(c); goto release_now }
end_dead:
    false;
over:
    skip
}

proctype io(byte c)
{
    byte i, place, third;
end:
    do
    :: atomic { !dead[c] && calls[c] && queue[c] + holding[c] < WIDTH ->
            COUNT_DOWN(calls[c]); queue[c]++;
            if :: queue[c] == 1 && !holding[c] -> pending[c] = true :: else fi }
    :: atomic { m_now[c] -> m_now[c] = false; hear(c); signal(c) }
    :: atomic { m_first[c] -> m_first[c] = false; hear(c) }
    :: atomic { m_second[c] -> m_second[c] = false; hear_second(c) }
    :: atomic { state[c] == SECOND -> state[c] = BEHIND;
            if :: queue[c] -> signal(c) :: else -> give_up(c) fi }
    :: atomic { m_free[c] -> m_free[c] = false;
#ifndef BAD_ZERO_IS_DROPPED
            if :: HEARS_CHANNEL(c) -> signal(c) :: else fi
#endif
        }
    :: atomic { m_ack[c] -> m_ack[c] = false; sub[c] = OPEN;
#ifndef BAD_ACK_IS_DROPPED
            if :: HEARS_CHANNEL(c) -> signal(c) :: else fi
#endif
        }
    :: atomic { m_open[c] -> m_open[c] = false; inbox[c] = (c < DENIED -> REFUSED : OPEN);
#ifdef BAD_UP_IS_DROPPED
            if :: c < DENIED -> signal(c) :: else fi
#else
            signal(c)
#endif
        }
#ifndef BAD_FIRST_IS_DEAF
    :: atomic { state[c] == FIRST && queue[c] == 0 -> give_up(c) }
    :: atomic { state[c] == FIRST && queue[c] -> listen(c) }
#endif
    :: atomic { lingers[c] -> lingers[c] = false;
            if :: !IS_USED(c) -> unsubscribe(c) :: else fi }
    :: atomic { leaving[c] && !has_left[c] && connected[c] ->
            if
            :: leave(c); leaving[c] = false; has_left[c] = true
            :: noleave < NOLEAVE -> noleave++; if :: leave(c) :: true fi;
#ifdef BAD_DEPARTURE_IS_LOST
                leaving[c] = false
#endif
            :: lates < LATE -> lates++; late[c] = true
            fi }
    :: atomic { has_left[c] -> has_left[c] = false;
#ifndef BAD_LEAVE_IS_OVERTAKEN
            signal(c)
#endif
        }
    :: atomic { late[c] -> late[c] = false; leave(c) }
    :: atomic { settles[c] -> settles[c] = false;
            if :: held_by == c + 1 -> held_by = 0; publish(); line_tell(0); i = 0 :: else fi }
    /* the subscriber connection: broken, made again, and each channel subscribed again */
    :: atomic { connected[c] && lossy[c] -> connected[c] = false;
            if :: inbox[c] != UNUSED -> inbox[c] = PENDING; signal(c) :: else fi;
            if :: sub[c] == OPEN -> sub[c] = PENDING :: else fi }
    :: atomic { !dead[c] && !connected[c] -> connected[c] = true; lossy[c] = false; channel[c] = false;
            inboxed[c] = (inbox[c] == PENDING && !(c < DENIED)); m_open[c] = (inbox[c] == PENDING) }
    :: atomic { connected[c] && !lossy[c] && inbox[c] == PENDING && !inboxed[c] && !m_open[c] ->
            inboxed[c] = !(c < DENIED); m_open[c] = true }
    :: atomic { connected[c] && !lossy[c] && sub[c] == PENDING && !channel[c] ->
            channel[c] = true; m_ack[c] = true }
    od
}

proctype redis()                    /* and time */
{
end:
    do
#ifndef PROMPT
    :: atomic { reserved -> reserved = false }
#endif
#if MORTAL
    :: d_step { held_by != 0 && held_by != REDISSON && dead[held_by - 1] ->
            held_by = 0;            /* its lease ends */
            if :: knows_lease[0] || answer[0] == HELD -> signal(0) :: else fi;
            if :: knows_lease[1] || answer[1] == HELD -> signal(1) :: else fi;
            if :: knows_lease[2] || answer[2] == HELD -> signal(2) :: else fi }
#endif
    :: d_step { lossy[0] && (inboxed[0] || channel[0]) -> inboxed[0] = false; channel[0] = false }
    :: d_step { lossy[1] && (inboxed[1] || channel[1]) -> inboxed[1] = false; channel[1] = false }
    :: d_step { lossy[2] && (inboxed[2] || channel[2]) -> inboxed[2] = false; channel[2] = false }
    od
}

inline lose_messages(c)
{
    m_now[c] = false; m_first[c] = false; m_second[c] = false;
    m_free[c] = false; m_open[c] = false; m_ack[c] = false
}

inline cut(c)
{
    if
    :: connected[c] && !dead[c] -> lossy[c] = true; lose_messages(c)
    :: else
    fi
}

/* Nothing of it matters any more but what Redis has. */
inline die(c)
{
    dead[c] = true; connected[c] = false; lossy[c] = false; lose_messages(c);
    calls[c] = 0; queue[c] = 0; pending[c] = false; asking[c] = false; holding[c] = false;
    cancelled[c] = false; inbox[c] = 0; sub[c] = 0; state[c] = 0; has_place[c] = false;
    knows_lease[c] = false; answer[c] = 0; heard[c] = false; lingers[c] = false;
    leaving[c] = false; has_left[c] = false; settles[c] = false
}

inline choose() { if :: c = 0 :: c = 1 :: c = 2 fi }

#define IS_OURS (held_by != 0 && held_by != REDISSON)
#define FATES (STOPS + KILLS + BREAKS + CANCELS + RESTARTS + FORCES + RFORCES + CHECKS)

#if FATES > 0
proctype fate()
{
    byte c, i, place, third;
end:
    do
    :: atomic { stops < STOPS -> stops++; choose(); die(c); c = 0 }
    :: atomic { kills < KILLS -> kills++; choose(); die(c); inboxed[c] = false; channel[c] = false; c = 0 }
    :: atomic { breaks < BREAKS -> breaks++; choose(); cut(c); c = 0 }
    :: atomic { checks < CHECKS -> checks++; choose(); signal(c); c = 0 }
    :: atomic { cancels < CANCELS -> cancels++; choose();
            if
            :: asking[c] -> cancelled[c] = true
            :: !asking[c] && queue[c] -> leave_queue(c)
            :: else
            fi; c = 0 }
    :: d_step { forces < FORCES && IS_OURS -> forces++; held_by = 0; publish();
#ifndef BAD_FORCE_TELLS_NOBODY
            line_tell(0);
#endif
            i = 0 }
    :: d_step { rforces < RFORCES && IS_OURS -> rforces++; held_by = 0; publish() }
    :: atomic { restarts < RESTARTS -> restarts++;
            if
            :: true
            :: held_by = 0; n_line = 0; line[0] = 0; line[1] = 0; line[2] = 0; no_turn()
            fi;
            cut(0); cut(1); cut(2);
            inboxed[0] = false; inboxed[1] = false; inboxed[2] = false;
            channel[0] = false; channel[1] = false; channel[2] = false }
    od
}
#endif

#if R > 0
proctype redisson()
{
    byte turns = R;
    do
    :: turns == 0 -> break
    :: atomic { turns > 0 && held_by == 0 -> held_by = REDISSON; turns-- }
        atomic { if :: held_by == REDISSON -> held_by = 0; publish() :: else fi }
    od
}
#endif

#define RESTS(c) (dead[c] || queue[c] == 0 && !holding[c])
#define IS_IN(c) (line[0] == c + 1 || line[1] == c + 1 || line[2] == c + 1)
#define IS_OUT(c) (dead[c] || sub[c] == UNUSED && !IS_IN(c))

proctype at_end()
{
    timeout ->
    if
    :: RESTS(0) && RESTS(1) && RESTS(2) -> assert(IS_OUT(0) && IS_OUT(1) && IS_OUT(2))
    :: else
    fi
}

inline start(c, n)                  /* one that never calls has nothing to do */
{
    connected[c] = true; sub[c] = UNUSED; state[c] = OUTSIDE;
    if
    :: c < FRESH -> inbox[c] = UNUSED
    :: c >= FRESH && c < DENIED -> inbox[c] = REFUSED
    :: else -> inbox[c] = OPEN; inboxed[c] = true
    fi;
    if
    :: n > 0 -> calls[c] = n; COUNT_DOWN(calls[c]); queue[c] = 1; pending[c] = true;
        run io(c); run client(c)
    :: else
    fi
}

init {
    atomic {
        run redis();
#ifndef ENDLESS
        run at_end();
#endif
#if FATES > 0
        run fate();
#endif
#if R > 0
        run redisson();
#endif
        start(0, T0); start(1, T1); start(2, T2)
    }
}

#ifdef ENDLESS
ltl turn { [] (queue[1] != 0 -> <> holding[1]) }
#endif
