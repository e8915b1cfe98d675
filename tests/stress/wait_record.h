/*
 * Wait record - which worker holds which lock, which waits for which, and the cycles of these
 *
 * Each worker records a wait before it begins and after it has ended, a hold after it was acquired
 * and before it is released. So a hold on record is in Redis, and the holds of a real cycle are all
 * on record. A worker waits for one lock at a time, and a lock has one holder: so a cycle can form
 * only when a wait begins, and a wait is in at most one cycle at a time.
 *
 * A refusal is right if its wait was in a cycle, if that cycle stood until all its waits had lasted
 * for `deadlock_ms`, unless they are all of one client, and if no other wait was refused for it.
 *
 * Threads: any, of any process that shares the memory.
 */
#ifndef RELOCK_TEST_WAIT_RECORD_H
#define RELOCK_TEST_WAIT_RECORD_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define WAIT_RECORD_WORKERS 16
#define WAIT_RECORD_LOCKS 64
#define WAIT_RECORD_CYCLES 4096 /* the last ones, with those of all waits in progress */
#define WAIT_RECORD_OF_A_WAIT 8 /* cycles of one wait, one after the other */

struct wait_cycle {
    unsigned n;                   /* waits */
    bool is_local;                /* they are all of one client */
    bool has_victim;              /* one of them was refused for it */
    uint64_t formed_ms, ended_ms; /* `ended_ms` is 0 while it stands */
    int workers[WAIT_RECORD_WORKERS];
};

struct recorded_wait {
    int lock;                               /* -1: it does not wait */
    unsigned n_cycles;                      /* that it was in */
    unsigned cycles[WAIT_RECORD_OF_A_WAIT]; /* their numbers; the last one may stand */
};

/* Of the whole run. */
struct wait_counts {
    unsigned n_cycles, n_local, n_longer; /* formed; of one client; of more than two waits */
    unsigned n_held, n_refused, n_late;   /* waits that ended so */
    unsigned n_false, n_doubled;          /* refused in no cycle, or too early; second victims */
    uint64_t longest_ms;                  /* that a cycle stood */
};

struct wait_record {
    pthread_mutex_t mutex;
    uint64_t deadlock_ms;
    int client_of[WAIT_RECORD_WORKERS]; /* constant after wait_record_init */

    /* guarded by mutex */
    int holder[WAIT_RECORD_LOCKS]; /* -1: none */
    struct recorded_wait waits[WAIT_RECORD_WORKERS];
    struct wait_cycle cycles[WAIT_RECORD_CYCLES];
    struct wait_counts counts;
};

enum wait_end {
    WAIT_ACQUIRED,
    WAIT_LATE, /* by its time limit */
    WAIT_REFUSED,
};

/* In memory that all share; `per_client` workers in a row are of one client. */
void wait_record_init(struct wait_record *record, uint64_t deadlock_ms, int per_client);

void wait_record_begin(struct wait_record *record, int worker, int lock);

/* Returns what is wrong, or NULL. */
const char *wait_record_end(struct wait_record *record, int worker, enum wait_end end);

void wait_record_release(struct wait_record *record, int lock);

/* How long the oldest cycle that stands has stood; 0: none stands. */
uint64_t wait_record_stands_ms(struct wait_record *record);

struct wait_counts wait_record_counts(struct wait_record *record);

#endif
