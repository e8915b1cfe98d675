/*
 * Bank - accounts in Redis, and transfers between them under nested locks
 *
 * A balance is a key, read by GET and written back by SET: whoever does that holds the account's
 * lock. A transfer changes two, so a crash between them would lose money. Therefore it holds the
 * ledger's lock as well and writes into the journal what it is about to do; a record that others
 * find there later is of somebody who died, and they undo what it tells of.
 */
#ifndef TRANSFERS_BANK_H
#define TRANSFERS_BANK_H

#include <hiredis/hiredis.h>
#include <relock.h>
#include <stdatomic.h>

#define N_PROCESSES 4
#define N_ACCOUNTS 10
#define LEDGER N_ACCOUNTS /* its lock stands behind those of the accounts */
#define N_LOCKS (N_ACCOUNTS + 1)
#define OPENING_CENTS 100000LL /* on each account at the beginning */
#define N_SAMPLES (1 << 20)
#define NOBODY (-1)

/* A transfer, and the two balances as they were before. */
struct record {
    int from, to;
    long long cents, old_from, old_to;
};

/* Shared by the processes, so that the parent can show what they do. The locks need none of it. */
struct board {
    atomic_bool stop;
    int news_fd; /* an eventfd, for the parent: something happened */

    atomic_ullong n_transfers[N_PROCESSES], n_pairs;
    struct {
        atomic_int by;
        _Atomic uint64_t at_us;
    } released[N_LOCKS];
    uint32_t samples_us[N_SAMPLES]; /* from a release to the acquire by another process */
    atomic_uint n_samples;

    /* The process `victim` is to stop in the middle of a transfer; that was `half`; and then ... */
    atomic_int victim;
    struct record half;
    _Atomic uint64_t stopped_us, killed_us;
    _Atomic uint64_t taken_us[N_LOCKS]; /* first taken after the kill */
    atomic_int undone_by;
};

/* A thread's view of the bank. */
struct teller {
    struct board *board;
    int process;
    redisContext *redis;
    struct relock_lock **locks; /* NULL: work without */
    unsigned seed;
};

extern const char *const lock_names[N_LOCKS];

uint64_t now_us(void);

/* Says why on stderr and ends the process. */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);

redisContext *bank_connect(const char *url);
void bank_open(const struct teller *teller);

/* Returns RELOCK_OK, or RELOCK_LOST: then what was begun is undone by whoever comes next. */
int bank_transfer(const struct teller *teller, int from, int to, long long wish_cents);

/* For when nobody works any more. */
void bank_undo_what_is_left(const struct teller *teller);
long long bank_sum(const struct teller *teller);

#endif
