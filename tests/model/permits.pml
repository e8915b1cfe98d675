/*
 * Many clients at one semaphore: who gets permits, and in which order. Three clients with a thread
 * each, a Redisson client, an operator who takes permits away, one Redis.
 *
 * A refused client enters the line. The first in line leaves in Redis how many permits it needs. A
 * script that leaves permits tells the first to acquire them if there are enough, and keeps them for it
 * for a short time; it also tells the client behind it that it is first. That one sets a timer, then
 * listens to the channel of the semaphore and asks. A script that would tell a client without an inbox
 * removes it from the line; so does one that would tell it that it is first. The script of a client that
 * is served tells the next one. One that asks again from its place in the line has the first told anew,
 * which may be gone. A script that sets the number of permits forgets how many the first one needs, and has
 * it ask: it may want more than there are, and then its wait ends.
 *
 * These faults may occur at any moment: a client is killed, or stopped for ever, and its permits expire;
 * a wait is cancelled; the time for which permits are kept ends early; Redisson takes a permit, whoever
 * waits for it, and tells only the channel; a connection for messages breaks and is made again; a call that
 * does not wait tries to get a permit; a command is given up, and runs late or never.
 *
 *   ORDER       a client gets no permits while a living one is before it in the line, unless that one
 *               was told long ago
 *   AWAKE       no living client waits in the end, when all permits are free. recheck_ms is not in the
 *               model, so a client that only recheck_ms would wake waits for ever.
 *   COUNTED     in the end all permits are free, and the line is empty
 *
 * What stands for what:
 *
 *   ask             semaphore_lock.lua                                 scripts/
 *   serve           permits_serve.lua
 *   free_permits    semaphore_unlock.lua, permits_free.lua
 *   set_fewer       semaphore_permits.lua
 *   leave           line_leave.lua
 *   client          relock_take, relock_ask, relock_release            lib/lock/call
 *   io              relock_line_hear, fire, listen                     lib/lock/wake/line.c
 *
 * Left out: what line.pml shows of the line that all locks have (inboxes that open, several threads of a
 * client), and leases that are renewed.
 *
 * Budgets: T0..T2 acquires of the clients, of W0..W2 permits; PERMITS; STOPS, KILLS, CANCELS; SETS of one
 * permit less; R acquires of Redisson; TRIES of one permit each, the first of which succeeds at the beginning;
 * DEAFENS of client 0; LOSSES of answers; RECHECKS of a client that nobody has told of something. -DPROMPT:
 * permits are kept for a client until it asks, unless it is dead. -DHELD: the first try never gives its permit back,
 * and the first in line waits in the end only if there are too few permits for it. -DBAD_*: a rule left out.
 */
#ifndef PERMITS
#define PERMITS 2
#endif
#ifndef T0
#define T0 1
#endif
#ifndef T1
#define T1 1
#endif
#ifndef T2
#define T2 1
#endif
#ifndef W0
#define W0 2
#endif
#ifndef W1
#define W1 1
#endif
#ifndef W2
#define W2 1
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef KILLS
#define KILLS 0
#endif
#ifndef CANCELS
#define CANCELS 0
#endif
#ifndef R
#define R 0
#endif
#ifndef SETS
#define SETS 0
#endif
#ifndef RECHECKS
#define RECHECKS 0
#endif
#ifndef TRIES
#define TRIES 0
#endif
#ifndef LOSSES
#define LOSSES 0
#endif
#ifndef DEAFENS
#define DEAFENS 0
#endif

#define NOBODY 3
#define WANTS(c) (c == 0 -> W0 : (c == 1 -> W1 : W2))

/* Redis. A place of the line has a client, or NOBODY. */
short free = PERMITS - (TRIES > 0), all = PERMITS;
byte line[3] = NOBODY;
byte told = NOBODY, needer = NOBODY, need, first = NOBODY;
bool kept, inboxed[3];
byte out[3], foreign_out, tried_out = (TRIES > 0);
bool mute; /* the script publishes in a form that reaches nobody */

/* Messages in flight. */
bool m_now[3], m_first[3], m_free[3];

