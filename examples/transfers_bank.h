/*
 * Bank - accounts in Redis, and transfers between them under nested locks
 *
 * A balance is a key that is read by GET and written by SET, under the lock of the account. A
 * transfer changes two balances, so a crash between them would lose money. Therefore a transfer
 * also holds the ledger's lock and first writes a record into the journal. If another process finds
 * such a record later, its writer has died in the middle, and the process undoes that transfer.
 */
#ifndef TRANSFERS_BANK_H
#define TRANSFERS_BANK_H

#include <hiredis/hiredis.h>
#include <relock.h>
#include <stdatomic.h>

#define N_PROCESSES 4
#define N_ACCOUNTS 10
#define LEDGER N_ACCOUNTS /* index of the ledger's lock, after those of the accounts */
#define N_LOCKS (N_ACCOUNTS + 1)
#define OPENING_CENTS 100000LL /* per account */
#define N_SAMPLES (1 << 20)
#define NOBODY (-1)

/* A transfer, and both balances before it. */
struct record {
    int from, to;
    long long cents, old_from, old_to;
};

/* Memory shared by the processes, so that the parent can show what they do. Locks do not use it. */
struct board {
    atomic_bool stop;
    int event_fd; /* an eventfd that wakes the parent */

    atomic_ullong n_transfers[N_PROCESSES], n_pairs;
    struct {
        atomic_int by;
        _Atomic uint64_t at_us;
    } released[N_LOCKS];
    uint32_t samples_us[N_SAMPLES]; /* from a release to the acquire by another process */
    atomic_uint n_samples;

    /* The process `victim` stops in the middle of the transfer `half` and is killed. */
    atomic_int victim;
    struct record half;
    _Atomic uint64_t stopped_us, killed_us;
    _Atomic uint64_t acquired_us[N_LOCKS]; /* first acquire after the kill */
    atomic_int undone_by;
};

/* A thread's view of the bank. */
struct teller {
    struct board *board;
    int process;
    redisContext *redis;
    struct relock_lock **locks; /* NULL: work without locks */
    unsigned seed;
};

extern const char *const lock_names[N_LOCKS];

uint64_t now_us(void);

/* Prints the reason to stderr and ends the process. */
__attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...);

redisContext *bank_connect(const char *url);
void bank_open(const struct teller *teller);

/* Returns RELOCK_OK or RELOCK_LOST. After RELOCK_LOST the next transfer undoes this one. */
int bank_transfer(const struct teller *teller, int from, int to, long long wish_cents);

/* Call these when no transfer is in progress. */
void bank_undo_half_transfer(const struct teller *teller);
long long bank_sum(const struct teller *teller);

#endif
