/*
 * Spin - whether a thread that waits for a reply retries its socket before it sleeps
 *
 * On many machines, to sleep and to be woken takes longer than a round trip to a near server. So a
 * thread retries its socket for up to RELOCK_SPIN_NS where this has turned out to be faster. Each
 * connection compares how long its waits take with retries and without, and tries the slower way
 * now and then. Threads spin only while fewer of them wait for replies than the process has
 * processors, which leaves one for the server or for other work.
 *
 * Threads: the user of a connection. The number of waiting threads belongs to the process.
 */
#ifndef RELOCK_SPIN_H
#define RELOCK_SPIN_H

#include <stdbool.h>
#include <stdint.h>

#define RELOCK_SPIN_NS 50000

/* Of one connection; all zero at the start. */
struct relock_spin {
    uint64_t began_ns;    /* the present wait */
    bool spins;           /* the present wait */
    unsigned n_roomy;     /* waits in a row that left a processor to others */
    unsigned n;           /* waits in which the thread had the choice */
    uint64_t spinning_ns; /* how long waits take with retries: a moving average; 0 if unknown */
    uint64_t sleeping_ns; /* without */

    /* what getrusage() said last */
    uint64_t looked_ns;
    long n_preempted;
    bool is_crowded; /* threads of the process were preempted since the time before */
};

/* The caller begins to wait. Returns whether it is to retry. */
bool relock_spin_begin(struct relock_spin *spin);

/* Whether the caller goes on with its retries. */
bool relock_spin_continues(struct relock_spin *spin);

/* The wait has ended. */
void relock_spin_end(struct relock_spin *spin);

#endif
