/*
 * Read/write scripts - the scripts of the read/write lock "orders" by hand, and a look at their
 * results
 *
 * Threads: as the probe.
 */
#ifndef RELOCK_TEST_RW_SCRIPTS_H
#define RELOCK_TEST_RW_SCRIPTS_H

#include "support/fixture.h"

#define CHANNEL "redisson_rwlock:{orders}"

/* Two readers and two writers of ours. Each hold has its own number, even of one owner. */
#define R1 "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:1"
#define R2 "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:2"
#define W3_ID "9f2c1c5e-0a53-4b6c-8f2e-5a1d3c7b9e10:3"
#define W3 W3_ID ":write"
#define W4 "77f1e0a2-3c5d-4e6f-8a9b-0c1d2e3f4a5b:4:write"

/* A thread of Redisson's has one number for both sides. */
#define JAVA "0c1d2e3f-4a5b-4c6d-9e8f-77f1e0a23c5d:17"
#define JAVA_W JAVA ":write"

#define LEVEL(field, level) "{orders}:" field ":rwlock_timeout:" #level

/* So far apart that no slow machine takes one for another: see assert_rest(). */
#define SHORT_MS 20000
#define LEASE_MS 40000
#define LONG_MS 60000

#define GRANTED (-100) /* below every reply of a refusal */

/* Of the fixture. */
struct probe *rw_probe(void **state);

/* Each runs the script once: GRANTED or the integer that it answers. */
long long rw_read_lock(struct probe *probe, const char *field, unsigned count, uint64_t lease_ms);
long long rw_read_lock_under(struct probe *probe, const char *write_field, const char *field,
                             unsigned count, uint64_t lease_ms);
long long rw_read_unlock(struct probe *probe, const char *field, unsigned count);
long long rw_read_renew(struct probe *probe, const char *field, uint64_t lease_ms);
long long rw_read_extend(struct probe *probe, const char *field, unsigned count, uint64_t lease_ms);
long long rw_write_lock(struct probe *probe, const char *field, unsigned count, uint64_t lease_ms);
long long rw_write_unlock(struct probe *probe, const char *field, unsigned count);
long long rw_force_unlock(struct probe *probe, const char *holder, const char *side);

struct rw_side {
    char holder[64];
    long long hold_count, n_holders, rest_ms, own_count, other_side;
};

struct rw_side rw_inspect(struct probe *probe, const char *field, const char *side);

/* The entries of Redisson: a reader with that many levels, and a writer. */
void rw_add_foreign_reader(struct probe *probe, const char *field, unsigned count,
                           uint64_t lease_ms);
void rw_add_foreign_writer(struct probe *probe, const char *field, unsigned count,
                           uint64_t lease_ms);

/* The leases of all levels end; the hash stays. */
void rw_let_die(struct probe *probe, const char *field);

/* The hash, "" if there is none. Sets the remaining lease. */
const char *rw_hash(struct probe *probe);
void rw_set_rest(struct probe *probe, const char *key, uint64_t rest_ms);

/* Whether the key has a lease of `rest_ms`, give or take the time that a test needs. */
#define assert_rest(probe, key, rest_ms) \
    rw_check_rest((probe), (key), (rest_ms), __FILE__, __LINE__)

void rw_check_rest(struct probe *probe, const char *key, long long rest_ms, const char *file,
                   int line);

#endif
