#include "transfers_bank.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

const char *const lock_names[N_LOCKS] = {
    "account:0", "account:1", "account:2", "account:3", "account:4", "account:5",
    "account:6", "account:7", "account:8", "account:9", "ledger",
};

uint64_t now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
}

void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fprintf(stderr, "transfers: ");
    vfprintf(stderr, format, args);
    fprintf(stderr, "\n");
    va_end(args);
    _exit(EXIT_FAILURE);
}

/* ---- money: nothing here is atomic -------------------------------------------------------- */

redisContext *bank_connect(const char *url)
{
    const struct timeval timeout = {.tv_sec = 5};
    redisContext *redis = NULL;
    char host[256];
    int port = 6379;

    if (strncmp(url, "unix://", 7) == 0)
        redis = redisConnectUnixWithTimeout(url + 7, timeout);
    else if (sscanf(url, "redis://%255[^:/]:%d", host, &port) >= 1)
        redis = redisConnectWithTimeout(host, port, timeout);
    if (redis == NULL || redis->err != 0)
        die("%s: %s", url, redis == NULL ? "not a redis:// or unix:// url" : redis->errstr);
    redisSetTimeout(redis, timeout);
    return redis;
}

__attribute__((format(printf, 2, 3))) static redisReply *ask(const struct teller *teller,
                                                             const char *format, ...)
{
    redisReply *reply;
    va_list args;

    va_start(args, format);
    reply = redisvCommand(teller->redis, format, args);
    va_end(args);
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR)
        die("%s: %s", format, reply == NULL ? teller->redis->errstr : reply->str);
    return reply;
}

static long long get_balance(const struct teller *teller, int account)
{
    redisReply *reply = ask(teller, "GET balance:%d", account);
    long long cents;

    if (reply->type != REDIS_REPLY_STRING)
        die("balance:%d is gone", account);
    cents = strtoll(reply->str, NULL, 10);
    freeReplyObject(reply);
    return cents;
}

static void set_balance(const struct teller *teller, int account, long long cents)
{
    freeReplyObject(ask(teller, "SET balance:%d %lld", account, cents));
}

static void write_journal(const struct teller *teller, const struct record *record)
{
    freeReplyObject(ask(teller, "SET journal %d:%d:%lld:%lld:%lld", record->from, record->to,
                        record->cents, record->old_from, record->old_to));
}

static bool read_journal(const struct teller *teller, struct record *record)
{
    redisReply *reply = ask(teller, "GET journal");
    bool found = reply->type == REDIS_REPLY_STRING;

    if (found && sscanf(reply->str, "%d:%d:%lld:%lld:%lld", &record->from, &record->to,
                        &record->cents, &record->old_from, &record->old_to) != 5)
        die("the journal is not ours: %s", reply->str);
    freeReplyObject(reply);
    return found;
}

static void clear_journal(const struct teller *teller)
{
    freeReplyObject(ask(teller, "DEL journal"));
}

/* Removes the record last: if this process dies too, the next one repeats the undo. */
static void undo(const struct teller *teller, const struct record *record)
{
    set_balance(teller, record->from, record->old_from);
    set_balance(teller, record->to, record->old_to);
    clear_journal(teller);
}

void bank_open(const struct teller *teller)
{
    clear_journal(teller);
    for (int i = 0; i < N_ACCOUNTS; i++)
        set_balance(teller, i, OPENING_CENTS);
}

void bank_undo_half_transfer(const struct teller *teller)
{
    struct record left;

    if (read_journal(teller, &left))
        undo(teller, &left);
}

long long bank_sum(const struct teller *teller)
{
    long long sum = 0;

    for (int i = 0; i < N_ACCOUNTS; i++)
        sum += get_balance(teller, i);
    return sum;
}

/* ---- locks, and when they change hands --------------------------------------------------- */

static void note_acquired(const struct teller *teller, int lock, uint64_t began_us)
{
    struct board *board = teller->board;
    uint64_t acquired_us = now_us(), released_us = board->released[lock].at_us;

    /* Sample only if this thread was already waiting, and for another process. */
    if (began_us < released_us && board->released[lock].by != teller->process)
        board->samples_us[board->n_samples++ % N_SAMPLES] = (uint32_t)(acquired_us - released_us);

    if (board->killed_us != 0 && board->acquired_us[lock] == 0) {
        board->acquired_us[lock] = acquired_us;
        eventfd_write(board->event_fd, 1);
    }
}

