/*
 * Deadlocks in which an owner waits for permits.
 *
 * Owner 1 has a lock and waits for a permit of a semaphore. Owners 0 and 2 have one each, and wait for
 * the lock. All are of different clients. cycles.pml shows what proves a cycle of locks; this model shows
 * what is different if one of the waits ends when any of several owners gives a permit back.
 *
 *   FOUND   no owner waits for ever: a deadlock without a refusal is an end state that is not valid
 *   REAL    owner 1 is refused only if it was deadlocked: at one moment it had the lock and waited, and
 *           the permits that had not expired were with owners who waited for the lock
 *
 * What stands for what:
 *
 *   publisher      publish, on_sent                   lib/deadlock/published.c; publish_waits.lua
 *   look           relock_chain_follow                lib/deadlock/chain.c; waits_behind.lua
 *   IS_STUCK       stops, is_stopped                  lib/deadlock/wait_graph.c
 *   seeker         relock_graph_search, relock_proof_check
 *
 * A step that is atomic here is one script of Redis, or one critical section of a client's mutex. The
 * commands of a look come in any order. A hash has a beat more each time; a proof knows by how much it has
 * grown since the second look read it, up to two.
 *
 * -DOUTSIDER: owner 2 does not want the lock, but keeps its permit for a while; -DTIMEOUTS=n waits of the
 * owners 0 and 2 end by themselves; -DADDS=n permits are added, -DTAKES=n are taken away again;
 * -DLAPSES=n permits of owner 2 expire, which the next script that wants permits finds; -DLOOKS. -DBAD_*: a
 * rule left out.
 */
#ifndef TIMEOUTS
#define TIMEOUTS 0
#endif
#ifndef ADDS
#define ADDS 0
#endif
#ifndef TAKES
#define TAKES 0
#endif
#ifndef LAPSES
#define LAPSES 0
#endif
#ifndef LOOKS
#define LOOKS 1
#endif

/* Redis: who has a permit that is out, whose has expired; all permits; who has the lock. */
bool out[3], expired[3];
short all = 2;
bool has_lock = true;      /* owner 1 */

/* Of each hash whether it says that the owner waits, and by how much its beat has grown since the second
 * look has read it. */
bool hash[3];
byte grown[3];

/* Memory. */
bool waits[3], dirty[3], refused;
byte n_timeouts, n_adds, n_takes, n_lapses;

#define N_OUT (out[0] + out[2])
#define FREE (all - N_OUT + expired[0] + expired[2])

/* Ghost. */
#define KEEPS(o) (out[o] && !expired[o] && waits[o])
#define IS_DEADLOCKED (waits[1] && !refused && has_lock && all >= 1 && all - KEEPS(0) - KEEPS(2) < 1)

/* ---- owners -------------------------------------------------------------------------------- */

/* Owners 0 and 2: one permit, and the lock inside. */
proctype holder(byte me)
{
    if
#ifdef OUTSIDER
    :: me == 2
#endif
    :: atomic { true -> waits[me] = true; dirty[me] = true }
        if
        :: atomic { !has_lock -> waits[me] = false; dirty[me] = true }
        :: atomic { n_timeouts < TIMEOUTS -> n_timeouts++; waits[me] = false; dirty[me] = true }
        fi
    fi;
    atomic { out[me] = false; expired[me] = false }
}

proctype wanter()
{
    atomic { waits[1] = true; dirty[1] = true };
    atomic {
        if
        :: FREE >= 1        /* it takes one, and gives it back */
        :: refused
        fi;
        waits[1] = false; dirty[1] = true
    }
    has_lock = false
}

proctype operator()
{
end:
    do
    :: atomic { n_adds < ADDS -> n_adds++; all++ }
    :: atomic { n_takes < TAKES && n_takes < n_adds -> n_takes++; all-- }
    :: atomic { n_lapses < LAPSES && out[2] && !expired[2] -> n_lapses++; expired[2] = true }
    od
}

/* The next beat is composed after the answer to the one before. */
proctype publisher(byte me)
{
    bool says;

end:
    do
    :: atomic { dirty[me] || (hash[me] && grown[me] < 2) ->
            says = waits[me] && !(me == 1 && refused); dirty[me] = false }
        atomic { hash[me] = says; says = false; if :: grown[me] < 2 -> grown[me]++ :: else fi }
    od
}

/* ---- looks --------------------------------------------------------------------------------- */

/* What a look has found. */
#ifdef BAD_EXPIRED_COUNT
#define IS_OUT(o) out[o]
#else
#define IS_OUT(o) (out[o] && !expired[o])
#endif

inline look_at_permits(nth)
{
#ifdef BAD_NUMBER_OF_THE_FIRST_LOOK
    if :: nth == 1 -> l_all = all :: else fi;
#else
    l_all = all;
#endif
    l_out[0] = IS_OUT(0); l_out[2] = IS_OUT(2)
}

inline look_at_hash(o, nth)
{
#ifdef BAD_NOT_PUBLISHED
    l_waits[o] = hash[o] && o == 1;     /* nobody finds the holders of permits */
#else
    l_waits[o] = hash[o];
#endif
    if
    :: nth == 2 -> grown[o] = 0
    :: nth == 3 && grown[o] < 2 -> l_waits[o] = false
    :: else
    fi
}

#ifdef BAD_ONE_HOLDER_IS_ENOUGH
#define IS_STUCK (l_lock && l_waits[1] && (BLOCKED(0) || BLOCKED(2)))
#else
#define IS_STUCK (l_lock && l_waits[1] && l_all >= 1 && l_all - BLOCKED(0) - BLOCKED(2) < 1)
#endif
#define BLOCKED(o) (l_out[o] && l_waits[o])

inline look(nth)
{
    asked = 31;
    do
    :: atomic { asked & 1 -> asked = asked - 1; look_at_permits(nth) }
    :: atomic { asked & 2 -> asked = asked - 2; l_lock = has_lock }
    :: atomic { asked & 4 -> asked = asked - 4; look_at_hash(0, nth) }
    :: atomic { asked & 8 -> asked = asked - 8; look_at_hash(1, nth) }
    :: atomic { asked & 16 -> asked = asked - 16; look_at_hash(2, nth) }
    :: asked == 0 -> break
    od
}

/* Of the client of owner 1. It looks at any time, and once more when nothing else happens. */
proctype seeker()
{
    byte asked, n_looks, n_last;
    short l_all;
    bool l_lock, real, l_out[3], l_waits[3];

end:
    do
    :: atomic {
            if
            :: waits[1] && hash[1] && !refused && n_looks < LOOKS -> n_looks++
            :: timeout && waits[1] && hash[1] && !refused && n_last == 0 -> n_last = 1
            fi }
        look(1);
        if :: !IS_STUCK -> goto next :: else fi;
        atomic { real = IS_DEADLOCKED };
        look(2);
        if :: !IS_STUCK -> goto next :: else fi;
        (grown[0] == 2 || !hash[0]) && (grown[1] == 2 || !hash[1]) && (grown[2] == 2 || !hash[2]);
        look(3);
        atomic {
            if
            :: IS_STUCK && waits[1] -> assert(real); refused = true         /* REAL */
            :: else
            fi }
next:
        atomic { real = false; l_all = 0; l_lock = false;
                 l_out[0] = false; l_out[2] = false;
                 l_waits[0] = false; l_waits[1] = false; l_waits[2] = false }
    od
}

init
{
    atomic {
        out[0] = true; out[2] = true;
        run holder(0); run holder(2); run wanter(); run operator();
        run publisher(0); run publisher(1); run publisher(2); run seeker()
    }
}
