/*
 * Succession - the present master and the one before, as far as the sentinels have reported
 *
 * It finds out which answers are out of date: those of an older configuration, and, after the
 * report of a failover, those that name the old master.
 *
 * Threads: any; init and deinit while no other thread uses it.
 */
#ifndef RELOCK_SUCCESSION_H
#define RELOCK_SUCCESSION_H

#include "base/thread.h"
#include "redis/server/command.h"
#include "redis/server/server.h"

#include <stdbool.h>
#include <stdint.h>

struct redisReply;
struct relock_peer;

/* Longer names of hosts are an error. */
#define RELOCK_MASTER_HOST_MAX 256

/* One sentinel's report about the master. Each failover begins a new configuration, whose number is
 * higher. So of two sentinels that name different masters, the one with the lower number lags. */
struct relock_master {
    char host[RELOCK_MASTER_HOST_MAX]; /* an address in digits, or a name */
    uint16_t port;
    uint64_t epoch; /* the number of the configuration; 0: unknown */
};

#define RELOCK_MASTER_REPLIES 2

/* Appends the commands that ask for the master of this name. */
void relock_master_ask(const char *name, struct relock_buffer *out);

/*
 * Takes the first reply, which has the address.
 *
 * Returns RELOCK_OK; or, with the cause in `why`: RELOCK_E_AUTH; RELOCK_E_SERVER, also when the
 * sentinel does not know the master; RELOCK_E_CONN when it refuses for now.
 */
int relock_master_take(struct relock_master *master, const struct redisReply *reply,
                       char why[RELOCK_WHY_MAX]);

/* Takes the second reply. An error leaves the number unknown. */
void relock_master_take_epoch(struct relock_master *master, const struct redisReply *reply);

struct relock_succession {
    struct relock_mutex mutex;
    struct {
        struct relock_master now; /* in use; no host: none yet */
        struct relock_master old; /* replaced last, as a sentinel has reported; no host: none */
        struct relock_master unreported; /* replaced in a lookup, and not reported; no host: none */
        uint64_t epoch;                  /* the newest configuration that a sentinel has told */
        unsigned n_reports;              /* of replaced masters */
    } guarded;                           /* by mutex */
};

void relock_succession_init(struct relock_succession *succession);
void relock_succession_deinit(struct relock_succession *succession);

/* Whether the sentinel that gave this answer lags. */
bool relock_succession_lags(struct relock_succession *succession,
                            const struct relock_master *answer);

/* Uses this master from now on, also if its sentinel lags. Returns whether the address is new. */
bool relock_succession_use(struct relock_succession *succession,
                           const struct relock_master *answer);

/* If the answer is of the newest configuration, finds a master that is none any more: the one in
 * use, or one that a lookup found replaced. Returns true, and `*old`, once for each, so call it
 * until it returns false. */
bool relock_succession_replaces(struct relock_succession *succession,
                                const struct relock_master *answer, struct relock_master *old);

/* A sentinel has reported that this master was replaced. */
void relock_succession_retire(struct relock_succession *succession, const struct relock_peer *old);

/* How many reports there were. */
unsigned relock_succession_reports(struct relock_succession *succession);

/* Since there were `n_reports`, all sentinels have answered, and none has a newer answer than this.
 * If it names the old master, the last report was out of date, and no longer counts. */
void relock_succession_agree(struct relock_succession *succession,
                             const struct relock_master *answer, unsigned n_reports);

#endif