/* The clients. */
mtype = { LEFT, BEHIND, FIRST, LISTENING };
mtype state[3] = LEFT;
bool waits[3], asking[3], pending[3], heard[3], dead[3], leaving[3], cancelled[3], knows_lease[3];
#ifdef BAD_FORM_IS_CHOSEN_TOO_EARLY
bool has_asked[3];
#endif
byte stops, kills, cancels, sets, rechecks, deafens, losses;

/* A command that its call has given up: it may still run; what it got is to be given back; that much. */
bool late[3], settling[3];
byte late_out[3];

/* ---- scripts ------------------------------------------------------------------------------- */

#define HEARS(c) (inboxed[c] && !mute)

#define IS_IN(c) (line[0] == c || line[1] == c || line[2] == c)

inline drop_first()
{
    line[0] = line[1]; line[1] = line[2]; line[2] = NOBODY
}

inline drop(c)
{
    if
    :: line[0] == c -> drop_first()
    :: line[0] != c && line[1] == c -> line[1] = line[2]; line[2] = NOBODY
    :: line[2] == c -> line[2] = NOBODY
    :: else
    fi
}

inline join(c)
{
    if
    :: line[0] == NOBODY -> line[0] = c
    :: line[0] != NOBODY && line[1] == NOBODY -> line[1] = c
    :: else -> line[2] = c
    fi
}

inline tell_first(c)
{
    if :: HEARS(c) && !dead[c] -> m_first[c] = true :: else fi
}

inline publish()
{
    if :: state[0] == LISTENING && HEARS(0) && !dead[0] -> m_free[0] = true :: else fi;
    if :: state[1] == LISTENING && HEARS(1) && !dead[1] -> m_free[1] = true :: else fi;
    if :: state[2] == LISTENING && HEARS(2) && !dead[2] -> m_free[2] = true :: else fi
}

#define NEED(c) (needer == c -> need : 1)

/* Tells the one at this place of the line that it is first. One that is gone leaves the line. */
inline tell_first_at(p)
{
    do
    :: line[p] == NOBODY || line[p] == first -> break
    :: line[p] != NOBODY && line[p] != first && HEARS(line[p]) -> tell_first(line[p]); break
    :: line[p] != NOBODY && line[p] != first && !HEARS(line[p]) ->
        if :: p == 0 -> drop_first() :: p == 1 -> line[1] = line[2]; line[2] = NOBODY fi
    od
}

#define IS_TOLD (told == line[0] && kept)

inline serve()
{
    if
#ifndef BAD_SILENT_KEEPS_ITS_TURN
    :: line[0] != NOBODY && told == line[0] && !kept -> told = NOBODY; drop_first()
#endif
    :: else
    fi;
    do
    :: line[0] == NOBODY || told == line[0] || free <= 0 -> break
    :: line[0] != NOBODY && told != line[0] && free > 0 && !HEARS(line[0]) ->
#ifdef BAD_DEAD_STAY
        break
#else
        drop_first()
#endif
    :: line[0] != NOBODY && told != line[0] && free > 0 && HEARS(line[0]) ->
        if
        :: free >= NEED(line[0]) ->
            if :: !dead[line[0]] -> m_now[line[0]] = true :: else fi;
            told = line[0]; kept = true
        :: else -> tell_first(line[0])
        fi;
        break
    od;
    if :: free <= 0 && !IS_TOLD -> tell_first_at(0) :: else fi;
    if
    :: line[0] == NOBODY -> told = NOBODY; first = NOBODY; needer = NOBODY; kept = false
    :: line[0] != NOBODY && IS_TOLD ->
#ifndef BAD_SECOND_IS_NOT_TOLD
        tell_first_at(1);
        first = (line[1] != NOBODY -> line[1] : line[0])
#else
        skip
#endif
    :: line[0] != NOBODY && !IS_TOLD -> first = line[0]
    fi
}

/* Dead ones and those that were told long ago do not count. */
#define MAY_PASS(h) (dead[h] || (told == h && !kept))

