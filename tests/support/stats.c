#include "support/stats.h"

#include "support/fixture.h"

#include <stdio.h>

struct relock_stats stats_of(struct relock_client *client)
{
    struct relock_stats stats;

    assert_result(relock_client_stats(client, &stats, sizeof(stats)), RELOCK_OK);
    return stats;
}

struct expected {
    struct relock_client *client;
    uint64_t waiters, renewed, reconnects, rechecks, lost, recalled;
};

static bool has_waiters(void *arg)
{
    struct expected *expected = arg;
    struct relock_stats stats;

    return relock_client_stats(expected->client, &stats, sizeof(stats)) == RELOCK_OK &&
           stats.waiters == expected->waiters;
}

bool wait_for_waiters(struct relock_client *client, uint64_t n)
{
    return wait_until(has_waiters, &(struct expected){client, .waiters = n}, SOON_MS);
}

static bool has_reached(void *arg)
{
    struct expected *expected = arg;
    struct relock_stats stats = stats_of(expected->client);

    return stats.renewed >= expected->renewed && stats.reconnects >= expected->reconnects &&
           stats.rechecks >= expected->rechecks && stats.lost >= expected->lost &&
           stats.recalled >= expected->recalled;
}

/* A machine that stands still for a lease looks like renewals that are late. */
static void print_renewals(struct relock_client *client, uint64_t since)
{
    struct relock_stats stats;

    if (relock_client_stats(client, &stats, sizeof(stats)) == RELOCK_OK)
        fprintf(stderr, "%llu renewed, %llu failed, %llu lost, %llu reconnects\n",
                (unsigned long long)(stats.renewed - since),
                (unsigned long long)stats.renewal_failures, (unsigned long long)stats.lost,
                (unsigned long long)stats.reconnects);
}

bool wait_for_renewals(struct relock_client *client, uint64_t since, uint64_t n)
{
    bool has =
        wait_until(has_reached, &(struct expected){client, .renewed = since + n}, 3 * SOON_MS);

    if (!has)
        print_renewals(client, since);
    return has;
}

bool wait_for_reconnects(struct relock_client *client, uint64_t n)
{
    return wait_until(has_reached, &(struct expected){client, .reconnects = n}, SOON_MS);
}

bool wait_for_rechecks(struct relock_client *client, uint64_t n)
{
    return wait_until(has_reached, &(struct expected){client, .rechecks = n}, SOON_MS);
}

bool wait_for_lost(struct relock_client *client, uint64_t n)
{
    return wait_until(has_reached, &(struct expected){client, .lost = n}, SOON_MS);
}

bool wait_for_recalls(struct relock_client *client, uint64_t n)
{
    return wait_until(has_reached, &(struct expected){client, .recalled = n}, SOON_MS);
}
