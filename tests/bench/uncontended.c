#include "bare.h"
#include "pairs.h"

struct bare_side {
    struct redisContext *redis;
    struct bare_lock lock;
};

static void pair_bare(void *arg)
{
    struct bare_side *side = arg;

    if (!bare_take(side->redis, &side->lock))
        die("%s is held by another", side->lock.name);
    bare_give(side->redis, &side->lock);
}

void row_uncontended(const struct plan *plan, struct report *report)
{
    struct result *result = report_add(report, "uncontended", "uncontended lock+unlock, 1 thread");
    char ours_name[NAME_MAX_LEN], bare_name[NAME_MAX_LEN];
    struct relock_client *client = ours_client(plan->url);
    struct bare_side bare = {.redis = bare_connect(plan->url)};
    struct relock_lock *lock;

    row_name(ours_name, "ours", 0);
    row_name(bare_name, "bare", 0);
    lock = ours_lock(client, ours_name);
    bare_lock_init(&bare.lock, bare_name, 1);
    pairs_measure(plan, result, "two bare EVALSHA, p50", (struct pair_side){pair_ours, lock},
                  (struct pair_side){pair_bare, &bare});

    relock_lock_free(lock);
    relock_client_free(client);
    must_be_gone(bare.redis, ours_name);
    must_be_gone(bare.redis, bare_name);
    bare_close(bare.redis);
}