inline free_permits(n)
{
    free = free + n;
    publish();
    serve()
}

#ifdef BAD_FIRST_IS_KEPT
#define FORGET_FIRST skip
#else
#define FORGET_FIRST first = NOBODY
#endif

/* For a script that acquires `n` permits; `c` is NOBODY if it does not wait. */
inline look_at_first(c, n)
{
    is_kept = false;
    do
    :: line[0] == NOBODY || line[0] == c || free < n -> break
    :: line[0] != NOBODY && line[0] != c && free >= n && told == line[0] && kept ->
        is_kept = true; break
#ifndef BAD_SILENT_KEEPS_ITS_TURN
    :: line[0] != NOBODY && line[0] != c && free >= n && told == line[0] && !kept ->
        told = NOBODY; FORGET_FIRST; drop_first()
#else
    :: line[0] != NOBODY && line[0] != c && free >= n && told == line[0] && !kept -> break
#endif
    :: line[0] != NOBODY && line[0] != c && free >= n && told != line[0] ->
        if
        :: HEARS(line[0]) -> tell_first(line[0]); break
#ifndef BAD_DEAD_STAY
        :: !HEARS(line[0]) -> FORGET_FIRST; drop_first()
#else
        :: !HEARS(line[0]) -> break
#endif
        fi
    od
}

#ifdef BAD_SMALL_ONES_PASS
#define IS_NEXT(c) true
#else
#define IS_NEXT(c) (line[0] == NOBODY || line[0] == c)
#endif

#define TOO_MANY 3

/* `place`: 0 if it has its permits. */
inline ask(c)
{
#ifdef BAD_FORM_IS_CHOSEN_TOO_EARLY
    mute = !has_asked[c]; has_asked[c] = true;  /* chosen before the client knew the cluster */
#endif
    if
    :: WANTS(c) > all -> place = TOO_MANY
    :: else -> ask_for_them(c)
    fi;
    mute = false
}

/* A call that does not wait. */
inline try()
{
    look_at_first(NOBODY, 1);
    if
    :: free > 0 && line[0] == NOBODY -> free--; tried_out++; serve()
    :: else
    fi
}

inline ask_for_them(c)
{
    look_at_first(c, WANTS(c));
    if
    :: free >= WANTS(c) && IS_NEXT(c) ->
#ifdef PROMPT
        assert(line[0] == NOBODY || line[0] == c || MAY_PASS(line[0]));
#endif
        free = free - WANTS(c); out[c] = WANTS(c); place = 0;
        drop(c);
        if :: told == c -> told = NOBODY; kept = false :: else fi;
        serve()
    :: else ->
        asks_again = (IS_IN(c) && line[0] != c);
        if :: IS_IN(c) :: else -> join(c) fi;
        if
        :: line[0] == c -> needer = c; need = WANTS(c); first = c; told = NOBODY; kept = false
        :: line[0] != c && (free > 0 || asks_again) ->
            if :: asks_again -> first = NOBODY :: else fi;
            serve()
        :: else
        fi;
        asks_again = false;
        place = (line[0] == c -> 1 : 2);
        if :: is_kept && line[1] == c -> place = 1 :: else fi
    fi
}

inline leave(c)
{
    drop(c);
    if :: told == c -> told = NOBODY; kept = false :: else fi;
#ifndef BAD_LEAVER_TELLS_NOBODY
    serve()
#endif
}

/* ---- a client ------------------------------------------------------------------------------ */

