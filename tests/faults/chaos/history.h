/*
 * History - the steps of each process and their times, in a form that survives its death
 *
 * A process appends a line for each step to its own file, with one write(2): a written line stays,
 * even if the process dies. All times are from the clock of the library, which all processes of a
 * machine share.
 *
 * A worker is a place in which a new process starts after each kill: `slot` is the place, `life`
 * counts the processes in it. `hold` numbers a process's attempts to acquire a lock, and all
 * records of one attempt have its number. For a read/write lock an attempt is for one side.
 *
 * A latch or an unleased semaphore belongs to one thread. `lock` says which of the thread's numbers
 * it is, and its records have no `hold`.
 *
 * Threads: any may write.
 */
#ifndef RELOCK_TEST_HISTORY_H
#define RELOCK_TEST_HISTORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Names, and the meaning of `from`, `to`, `result` and `value`. A step without an end has both
 * times equal: the record was written before the step. */
#define HISTORY_KIND_MAP(XX)                                                                       \
    XX(ASK, "ask")       /* begins to acquire a lock; value: the longest wait in ms */             \
    XX(TAKE, "take")     /* since the call began; its result; value: the acknowledging replicas */ \
    XX(NEST, "nest")     /* one more level; its result */                                          \
    XX(EXTEND, "extend") /* extends the lease; its result */                                       \
    XX(CLAIM, "claim")   /* value: the remaining certain time in ms */                             \
    XX(CLIMB, "climb")   /* tries to write while it reads; its result */                           \
    XX(UNNEST, "unnest") /* releases a level, not the last; its result */                          \
    XX(LEAVE, "leave")   /* begins to release the last level */                                    \
    XX(LEFT, "left")     /* since then; its result */                                              \
    XX(IDLE, "idle")     /* all threads have ended; value: the remaining holds */                  \
    XX(KILLED, "killed") /* a process was killed by the stage */                                   \
    XX(FAULT, "fault")   /* a fault, from beginning to end; slot -1 means all; value: its kind */  \
    XX(FAILOVER, "failover") /* holds granted meanwhile may be lost; value: only if no replica     \
                                acknowledged them */                                               \
    XX(FREE, "free")         /* a lock was free for this sort at every look */                     \
    XX(STAYS, "stays")       /* a lock was not released at the end */                              \
    XX(COUNT, "count")       /* begins to change its own number; value: by how much */             \
    XX(COUNTED, "counted")   /* since then; its result; value: by how much, if that is OK */       \
    XX(NUMBER, "number")     /* such a number at the end */

enum history_kind {
#define HISTORY_ENUM_(name, text) HISTORY_##name,
    HISTORY_KIND_MAP(HISTORY_ENUM_)
#undef HISTORY_ENUM_
        HISTORY_N_KINDS
};

/* The kind of a lock; for a read/write lock, the side. */
#define HISTORY_SORT_MAP(XX)   \
    XX(NONE, "none")           \
    XX(REENTRANT, "reentrant") \
    XX(PLAIN, "plain")         \
    XX(SPIN, "spin")           \
    XX(FENCED, "fenced")       \
    XX(FAIR, "fair")           \
    XX(WRITE, "write")         \
    XX(READ, "read")           \
    XX(RED, "red")             \
    XX(SEMAPHORE, "semaphore") \
    XX(LATCH, "latch")         \
    XX(UNLEASED, "unleased")

enum history_sort {
#define HISTORY_ENUM_(name, text) HISTORY_##name,
    HISTORY_SORT_MAP(HISTORY_ENUM_)
#undef HISTORY_ENUM_
        HISTORY_N_SORTS
};

/* Value of a record of a fair lock's free time: the head's place may have been kept. */
#define HISTORY_KEPT 1

struct history_record {
    enum history_kind kind;
    enum history_sort sort;
    int slot, life, thread, lock;
    unsigned hold; /* from 1; 0: none */
    uint64_t from_ns, to_ns;
    int result;
    int64_t value;
    uint64_t token;   /* on records of acquired levels of a fenced lock */
    unsigned permits; /* of a semaphore: what the attempt wants; else 0 */
};

/* A file to write to. */
struct history {
    int fd;
};

uint64_t history_now_ns(void);

const char *history_sort_name(enum history_sort sort);

void history_open(struct history *history, const char *path);
void history_close(struct history *history);
void history_write(struct history *history, const struct history_record *record);

/* A record as a line, without newline. */
#define HISTORY_LINE_MAX 320
void history_print(const struct history_record *record, char line[HISTORY_LINE_MAX]);

/* The records of all files in a folder whose names begin with "history". Those of one process
 * are in the order of writing. */
struct history_records {
    struct history_record *at;
    size_t n, size;
};

void history_add(struct history_records *records, const struct history_record *record);
void history_read(struct history_records *records, const char *dir);
void history_free(struct history_records *records);

#endif
