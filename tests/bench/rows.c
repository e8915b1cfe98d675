#include "rows.h"

#include "bare.h"

#include <unistd.h>

void row_name(char name[NAME_MAX_LEN], const char *what, unsigned number)
{
    /* A child has that of its parent. */
    static pid_t run;

    if (run == 0)
        run = getpid();
    snprintf(name, NAME_MAX_LEN, "relock-bench:%d:%s:%u", (int)run, what, number);
}

static void must(int result, const char *what)
{
    if (result != RELOCK_OK)
        die("%s: %s", what, relock_strerror(result));
}

struct relock_client *ours_client(const char *url)
{
    struct relock_options options = {.url = url};
    struct relock_client *client = NULL;

    must(relock_client_new(&options, &client), "client");
    return client;
}

struct relock_lock *ours_lock(struct relock_client *client, const char *name)
{
    struct relock_lock *lock = NULL;

    must(relock_lock_new(client, name, &lock), "handle");
    return lock;
}

void ours_take(struct relock_lock *lock)
{
    must(relock_lock(lock), "lock");
}

void ours_give(struct relock_lock *lock)
{
    must(relock_unlock(lock), "unlock");
}

struct relock_stats ours_stats(struct relock_client *client)
{
    struct relock_stats stats;

    must(relock_client_stats(client, &stats, sizeof(stats)), "stats");
    return stats;
}

void must_be_gone(struct redisContext *redis, const char *name)
{
    if (bare_exists(redis, name))
        die("%s is still there after its last release", name);
}
