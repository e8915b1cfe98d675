#include "support/multi.h"

#include "support/servers.h"

#define MAX_MEMBERS 16

static struct servers *servers;

struct relock_lock *fixture_multi(struct fixture *f, struct relock_lock *first, ...)
{
    struct relock_lock *members[MAX_MEMBERS] = {first};
    struct relock_lock **lock = fixture_place(f);
    size_t n = 1;
    va_list more;

    va_start(more, first);
    while (n < MAX_MEMBERS && (members[n] = va_arg(more, struct relock_lock *)))
        n++;
    va_end(more);
    assert_true(n < MAX_MEMBERS);
    assert_result(relock_multilock_new(members, n, lock), RELOCK_OK);
    return *lock;
}

struct server *beside_server(size_t nth)
{
    return servers->server[nth + 1];
}

struct probe *beside_probe(size_t nth)
{
    return servers->probe[nth + 1];
}

struct relock_client *beside_client(struct fixture *f, size_t nth,
                                    const struct relock_options *options)
{
    struct relock_options all = options ? *options : (struct relock_options){0};

    all.url = beside_server(nth)->unix_url;
    return fixture_client(f, &all);
}

static bool holds_one(void *arg)
{
    return stats_of(arg).holds == 1;
}

static bool holds_one_and_waits(void *arg)
{
    struct relock_stats stats = stats_of(arg);

    return stats.holds == 1 && stats.waiters == 1;
}

/* A caller that tries the first member counts as waiting, too. */
bool wait_behind_a(struct relock_client *first, struct relock_client *client)
{
    if (first == client)
        return wait_until(holds_one_and_waits, client, SOON_MS);
    return wait_until(holds_one, first, SOON_MS) && wait_for_waiters(client, 1);
}

int multi_group_start(void **state)
{
    return servers_start_with(state, 1 + N_BESIDE, NULL);
}

int multi_group_stop(void **state)
{
    return servers_stop(state);
}

int multi_begin(void **state)
{
    int r = servers_begin(state);

    servers = *state;
    *state = servers->f;
    return r;
}

int multi_end(void **state)
{
    *state = servers;
    servers_up(servers);
    for (size_t i = 0; i < servers->n; i++)
        forget_counters(servers->probe[i]);
    return servers_end(state);
}

struct multi_pair multi_pair_of(struct fixture *f, struct relock_client *client)
{
    struct multi_pair pair = {.client = client};

    pair.a = fixture_lock(f, client, "a");
    pair.b = fixture_lock(f, client, "b");
    pair.both = fixture_multi(f, pair.b, pair.a, NULL);
    return pair;
}

const char *const spread_names[3] = {"a", "b", "c"};

struct spread spread_of(struct fixture *f, const struct relock_options *options)
{
    struct spread s;

    for (size_t i = 0; i < 3; i++) {
        s.clients[i] = i == 0 ? fixture_client(f, options) : beside_client(f, i - 1, options);
        s.locks[i] = fixture_lock(f, s.clients[i], spread_names[i]);
    }
    s.all = fixture_multi(f, s.locks[0], s.locks[1], s.locks[2], NULL);
    return s;
}

struct server *spread_server(struct fixture *f, size_t nth)
{
    return nth == 0 ? f->server : beside_server(nth - 1);
}

struct probe *spread_probe(struct fixture *f, size_t nth)
{
    return nth == 0 ? f->probe : beside_probe(nth - 1);
}