static int acquire(const struct teller *teller, int lock)
{
    uint64_t began_us = now_us();
    int r;

    if (teller->locks == NULL)
        return RELOCK_OK;
    r = relock_lock(teller->locks[lock]);
    if (r == RELOCK_OK)
        note_acquired(teller, lock, began_us);
    else if (r != RELOCK_LOST)
        die("%s: %s", lock_names[lock], relock_strerror(r));
    return r;
}

static void release(const struct teller *teller, int lock)
{
    struct board *board = teller->board;
    int r;

    if (teller->locks == NULL)
        return;
    board->n_pairs++;
    board->released[lock].by = teller->process;
    board->released[lock].at_us = now_us();
    r = relock_unlock(teller->locks[lock]);
    if (r != RELOCK_OK && r != RELOCK_LOST)
        die("%s: %s", lock_names[lock], relock_strerror(r));
}

/* All transfers lock the lower account first, so they cannot deadlock. */
static int acquire_both(const struct teller *teller, int a, int b)
{
    int low = a < b ? a : b, high = a < b ? b : a;
    int r;

    r = acquire(teller, low);
    if (r != RELOCK_OK)
        return r;
    r = acquire(teller, high);
    if (r != RELOCK_OK)
        release(teller, low);
    return r;
}

static void release_both(const struct teller *teller, int a, int b)
{
    release(teller, a);
    release(teller, b);
}

/* ---- transfers ---------------------------------------------------------------------------- */

/*
 * Acquires the lock itself. If a caller already holds it, this adds a level. With a lock that is
 * not reentrant, this thread would deadlock with itself.
 */
static int add(const struct teller *teller, int account, long long cents)
{
    long long balance;
    int r;

    r = acquire(teller, account);
    if (r != RELOCK_OK)
        return r;
    balance = get_balance(teller, account);
    sched_yield(); /* without a lock, others get in between here */
    set_balance(teller, account, balance + cents);
    release(teller, account);
    return RELOCK_OK;
}

/* The worst moment to be killed: the money is on neither account, and the process holds 3 locks. */
static void stop_if_victim(const struct teller *teller, const struct record *record)
{
    struct board *board = teller->board;

    if (board->victim != teller->process)
        return;
    board->half = *record;
    board->stopped_us = now_us();
    eventfd_write(board->event_fd, 1);
    for (;;)
        pause();
}

/* The caller holds the locks of both accounts and of the ledger. If this fails, the record stays in
 * the journal, and the next process undoes the transfer. */
static int book(const struct teller *teller, const struct record *record)
{
    int r;

    write_journal(teller, record);
    r = add(teller, record->from, -record->cents);
    if (r != RELOCK_OK)
        return r;
    stop_if_victim(teller, record);
    r = add(teller, record->to, record->cents);
    if (r != RELOCK_OK)
        return r;

    /* If the ledger's lock was lost, the journal may contain the record of another transfer. */
    if (teller->locks != NULL) {
        r = relock_check(teller->locks[LEDGER], 0, NULL);
        if (r != RELOCK_OK)
            return r;
    }
    clear_journal(teller);
    teller->board->n_transfers[teller->process]++;
    return RELOCK_OK;
}

/* Undoes the transfer in `found`. Acquires its accounts' locks, so the caller may hold no lock. */
static int repair(const struct teller *teller, const struct record *found)
{
    struct record left;
    int r;

    r = acquire_both(teller, found->from, found->to);
    if (r != RELOCK_OK)
        return r;
    r = acquire(teller, LEDGER);
    if (r == RELOCK_OK) {
        /* Another process may have undone it already, and begun a transfer of its own. */
        if (read_journal(teller, &left) && left.from == found->from && left.to == found->to) {
            undo(teller, &left);
            teller->board->undone_by = teller->process;
            eventfd_write(teller->board->event_fd, 1);
        }
        release(teller, LEDGER);
    }
    release_both(teller, found->from, found->to);
    return r;
}

int bank_transfer(const struct teller *teller, int from, int to, long long wish_cents)
{
    struct record record = {.from = from, .to = to}, left;
    bool is_stale = false;
    int r;

    r = acquire_both(teller, from, to);
    if (r != RELOCK_OK)
        return r;
    record.old_from = get_balance(teller, from);
    record.old_to = get_balance(teller, to);
    record.cents = wish_cents < record.old_from ? wish_cents : record.old_from;

    r = acquire(teller, LEDGER);
    if (r == RELOCK_OK) {
        /* A record means that the balances just read may be wrong: undo that transfer first. */
        is_stale = teller->locks != NULL && read_journal(teller, &left);
        if (!is_stale)
            r = book(teller, &record);
        release(teller, LEDGER);
    }
    release_both(teller, from, to);
    return is_stale ? repair(teller, &left) : r;
}