proctype client(byte c; byte calls)
{
    byte place;
    bool asks_again, is_kept;

    do
    :: calls == 0 -> break
    :: atomic { calls > 0 && dead[c] -> goto over }
    :: atomic { calls > 0 && !dead[c] -> calls--; waits[c] = true; pending[c] = true };
#ifdef HELD
end_look:
#endif
        do
        :: atomic { dead[c] -> goto over }
        :: atomic { cancelled[c] -> cancelled[c] = false; waits[c] = false; pending[c] = false;
                    if :: state[c] != LEFT -> leaving[c] = true :: else fi;
                    state[c] = LEFT; goto next }
        :: atomic { losses < LOSSES && !settling[c] && pending[c] && !cancelled[c] && !leaving[c] && inboxed[c] ->
                    losses++;
                    late[c] = true; settling[c] = true; leaving[c] = true;
                    pending[c] = false; waits[c] = false; state[c] = LEFT; goto next }
        :: atomic { pending[c] && !cancelled[c] && !leaving[c] && inboxed[c] -> pending[c] = false; heard[c] = false;
                    asking[c] = true; knows_lease[c] = false; ask(c) }
            atomic {                /* its answer */
                asking[c] = false;
                if
                :: dead[c] -> goto over
                :: !dead[c] && place == 0 -> state[c] = LEFT; waits[c] = false; pending[c] = false;
                    place = 0; goto use
                :: !dead[c] && place == TOO_MANY -> waits[c] = false; pending[c] = false; place = 0;
                    if :: state[c] != LEFT -> leaving[c] = true :: else fi;
                    state[c] = LEFT; goto next
                :: !dead[c] && place == 1 && state[c] != LISTENING -> state[c] = FIRST
                :: !dead[c] && place == 1 && state[c] == LISTENING && is_kept -> state[c] = FIRST
                :: !dead[c] && place == 2 && !heard[c] -> state[c] = BEHIND
                :: !dead[c] && place == 2 && heard[c] -> state[c] = FIRST
                :: else
                fi;
                place = 0; knows_lease[c] = true
            }
        od;
use:
        if
        :: atomic { dead[c] -> goto over }
        :: atomic { !dead[c] -> free_permits(out[c]); out[c] = 0 }
        fi;
next:
        skip
    od;
over:
    skip
}

/* The command that was given up runs. */
inline run_late(c)
{
    late[c] = false; in_use = out[c];
    ask(c);
    if :: place == 0 -> late_out[c] = out[c] :: else fi;
    out[c] = in_use; in_use = 0; place = 0
}

/* It cannot run any more, and what it got is given back. */
inline settle(c)
{
    settling[c] = false; late[c] = false;
    if :: late_out[c] > 0 -> free_permits(late_out[c]); late_out[c] = 0 :: else fi;
    if :: waits[c] -> pending[c] = true :: else fi
}

proctype io(byte c)
{
#if LOSSES > 0
    byte place, in_use;
    bool asks_again, is_kept;
#endif
end:
    do
#if LOSSES > 0
    :: atomic { late[c] && !dead[c] -> run_late(c) }
    :: atomic { settling[c] && !dead[c] -> settle(c) }
#endif
    :: atomic { m_now[c] -> m_now[c] = false;
            if
            :: dead[c]
            :: !dead[c] && waits[c] -> heard[c] = true; pending[c] = true;
                if :: state[c] != LISTENING -> state[c] = FIRST :: else fi
            :: else -> leaving[c] = true
            fi }
    :: atomic { m_first[c] -> m_first[c] = false;
            if
            :: dead[c]
            :: !dead[c] && waits[c] -> heard[c] = true;
                if :: state[c] != LISTENING -> state[c] = FIRST :: else fi
            :: else -> leaving[c] = true
            fi }
    :: atomic { m_free[c] -> m_free[c] = false;
            if :: !dead[c] && waits[c] && state[c] == LISTENING -> pending[c] = true :: else fi }
    :: atomic { state[c] == FIRST && waits[c] && !asking[c] && !dead[c] ->
            state[c] = LISTENING; pending[c] = true }
    :: atomic { leaving[c] && !dead[c] && !asking[c] -> leaving[c] = false; leave(c);
            if :: waits[c] -> pending[c] = true :: else fi }
    od
}

/* ---- what may happen ----------------------------------------------------------------------- */

inline expire(c)
{
    free = free + out[c] + late_out[c]; out[c] = 0; late_out[c] = 0;   /* the next script gives them back; this is when that can be */
    pending[0] = pending[0] || (waits[0] && (knows_lease[0] || asking[0]));
    pending[1] = pending[1] || (waits[1] && (knows_lease[1] || asking[1]));
    pending[2] = pending[2] || (waits[2] && (knows_lease[2] || asking[2]))
}

