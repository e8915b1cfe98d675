#include "bare.h"
#include "counts.h"
#include "crowd.h"
#include "rows.h"

#define N_PAIRS 1000
#define N_THREADS 8

enum {
    PAIR,
    BARE_PAIR,
    LEVEL,
    IN_A_CROWD,
};

static void take_and_give(void *arg)
{
    ours_take(arg);
    ours_give(arg);
}

/* Commands that a client sends only once are not counted. */
static void warm_up(struct redisContext *redis, struct relock_lock *lock)
{
    take_and_give(lock);
    counts_settle(redis);
}

/* No other client uses Redis. */
static double per_pair(struct redisContext *redis, struct relock_lock *lock)
{
    struct counts before = counts_now(redis);

    for (unsigned i = 0; i < N_PAIRS; i++)
        take_and_give(lock);
    return (double)counts_since(redis, &before).all / N_PAIRS;
}

static double per_level(struct redisContext *redis, struct relock_lock *lock)
{
    double commands;

    ours_take(lock);
    commands = per_pair(redis, lock);
    ours_give(lock);
    return commands;
}

static double per_bare_pair(struct redisContext *redis, const struct bare_lock *lock)
{
    struct counts before = counts_now(redis);

    for (unsigned i = 0; i < N_PAIRS; i++) {
        if (!bare_take(redis, lock))
            die("%s is held by another", lock->name);
        bare_give(redis, lock);
    }
    return (double)counts_since(redis, &before).all / N_PAIRS;
}

/* In a separate client, or the end of its subscription would be counted elsewhere. */
static double per_acquisition(const struct plan *plan, struct redisContext *redis, const char *name)
{
    struct relock_client *client = ours_client(plan->url);
    struct relock_lock *lock = ours_lock(client, name);
    struct crowd_count count;
    struct counts counts;

    warm_up(redis, lock);
    counts = counts_now(redis);
    count = crowd_run(N_THREADS, take_and_give, lock, 0, plan->seconds);
    counts = counts_since(redis, &counts);
    relock_lock_free(lock);
    relock_client_free(client);
    return (double)counts.all / (double)count.steps;
}

static struct result *add_result(struct report *report)
{
    struct result *result = report_add(report, "commands", "commands that Redis receives");

    result_add_line(result, "pair", "uncontended lock+unlock", "commands");
    result_add_line(result, "bare_pair", "two bare EVALSHA", "commands");
    result_add_line(result, "level", "nested lock+unlock", "commands");
    result_add_line(result, "in_a_crowd", "8 threads on one lock, each acquisition", "commands");
    /* Long holds are checked now and then: client tracking. */
    result_add_limit(result, PAIR, AT_MOST, 2.01);
    result_add_limit(result, LEVEL, AT_MOST, 2.1);
    result_add_limit(result, IN_A_CROWD, AT_MOST, 0.1);
    return result;
}

void row_commands(const struct plan *plan, struct report *report)
{
    struct line *lines = add_result(report)->lines;
    struct relock_client *client = ours_client(plan->url);
    struct redisContext *redis = bare_connect(plan->url);
    struct bare_lock bare_lock;
    struct relock_lock *lock;
    char name[NAME_MAX_LEN];

    row_name(name, "bare", 0);
    bare_lock_init(&bare_lock, name, 1);
    row_name(name, "ours", 0);
    lock = ours_lock(client, name);
    warm_up(redis, lock);

    for (unsigned round = 0; round < plan->rounds; round++) {
        series_add(&lines[PAIR].series, per_pair(redis, lock));
        series_add(&lines[BARE_PAIR].series, per_bare_pair(redis, &bare_lock));
        series_add(&lines[LEVEL].series, per_level(redis, lock));
        series_add(&lines[IN_A_CROWD].series, per_acquisition(plan, redis, name));
    }

    relock_lock_free(lock);
    relock_client_free(client);
    must_be_gone(redis, name);
    bare_close(redis);
}
