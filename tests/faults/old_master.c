#include "old_master.h"

#include <string.h>

enum fate fate;

enum fate fate_named(const char *name)
{
    if (strcmp(name, "stopped") == 0)
        return STOPPED;
    return strcmp(name, "replaced") == 0 ? REPLACED : KILLED;
}

void end_master(struct sentinels *s)
{
    switch (fate) {
    case KILLED:
        server_kill(s->server[0]);
        break;
    case STOPPED:
        server_pause(s->server[0]);
        break;
    case REPLACED:
        sentinels_replace_master(s);
        break;
    }
}

struct move {
    struct probe *probe; /* at the new master */
    struct relock_client *client;
};

static bool has_moved(void *arg)
{
    const struct move *move = arg;

    return probe_n_clients(move->probe, relock_client_id(move->client)) > 0;
}

int await_new_master(struct sentinels *s, struct relock_client *client)
{
    int master = sentinels_await_master(s, 0);

    assert_true(wait_until(has_moved, &(struct move){s->probe[master], client}, FAILOVER_MS));
    return master;
}