proctype redis()
{
end:
    do
#ifdef PROMPT
    :: atomic { kept && told != NOBODY && dead[told] -> kept = false }
#else
    :: atomic { kept -> kept = false }
#endif
    :: atomic { dead[0] && out[0] + late_out[0] > 0 -> expire(0) }
    :: atomic { dead[1] && out[1] + late_out[1] > 0 -> expire(1) }
    :: atomic { dead[2] && out[2] + late_out[2] > 0 -> expire(2) }
    od
}

inline die(c)
{
    dead[c] = true; waits[c] = false; pending[c] = false; leaving[c] = false; late[c] = false;
    m_now[c] = false; m_first[c] = false; m_free[c] = false
}

inline choose() { if :: c = 0 :: c = 1 :: c = 2 fi }

/* An operator takes one permit away. */
inline set_fewer()
{
    free--; all--;
#ifndef BAD_NEED_OUTLIVES_THE_NUMBER
    needer = NOBODY;
#endif
    if
    :: free > 0 -> publish(); serve()
    :: else ->
        if
        :: line[0] != NOBODY && inboxed[line[0]] && !dead[line[0]] -> m_now[line[0]] = true
        :: else
        fi
    fi
}

proctype fate()
{
    byte c;
end:
    do
    :: atomic { stops < STOPS -> stops++; choose(); die(c); c = 0 }
    :: atomic { kills < KILLS -> kills++; choose(); die(c); inboxed[c] = false; c = 0 }
    :: atomic { cancels < CANCELS -> cancels++; choose();
            if :: waits[c] && !asking[c] -> cancelled[c] = true :: else fi; c = 0 }
    :: atomic { deafens < DEAFENS && inboxed[0] -> deafens++;
            inboxed[0] = false; m_now[0] = false; m_first[0] = false; m_free[0] = false }
    :: atomic { DEAFENS > 0 && !dead[0] && !inboxed[0] -> inboxed[0] = true;
            if :: waits[0] -> pending[0] = true :: else fi }
    :: atomic { sets < SETS && all > 0 -> sets++; set_fewer() }
    :: atomic { rechecks < RECHECKS -> rechecks++; choose();
            if :: waits[c] && !asking[c] -> pending[c] = true :: else fi; c = 0 }
    od
}

#if R > 0
proctype redisson()
{
    byte turns = R;
    do
    :: turns == 0 -> break
    :: atomic { turns > 0 && free > 0 -> free--; foreign_out = 1; turns-- }
        atomic { free++; foreign_out = 0; publish() }
    :: atomic { turns > 0 -> turns = 0 }
    od
}
#endif

#if TRIES > 0
proctype trier()
{
    byte tries = TRIES - 1;
    bool is_kept;
    do
    :: atomic { tries > 0 -> tries--; try() }
#ifdef HELD
    :: tries == 0 -> break
#else
    :: atomic { tried_out > 0 -> tried_out--; free_permits(1) }
    :: tries == 0 && tried_out == 0 -> break
#endif
    od
}
#endif

proctype at_end()
{
    timeout ->
#ifdef HELD
    assert((!waits[0] || IS_IN(0)) && (!waits[1] || IS_IN(1)) && (!waits[2] || IS_IN(2)));
    assert(line[0] == NOBODY || free < WANTS(line[0]))
#else
    assert(!waits[0] && !waits[1] && !waits[2]);
    assert(free == all)
#if LOSSES == 0 /* a command that runs late leaves an entry, until the client is told */
    ; assert((dead[0] || !IS_IN(0)) && (dead[1] || !IS_IN(1)) && (dead[2] || !IS_IN(2)))
#endif
#endif
}

init {
    atomic {
        inboxed[0] = true; inboxed[1] = true; inboxed[2] = true;
        run redis(); run at_end(); run fate();
#if R > 0
        run redisson();
#endif
#if TRIES > 0
        run trier();
#endif
        run io(0); run io(1); run io(2);
        run client(0, T0); run client(1, T1); run client(2, T2)
    }
}
