/*
 * History - the deeds of each process and their times, in a form that survives its death
 *
 * A process appends a line for each step to a file of its own, with one write(2): a line that was
 * written stays, also when the process dies. All times are of the clock that the library counts on,
 * which is one for all processes of a machine.
 *
 * A worker is a place that is filled anew when the process in it was killed: `slot` is the place,
 * `life` the how many-th process in it. `hold` numbers the attempts of a process to take a lock,
 * and all records of one bear its number. For a read/write lock an attempt is for one side.
 *
 * Threads: any may write.
 */
#ifndef RELOCK_TEST_HISTORY_H
#define RELOCK_TEST_HISTORY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Name, and what `from`, `to`, `result` and `value` are. Of a step without an end, both are the
 * same: then it was written before the step was made. */
#define HISTORY_KIND_MAP(XX)                                                   \
    XX(ASK, "ask")       /* begins to take a lock; ms that it will wait */     \
    XX(TAKE, "take")     /* from the asking on; its result */                  \
    XX(NEST, "nest")     /* one level more; its result */                      \
    XX(EXTEND, "extend") /* the hold is to last longer; its result */          \
    XX(CLAIM, "claim")   /* how long the hold was said to be certain, in ms */ \
    XX(CLIMB, "climb")   /* asks to write while it reads; its result */        \
    XX(UNNEST, "unnest") /* one level less, not the last; its result */        \
    XX(LEAVE, "leave")   /* begins to give up the last level */                \
    XX(LEFT, "left")     /* from then on; its result */                        \
    XX(IDLE, "idle")     /* all its threads are done; holds that it has */     \
    XX(KILLED, "killed") /* a process, by whoever breaks things */             \
    XX(FAULT, "fault")   /* as long as it lasted; slot -1 is all; its kind */  \
    XX(FREE, "free")     /* a lock was free for this sort, whenever looked */  \
    XX(STAYS, "stays")   /* a lock did not become free at the end */

enum history_kind {
#define HISTORY_ENUM_(name, text) HISTORY_##name,
    HISTORY_KIND_MAP(HISTORY_ENUM_)
#undef HISTORY_ENUM_
        HISTORY_N_KINDS
};

/* Kind of a lock, and of a read/write lock the side. */
#define HISTORY_SORT_MAP(XX)   \
    XX(NONE, "none")           \
    XX(REENTRANT, "reentrant") \
    XX(PLAIN, "plain")         \
    XX(SPIN, "spin")           \
    XX(FENCED, "fenced")       \
    XX(FAIR, "fair")           \
    XX(WRITE, "write")         \
    XX(READ, "read")           \
    XX(RED, "red")

enum history_sort {
#define HISTORY_ENUM_(name, text) HISTORY_##name,
    HISTORY_SORT_MAP(HISTORY_ENUM_)
#undef HISTORY_ENUM_
        HISTORY_N_SORTS
};

/* Value of a fair lock's record of free time: the place of who is first may have been kept. */
#define HISTORY_KEPT 1

struct history_record {
    enum history_kind kind;
    enum history_sort sort;
    int slot, life, thread, lock;
    unsigned hold; /* from 1; 0 of none */
    uint64_t from_ns, to_ns;
    int result;
    int64_t value;
    uint64_t token; /* with what took a level of a fenced lock */
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

/* As a line of a file, without newline. */
#define HISTORY_LINE_MAX 256
void history_print(const struct history_record *record, char line[HISTORY_LINE_MAX]);

/* The records of all files in a folder whose names begin with "history"; those of one process in
 * the order in which they were written. */
struct history_records {
    struct history_record *at;
    size_t n, size;
};

void history_add(struct history_records *records, const struct history_record *record);
void history_read(struct history_records *records, const char *dir);
void history_free(struct history_records *records);

#endif
